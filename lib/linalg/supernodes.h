/* supernodes.h - L D L^T by dense blocks, for factors that fill up.
 *
 * Columns of L with (nearly) the same rows below form a supernode, stored as one dense panel: `width` columns of `height`
 * rows, column-major; the first `width` rows are its own columns, unit lower triangular, the others `row`, ascending.
 * Left-looking: a supernode receives what its descendants owe it, in an order that follows from the matrix alone, each
 * entry as a sum over columns in ascending order; so the bits depend on nothing else.
 *
 * Parts: the elimination tree is cut into subtrees by the work in them, smaller ones within larger ones, and what is left
 * is the last part. The subtrees of one tier touch nothing in common, and are the tasks of pe_parallel; what they owe to
 * rows above is added after them, in their order. The cut follows from the matrix alone. */
#ifndef PE_SUPERNODES_H
#define PE_SUPERNODES_H

#include "laplacian.h"

enum { PE_TIERS = 3 };

/* A subtree has rows of its own in the right sides of a substitution: for its columns, and for the rows below its root. */
typedef struct pe_subtree {
    int64_t low, root;     /* its first and last column or supernode: what lies between is in it, or in its kids */
    int64_t begin, end;    /* supernodes: of block, ascending */
    int64_t at, own;       /* supernodes: row of the right sides where it starts; own columns */
    int64_t out;           /* rows below */
    int64_t buffer;        /* supernodes: rows of scratch for a panel */
    int64_t to;            /* where the places of `out` in the rows of the subtree above start in up */
    int32_t kid, next_kid; /* the subtrees right below this one, as a list; -1: end */
} pe_subtree;

typedef struct pe_cut {
    int64_t tier[PE_TIERS + 2]; /* parts tier[i] .. tier[i + 1] - 1 lie within later ones; the last one is alone */
    pe_subtree *part;
    int32_t *owner; /* the part of a column or supernode */
    int32_t *up;    /* rows of the right sides that parts above have for the rows below roots; its owner fills it in */
} pe_cut;

/* Fills in tier, owner, and of each part low, root and kids.
 *   parent, work (count)   kids come before their parents; work in about the time of reading an entry */
posenc_status pe_cut_init(pe_cut *c, int64_t count, const int32_t *parent, const int64_t *work, pe_pace *pace,
                          posenc_error *err);
void pe_cut_fini(pe_cut *c);
/* LIMIT: that many rows of right sides are no int32_t. */
posenc_status pe_too_many_rows(int64_t rows, posenc_error *err);

typedef struct pe_block { /* a supernode as a substitution sees it */
    int64_t panel, spot;
    int32_t first, at, width, rows; /* column; row of the right sides */
} pe_block;

typedef struct pe_supernodes {
    int64_t count;
    int64_t *first;  /* (count + 1) first column */
    int32_t *parent; /* (count) -1 at roots */
    int32_t *of;     /* (n) the supernode of a column */
    int64_t *below;  /* (count + 1) where a supernode's rows below start in row */
    int32_t *row;    /* (below[count]) */
    int64_t *panel;  /* (count + 1) where a supernode's panel starts in entries */
    pe_cut cut;
    pe_block *block; /* (count) by parts */
    int32_t *member; /* (count) the supernode of a block */
    int32_t *spot;   /* (below[count]) row as a row of the right sides */
    int64_t rows;    /* of the right sides, and of scratch for panels */
} pe_supernodes;

/* Bytes that the panels would take, and the structure. `parent` and `size` (n): elimination tree and entries below the
 * diagonal in each column; of the matrix with its rows in the order place, as in pe_ldl: a postorder of the tree. */
posenc_status pe_supernodes_init(pe_supernodes *s, const pe_component *c, const int32_t *order, const int32_t *place,
                                 const int32_t *parent, const int64_t *size, pe_pace *pace, posenc_error *err);
void pe_supernodes_fini(pe_supernodes *s);

/* Factors L - shift I.
 *   entry, pivot   (panel[count] + 16), (n)
 *   least          pivots are raised to least times the diagonal entry where rounding took their sign; 0: left alone */
posenc_status pe_supernodes_factor(const pe_supernodes *s, const pe_laplacian *lap, const int32_t *order,
                                   const int32_t *place, double shift, double least, double *entry, double *pivot,
                                   pe_pace *pace, posenc_error *err);

/* Right sides and solutions: element (i, c) is x[c][i * stride]. */
typedef struct pe_sides {
    int64_t width; /* 1, 2, 4 or 8 */
    int64_t stride;
    double *const *x, *const *y;
} pe_sides;

/* Columns begin .. end - 1 of the factor, rows order[k] of x and y (NULL: k), to and from rows (width) of scratch; from
 * `rows` on they are read as 0. */
void pe_sides_load(const pe_sides *s, const int32_t *order, int64_t rows, int64_t begin, int64_t end, double *to);
void pe_sides_store(const pe_sides *s, const int32_t *order, int64_t begin, int64_t end, const double *from);

/* Row order[k] of y = the solution of L D L^T y = x in rows k < rows, others 0.
 *   scratch   (s->rows, width) aligned to 64 */
posenc_status pe_supernodes_solve(const pe_supernodes *s, const double *entry, const double *pivot, const int32_t *order,
                                  int64_t rows, const pe_sides *sides, double *scratch, pe_pace *pace);

#endif
