/* formats.c - names of containers; selection and dispatch of writers; the list of pieces. */
#include "formats/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *media;
    bool single, sized;
} info[] = {
#define X(name, media, single, sized) { #name, media, single, sized },
    POSENC_FORMATS(X)
#undef X
};

const char *posenc_format_name(posenc_format f) { return info[f].name; }
const char *posenc_format_media(posenc_format f) { return info[f].media; }
bool posenc_format_single(posenc_format f) { return info[f].single; }
bool posenc_format_sized(posenc_format f) { return info[f].sized; }

bool posenc_format_named(const char *extension, posenc_format *out)
{
    for (int i = 0; i < PE_NFORMATS; i++)
        if (!strcmp(info[i].name, extension)) {
            *out = (posenc_format)i;
            return true;
        }
    return false;
}

/* ---- the builder --------------------------------------------------------------------------------------------- */

void pe_reserve(pe_builder *b, uint64_t more)
{
    if (b->failed || more <= b->cap - b->n)
        return;
    size_t cap = b->cap < SIZE_MAX / 4 ? b->cap * 2 : 0;
    if (more > SIZE_MAX / 4 - b->n) {
        b->failed = true;
        return;
    }
    if (cap < b->n + more)
        cap = b->n + (size_t)more;
    char *s = realloc(b->s, cap);
    if (!s) {
        b->failed = true;
        return;
    }
    b->s = s;
    b->cap = cap;
}

char *pe_extend(pe_builder *b, uint64_t more)
{
    pe_reserve(b, more);
    if (b->failed)
        return NULL;
    b->n += (size_t)more;
    return b->s + (b->n - (size_t)more);
}

void pe_put(pe_builder *b, const void *bytes, size_t n)
{
    char *to = pe_extend(b, n);
    if (to && n > 0)
        memcpy(to, bytes, n);
}

void pe_print(pe_builder *b, const char *format, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof text)
        b->failed = true;
    else
        pe_put(b, text, (size_t)n);
}

void pe_put_string(pe_builder *b, const char *s)
{
    pe_put(b, "\"", 1);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            pe_put(b, "\\", 1);
        if ((unsigned char)*s < 0x20)
            pe_print(b, "\\u%04x", (unsigned)*s);
        else
            pe_put(b, s, 1);
    }
    pe_put(b, "\"", 1);
}

void pe_put_le(pe_builder *b, uint64_t v, int bytes)
{
    char le[8];
    for (int i = 0; i < bytes; i++)
        le[i] = (char)(v >> 8 * i & 0xff);
    pe_put(b, le, (size_t)bytes);
}

static void add_piece(pe_builder *b, const void *data, uint64_t size, bool own)
{
    if (b->npieces == PE_MAX_PIECES) {
        b->failed = true;
        return;
    }
    b->own[b->npieces] = own;
    b->piece[b->npieces++] = (posenc_piece){ data, size };
}

void pe_cut(pe_builder *b)
{
    if (b->n > b->start)
        add_piece(b, NULL, b->n - b->start, true);
    b->start = b->n;
}

void pe_borrow(pe_builder *b, const void *data, uint64_t size)
{
    pe_cut(b);
    if (size > 0)
        add_piece(b, data, size, false);
}

uint64_t pe_builder_size(const pe_builder *b)
{
    uint64_t size = b->n - b->start;
    for (size_t i = 0; i < b->npieces; i++)
        size += b->piece[i].size;
    return size;
}

posenc_status pe_builder_finish(pe_builder *b, posenc_document *out, posenc_error *err)
{
    pe_cut(b);
    posenc_piece *piece = b->failed ? NULL : malloc((b->npieces + 1) * sizeof *piece);
    if (!piece)
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "result", "", "try again, or ask for fewer tensors or rows");
    *out = (posenc_document){ .piece = piece, .npieces = b->npieces, .own_size = b->n };
    size_t at = 0;
    for (size_t i = 0; i < b->npieces; i++) {
        piece[i] = b->piece[i];
        if (b->own[i]) {
            piece[i].data = b->s + at;
            at += (size_t)piece[i].size;
        }
        out->size += piece[i].size;
    }
    out->own = b->s;
    *b = (pe_builder){ 0 };
    return PE_OK;
}

