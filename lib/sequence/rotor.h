/* rotor.h - sines and cosines of whole positions, row by row, at a tenth of the price.
 *
 *     position = 64 block + step:     e^(i w position) = e^(i w 64 block) e^(i w step)
 *
 * The first factor is an anchor, made exactly once a block, the second a rotation, made exactly once a table; a row is
 * one complex product of float64 a pair. The error is below 2^-51, so a pair with a result below 2^-18 is made exactly
 * instead: results rounded on to float32 (or less) are within 0.51 ulp, also near zeros. Not for float64 results.
 * A result depends on the frequency and the position alone, not on the table it is in; sin is odd and cos even bit by bit.
 * Positions that are not whole are made exactly.
 *
 * One rotor belongs to one call. It borrows the frequencies and the storage. */
#ifndef PE_ROTOR_H
#define PE_ROTOR_H

#include "core/exact.h"
#include "core/pace.h"

typedef struct pe_rotor {
    size_t pairs;
    const pe_dd *w;   /* (pairs) */
    double *rotation; /* (64, 2, pairs): sines, then cosines; one is there when its bit is in `made`. Of very many pairs
                         only the last one made is kept, for the same results: (1, 2, pairs) */
    double *anchor;   /* (2, pairs) of `block` */
    uint64_t made;
    int64_t block, last; /* of the anchor; the rotation made last; -1: none */
} pe_rotor;

uint64_t pe_rotor_size(size_t pairs); /* bytes of storage, which is aligned to 64 */
pe_rotor pe_rotor_begin(const pe_dd *w, size_t pairs, void *storage);
/* sine and cosine (pairs) of w * position; |position| <= 2^53. */
posenc_status pe_rotor_row(pe_rotor *r, double position, double *sine, double *cosine, pe_pace *pace);

/* row = first[0], second[0], first[1], second[1], ... of n pairs. */
void pe_zip(const double *first, const double *second, size_t n, double *row);

#endif
