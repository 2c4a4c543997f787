/* probes.c - random signs and running means. */
#include "graph/probes.h"
#include "core/params.h"
#include "core/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256 };

posenc_status pe_probe_signs(uint64_t seed, uint64_t first, int64_t count, const int32_t *node, int64_t n, double *x,
                             pe_pace *pace)
{
    posenc_status st = PE_OK;
    double u[BLOCK];
    for (int64_t i = 0; i < n && !st; i += BLOCK) {
        const int64_t rows = n - i < BLOCK ? n - i : BLOCK;
        const bool run = !node || node[i + rows - 1] - node[i] == rows - 1; /* node ascends */
        memset(x + i * PE_WIDTH, 0, (size_t)(rows * PE_WIDTH) * sizeof *x);
        for (int64_t k = 0; k < count && !st; k++) {
            if (run)
                pe_random_uniform(seed, first + (uint64_t)k, (uint64_t)(node ? node[i] : i), (size_t)rows, u);
            for (int64_t j = 0; j < rows && !run; j++)
                pe_random_uniform(seed, first + (uint64_t)k, (uint64_t)node[i + j], 1, &u[j]);
            for (int64_t j = 0; j < rows; j++)
                x[(i + j) * PE_WIDTH + k] = u[j] < 0.5 ? -1 : 1;
            st = pe_pace_add(pace, 40 * rows);
        }
    }
    return st;
}

posenc_status pe_tally_init(pe_tally *t, int64_t n, int64_t columns, posenc_error *err)
{
    const size_t size = (size_t)(n * columns) + 1;
    *t = (pe_tally){ .n = n, .mean = calloc(size, sizeof *t->mean), .square = calloc(size, sizeof *t->square) };
    return t->mean && t->square ? PE_OK : pe_no_memory("memory", err);
}

void pe_tally_fini(pe_tally *t)
{
    free(t->mean);
    free(t->square);
    *t = (pe_tally){ 0 };
}

/* Chan's rule for two sets. */
posenc_status pe_tally_add(pe_tally *t, int64_t column, int64_t first, int64_t rows, const double *x, const double *y,
                           int64_t count, pe_pace *pace)
{
    posenc_status st = PE_OK;
    double *mean = t->mean + column * t->n + first, *square = t->square + column * t->n + first;
    const double total = (double)(t->probes + count), weight = (double)count / total,
                 cross = (double)t->probes * (double)count / total;
    for (int64_t v = 0; v < rows && !st; v++) {
        double z[PE_WIDTH], sum = 0, squares = 0;
        for (int64_t i = 0; i < count; i++) {
            z[i] = y ? x[v * PE_WIDTH + i] * y[v * PE_WIDTH + i] : x[v * PE_WIDTH + i];
            sum += z[i];
        }
        sum /= (double)count;
        for (int64_t i = 0; i < count; i++)
            squares += (z[i] - sum) * (z[i] - sum);
        const double off = sum - mean[v];
        mean[v] += off * weight;
        square[v] += squares + off * off * cross;
        st = pe_pace_add(pace, 40);
    }
    return st;
}

double pe_tally_error(const pe_tally *t, int64_t column, int64_t i, int64_t probes)
{
    return sqrt(t->square[column * t->n + i] / (double)(probes - 1) / (double)probes);
}
