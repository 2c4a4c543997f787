/* json.c - answers as JSON. */
#include "formats/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the document -------------------------------------------------------------------------------------------- */

static void put_element(pe_builder *b, const posenc_tensor *t, int64_t i)
{
    char text[PE_NUMBER_TEXT];
    size_t n = pe_number_text(t, i, text);
    bool word = text[n - 1] == 'y' || text[n - 1] == 'N';
    if (word)
        pe_put(b, "\"", 1);
    pe_put(b, text, n);
    if (word)
        pe_put(b, "\"", 1);
}

/* Elements from *i on, as arrays from axis `axis` on. At most PE_MAX_RANK deep. */
static void put_nested(pe_builder *b, const posenc_tensor *t, int axis, int64_t *i)
{
    if (axis == t->rank) {
        put_element(b, t, (*i)++);
        return;
    }
    pe_put(b, "[", 1);
    for (int64_t k = 0; k < t->shape[axis] && !b->failed; k++) {
        if (k > 0)
            pe_put(b, ",", 1);
        put_nested(b, t, axis + 1, i);
    }
    pe_put(b, "]", 1);
}

static void put_flat(pe_builder *b, const posenc_tensor *t)
{
    int64_t n = posenc_tensor_count(t);
    pe_put(b, "[", 1);
    for (int64_t i = 0; i < n && !b->failed; i++) {
        if (i > 0)
            pe_put(b, ",", 1);
        put_element(b, t, i);
    }
    pe_put(b, "]", 1);
}

static void put_base64(pe_builder *b, const posenc_tensor *t)
{
    static const char letter[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = t->data;
    uint64_t n = posenc_tensor_size(t);
    char *o = pe_extend(b, (n / 3 + (n % 3 > 0)) * 4 + 2);
    if (!o)
        return;
    *o++ = '"';
    for (uint64_t i = 0; i < n; i += 3) {
        uint64_t left = n - i;
        unsigned v = (unsigned)p[i] << 16 | (left > 1 ? (unsigned)p[i + 1] << 8 : 0) | (left > 2 ? (unsigned)p[i + 2] : 0);
        *o++ = letter[v >> 18];
        *o++ = letter[v >> 12 & 63];
        *o++ = left > 1 ? letter[v >> 6 & 63] : '=';
        *o++ = left > 2 ? letter[v & 63] : '=';
    }
    *o = '"';
}

static void put_tensor(pe_builder *b, const posenc_tensor *t, posenc_json_data form)
{
    pe_put_string(b, t->name);
    pe_print(b, ":{\"dtype\":\"%s\",\"shape\":[", posenc_dtype_name(t->dtype));
    for (int k = 0; k < t->rank; k++)
        pe_print(b, "%s%lld", k ? "," : "", (long long)t->shape[k]);
    pe_print(b, "],\"data\":");
    int64_t i = 0;
    switch (form) {
    case PE_JSON_NESTED: put_nested(b, t, 0, &i); break;
    case PE_JSON_FLAT: put_flat(b, t); break;
    case PE_JSON_BASE64: put_base64(b, t); break;
    }
    pe_put(b, "}", 1);
}

void pe_write_json(const pe_writing *w, pe_builder *b)
{
    pe_put(b, "{", 1);
    pe_put_origin(b, w->origin);
    pe_print(b, "\"warnings\":[");
    for (int i = 0; i < w->result->nwarnings; i++) {
        if (i > 0)
            pe_put(b, ",", 1);
        pe_put_string(b, w->result->warning[i]);
    }
    pe_print(b, "],");
    if (w->origin->params_json) {
        pe_print(b, "\"params\":");
        pe_put(b, w->origin->params_json, strlen(w->origin->params_json));
        pe_put(b, ",", 1);
    }
    pe_print(b, "\"tensors\":{");
    for (int i = 0; i < w->ntensors; i++) {
        if (i > 0)
            pe_put(b, ",", 1);
        put_tensor(b, &w->tensor[i], w->selection->data);
    }
    pe_print(b, "}}");
}
