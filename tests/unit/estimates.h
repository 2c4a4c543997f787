/* estimates.h - for tests of method=probe: is an estimate as far from the exact answer as it says? */
#ifndef TESTS_ESTIMATES_H
#define TESTS_ESTIMATES_H

#include "spectra.h"

/* Over 40 seeds, columns whose bit is in `columns`: the standard errors told are those seen, few estimates are off by three
 * of them, the mean over seeds is the exact answer, and four times the probes halve the error, or more where it is one of
 * products of estimates. */
static inline void as_far_as_it_says(const char *encoding, const graph *g, const char *query, int64_t width,
                                     unsigned columns)
{
    enum { SEEDS = 40, WIDTH = 10 };
    typedef struct seen {
        double spread[2], told, drift;
        int far;
    } seen;
    char text[300];
    snprintf(text, sizeof text, "%s&dtype=float64", query);
    posenc_answer exact = ask(encoding, g, text);
    const int64_t n = g->e.num_nodes;
    seen of[WIDTH] = { { { 0 }, 0, 0, 0 } };
    double *sum = calloc((size_t)(n * width), sizeof *sum), *squares = calloc((size_t)(n * width), sizeof *squares);
    for (int turn = 0; turn < 2 * SEEDS; turn++) {
        const int few = turn & 1;
        snprintf(text, sizeof text, "%s&dtype=float64&method=probe&num_probes=%d&seed=%d", query, few ? 16 : 64, turn);
        posenc_answer a = ask(encoding, g, text);
        for (int64_t i = 0; i < n * width; i++) {
            const double off = get(&a, "encoding", i) - get(&exact, "encoding", i), error = get(&a, "standard_error", i);
            seen *c = &of[i % width];
            c->spread[few] += off * off;
            if (few)
                continue;
            sum[i] += off / SEEDS;
            squares[i] += off * off / SEEDS;
            c->told += error * error;
            c->far += fabs(off) > 3 * error + 1e-12;
        }
        posenc_answer_fini(&a);
    }
    for (int64_t i = 0; i < n * width; i++)
        of[i % width].drift += squares[i] > 1e-24 ? sum[i] * sum[i] * SEEDS / squares[i] / (double)n : 0;
    for (int64_t i = 0; i < width; i++) {
        const seen *c = &of[i];
        if (!(columns >> i & 1))
            continue;
        ck_assert_msg(c->told > 0.6 * c->spread[0] && c->told < 1.6 * c->spread[0], "%s column %d: error^2 told %g, seen %g",
                      encoding, (int)i, c->told, c->spread[0]);
        ck_assert_msg(c->far < 0.05 * (double)(n * SEEDS), "%s column %d: %d of %d off by 3 errors", encoding, (int)i,
                      c->far, (int)n * SEEDS);
        ck_assert_msg(c->drift < 3, "%s column %d: off by %g of its error on average", encoding, (int)i, sqrt(c->drift));
        ck_assert_msg(c->spread[1] > 2.5 * c->spread[0] && c->spread[1] < 12 * c->spread[0],
                      "%s column %d: 16 probes %g, 64 probes %g", encoding, (int)i, c->spread[1], c->spread[0]);
    }
    free(sum);
    free(squares);
    posenc_answer_fini(&exact);
}

#endif