void pe_builder_fini(pe_builder *b)
{
    free(b->s);
    *b = (pe_builder){ 0 };
}

void posenc_document_fini(posenc_document *d)
{
    free(d->piece);
    free(d->own);
    *d = (posenc_document){ 0 };
}

void pe_put_origin(pe_builder *b, const posenc_origin *o)
{
    if (o->encoding) {
        pe_put(b, "\"encoding\":", 11);
        pe_put_string(b, o->encoding->name);
        pe_print(b, ",\"revision\":%d,", o->encoding->revision);
    }
    if (o->digest) {
        pe_put(b, "\"digest\":", 9);
        pe_put_string(b, o->digest);
        pe_put(b, ",", 1);
    }
}

/* ---- selection ----------------------------------------------------------------------------------------------- */

static void list_names(const posenc_tensor *t, int n, char *buf, size_t size)
{
    size_t used = 0;
    buf[0] = 0;
    for (int i = 0; i < n && used < size; i++) {
        int k = snprintf(buf + used, size - used, "%s%s", i ? ", " : "", t[i].name);
        used += k > 0 ? (size_t)k : 0;
    }
}

/* Cuts the first axis of every selected tensor. */
static posenc_status slice(pe_writing *w, posenc_error *err)
{
    const posenc_selection *sel = w->selection;
    const posenc_tensor *first = &w->tensor[0];
    long long begin = sel->row_begin, end = sel->row_end;
    for (int i = 0; i < w->ntensors; i++) {
        const posenc_tensor *t = &w->tensor[i];
        if (t->rank == 0)
            return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "rows", t->name,
                               "tensors with a first axis: %s is a single number; select others", t->name);
        if (t->shape[0] != first->shape[0])
            return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "rows", posenc_text("%lld:%lld", begin, end).s,
                               "tensors of equal first axis: %s has %lld rows, %s has %lld; select one", first->name,
                               (long long)first->shape[0], t->name, (long long)t->shape[0]);
    }
    if (w->ntensors > 0 && (begin < 0 || end < begin || end > first->shape[0]))
        return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "rows", posenc_text("%lld:%lld", begin, end).s,
                           "a:b with 0 <= a <= b <= %lld", (long long)first->shape[0]);
    for (int i = 0; i < w->ntensors; i++) {
        posenc_tensor *t = &w->tensor[i];
        uint64_t row = posenc_dtype_size(t->dtype);
        for (int k = 1; k < t->rank; k++)
            row *= (uint64_t)t->shape[k];
        if (t->data)
            t->data = (char *)t->data + (uint64_t)begin * row;
        t->shape[0] = end - begin;
    }
    return PE_OK;
}

/* What nested or flat JSON would hold: numbers, or brackets where an axis is empty. Stops counting at `limit` + 1. */
static int64_t json_elements(const pe_writing *w, int64_t limit)
{
    int64_t all = 0;
    for (int i = 0; i < w->ntensors && all <= limit; i++) {
        const posenc_tensor *t = &w->tensor[i];
        int64_t n = 1;
        for (int k = 0; k < t->rank && t->shape[k] > 0; k++)
            if (!posenc_mul_size(n, t->shape[k], &n) || n > limit)
                return limit + 1;
        all += n;
    }
    return all <= limit ? all : limit + 1;
}

static posenc_status check_picture(posenc_format f, const posenc_tensor *t, const posenc_selection *sel, posenc_error *err)
{
    const int64_t limit = sel->plot_limit > 0 ? sel->plot_limit : 1 << 24;
    if (t->rank < 1 || t->rank > 2)
        return posenc_fail(err, PE_INVALID, "INVALID_FORMAT", "format",
                           posenc_text("%s of %s, a tensor of %d axes", info[f].name, t->name, t->rank).s,
                           "one or two axes in a heat map; npy, npz, safetensors, bin and json hold more");
    if (posenc_tensor_count(t) == 0)
        return posenc_fail(err, PE_INVALID, "INVALID_FORMAT", "format",
                           posenc_text("%s of %s, which has no elements", info[f].name, t->name).s, "at least one element");
    if (posenc_tensor_count(t) > limit)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "format",
                           posenc_text("%s of over %lld elements", info[f].name, (long long)limit).s,
                           "at most %lld elements in a heat map: choose rows (rows=0:256)", (long long)limit);
    return PE_OK;
}

