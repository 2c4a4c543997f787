/* spectrum.h - one graph taken apart into components: exact null vectors, and eigenpairs as far as they are asked for.
 *
 *     pe_spectrum s = { 0 };
 *     st = pe_spectrum_init(&s, &options, graph, g, ctx, err);
 *     st = st ? st : pe_spectrum_solve(&s, c, want, ctx, err);        for each component c of more than one node
 *     pe_spectrum_fini(&s);
 *
 * Everything follows from the one graph: neither its place in a batch nor the order of its edge list shows.
 * Not thread-safe: each call has its own. Memory is malloc'ed and held until pe_spectrum_fini. */
#ifndef PE_SPECTRUM_H
#define PE_SPECTRUM_H

#include "core/graph.h"
#include "core/pace.h"
#include "graph/batch.h"
#include "linalg/linalg.h"

/* none  L = D - A          sym  L = I - D^-1/2 A D^-1/2          rw  L = I - D^-1 A, which has the eigenvalues of sym */
enum { PE_LAPLACIAN_NONE, PE_LAPLACIAN_SYM, PE_LAPLACIAN_RW };
enum { PE_ISOLATED_ONE, PE_ISOLATED_ZERO }; /* the diagonal of sym and rw at a node without edges */
extern const char *const pe_normalization_words[], *const pe_isolated_words[];

typedef struct pe_spectrum_options {
    pe_csr_options edges;
    int normalization, isolated;
    double tol;       /* of residuals, as in pe_component_pairs */
    int64_t max_iter; /* 0: the default */
    pe_solver solver;
    bool partial; /* as in pe_component_pairs */
} pe_spectrum_options;

typedef struct pe_spectrum {
    pe_spectrum_options o;
    pe_csr csr;            /* rw is solved as sym */
    int64_t *begin;        /* (components + 1) component c has the places begin[c] .. begin[c + 1] - 1 */
    int32_t *node, *place; /* (n) node at a place and back; ascending within a component */
    double *unit;    /* (n) by place: each component's null vector; for an isolated node or a lone loop its unit vector */
    double *single;  /* (components) the eigenvalue of a component of one node */
    bool *null;      /* (components) whether there is a null vector */
    pe_pairs *pairs; /* (components) the rest, as far as asked for */
    double *scratch; /* (n) */
    void *memory;    /* of all these */
    bool loops, negative;
    int exponent; /* the weights in csr are the client's times 2^-exponent: so are eigenvalues and residuals of none */
    pe_pace pace;
} pe_spectrum;

posenc_status pe_spectrum_init(pe_spectrum *s, const pe_spectrum_options *o, const posenc_graph *graph, int64_t g,
                               posenc_context *ctx, posenc_error *err);
void pe_spectrum_fini(pe_spectrum *s);

/* A component (of two nodes or more) as a matrix of its own, rows in the order of places. */
typedef struct pe_part {
    pe_component m;  /* kernel: the null vector, in s */
    void *memory[5]; /* what m does not borrow from s */
} pe_part;
posenc_status pe_spectrum_part(pe_spectrum *s, int64_t c, pe_part *out, posenc_error *err);
void pe_part_fini(pe_part *p);

/* The `want` smallest pairs of component c beside its null vector, and what completes the last one's cluster. */
posenc_status pe_spectrum_solve(pe_spectrum *s, int64_t c, int64_t want, posenc_context *ctx, posenc_error *err);
/* Whether pe_spectrum_solve solves components of n nodes in lanes, with those of other graphs where there are some. */
bool pe_spectrum_small(const pe_spectrum *s, int64_t c);

/* The spectra of a chunk of a batch, whose small components are solved together: a graph's bytes are those that
 * pe_spectrum_solve gives it alone. */
typedef struct pe_spectra {
    pe_spectrum_options o;
    int64_t first, count;
    pe_spectrum *s;       /* (count) */
    void *room, *answers; /* of what the spectra and their pairs mostly hold */
} pe_spectra;
/* `want`: how many pairs of component c of a graph of `zeros` null vectors will be asked for, 0: none. A graph that cannot
 * be taken apart is left to pe_spectra_take, which says why. */
