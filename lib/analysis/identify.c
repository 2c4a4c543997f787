/* identify.c - which encoding, convention and parameters give a table.
 *
 * Finders read frequencies, offsets and layouts from the table and write requests; each is computed and held against the
 * whole table, so a match is a fact and not an opinion. What is left of the choice is an order: the smallest difference
 * first, and of matches that differ by no more than noise does the shortest request. */
#include "analysis/identify.h"
#include "analysis/finding.h"

#include "core/elementary.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/params.h"
#include "formats/output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST 1e60 /* of elements: their squares are finite */

static const double tolerance_default = 6e-3;

/* ---- requests in words ---- */

pe_guess pe_guess_begin(pe_search *s, const char *encoding)
{
    pe_guess w = { .search = s, .encoding = encoding, .cap = 256 };
    w.text = pe_scratch(s, w.cap, 1);
    return w;
}

static void put(pe_guess *w, const char *s, size_t n)
{
    if (s && w->text && w->n + n + 1 > w->cap) {
        const size_t cap = 2 * (w->n + n + 1);
        char *more = pe_scratch(w->search, cap, 1);
        if (more)
            memcpy(more, w->text, w->n);
        w->text = more;
        w->cap = cap;
    }
    if (!w->text)
        return;
    memcpy(w->text + w->n, s, n);
    w->n += n;
    w->text[w->n] = 0;
}

static void put_name(pe_guess *w, const char *name)
{
    if (w->n)
        put(w, "&", 1);
    put(w, name, strlen(name));
    put(w, "=", 1);
}

static void put_real(pe_guess *w, double v)
{
    char text[PE_NUMBER_TEXT];
    posenc_tensor t = { .dtype = PE_float64, .rank = 0, .data = &v };
    put(w, text, pe_number_text(&t, 0, text));
}

void pe_guess_text(pe_guess *w, const char *name, const char *v)
{
    put_name(w, name);
    put(w, v, strlen(v));
}

void pe_guess_int(pe_guess *w, const char *name, int64_t v) { pe_guess_text(w, name, posenc_text("%lld", (long long)v).s); }
void pe_guess_flag(pe_guess *w, const char *name, bool v) { pe_guess_text(w, name, v ? "true" : "false"); }

void pe_guess_real(pe_guess *w, const char *name, double v)
{
    put_name(w, name);
    put_real(w, v);
}

void pe_guess_reals(pe_guess *w, const char *name, const double *v, size_t n)
{
    put_name(w, name);
    for (size_t i = 0; i < n; i++) {
        if (i)
            put(w, ",", 1);
        put_real(w, v[i]);
    }
}

void pe_guess_positions(pe_guess *w, const char *name, const double *t, size_t n)
{
    bool range = t[0] == rint(t[0]) && strcmp(name, "positions") == 0;
    for (size_t i = 1; i < n && range; i++)
        range = t[i] == t[0] + (double)i;
    if (!range) {
        pe_guess_reals(w, name, t, n);
        return;
    }
    pe_guess_int(w, "num_positions", (int64_t)n);
    if (t[0] != 0)
        pe_guess_int(w, "offset", (int64_t)t[0]);
}

/* ---- trying ---- */

void *pe_scratch(pe_search *s, size_t n, size_t size)
{
    int64_t bytes;
    void *p = NULL;
    if (posenc_mul_size((int64_t)n, (int64_t)size, &bytes))
        p = posenc_alloc(s->arena, (size_t)bytes + 1);
    if (!p && !s->status)
        s->status = PE_BUSY;
    return p;
}

double pe_best(const pe_search *s)
{
    double best = INFINITY;
    for (size_t i = 0; i < s->nfound; i++)
        best = pe_min(best, s->found[i].largest);
    return best;
}

/* Of few bits, one that is off now and then is no proof. */
bool pe_exact_found(const pe_search *s)
{
    const bool coarse = s->dtype == PE_float16 || s->dtype == PE_bfloat16;
    for (size_t i = 0; i < s->nfound; i++)
        if (coarse ? s->found[i].rms <= s->grain / 64 : s->found[i].largest <= s->grain)
            return true;
    return false;
}

