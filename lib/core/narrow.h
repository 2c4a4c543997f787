/* narrow.h - for kernels: sixteen numbers at a time to 16 bits, rounded once.
 *
 * A float64 goes through float32 rounded to odd: of what does not fit, the last bit is set. Then the rounding to fewer
 * bits is right, as if it were the only one (Boldo and Melquiond 2008, Emulation of FMA and correctly rounded sums). That
 * holds where the float32 is a normal number, or the result zero. */
#ifndef PE_NARROW_H
#define PE_NARROW_H

#include "core/lanes.h"

#include <stdbool.h>

typedef float pe_floats16 __attribute__((vector_size(64)));
typedef uint32_t pe_words16 __attribute__((vector_size(64)));
typedef int32_t pe_signs16 __attribute__((vector_size(64)));
typedef uint16_t pe_halves16 __attribute__((vector_size(32)));

/* v with the last bit of a float32 for all below it; the conversion to float32 is then exact. */
PE_BODY void pe_lanes_odd(pe_lanes *v)
{
    const uint64_t below = (1ULL << 29) - 1;
    const pe_bits u = (pe_bits)*v;
    *v = (pe_lanes)((u | ((u & below) + below)) & ~below);
}

/* Two times eight float64 as sixteen float32: one after the other, or alternating. */
PE_BODY void pe_floats16_of(const pe_lanes *a, const pe_lanes *b, bool zipped, pe_floats16 *out)
{
    const pe_floats x = __builtin_convertvector(*a, pe_floats), y = __builtin_convertvector(*b, pe_floats);
    if (zipped)
        *out = __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    else
        *out = __builtin_shufflevector(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/* Rounds to float16, ties to even: the bits of each in a word. Not for NaN; `below_65504`: nor for what is larger. */
PE_BODY void pe_float16_of(const pe_floats16 *v, bool below_65504, pe_words16 *out)
{
    const pe_words16 w = (pe_words16)*v, size = w & 0x7fffffff;
    pe_words16 r = ((size + 0xfff + (size >> 13 & 1)) >> 13) - (112 << 10); /* a carry moves into the exponent */
    if (!below_65504) {
        const pe_words16 over = (pe_words16)((pe_signs16)(0x7c00 - r) >> 31);
        r = (r & ~over) | (0x7c00 & over);
    }
    /* below 2^-14 steps are 2^-24, as those of 1/2 are */
    const pe_words16 small = (pe_words16)((pe_floats16)size + 0.5F) - 0x3f000000;
    const pe_words16 below = (pe_words16)((pe_signs16)(size - 0x38800000) >> 31);
    *out = (r & ~below) | (small & below) | (w >> 16 & 0x8000);
}

/* Rounds to bfloat16, ties to even. Not for NaN. */
PE_BODY void pe_bfloat16_of(const pe_floats16 *v, pe_words16 *out)
{
    const pe_words16 w = (pe_words16)*v;
    *out = (w + 0x7fff + (w >> 16 & 1)) >> 16;
}

#endif
