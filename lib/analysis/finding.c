/* finding.c - a report whose answer is a JSON text. */
#include "analysis/finding.h"

#include "formats/output.h"

#include <stdlib.h>
#include <string.h>

posenc_status pe_finding_check(const posenc_tensor *table, posenc_error *err)
{
    if (table->rank < 1)
        return pe_invalid(err, "table", posenc_text("a number"), "a table, or one axis of frequencies or slopes");
    for (int i = 0; i < table->rank; i++)
        if (!table->shape[i])
            return pe_invalid(err, "table", posenc_text("axis %d of size 0", i), "a table with elements");
    if (posenc_tensor_count(table) > PE_MOST_ELEMENTS)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "table",
                           posenc_text("%lld elements", (long long)posenc_tensor_count(table)).s,
                           "at most %d elements: some of the rows", (int)PE_MOST_ELEMENTS);
    return PE_OK;
}

posenc_status pe_finding_shape(posenc_result *out, int64_t room, posenc_error *err)
{
    return pe_output(out, "answer", PE_uint8, 1, &room, err);
}

posenc_status pe_finding_keep(posenc_result *out, char *text, posenc_error *err)
{
    const posenc_tensor *t = &out->tensor[0];
    const size_t room = (size_t)t->shape[0], n = text ? strlen(text) : 0;
    posenc_status st = PE_OK;
    if (!text)
        return pe_no_memory("memory", err);
    if (n < room) {
        memset(t->data, 0, room);
        memcpy(t->data, text, n);
    } else {
        st = posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "answer", posenc_text("%zu bytes", n).s, "at most %zu bytes",
                         room);
    }
    free(text);
    return st;
}

posenc_status pe_finding_write(posenc_format f, const posenc_origin *origin, const posenc_result *result,
                               const posenc_selection *sel, posenc_document *out, posenc_error *err)
{
    pe_builder b = { 0 };
    if (f != PE_json)
        return posenc_fail(err, PE_INVALID, "INVALID_FORMAT", "format", posenc_format_name(f), "json");
    if (sel->tensors || sel->rows)
        return posenc_fail(err, PE_INVALID, "NOT_APPLICABLE", sel->rows ? "rows" : "tensors", "given",
                           "nothing: the answer is one document");
    const char *text = result->tensor[0].data;
    if (!text)
        return posenc_fail(err, PE_INTERNAL, "NO_DATA", result->tensor[0].name, "", "a computed tensor");
    pe_print(&b, "{\"report\":\"%s\",\"revision\":%d,", origin->encoding->name, origin->encoding->revision);
    if (origin->digest)
        pe_print(&b, "\"digest\":\"%s\",", origin->digest);
    if (origin->params_json) {
        pe_print(&b, "\"params\":");
        pe_put(&b, origin->params_json, strlen(origin->params_json));
        pe_put(&b, ",", 1);
    }
    pe_put(&b, text + 1, strlen(text) - 1); /* its members and its brace */
    const posenc_status st = pe_builder_finish(&b, out, err);
    pe_builder_fini(&b);
    return st;
}