/* Largest and mean square difference of a view from a computed tensor of as many elements. False: over the limit. */
static bool differences(pe_search *s, const pe_view *v, const posenc_tensor *t, double *largest, double *rms)
{
    enum { BLOCK = 4096 };
    double got[BLOCK], sum = 0, most = 0;
    const size_t n = v->rows * v->cols;
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t m = n - i < BLOCK ? n - i : BLOCK;
        pe_tensor_read(t, (int64_t)i, m, got);
        for (size_t k = 0; k < m; k++) {
            const double off = fabs(v->x[i + k] - got[k]);
            most = off > most ? off : most;
            sum += off * off;
        }
        if (!(most <= s->allowed))
            return false;
    }
    *largest = most;
    *rms = sqrt(sum / (double)n);
    return true;
}

/* Rows and columns of a tensor: the last axis against the others. */
static void sides(const posenc_tensor *t, size_t *rows, size_t *cols)
{
    *cols = t->rank ? (size_t)t->shape[t->rank - 1] : 1;
    *rows = *cols ? (size_t)posenc_tensor_count(t) / *cols : 0;
}

static void keep(pe_search *s, const pe_guess *w, const posenc_request *r, const posenc_tensor *t, const pe_view *v,
                 double largest, double rms)
{
    for (size_t i = 0; i < s->nfound; i++)
        if (!strcmp(s->found[i].digest, r->digest) && !strcmp(s->found[i].output, t->name))
            return;
    size_t at = s->nfound;
    if (at == PE_FOUND) { /* the worst makes room */
        at = 0;
        for (size_t i = 1; i < s->nfound; i++)
            at = s->found[i].rms > s->found[at].rms ? i : at;
        if (s->found[at].rms <= rms)
            return;
    } else {
        s->nfound++;
    }
    const char *query = posenc_strdup(s->arena, w->text, w->n); /* the caller may write on */
    if (!query) {
        s->status = PE_BUSY;
        s->nfound -= at + 1 == s->nfound;
        return;
    }
    posenc_match *m = &s->found[at];
    *m = (posenc_match){ .encoding = r->encoding->name,
                         .output = t->name,
                         .query = query,
                         .transposed = v->transposed,
                         .largest = largest,
                         .rms = rms };
    memcpy(m->digest, r->digest, sizeof m->digest);
}

/* Holds each output of the computed request against each view of the same sides. */
static bool hold(pe_search *s, const pe_guess *w, const posenc_request *r, const posenc_result *out)
{
    bool any = false;
    for (int i = 0; i < out->ntensors && !s->status; i++) {
        const posenc_tensor *t = &out->tensor[i];
        size_t rows, cols;
        sides(t, &rows, &cols);
        for (size_t k = 0; k < s->nviews; k++) {
            const pe_view *v = &s->view[k];
            double largest, rms;
            if (v->rows != rows || v->cols != cols || !differences(s, v, t, &largest, &rms))
                continue;
            s->status = pe_pace_add(&s->pace, (int64_t)(rows * cols) * 2);
            if (rms <= 0.02 * s->spread) {
                keep(s, w, r, t, v, largest, rms);
                any = true;
                break;
            }
        }
    }
    return any;
}

/* Whether an output has as many elements as the table. */
static bool fits(const pe_search *s, const posenc_result *shape)
{
    for (int i = 0; i < shape->ntensors; i++)
        if (posenc_tensor_count(&shape->tensor[i]) == posenc_tensor_count(s->table))
            return true;
    return false;
}

bool pe_try(pe_search *s, const pe_guess *w)
{
    if (s->status || !w->text)
        return false;
    /* the limit is on what a request's lists, kept twice, may be */
    posenc_arena *arena = posenc_arena_new((size_t)1 << 28);
    posenc_request r;
    void *memory = NULL;
    bool matched = false;
    posenc_status st = arena ? posenc_request_init(&r, w->encoding, arena, NULL) : PE_BUSY;
    if (!st)
        st = posenc_request_parse(&r, w->text, NULL);
    if (!st)
        st = posenc_request_set(&r, "dtype", posenc_dtype_name(s->dtype), strlen(posenc_dtype_name(s->dtype)), NULL);
    if (!st)
        st = posenc_resolve(&r, NULL);
    const uint64_t most = 16 * (uint64_t)posenc_tensor_count(s->table) * sizeof(double) + (1 << 20);
    if (!st && fits(s, &r.shape) && r.size <= most) {
        posenc_result out = r.shape;
        uint64_t place = 0;
        if (!(memory = pe_result_memory((size_t)r.size + 64 * PE_MAX_OUTPUTS)))
            st = PE_BUSY;
        for (int i = 0; i < out.ntensors && !st; i++) {
            out.tensor[i].data = (char *)memory + place;
            place += (posenc_tensor_size(&out.tensor[i]) + 63) / 64 * 64;
        }
        if (!st)
            st = posenc_compute(&r, &out, s->ctx, NULL);
        if (!st)
            matched = hold(s, w, &r, &out);
    }
    if (st == PE_CANCELLED || st == PE_DEADLINE || st == PE_BUSY) /* others: not a request, so not an answer */
        s->status = st;
    free(memory);
    posenc_arena_free(arena);
    return matched;
}

