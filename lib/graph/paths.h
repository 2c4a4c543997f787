/* paths.h - distances in a graph: steps by breadth-first search, lengths by Dijkstra's algorithm; and how they are told.
 *
 *     pe_wave       steps from many sources, abreast or one after another
 *     pe_pairs      steps between all pairs of a small graph
 *     pe_spread     steps or lengths from the nearest of a set of seeds, and which seed that is
 *
 * Rows of a pe_csr are followed from a node to its targets; for distances towards a node search its transpose.
 * One struct belongs to one thread. */
#ifndef PE_PATHS_H
#define PE_PATHS_H

#include "core/graph.h"
#include "core/pace.h"
#include "core/params.h"

/* ---- many sources ---- */

/* Sources of one run: abreast, a bit each, which pays where many reach a node in the same step, as in webs; or one after
 * another with a queue, as in roads. */
enum { PE_WAVE = 64, PE_QUEUES = 16 };

typedef struct pe_wave {
    const pe_csr *csr;
    bool narrow;     /* sources go one after another from now on: few reached a node together. Given, or found */
    bool abreast;    /* how the last run went */
    int32_t deepest; /* steps to the farthest node of the last run */
    int32_t *steps;  /* (PE_QUEUES, n) one after another; -1: not reached */
    uint8_t *near;   /* (n, PE_WAVE) abreast; 255: not reached */
    int32_t *queue;
    uint64_t *seen, *here, *next; /* (n) bit i: source i has reached, reaches in this step, in the next one */
    int32_t *now, *then;          /* (n) nodes that `here` and `next` are not 0 for */
} pe_wave;

void pe_wave_init(pe_wave *w, const pe_csr *csr, bool narrow);
void pe_wave_fini(pe_wave *w);
/* Steps from the first *count sources, which becomes how many this run took: at most PE_WAVE. Weights do not count. */
posenc_status pe_wave_run(pe_wave *w, const int32_t *source, int64_t *count, pe_pace *pace, posenc_error *err);
/* From source i of the run to node v, -1: not reached. */
static inline int32_t pe_wave_steps(const pe_wave *w, int64_t i, int64_t v)
{
    if (!w->abreast)
        return w->steps[i * w->csr->n + v];
    return w->near[v * PE_WAVE + i] == UINT8_MAX ? -1 : w->near[v * PE_WAVE + i];
}
/* table[steps + 1], elements of 1, 2, 4 or 8 bytes, of `count` sources and all nodes to to[v * by_node + i * by_source]. */
posenc_status pe_wave_look_up(const pe_wave *w, int64_t count, const void *table, size_t size, void *to, int64_t by_node,
                              int64_t by_source, pe_pace *pace);
uint64_t pe_wave_bytes(int64_t n, int64_t sources);

/* ---- all pairs ---- */

enum { PE_PAIRS = 126, PE_PAIRS_NONE = 127, PE_WIDE_PAIRS = 512, PE_WIDE_PAIRS_NONE = INT16_MAX };

/* Elements from one row of steps to the next. */
static inline int64_t pe_pairs_width(int64_t n) { return (n + 31) / 32 * 32; }

/* Each node's neighbours of lower numbers, in chains. */
enum { PE_LOWER_ARCS = 2048 };
typedef struct pe_lower {
    int16_t last[PE_WIDE_PAIRS];                        /* (n) a node's last arc; -1: it has none */
    int16_t node[PE_LOWER_ARCS], before[PE_LOWER_ARCS]; /* (arcs) an arc's lower end; the one before it of the same node */
} pe_lower;
/* Of an undirected graph of n <= PE_WIDE_PAIRS nodes from `base` on and at most PE_LOWER_ARCS arcs, source <= target. Loops
 * are left out, parallel edges do no harm. */
void pe_lower_list(pe_lower *l, const int32_t *source, const int32_t *target, int64_t arcs, int32_t base, int64_t n);

/* Between at most PE_PAIRS nodes. steps (n, pe_pairs_width(n)), of which n columns count: PE_PAIRS_NONE where there is no
 * path. */
void pe_pairs(const pe_lower *l, int64_t n, uint8_t *steps);
/* The same of at most PE_WIDE_PAIRS nodes, with PE_WIDE_PAIRS_NONE. */
posenc_status pe_wide_pairs(const pe_lower *l, int64_t n, uint16_t *steps, pe_pace *pace);

