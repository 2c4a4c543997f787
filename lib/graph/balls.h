/* balls.h - walks from up to eight near nodes at once, over the nodes that they can reach: for large graphs whose balls grow
 * slowly, as roads and meshes.
 *
 * A pe_ball belongs to one thread; a pe_groups is immutable once made. */
#ifndef PE_BALLS_H
#define PE_BALLS_H

#include "graph/walk.h"

/* All nodes, each in one group of at most eight that are near each other. They depend on the matrix alone. */
typedef struct pe_groups {
    int64_t count;
    int64_t *ptr;  /* (count + 1) */
    int32_t *node; /* (n) group after group */
} pe_groups;

posenc_status pe_groups_init(pe_groups *g, const pe_sparse *m, pe_pace *pace, posenc_error *err);
void pe_groups_fini(pe_groups *g);

typedef struct pe_ball {
    int32_t *place;   /* (nodes of the graph) where a node stands in `node`, plus 1; 0: it does not */
    int32_t *node;    /* (room) in the order of their distance from the group */
    int64_t *ptr;     /* (room + 1) arcs of nodes that a step begins at */
    double *share;    /* (room) */
    double *panel[2]; /* (room, 8) */
    int32_t *to;      /* (arc_room) places */
    double *value;    /* (arc_room) */
    int64_t room, arc_room;
    int64_t *within; /* (steps + 2) nodes at most so many steps away */
} pe_ball;

/* For walks of `steps` steps. */
posenc_status pe_ball_init(pe_ball *b, int64_t nodes, int64_t steps, posenc_error *err);
void pe_ball_fini(pe_ball *b);
/* Return probabilities of `count` nodes (at most 8) after 1 .. last steps, by steps of half as many:
 * back (last, 8) = share[u] sum over v of (P^a)[u, v] (P^b)[u, v] / share[v], a + b = t
 *   rows      P by rows, with share[u] P[u, v] = share[v] P[v, u] */
posenc_status pe_ball_walk(pe_ball *b, const pe_sparse *rows, const double *share, const int32_t *node, int count,
                           int64_t last, double *back, pe_pace *pace, posenc_error *err);

#endif