posenc_status pe_spectra_init(pe_spectra *a, const pe_graph_chunk *chunk, const pe_spectrum_options *o,
                              int64_t (*want)(const void *arg, const pe_spectrum *s, int64_t c, int64_t zeros),
                              const void *arg, posenc_error *err);
/* Hands over the spectrum of the batch's graph g, once: the caller finishes it, whatever is returned. */
posenc_status pe_spectra_take(pe_spectra *a, const posenc_graph *graph, int64_t g, pe_spectrum *out, posenc_context *ctx,
                              posenc_error *err);
void pe_spectra_fini(pe_spectra *a);
/* Bytes that graph g of a batch holds until it is taken, with up to `want` pairs a component; and, to be added once to
 * those of all graphs of a chunk, what solving them together takes. */
uint64_t pe_spectra_held(const posenc_graph *graph, int64_t g, int64_t want);
uint64_t pe_spectra_bytes(const posenc_graph *graph, int64_t begin, int64_t end, int64_t want);

/* Pairs beyond `want` that complete a cluster: all that a small component has. A large star has an eigenvalue of
 * multiplicity n - 2: there the cluster stays incomplete. */
int64_t pe_spectrum_extra(int64_t n);
/* Numbers that such pairs may hold in a graph of n nodes, for estimates: of one component, or of two just small enough to
 * complete all clusters. */
uint64_t pe_spectrum_extra_numbers(int64_t n);

/* One known eigenpair. */
typedef struct pe_eigenpair {
    double value;
    int64_t component, order; /* order: null vectors by component, then the others by component and value */
    double *v;                /* (nodes of the component), borrowed from s */
    double residual;          /* 0 where the vector is known exactly */
} pe_eigenpair;
/* An eigenvalue as told: within 0 .. 2 of sym and rw, at least 0 of none, which rounding may miss. */
static inline double pe_eigenvalue(double lambda, bool normalized)
{
    return !(lambda > 0) ? 0 : normalized && lambda > 2 ? 2 : lambda;
}
/* How far vectors of the eigenspace of e[a] .. e[b - 1] may be off, `gap` from its neighbours: for pe_canonical. */
double pe_eigenspace_blur(const pe_eigenpair *e, int64_t a, int64_t b, double gap);
/* All pairs known of the components c0 .. c1 - 1: null vectors, then the others ascending. malloc'ed. */
posenc_status pe_spectrum_list(pe_spectrum *s, int64_t c0, int64_t c1, pe_eigenpair **out, int64_t *n, posenc_error *err);
/* For pe_sort: back to the order of components. */
int pe_eigenpair_by_order(const void *a, const void *b);
/* Whether a <= b are neighbours of one cluster. */
static inline bool pe_same_cluster(double a, double b) { return b - a < pe_cluster_gap(b); }

/* ||L v - lambda v|| of a unit vector v of sym or none over n places from `origin` on; for rw of D^-1/2 v, scaled to 1. */
posenc_status pe_spectrum_residual(pe_spectrum *s, const double *v, double lambda, int64_t n, int64_t origin, double *out);

/* The nodes of c by component, ascending within each: component k has the places begin[k] .. begin[k + 1] - 1; node stands
 * at a place, place is its inverse. malloc'ed, also where it fails. */
posenc_status pe_places(const pe_csr *c, int64_t **begin, int32_t **node, int32_t **place, pe_pace *pace, posenc_error *err);

/* Scales weights so that the largest is near 1, by a power of two, where it is below 0.5 or at least 2^64; the degrees
 * follow. *exponent: the weights are the former ones times 2^-exponent. */
posenc_status pe_csr_scale(pe_csr *c, int *exponent, pe_pace *pace);
/* What divides by degrees needs them of a scaled matrix: INVALID where one is below 2^-900 of the largest weight. */
posenc_status pe_csr_alike(const pe_csr *a, pe_pace *pace, posenc_error *err);

/* A random sign: one bit of seed, column, nodes and arcs, equal for a relabelled copy and independent of the batch. */
bool pe_column_flips(int64_t seed, int64_t column, int64_t n, int64_t arcs);

#endif