/* ---- the table ---- */

static posenc_status check(const posenc_tensor *t, double tolerance, posenc_error *err)
{
    if (!(tolerance >= 0 && tolerance <= 0.1))
        return pe_invalid(err, "tolerance", posenc_text("%g", tolerance), "0 .. 0.1, of the largest magnitude; 0: %g",
                          tolerance_default);
    if (t->rank < 1)
        return pe_invalid(err, "table", posenc_text("rank 0"), "a table of 1 to %d axes", PE_MAX_RANK);
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++) {
        if (!t->shape[i])
            return pe_invalid(err, "table", posenc_text("axis %d of size 0", i), "a table with elements");
        if (!posenc_mul_size(count, t->shape[i], &count))
            count = INT64_MAX;
    }
    if (count > PE_MOST_ELEMENTS)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "table", posenc_text("%lld elements", (long long)count).s,
                           "at most %d elements: some of the rows", (int)PE_MOST_ELEMENTS);
    if (count == 1)
        return pe_invalid(err, "table", posenc_text("1 element"), "at least 2 rows");
    if (t->rank >= 2 && count == t->shape[t->rank - 1])
        return pe_invalid(err, "table", posenc_text("1 row"), "at least 2 rows");
    posenc_tensor named = *t;
    named.name = "table";
    return pe_tensor_within(&named, -LARGEST, LARGEST, "a finite number, of at most 1e60 in magnitude", err) ? PE_OK
                                                                                                             : PE_INVALID;
}

static void transpose(const double *x, size_t rows, size_t cols, double *out)
{
    enum { TILE = 32 };
    for (size_t r0 = 0; r0 < rows; r0 += TILE)
        for (size_t c0 = 0; c0 < cols; c0 += TILE)
            for (size_t r = r0; r < rows && r < r0 + TILE; r++)
                for (size_t c = c0; c < cols && c < c0 + TILE; c++)
                    out[c * rows + r] = x[r * cols + c];
}

/* The narrowest real type that holds every element. */
static posenc_dtype storage(const double *x, size_t n)
{
    static const posenc_dtype narrow[] = { PE_bfloat16, PE_float16, PE_float32 };
    for (size_t k = 0; k < PE_LEN(narrow); k++) {
        enum { BLOCK = 1024 };
        bool all = true;
        for (size_t i = 0; i < n && all; i += BLOCK) {
            const size_t m = n - i < BLOCK ? n - i : BLOCK;
            uint32_t bits[BLOCK];
            double back[BLOCK];
            const int64_t size = (int64_t)m;
            posenc_tensor t = { .dtype = narrow[k], .rank = 1, .shape = { size }, .data = bits };
            posenc_convert(narrow[k], bits, x + i, m);
            pe_tensor_read(&t, 0, m, back);
            for (size_t j = 0; j < m; j++)
                all = all && back[j] == x[i + j];
        }
        if (all)
            return narrow[k];
    }
    return PE_float64;
}

static double spread_of(const pe_view *v)
{
    double sum = 0;
    for (size_t c = 0; c < v->cols; c++) {
        double mean = 0;
        for (size_t r = 0; r < v->rows; r++)
            mean += v->x[r * v->cols + c];
        mean /= (double)v->rows;
        for (size_t r = 0; r < v->rows; r++) {
            const double off = v->x[r * v->cols + c] - mean;
            sum += off * off;
        }
    }
    return sqrt(sum / (double)(v->rows * v->cols));
}

static void add_view(pe_search *s, const double *x, size_t rows, size_t cols)
{
    double *turned = pe_scratch(s, rows * cols, sizeof *turned);
    if (!turned)
        return;
    transpose(x, rows, cols, turned);
    s->view[s->nviews++] = (pe_view){ x, rows, cols, false };
    s->view[s->nviews++] = (pe_view){ turned, cols, rows, true };
}