static posenc_status check_form(posenc_format f, const pe_writing *w, posenc_error *err)
{
    const posenc_selection *sel = w->selection;
    char names[160];
    posenc_status st;
    if (info[f].single && w->ntensors != 1) {
        list_names(w->tensor, w->ntensors, names, sizeof names);
        return posenc_fail(err, PE_INVALID, "TENSOR_REQUIRED", "tensor",
                           posenc_text("%d tensors in %s", w->ntensors, info[f].name).s, "one of: %s", names);
    }
    if (f == PE_csv && w->tensor[0].rank > 2)
        return posenc_fail(err, PE_INVALID, "INVALID_FORMAT", "format",
                           posenc_text("csv of a tensor of %d axes", w->tensor[0].rank).s,
                           "at most two axes in csv; npy, npz, safetensors, bin and json hold more");
    if ((f == PE_png || f == PE_svg) && (st = check_picture(f, &w->tensor[0], sel, err)))
        return st;
    int64_t limit = sel->json_limit > 0 ? sel->json_limit : 65536;
    if (f == PE_json && sel->data != PE_JSON_BASE64 && json_elements(w, limit) > limit)
        return posenc_fail(
            err, PE_LIMIT, "LIMIT_EXCEEDED", "format", posenc_text("json of over %lld elements", (long long)limit).s,
            "at most %lld elements in json; npy, npz, safetensors and bin hold any number, json with data=base64 "
            "too",
            (long long)limit);
    limit = sel->csv_limit > 0 ? sel->csv_limit : 1 << 20;
    if (f == PE_csv && posenc_tensor_count(&w->tensor[0]) > limit)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "format",
                           posenc_text("csv of over %lld elements", (long long)limit).s,
                           "at most %lld elements in csv; npy, npz, safetensors and bin hold any number", (long long)limit);
    for (int i = 0; i < w->ntensors; i++)
        if (!info[f].sized && !w->tensor[i].data && posenc_tensor_count(&w->tensor[i]) > 0)
            return posenc_fail(err, PE_INTERNAL, "NO_DATA", w->tensor[i].name, "", "a computed tensor");
    return PE_OK;
}

posenc_status posenc_write(posenc_format f, const posenc_origin *origin, const posenc_result *result,
                           const posenc_selection *sel, posenc_document *out, posenc_error *err)
{
    static void (*const write[])(const pe_writing *, pe_builder *) = {
#define X(name, media, single, sized) pe_write_##name,
        POSENC_FORMATS(X)
#undef X
    };
    static const posenc_origin nowhere;
    static const posenc_selection everything;
    pe_writing w = { origin ? origin : &nowhere, result, sel ? sel : &everything, { { 0 } }, 0 };
    pe_builder b = { 0 };
    posenc_status st;
    *out = (posenc_document){ 0 };
    if (w.origin->encoding && w.origin->encoding->write) /* a report has a form of its own */
        return w.origin->encoding->write(f, w.origin, result, w.selection, out, err);
    uint32_t mask = w.selection->tensors;
    if (mask && result->ntensors < 32 && mask >> result->ntensors)
        return posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "tensors", posenc_text("bits %x", (unsigned)mask).s,
                           "bits of %d tensors", result->ntensors);
    for (int i = 0; i < result->ntensors; i++)
        if (!mask || (mask >> i & 1))
            w.tensor[w.ntensors++] = result->tensor[i];
    if (w.selection->rows && (st = slice(&w, err)))
        return st;
    if ((st = check_form(f, &w, err)))
        return st;
    write[f](&w, &b);
    st = pe_builder_finish(&b, out, err);
    pe_builder_fini(&b);
    return st;
}
