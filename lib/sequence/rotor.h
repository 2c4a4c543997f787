/* rotor.h - sines and cosines of whole positions, row by row, at a tenth of the price.
 *
 * A position is a multiple of 64 and a step of -32 .. 31:
 *     e^(i w position) = e^(i w 64 block) e^(i w step)
 * The first factor, the anchor, is itself a product: of a factor for each of the block's six lowest digits of base 8, and
 * one for what is above them. The second, the rotation, is one of two digits. Single digits are made exactly, once for as
 * long as they stay. So a row that follows another is one complex product of float64 a pair, and two rows at the same
 * distance from an anchor share its four multiplications. The error is below 2^-49, so a pair with a result below 2^-18
 * is made exactly instead: results rounded on to float32 (or less) are within 0.51 ulp, also near zeros. Not for float64
 * results.
 * A result depends on the frequency and the position alone, not on the table it is in; sin is odd and cos even bit by bit.
 * Positions that are not whole are made exactly.
 *
 * One rotor belongs to one call. It borrows the frequencies and the storage. */
#ifndef PE_ROTOR_H
#define PE_ROTOR_H

#include "core/exact.h"
#include "core/pace.h"

enum { PE_ROTOR_DIGITS = 8, PE_ROTOR_LEVELS = PE_ROTOR_DIGITS / 2 };

/* Rows are sines, then cosines, with room between. */
typedef struct pe_rotor {
    size_t pairs;
    const pe_dd *w;                        /* (pairs) */
    double *unit;                          /* the row of position 0 */
    double *digit;                         /* the factors of single digits; of very many pairs only those in use */
    double *rotation;                      /* (33) those of two digits; of very many pairs one */
    double *chain;                         /* (levels) products from the top down to a level */
    const double *anchor[PE_ROTOR_LEVELS]; /* what stands there: [1] is the block's */
    int64_t at[PE_ROTOR_LEVELS];           /* whose they are: the block without its lower digits; -1: none */
    double *kept;                          /* those of level 2 that places here and there come back to */
    int64_t *kept_at;                      /* (keeps) whose */
    size_t keeps;                          /* a power of two */
    uint64_t digits_made, rotations_made;  /* one bit each */
    int digit_held[PE_ROTOR_DIGITS];       /* of very many pairs */
    float *narrow;                         /* (34) the block's anchor and rotations in float32; none of very many pairs */
    int64_t narrow_at;                     /* whose anchor that is */
    uint64_t narrow_made;                  /* rotations, one bit each */
    bool narrow_zipped;                    /* in which order they are */
    int64_t last;                          /* the rotation made last; -1: none */
} pe_rotor;

uint64_t pe_rotor_size(size_t pairs); /* bytes of storage, which is aligned to 64 */
pe_rotor pe_rotor_begin(const pe_dd *w, size_t pairs, void *storage);
/* sine and cosine (pairs) of w * position; |position| <= 2^53. */
posenc_status pe_rotor_row(pe_rotor *r, double position, double *sine, double *cosine, pe_pace *pace);

/* Where rows go, rounded to a dtype, which is not float64: sines and cosines apart, or alternating. */
typedef struct pe_rotor_place {
    posenc_dtype dtype;
    bool zipped, cosine_first; /* the latter where zipped */
    int past;                  /* by stores around the cache: 64 or 16, which all is aligned to, and pe_past_cache_end
                                * follows; 0: through it */
    void *first, *second;      /* sines and cosines of a row; zipped: the row, and NULL */
    size_t step;               /* bytes from a row to the next */
    size_t again;              /* not zipped: bytes to where sines and cosines are written once more; 0: they are not */
    bool twice;                /* not zipped: each sine and cosine is there twice, side by side */
    double scale;              /* multiplies sines and cosines, before they are rounded; 0: nothing does */
} pe_rotor_place;
/* Whether pe_rotor_rows can multiply by it. */
static inline bool pe_rotor_scales(double scale) { return scale >= 0x1p-60 && scale <= 0x1p60; }
/* The numbers that pe_rotor_row, the product with `scale`, and posenc_convert give, of positions first, first + 1, ..., `n`
 * of them. */
posenc_status pe_rotor_rows(pe_rotor *r, double first, int64_t n, const pe_rotor_place *to, pe_pace *pace);

/* row = first[0], second[0], first[1], second[1], ... of n pairs. */
void pe_zip(const double *first, const double *second, size_t n, double *row);

#endif
