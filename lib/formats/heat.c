/* heat.c - a tensor of one or two axes as a picture: a heat map with a colour bar. */
#include "formats/output.h"

#include "core/params.h"
#include "plot/plot.h"

#include <stdio.h>
#include <stdlib.h>

static void draw(const pe_writing *w, posenc_format f, pe_builder *b)
{
    const posenc_tensor *t = &w->tensor[0];
    const posenc_selection *sel = w->selection;
    const size_t n = (size_t)posenc_tensor_count(t);
    const int64_t rows = t->rank == 2 ? t->shape[0] : 1, columns = t->rank ? t->shape[t->rank - 1] : 1;
    char title[96], subtitle[160];
    double *v = malloc((n + 1) * sizeof *v);
    b->failed |= !v;
    if (b->failed) {
        free(v);
        return;
    }
    pe_tensor_read(t, 0, n, v);
    double low = 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
    }
    const posenc_encoding *e = w->origin->encoding;
    snprintf(title, sizeof title, "%s: %s", e ? e->name : "tensor", t->name);
    snprintf(subtitle, sizeof subtitle, "%lld x %lld, %s", (long long)rows, (long long)columns, posenc_dtype_name(t->dtype));
    const bool sliced = sel->rows && t->rank == 2;
    const pe_panel panel = {
        .title = t->rank == 2 ? "rows downwards" : "values",
        .x_label = t->rank == 2 ? "column" : "element",
        .y_label = t->rank == 2 ? "row" : NULL,
        .heat = v,
        .rows = rows,
        .columns = columns,
        .y_first = sliced ? (double)sel->row_begin : 0,
        .x_first = sel->rows && t->rank == 1 ? (double)sel->row_begin : 0,
        .heat_label = t->name,
        .diverging = low < 0 && high > 0,
    };
    const pe_plot plot = { title, subtitle, &panel, 1 };
    char *bytes;
    size_t size;
    if (pe_plot_draw(&plot, f, &bytes, &size, NULL)) {
        b->failed = true;
    } else {
        pe_put(b, bytes, size);
        free(bytes);
    }
    free(v);
}

void pe_write_png(const pe_writing *w, pe_builder *b) { draw(w, PE_png, b); }
void pe_write_svg(const pe_writing *w, pe_builder *b) { draw(w, PE_svg, b); }
