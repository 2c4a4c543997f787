/* relabel.h - a component with its vertices in another order.
 *
 * Vertices that are neighbours in the graph should be neighbours in memory: whatever walks along edges is then several times
 * faster than where a file's order scatters them. */
#ifndef PE_RELABEL_H
#define PE_RELABEL_H

#include "core/pace.h"
#include "linalg.h"

typedef struct pe_relabelled {
    pe_component c; /* points at the arrays below */
    int32_t *order; /* (n) order[k] is the vertex of the other component that is k here */
    int64_t *ptr;
    int32_t *col;
    double *weight, *degree, *kernel, *diagonal; /* those that the other has */
} pe_relabelled;

/* order (n): breadth-first, from a vertex that is far from vertex 0; from the first one not yet reached where some are not.
 */
posenc_status pe_breadth_first(const pe_component *c, int32_t *order, pe_pace *pace, posenc_error *err);
/* Takes `order` over, whether or not it succeeds. */
posenc_status pe_relabel(pe_relabelled *r, const pe_component *c, int32_t *order, pe_pace *pace, posenc_error *err);
void pe_relabelled_fini(pe_relabelled *r);

/* Bytes held by a copy and while it is made. */
uint64_t pe_relabel_bytes(int64_t n, int64_t arcs);

#endif
