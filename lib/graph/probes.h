/* probes.h - estimates by random signs, eight at a time: drawing them, and what a number of them say.
 *
 * Element v of probe p depends on seed, p and v alone. Not thread-safe: a tally belongs to one call. */
#ifndef PE_PROBES_H
#define PE_PROBES_H

#include "core/pace.h"
#include "linalg/panel.h"

/* Random signs in the lanes 0 .. count - 1 of rows 0 .. n - 1, 0 in the others: row i of lane k is element v of the stream
 * first + k, v = node[i]; NULL: i. */
posenc_status pe_probe_signs(uint64_t seed, uint64_t first, int64_t count, const int32_t *node, int64_t n, double *x,
                             pe_pace *pace);

/* The mean of what probes say of n numbers in each column, and the sum of squared distances from it. */
typedef struct pe_tally {
    int64_t n, probes;     /* the probes added so far: by the caller, once all columns have them */
    double *mean, *square; /* (columns, n) */
} pe_tally;
posenc_status pe_tally_init(pe_tally *t, int64_t n, int64_t columns, posenc_error *err);
void pe_tally_fini(pe_tally *t);
/* Adds `count` probes to rows first .. first + rows - 1 of a column: x[i] y[i] in the lanes of row i; y NULL: x[i]. */
posenc_status pe_tally_add(pe_tally *t, int64_t column, int64_t first, int64_t rows, const double *x, const double *y,
                           int64_t count, pe_pace *pace);
/* The standard error of the mean of `probes` (two or more) of a number. */
double pe_tally_error(const pe_tally *t, int64_t column, int64_t i, int64_t probes);

#endif
