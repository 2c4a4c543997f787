/* pivot.h - which node's column of a projector comes next: what real and complex canonical bases share.
 *
 * The candidates are the nodes with R_vv >= (1 - 1e-6) max R_vv; the pivot is the one of smallest colour, then of smallest
 * id. Colours are computed the first time that candidates have to be told apart. */
#ifndef PE_PIVOT_H
#define PE_PIVOT_H

#include "linalg/canonical.h"

/* What is left of a space on one component: vectors first .. first + size - 1 span it, its dimension is rank. */
typedef struct pe_block {
    int64_t begin, end; /* places */
    int64_t first, size, rank;
} pe_block;

typedef struct pe_remainder {
    pe_canonical *w; /* w->diagonal holds R_vv, by place */
    double **v;      /* (m) the vectors of all blocks */
    double *a;       /* (m, of the complex basis 2 m) scratch */
    pe_block *b;     /* (nblocks) ascending */
    int64_t nblocks;
    void *memory; /* of v, a, b where there are many vectors */
    struct {
        double *v[8], a[16];
        pe_block b[8];
    } few;
    /* Whether the pivots at places p and q of one block give the same column. */
    bool (*same)(const struct pe_remainder *s, const pe_block *b, int64_t p, int64_t q);
} pe_remainder;

/* The m vectors of `basis` as blocks, of which nothing has been taken; `width` numbers an entry. malloc'ed, also where it
 * fails. */
posenc_status pe_remainder_init(pe_remainder *s, pe_canonical *w, const pe_block_vector *basis, int64_t m, int width,
                                posenc_error *err);
void pe_remainder_fini(pe_remainder *s);

typedef struct pe_pivot {
    pe_block *b;
    int64_t place;
    bool decided; /* by structure: neither an id nor a margin that the vectors' accuracy leaves open had a say */
} pe_pivot;
posenc_status pe_pivot_choose(pe_remainder *s, pe_pivot *out, posenc_error *err);

#endif
