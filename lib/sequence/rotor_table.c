/* rotor_table.c - chunks of rows. */
#include "sequence/rotor_table.h"

#include "core/memory.h"
#include "core/parallel.h"

#include <stdlib.h>

/* A rotor's factors cost as much as some hundred rows; a chunk is a few milliseconds. */
enum { LEAST_ROWS = 8192, CHUNK_PAIRS = 1 << 22 };

typedef struct table {
    const pe_dd *w;
    size_t pairs;
    const pe_source *source;
    int64_t n, chunk;
    pe_rotor_place to;
    posenc_context *ctx;
} table;

/* What every row, and every half of a row that is stored apart, is aligned to, of 64, 16 and 0. */
static int alignment(const pe_rotor_place *to)
{
    const uintptr_t all = (uintptr_t)to->first | (uintptr_t)to->second | to->step | to->again;
    return all & 15 ? 0 : all & 63 ? 16 : 64;
}

/* Rows first .. end - 1: runs of positions that follow each other together. */
static posenc_status fill(const table *t, pe_rotor *rotor, int64_t first, int64_t end, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t i = first, run; i < end && !st; i += run) {
        const double position = pe_position(t->source, i);
        run = 1;
        if (!t->source->listed && !t->source->of_token)
            run = end - i;
        while (i + run < end && pe_position(t->source, i + run) == position + (double)run)
            run++;
        pe_rotor_place to = t->to;
        to.first = (char *)to.first + (size_t)i * to.step;
        to.second = to.second ? (char *)to.second + (size_t)i * to.step : NULL;
        st = pe_rotor_rows(rotor, position, run, &to, pace);
    }
    return st;
}

static posenc_status chunk(void *arg, int64_t i, posenc_error *err)
{
    const table *t = arg;
    const int64_t first = i * t->chunk, end = first + t->chunk < t->n ? first + t->chunk : t->n;
    void *storage = pe_result_memory((size_t)pe_rotor_size(t->pairs)); /* whole lines: no load from two */
    if (!storage)
        return pe_no_memory("memory", err);
    pe_rotor rotor = pe_rotor_begin(t->w, t->pairs, storage);
    pe_pace pace = { .ctx = t->ctx };
    const posenc_status st = fill(t, &rotor, first, end, &pace);
    if (t->to.past)
        pe_past_cache_end();
    free(storage);
    return st;
}

posenc_status pe_rotor_table(const pe_dd *w, size_t pairs, const pe_source *source, int64_t n, const pe_rotor_place *to,
                             size_t size, posenc_context *ctx, posenc_error *err)
{
    const bool alone = !ctx || !ctx->parallel || ctx->threads < 2; /* then one rotor does */
    const int64_t rows = CHUNK_PAIRS / (int64_t)(pairs ? pairs : 1);
    table t = { w, pairs, source, n, alone ? n : rows < LEAST_ROWS ? LEAST_ROWS : rows, *to, ctx };
    t.to.past = pe_past_cache(to->first, n ? (size_t)(n - 1) * to->step + 1 : 0, size) ? alignment(to) : 0;
    return pe_parallel(ctx, n ? (n - 1) / t.chunk + 1 : 0, pe_rotor_size(pairs), chunk, &t, err);
}