/* ---- from a set ---- */

typedef struct pe_spread {
    const pe_csr *csr;
    bool lengths;    /* arcs are as long as their weight; otherwise 1 */
    int64_t reached; /* nodes */
    double *dist;    /* (n) from the nearest seed, -1: not reached */
    int32_t *owner;  /* (n) the nearest seed, the lowest id of several; -1 */
    int32_t *order;  /* (reached) nodes in the order in which they were settled: every shortest path keeps it */
    int32_t *place;  /* (n) where a node stands in order, -1 (lengths only) */
    int32_t *heap;   /* (n) scratch (lengths only) */
    void *memory;
} pe_spread;

posenc_status pe_spread_init(pe_spread *s, const pe_csr *csr, bool lengths, posenc_error *err);
void pe_spread_fini(pe_spread *s);
/* Paths do not enter the node `closed`; -1: all are open. INVALID where a length overflows. */
posenc_status pe_spread_run(pe_spread *s, const int32_t *seed, int64_t nseeds, int64_t closed, pe_pace *pace,
                            posenc_error *err);
uint64_t pe_spread_bytes(int64_t n);

/* ---- how distances are told ---- */

enum { PE_DISTANCE_DIST, PE_DISTANCE_INVERSE };
extern const char *const pe_distance_words[];

typedef struct pe_telling {
    double max_dist;
    int transform;
    int64_t unreachable;
    bool drop_beyond, edge_weight;
    bool capped; /* max_dist is given; no row */
} pe_telling;

/* clang-format off */
#define PE_TELLING_ROWS(T, in, form, drop)                                                                                 \
    { PE_ROW_IN(T, in, max_dist, PE_T_REAL, double), .flags = PE_OPTIONAL, .min = 0, .max = 0x1p53,                        \
      .doc = "more than 0: longer distances are told as this, or with drop_beyond as unreachable; a whole number where "   \
             "steps are counted" },                                                                                        \
    { PE_ROW_IN(T, in, transform, PE_T_ENUM, int), .names = pe_distance_words, .def = form,                                \
      .doc = "dist: the distance d; inverse: 1 / (1 + d) (P-GNN)" },                                                       \
    { PE_ROW_IN(T, in, unreachable, PE_T_INT, int64_t), .flags = PE_DERIVED, .min = -0x1p53, .max = 0x1p53,                \
      .doc = "what stands where there is no path; when absent 0 for inverse and -1 for dist (255 in uint8; Graphormer: "   \
             "510; GraphGPS: max_dist + 1; DGL: -1)" },                                                                    \
    { PE_ROW_IN(T, in, drop_beyond, PE_T_BOOL, bool), .def = drop,                                                         \
      .doc = "true: distances over max_dist count as unreachable (P-GNN); false: they are max_dist (GraphGPS)" },          \
    { PE_ROW_IN(T, in, edge_weight, PE_T_BOOL, bool), .def = 1,                                                            \
      .doc = "lengths are sums of the graph's edge weights, where it has any; false: steps (Graphormer, DGL, P-GNN)" }
/* clang-format on */

/* Whether distances are lengths: weights are there and count. */
bool pe_telling_lengths(const pe_telling *t, const posenc_graph *g);
/* The same of graph g of a batch, which is what it is alone: without weights where all of its own are 1. */
posenc_status pe_telling_lengths_in(const pe_telling *t, const posenc_graph *graph, int64_t g, bool *lengths, pe_pace *pace);
/* For `check`: the rules between the rows; `dtype` is that of the distances. */
posenc_status pe_telling_check(posenc_request *r, pe_telling *t, posenc_dtype dtype, posenc_error *err);
/* Where weights do not count, they are not looked at either. */
pe_csr_options pe_telling_options(const pe_telling *t, const pe_csr_options *rows);
/* The number told for a distance, -1: none. */
static inline double pe_tell(const pe_telling *t, double d)
{
    if (d < 0 || (t->capped && t->drop_beyond && d > t->max_dist))
        return (double)t->unreachable;
    if (t->capped && d > t->max_dist)
        d = t->max_dist;
    return t->transform == PE_DISTANCE_INVERSE ? 1 / (1 + d) : d;
}
/* The largest finite number of a dtype. */
double pe_distance_largest(posenc_dtype t);

#endif
