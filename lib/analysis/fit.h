/* fit.h - what waves a table is made of: angles, numbers that people would have typed, frequencies of columns.
 *
 * Everything is IEEE operations of fixed order: the same bits with every compiler and CPU. Pure functions; any thread. */
#ifndef PE_FIT_H
#define PE_FIT_H

#include "core/exact.h"

/* The angle of the point (x, y) in (-pi, pi], within 2^-50; 0 for the origin. */
double pe_atan2(double y, double x);
/* Cosine and sine of an angle [rad]. */
void pe_cis(double angle, double *cosine, double *sine);
/* An angle brought to (-pi, pi]. */
double pe_wrap(double angle);

/* The number of fewest significant decimal digits within v - error .. v + error; v itself where it needs over 15. */
double pe_nice(double v, double error);
/* Those digits: 1 for 10000, 2 for 0.25, 17 for what is not short. */
int pe_digits(double v);

/* One column's wave: value[r] = amplitude * cos(w r + phase), r = 0 .. rows - 1. */
typedef struct pe_wave {
    double w, phase, amplitude;
    double error; /* about the standard deviation of w */
    bool known;   /* the column determines w */
} pe_wave;

/* Of pairs: z[r] = c[r] + i s[r]. Known when every step turns by the same angle; rows with skip[r] are left out.
 * grain: what values are rounded by at least. */
pe_wave pe_wave_pair(const double *s, const double *c, size_t n, const bool *skip, double grain);
/* Of one column, by least squares over growing windows; not known where it turns too little or is no wave to within
 * `allowed`. grain: what values are rounded by at least. */
pe_wave pe_wave_column(const double *x, size_t n, double allowed, double grain);

/* A geometric ladder w[i] = first * exp(-step * i), by weighted least squares of the logarithms. */
typedef struct pe_rungs {
    double log_first, step;
    double first_error, step_error; /* about the standard deviations of log_first and step */
} pe_rungs;
/* `sigma` (n): absolute errors of w; waves that are not above three of them are left out. False: fewer than two left. */
bool pe_rungs_fit(const double *w, const double *sigma, size_t from, size_t to, pe_rungs *out);

#endif
