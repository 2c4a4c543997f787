/* small.h - a few eigenpairs of many small components, eight at a time.
 *
 * A component's bytes do not depend on which others are solved with it, nor on their order. What the lanes find is
 * measured against the component itself; what does not pass is left to the caller, who has the scalar way.
 * Pure functions: no globals, no threads. */
#ifndef PE_SMALL_H
#define PE_SMALL_H

#include "core/pace.h"
#include "linalg/linalg.h"

enum { PE_SMALL_ROWS = 256 };

typedef struct pe_small {
    pe_component c; /* of 2 .. PE_SMALL_ROWS rows; with a diagonal of its own only where not normalized */
    int64_t want;   /* pairs beside the kernel vector, 1 .. all there are */
    double tol;     /* as in pe_component_pairs */
    double *room;   /* for the answer where it is not larger: pe_small_room numbers, aligned to 64 bytes; NULL: none */
    pe_pairs *out;  /* as pe_component_pairs would hand over, in panels; stays empty where not solved */
} pe_small;

posenc_status pe_small_solve(pe_small *jobs, int64_t count, pe_pace *pace, posenc_error *err);
/* dots[8 j + k]: column j of a by column k of b; a, b (n, 8). */
void pe_panel_dots(int64_t n, const double *a, const double *b, double dots[64]);
static inline size_t pe_small_room(int64_t n, int64_t want) { return (size_t)((n + 2) * ((want + 7) / 8 * 8)); }
/* The largest and the smallest entry of each of eight columns; x (n, 8). */
void pe_panel_extent(int64_t n, const double *x, double most[8], double least[8]);
/* x = x * by + 0, by columns: no negative zeros. */
void pe_panel_scale(int64_t n, double *x, const double by[8]);

/* Bytes that pe_small_solve holds beside the answers: components of up to `rows` rows and `arcs` arcs, `count` jobs. */
uint64_t pe_small_bytes(int64_t rows, int64_t arcs, int64_t want, int64_t count);

#endif
