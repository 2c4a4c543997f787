/* elementary.h - exp, log and what follows from them, right to the last bit or two, with the same bits everywhere.
 *
 * For curves of many values; a few are MPFR's work (exact.h). Pure functions; any thread. About half a microsecond a value.
 * Errors are relative: the pe_dd functions below 2^-90, the float64 functions at most 0.51 ulp and that
 * (0.76 ulp of a subnormal result, which is rounded twice).
 * Source: argument reduction and Taylor series; nothing depends on libm but frexp, ldexp and rint. */
#ifndef PE_ELEMENTARY_H
#define PE_ELEMENTARY_H

#include "core/exact.h"

pe_dd pe_dd_exp(pe_dd x);           /* infinite from 709.79 on, 0 below -745 */
pe_dd pe_dd_expm1(pe_dd x);         /* e^x - 1, also for tiny x; |x| < 700 or as pe_dd_exp */
pe_dd pe_dd_log(pe_dd x);           /* x > 0 */
pe_dd pe_dd_pow(pe_dd x, double y); /* x > 0; 0^y is 0 for y > 0 and 1 for y = 0 */
/* The standard normal distribution function, (1 + erf(x / sqrt 2)) / 2, within 2^-70; one to three microseconds. */
pe_dd pe_dd_normal_cdf(double x);

double pe_exp(double x);
double pe_log(double x);   /* x > 0 */
double pe_log1p(double x); /* x > -1 */
/* ln(1 + x[i]) of n numbers in 0 .. 1e300, for results that are rounded on to float32 or less: within 2^-36 of each, two or
 * three nanoseconds. `out` may be x. */
void pe_log1p_many(const double *x, size_t n, double *out);
void pe_log1p_many_on(pe_path path, const double *x, size_t n, double *out); /* by the instructions of one path: for tests */
double pe_pow(double x, double y);                                           /* x >= 0 */
double pe_sigmoid(double x);
double pe_tanh(double x);

/* pi and 2 pi to 106 bits. */
static const pe_dd pe_pi = { 0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53 };
static const pe_dd pe_two_pi = { 0x1.921fb54442d18p+2, 0x1.1a62633145c07p-52 };

#endif
