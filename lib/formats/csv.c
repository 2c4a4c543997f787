/* csv.c - one tensor of at most two axes: one row a line, commas, "\n"; NaN, Infinity, -Infinity as words. */
#include "formats/output.h"

void pe_write_csv(const pe_writing *w, pe_builder *b)
{
    const posenc_tensor *t = &w->tensor[0];
    char text[PE_NUMBER_TEXT];
    int64_t rows = t->rank > 0 ? t->shape[0] : 1, columns = t->rank > 1 ? t->shape[1] : 1;
    if (columns == 0)
        return;
    for (int64_t i = 0; i < rows && !b->failed; i++)
        for (int64_t k = 0; k < columns && !b->failed; k++) {
            pe_put(b, text, pe_number_text(t, i * columns + k, text));
            pe_put(b, k + 1 < columns ? "," : "\n", 1);
        }
}
