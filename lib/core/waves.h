/* waves.h - sines and cosines for results that are rounded on to float32 or less, at a third of the price of pe_sincos.
 *
 * An angle is still known to 100 bits and more; but once reduced to an eighth of a turn it is one float64, and the series
 * end earlier. Errors: below 2^-34 of the result + |angle| * 2^-98, also near the zeros; rounded on to float32, 0.51 ulp and
 * that. sin(0) = 0 and cos(0) = 1 exactly; sin is odd and cos is even bit by bit; results are in [-1, 1]. A result depends
 * on its frequency and position alone.
 *
 * Pure functions; any thread. A pe_waves borrows its storage. */
#ifndef PE_WAVES_H
#define PE_WAVES_H

#include "core/exact.h"

/* Frequencies in columns, for lanes. */
typedef struct pe_waves {
    size_t n;
    const pe_dd *w;               /* (n) */
    double *hi, *lo, *top, *rest; /* (n) each; top + rest = hi, 26 bits each */
    double most;                  /* the largest |hi| */
} pe_waves;

static inline uint64_t pe_waves_size(size_t n) { return (uint64_t)n * 4 * sizeof(double); } /* bytes of storage */
pe_waves pe_waves_begin(const pe_dd *w, size_t n, double *storage);
/* Sines and cosines of w * at, `n` each, of the frequencies from number `first` on. About 1.2 ns each; of angles from 2^26
 * on as pe_sincos. */
void pe_waves_at(const pe_waves *w, size_t first, size_t n, pe_dd at, double *sine, double *cosine);
/* The same by the instructions of one path, which this CPU has: for tests. */
void pe_waves_on(pe_path path, const pe_waves *w, size_t first, size_t n, pe_dd at, double *sine, double *cosine);

/* ---- for kernels: an eighth of a turn ---- */

/* Adding it to |x| < 2^51 rounds x to an integer, whose low bits are then the low bits of the float64. */
#define PE_ROUNDER 0x1.8p52

/* sin and cos of r + quarter * pi/2, |r| <= pi/4 and a little; `rounded` is the quarter plus PE_ROUNDER. Taylor's series:
 * the first term left out is below 2^-36 of the result. */
PE_BODY void pe_wave_lanes(const pe_lanes *r, const pe_lanes *rounded, pe_lanes *sine, pe_lanes *cosine)
{
    const pe_lanes z = *r * *r;
    const pe_bits quarter = (pe_bits)*rounded;
    pe_lanes p = z * (-1.0 / 39916800) + 1.0 / 362880, q = z * (1.0 / 479001600) - 1.0 / 3628800;
    p = p * z - 1.0 / 5040;
    q = q * z + 1.0 / 40320;
    p = p * z + 1.0 / 120;
    q = q * z - 1.0 / 720;
    p = p * z - 1.0 / 6;
    q = q * z + 1.0 / 24;
    q = q * z - 0.5;
    const pe_lanes s = *r + *r * (z * p), c = 1 + z * q;
    const pe_masks odd = -(pe_masks)(quarter & 1);
    /* bit 1 of the quarter, and of the one after it, is the sign */
    const pe_bits sign = (quarter & 2) << 62, sign1 = ((quarter + 1) & 2) << 62;
    *sine = (pe_lanes)((pe_bits)PE_SELECT(odd, c, s) ^ sign);
    *cosine = (pe_lanes)((pe_bits)PE_SELECT(odd, s, c) ^ sign1);
}

#endif