static posenc_status look(pe_search *s, double tolerance)
{
    const posenc_tensor *t = s->table;
    const size_t n = (size_t)posenc_tensor_count(t);
    double *x = pe_scratch(s, n, sizeof *x);
    if (!x || (s->status = pe_tensor_doubles(t, x, &s->pace)))
        return s->status;
    size_t rows, cols;
    sides(t, &rows, &cols);
    add_view(s, x, rows, cols);
    if (t->rank > 2)
        add_view(s, x, (size_t)t->shape[0], n / (size_t)t->shape[0]);
    if (s->status)
        return s->status;
    s->whole = true;
    for (size_t i = 0; i < n; i++) {
        s->scale = pe_max(s->scale, fabs(x[i]));
        s->whole = s->whole && x[i] == rint(x[i]);
    }
    s->dtype = t->dtype >= PE_int32 ? PE_float64 : storage(x, n);
    /* two neighbours of bfloat16 are this far from each other */
    const double least = s->dtype == PE_bfloat16 ? 0x1.1p-7 : 0;
    s->allowed = s->scale * pe_max(tolerance > 0 ? tolerance : tolerance_default, least);
    /* a rounding, and the last bit of the float32 functions of the world */
    static const double grains[PE_NDTYPES] = {
        [PE_float32] = 0x1p-23, [PE_float64] = 0x1p-50, [PE_float16] = 0x1p-11, [PE_bfloat16] = 0x1p-8
    };
    s->grain = s->scale * grains[s->dtype];
    s->spread = spread_of(&s->view[s->view[0].rows > 1 ? 0 : 1]);
    return PE_OK;
}

/* ---- order ---- */

/* A match without any difference comes first, though noise would allow a shorter request. Then, of matches within noise of
 * the best, the one of the shortest request; and so on. Of n elements the noise is known to about 1 / sqrt(2 n) of itself.
 */
static void order(pe_search *s)
{
    const bool coarse = s->dtype == PE_float16 || s->dtype == PE_bfloat16;
    const double noise = 1 + 2 / sqrt((double)posenc_tensor_count(s->table)), rounding = s->grain / (coarse ? 8 : 16);
    for (size_t i = 0; i < s->nfound; i++) {
        double best = INFINITY;
        for (size_t k = i; k < s->nfound; k++)
            best = pe_min(best, s->found[k].rms);
        const double most = best > 0 ? noise * best + rounding : 0;
        size_t first = s->nfound;
        for (size_t k = i; k < s->nfound; k++)
            if (s->found[k].rms <= most && (first == s->nfound || strlen(s->found[k].query) < strlen(s->found[first].query)))
                first = k;
        const posenc_match m = s->found[first];
        memmove(&s->found[i + 1], &s->found[i], (first - i) * sizeof m);
        s->found[i] = m;
    }
}

void pe_search_find(pe_search *s)
{
    const size_t n = (size_t)posenc_tensor_count(s->table);
    if (!(s->spread > 1e-9 * s->scale)) /* constant columns say nothing */
        return;
    if (s->view[0].rows == 1 || s->view[0].cols == 1) {
        pe_find_slopes(s, s->view[0].x, n);
        if (!pe_exact_found(s))
            pe_find_inv_freq(s, s->view[0].x, n);
    }
    if (s->whole)
        pe_find_indices(s);
    else if (s->table->rank > 2)
        pe_find_coordinates(s);
    if (!pe_exact_found(s))
        pe_find_bands(s);
    for (size_t i = 0; i < s->nviews && !s->status && !s->whole; i++) {
        const pe_view *v = &s->view[i];
        if (v->rows < 2)
            continue;
        pe_find_biases(s, v);
        if (!pe_exact_found(s))
            pe_find_pairs(s, v);
        if (!pe_exact_found(s))
            pe_find_rotary(s, v, true);
        if (!pe_exact_found(s))
            pe_find_grids(s, v);
        if (!(pe_best(s) < INFINITY))
            pe_find_rotary(s, v, false);
    }
    order(s);
}

uint64_t pe_search_scratch(const posenc_tensor *table)
{
    enum { READ = 1 << 19 }; /* elements that finders read for fits, each in copies of its own */
    const uint64_t n = (uint64_t)posenc_tensor_count(table);
    return n * 8 * sizeof(double) + (n < READ ? n : READ) * 24 * sizeof(double) + (4 << 20);
}

