/* maps.h - linear maps from a row to the row k positions on: the exact one of pairs that turn, and the least-squares one
 * of any table. Private to lib/analysis. */
#ifndef PE_ANALYSIS_MAPS_H
#define PE_ANALYSIS_MAPS_H

#include "analysis/analysis.h"

/* table[p + k] from table[p]: pairs (first, second) turned by k w, as relative_shift's M(k). cosine, sine (pairs). */
void pe_turns_of(const pe_pairing *pairs, double k, double *cosine, double *sine);
void pe_turn_row(const pe_pairing *pairs, const double *cosine, const double *sine, const double *row, double *out);

/* Least squares over the rows first .. first + n - 1, but for two eighths of them, the third and the seventh, which are kept
 * for the test: rows between fitted ones would be easy for any smooth table. */
typedef struct pe_fit {
    const pe_subject *s;
    int64_t first, n, d, rank;
    int64_t fitted;  /* rows */
    double *rows;    /* (fitted, d) */
    double *values;  /* (d) singular values of rows */
    double *vectors; /* (d, d) */
    double *map;     /* (d, d) the last one fitted: out = row map */
    double *work;    /* (2 d, d) */
    void *memory;
} pe_fit;

static inline uint64_t pe_fit_scratch(int64_t n, int64_t d) /* bytes, with what finding vectors takes */
{
    return (uint64_t)(n * d + 6 * d * d + 3 * d) * sizeof(double);
}
static inline double pe_fit_ns(int64_t n, int64_t d) /* to begin; and of each map with its scores */
{
    return pe_gram_ns(n, n < d ? n : d) + pe_eigen_ns(n < d ? n : d);
}
static inline double pe_fit_map_ns(int64_t n, int64_t d)
{
    return 0.3 * (double)d * (double)d * ((double)n * 2 + 2 * (double)d);
}

posenc_status pe_fit_begin(pe_fit *f, const pe_subject *s, int64_t first, int64_t n, pe_pace *pace, posenc_error *err);
/* The map to the rows k positions on; k may be negative, all rows must exist. */
posenc_status pe_fit_map(pe_fit *f, int64_t k, pe_pace *pace);
/* Over the rows of the test, or those fitted. */
typedef struct pe_score {
    double left;  /* sum of squares of table[p + k] - table[p] map */
    double total; /* of table[p + k] less its mean */
    double size;  /* of table[p + k] */
    int64_t rows;
} pe_score;
posenc_status pe_fit_score(pe_fit *f, int64_t k, bool test, pe_score *out, pe_pace *pace);
void pe_fit_fini(pe_fit *f);

#endif