posenc_status pe_search_open(pe_search *s, const posenc_tensor *table, double tolerance, uint64_t more, posenc_context *ctx,
                             posenc_error *err)
{
    *s = (pe_search){ .table = table, .ctx = ctx, .pace = { .ctx = ctx } };
    posenc_status st = check(table, tolerance, err);
    if (st)
        return st;
    const uint64_t need = pe_search_scratch(table) + more;
    if (ctx && ctx->memory_limit && need > ctx->memory_limit)
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "memory", posenc_text("%llu", (unsigned long long)need).s,
                           "at most %llu bytes of scratch", (unsigned long long)ctx->memory_limit);
    s->arena = posenc_arena_new((size_t)need * 2); /* beyond what is expected: out of memory */
    if (!s->arena)
        return pe_no_memory("memory", err);
    if (look(s, tolerance))
        return posenc_fail(err, s->status, posenc_status_name(s->status), "table", "", "%s",
                           posenc_status_meaning(s->status));
    return PE_OK;
}

void pe_search_close(pe_search *s)
{
    posenc_arena_free(s->arena);
    s->arena = NULL;
}

posenc_status posenc_identify(const posenc_tensor *table, double tolerance, posenc_arena *a, posenc_identification *out,
                              posenc_context *ctx, posenc_error *err)
{
    pe_search s;
    *out = (posenc_identification){ 0 };
    posenc_status st = pe_search_open(&s, table, tolerance, 0, ctx, err);
    if (st) {
        pe_search_close(&s);
        return st;
    }
    pe_search_find(&s);
    st = s.status;
    out->rows = (int64_t)s.view[0].rows;
    out->columns = (int64_t)s.view[0].cols;
    out->dtype = s.dtype;
    out->tolerance = s.allowed;
    const size_t n = s.nfound < 8 ? s.nfound : 8;
    posenc_match *m = st || !n ? NULL : posenc_alloc(a, n * sizeof *m);
    for (size_t i = 0; i < n && m; i++) {
        m[i] = s.found[i];
        m[i].query = posenc_strdup(a, m[i].query, strlen(m[i].query));
        if (!m[i].query)
            m = NULL;
    }
    pe_search_close(&s);
    if (!st && n && !m)
        st = PE_BUSY;
    if (st == PE_BUSY)
        return pe_no_memory("memory", err);
    if (st)
        return posenc_fail(err, st, posenc_status_name(st), "identify", "", "%s", posenc_status_meaning(st));
    out->match = m;
    out->nmatches = n;
    return PE_OK;
}

/* ---- JSON ---- */

static void put_text(pe_builder *b, const char *s) { pe_put(b, s, strlen(s)); }

static void put_query(pe_builder *b, const char *query)
{
    put_text(b, "{");
    for (const char *p = query; *p;) {
        const size_t len = strcspn(p, "&"), name = strcspn(p, "=");
        const char *v = p + name + 1;
        const size_t n = len - name - 1;
        if (p != query)
            put_text(b, ",");
        put_text(b, "\"");
        pe_put(b, p, name);
        put_text(b, "\":");
        const bool number = n && (v[0] == '-' || (v[0] >= '0' && v[0] <= '9'));
        const bool flag = (n == 4 && !memcmp(v, "true", 4)) || (n == 5 && !memcmp(v, "false", 5));
        const char *open = number && memchr(v, ',', n) ? "[" : number || flag ? "" : "\"";
        put_text(b, open);
        pe_put(b, v, n);
        put_text(b, *open == '[' ? "]" : open);
        p += len + (p[len] != 0);
    }
    put_text(b, "}");
}

void pe_put_match(pe_builder *b, const posenc_match *m)
{
    pe_print(b, "{\"encoding\":\"%s\",\"output\":\"%s\",\"transposed\":%s,", m->encoding, m->output,
             m->transposed ? "true" : "false");
    pe_print(b, "\"largest\":%.6g,\"rms\":%.6g,\"params\":", m->largest, m->rms);
    put_query(b, m->query);
    put_text(b, "}");
}

char *posenc_identification_json(const posenc_identification *r)
{
    pe_builder b = { 0 };
    pe_print(&b, "{\"rows\":%lld,\"columns\":%lld,\"dtype\":\"%s\",\"tolerance\":%.6g,\"answer\":", (long long)r->rows,
             (long long)r->columns, posenc_dtype_name(r->dtype), r->tolerance);
    pe_put_string(&b, r->nmatches ? r->match[0].encoding : "none");
    put_text(&b, ",\"matches\":[");
    for (size_t i = 0; i < r->nmatches; i++) {
        if (i)
            put_text(&b, ",");
        pe_put_match(&b, &r->match[i]);
    }
    pe_put(&b, "]}", 3); /* the NUL too */
    if (b.failed) {
        pe_builder_fini(&b);
        return NULL;
    }
    return b.s;
}
