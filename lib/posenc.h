/* posenc.h - positional encodings of transformers, computed exactly and always the same.
 *
 * libposenc turns a request (an encoding's name, flat parameters, sometimes a graph) into named tensors.
 * The same request gives the same bytes with every compiler, CPU and thread count.
 *
 *     posenc_answer a;
 *     posenc_error err = { 0 };
 *     char text[500];
 *     if (posenc_encode("sinusoidal", "embedding_dim=64&num_positions=128", NULL, &a, NULL, &err)) {
 *         fprintf(stderr, "%s\n", posenc_error_text(&err, text, sizeof text));
 *         return 1;
 *     }
 *     const float *table = a.result.tensor[0].data;       (128, 64)
 *     posenc_answer_fini(&a);
 *
 * Link with -lposenc; with libposenc.a also -lmpfr -lgmp -lcrypto -lz -ljansson -lamd -lm. The encodings and their
 * parameters: `posenc list`, `posenc NAME --help`, posenc_describe_all().
 *
 * Threads: no function keeps state between calls; any number of threads may call, each with its own arguments.
 * Ownership: `const T *` arguments are borrowed for the call; `_init`/`_fini` work on the caller's storage and
 *   fini is safe on zeroed storage and twice; an arena owns all that is allocated from it.
 * The library opens no file and no socket, starts no thread, prints nothing. Little-endian hosts only.
 *
 * Contents: 1 statuses and errors  2 tensors  3 arenas  4 parameters  5 graphs  6 encodings  7 requests
 *           8 one call  9 containers  10 words about the tables  11 model configurations  12 reports
 *           13 identify and compare */
#ifndef POSENC_H
#define POSENC_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define POSENC_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define POSENC_PRINTF(f, a)
#endif

#define POSENC_VERSION "0.1.0"

/* ---- 1. statuses and errors ---------------------------------------------------------------------------------- */

/* One row is the whole story: name, HTTP status, gRPC code, whether the same request may work later, meaning.
 * Ordered by gravity: an error that collects several faults has the gravest status. */
#define POSENC_STATUSES(X)                                                            \
    X(OK, 200, 0, 0, "ok")                                                            \
    X(INVALID, 400, 3, 0, "the request is not valid")                                 \
    X(LIMIT, 400, 3, 0, "the request is over a published limit")                      \
    X(UNAUTHENTICATED, 401, 16, 0, "no valid key")                                    \
    X(FORBIDDEN, 403, 7, 0, "the key does not allow this")                            \
    X(NOT_FOUND, 404, 5, 0, "no such thing")                                          \
    X(EXISTS, 409, 6, 0, "the name is taken")                                         \
    X(PRECONDITION, 412, 9, 0, "a precondition does not hold")                        \
    X(NO_CONVERGENCE, 422, 9, 0, "the solver did not reach the tolerance")            \
    X(RATE, 429, 8, 1, "rate or quota exceeded")                                      \
    X(CANCELLED, 499, 1, 0, "cancelled by the caller")                                \
    X(DEADLINE, 504, 4, 0, "the deadline passed")                                     \
    X(BUSY, 503, 14, 1, "queue full, draining, starting or out of memory: try again") \
    X(DATA_LOSS, 500, 15, 0, "stored data is damaged")                                \
    X(INTERNAL, 500, 13, 0, "a fault of the program")

typedef enum posenc_status {
#define X(name, http, grpc, retry, meaning) PE_##name,
    POSENC_STATUSES(X)
#undef X
} posenc_status;

const char *posenc_status_name(posenc_status s); /* "INVALID" */
const char *posenc_status_meaning(posenc_status s);
int posenc_status_http(posenc_status s);
int posenc_status_grpc(posenc_status s);         /* 0 .. 16 */
const char *posenc_status_code(posenc_status s); /* gRPC's name: "INVALID_ARGUMENT" */
bool posenc_status_retry(posenc_status s);

/* What is wrong with one field. */
typedef struct posenc_fault {
    char field[128];   /* the name as the client typed it, with a path: "graph.edge_index[1][17]" */
    char value[64];    /* what was given; shortened with "..." */
    char allowed[160]; /* what would be right */
    char reason[32];   /* UPPER_SNAKE: "INVALID_PARAMETER", "LIMIT_EXCEEDED", ... */
} posenc_fault;

#define PE_MAX_FAULTS 8
typedef struct posenc_error {
    posenc_status status; /* the gravest of the faults */
    unsigned n, dropped;  /* faults held; faults that did not fit */
    posenc_fault fault[PE_MAX_FAULTS];
} posenc_error; /* owned by the caller, starts at { 0 } */

/* Adds a fault and returns `status`, so that `return posenc_fail(...)` reads well. `err` may be NULL.
 * `allowed` is a printf format. Never allocates. */
posenc_status posenc_fail(posenc_error *err, posenc_status status, const char *reason, const char *field, const char *value,
                          const char *allowed, ...) POSENC_PRINTF(6, 7);
/* All faults in one line: "field: got value, allowed: what; ...". Returns buf. */
const char *posenc_error_text(const posenc_error *err, char *buf, size_t size);

/* A short formatted text by value: posenc_text("%d", n).s lives to the end of the full expression. */
typedef struct posenc_short {
    char s[64];
} posenc_short;
posenc_short posenc_text(const char *format, ...) POSENC_PRINTF(1, 2);

/* ---- 2. tensors ---------------------------------------------------------------------------------------------- */

/* name, bytes per element, NumPy type string, safetensors word */
#define POSENC_DTYPES(X)        \
    X(float32, 4, "<f4", "F32") \
    X(float64, 8, "<f8", "F64") \
    X(float16, 2, "<f2", "F16") \
    X(bfloat16, 2, "", "BF16")  \
    X(int32, 4, "<i4", "I32")   \
    X(int64, 8, "<i8", "I64")   \
    X(uint8, 1, "|u1", "U8")    \
    X(int16, 2, "<i2", "I16")

typedef enum posenc_dtype {
#define X(name, size, numpy, safetensors) PE_##name,
    POSENC_DTYPES(X)
#undef X
        PE_NDTYPES
} posenc_dtype;

size_t posenc_dtype_size(posenc_dtype t);
const char *posenc_dtype_name(posenc_dtype t);
bool posenc_dtype_named(const char *name, posenc_dtype *out);

#define PE_MAX_RANK 8
typedef struct posenc_tensor {
    const char *name; /* [a-z][a-z0-9_]{0,63}; static, or owned by who owns data */
    posenc_dtype dtype;
    int rank;                   /* 0 .. PE_MAX_RANK */
    int64_t shape[PE_MAX_RANK]; /* row-major, slowest first; elements may be 0 */
    void *data;                 /* little-endian, aligned to the element; NULL where only the shape is known */
} posenc_tensor;

int64_t posenc_tensor_count(const posenc_tensor *t);         /* elements; the product is known not to overflow */
uint64_t posenc_tensor_size(const posenc_tensor *t);         /* bytes */
double posenc_tensor_get(const posenc_tensor *t, int64_t i); /* element i of the flat tensor; int64 beyond 2^53 rounds */
/* Rounds n float64 values to `t` (to nearest, ties to even; integers must hold exactly) at dst. */
void posenc_convert(posenc_dtype t, void *dst, const double *src, size_t n);
/* dst = a * b, false on overflow of 2^63 - 1 or a negative factor. */
bool posenc_mul_size(int64_t a, int64_t b, int64_t *dst);

/* ---- 3. arenas ----------------------------------------------------------------------------------------------- */

/* Memory that lives as long as a request: allocated piece by piece, freed whole. Not thread-safe. */
typedef struct posenc_arena posenc_arena;
posenc_arena *posenc_arena_new(size_t limit);                  /* bytes it may hold; NULL: out of memory */
void posenc_arena_free(posenc_arena *a);                       /* NULL is fine */
void *posenc_alloc(posenc_arena *a, size_t size);              /* zeroed, aligned to 64; NULL: over the limit or no memory */
char *posenc_strdup(posenc_arena *a, const char *s, size_t n); /* n bytes and a NUL */
size_t posenc_arena_used(const posenc_arena *a);

/* ---- 4. parameters ------------------------------------------------------------------------------------------- */

/* What a client may type is a table of rows; the values live in a struct that the rows point into.
 * The same rows drive queries, JSON, protobuf, the command line, the digest and the documentation. */
typedef enum posenc_kind {
    PE_T_INT,
    PE_T_REAL,
    PE_T_REALS,
    PE_T_BOOL,
    PE_T_ENUM,
    PE_T_TEXT,
    PE_T_TENSOR,
    PE_T_WORDS
} posenc_kind;
/* C types of the kinds: int64_t, double, posenc_reals, bool, int, const char *, posenc_tensor, uint64_t.
 * Words: a set of an enum's words, bit i for word i; typed as a list in any order, an array of strings in JSON. */

typedef uint64_t posenc_given; /* bit i: the client supplied row i; the first member of every params struct */

typedef struct posenc_reals {
    const double *v; /* (n) */
    size_t n;
} posenc_reals;

enum {
    PE_REQUIRED = 1, /* must be given (where the row applies) */
    PE_DERIVED = 2,  /* when absent, `check` computes it; the doc says how */
    PE_SELECTOR = 4, /* the enum row that `when` of other rows refers to; at most one */
    PE_NAN = 8,      /* a real that admits the word nan */
    PE_OPTIONAL = 16 /* absent means absent: no default, and not in the key */
};

typedef struct posenc_param { /* one row */
    const char *name, *doc;
    const char *const *names; /* enum and words rows: the words, NULL-terminated; text rows: names[0] is the pattern */
    double def, min, max;     /* of the value, of each element (reals), of the length (text); exact below 2^53.
                                 min == max == 0: unbounded (real, reals) */
    uint64_t when;            /* bit v: the row applies to word v of the selector, which has at most 64; 0: always */
    uint16_t offset;          /* of the member in the params struct */
    uint8_t kind, flags;
    const char *text; /* text rows: the default; NULL: none */
} posenc_param;

/* Whether a mask such as `when` has word `v` of an enum row; 0 has all, however many there are. */
static inline bool posenc_in_mask(uint64_t mask, size_t v) { return !mask || (v < 64 && mask >> v & 1); }

typedef struct posenc_table {
    const posenc_param *rows;
    size_t nrows, size; /* at most 64 rows; bytes of the params struct */
} posenc_table;

const posenc_param *posenc_row(const posenc_table *t, const char *name); /* NULL: none of that name */
posenc_status posenc_unknown(const posenc_table *t, const posenc_table *also, const char *name, posenc_error *err);
/* the fault for an unknown name; suggests the nearest */
void posenc_defaults(const posenc_table *t, void *params); /* zeroes, then fills in the defaults */
bool posenc_applies(const posenc_table *t, const posenc_param *row, const void *params);
bool posenc_was_given(const posenc_table *t, const posenc_param *row, const void *params);

/* Setters: one value each, checked for kind and range; a row set twice is a fault. Values behind pointers are
 * borrowed and must live as long as the params. */
posenc_status posenc_set_text(const posenc_table *t, const posenc_param *row, void *params, const char *text, size_t n,
                              posenc_arena *a, posenc_error *err); /* any kind but tensor, as typed in a query */
posenc_status posenc_set_int(const posenc_table *t, const posenc_param *row, void *params, int64_t v, posenc_error *err);
posenc_status posenc_set_real(const posenc_table *t, const posenc_param *row, void *params, double v, posenc_error *err);
posenc_status posenc_set_bool(const posenc_table *t, const posenc_param *row, void *params, bool v, posenc_error *err);
posenc_status posenc_set_enum(const posenc_table *t, const posenc_param *row, void *params, int v, posenc_error *err);
posenc_status posenc_set_words(const posenc_table *t, const posenc_param *row, void *params, uint64_t set,
                               posenc_error *err);
/* Folds -0 in v to 0 in place: they are one number. */
posenc_status posenc_set_reals(const posenc_table *t, const posenc_param *row, void *params, double *v, size_t n,
                               posenc_error *err);
posenc_status posenc_set_tensor(const posenc_table *t, const posenc_param *row, void *params, const posenc_tensor *v,
                                posenc_error *err);
/* Required rows present, no row that does not apply: the rules that need all values. */
posenc_status posenc_finish(const posenc_table *t, void *params, posenc_error *err);

/* ---- 5. graphs ----------------------------------------------------------------------------------------------- */

typedef struct posenc_context posenc_context; /* section 7 */

/* Edges as a client lists them. Undirected: each edge in one direction or both. */
typedef struct posenc_edges {
    int64_t num_nodes;              /* 0 .. 2^31 - 2 */
    int64_t nedges;                 /* 0 .. 10^8 */
    const int64_t *source, *target; /* (nedges) 0 .. num_nodes - 1 */
    const double *weight;           /* (nedges) finite; NULL: all 1 */
    bool directed;
    const int64_t *ptr; /* (ngraphs + 1) a batch: graph g has the nodes ptr[g] .. ptr[g+1]-1; NULL: one graph */
    int64_t ngraphs;    /* 1 .. 10^6 when ptr is given */
} posenc_edges;

/* A checked graph in normal form: sorted, so that neither the order of the list nor listing an undirected edge
 * in one direction or both shows. Lives in the arena it was built in; immutable. */
typedef struct posenc_graph posenc_graph;
posenc_status posenc_graph_build(const posenc_edges *edges, posenc_arena *a, const posenc_graph **out, posenc_error *err);
/* The same, which polls ctx: 10^7 edges take a second. PE_CANCELLED, PE_DEADLINE as ctx says. ctx may be NULL. */
posenc_status posenc_graph_build_watched(const posenc_edges *edges, posenc_arena *a, const posenc_graph **out,
                                         posenc_context *ctx, posenc_error *err);
int64_t posenc_graph_nodes(const posenc_graph *g);
int64_t posenc_graph_edges(const posenc_graph *g); /* after joining the two listings of an undirected edge */
int64_t posenc_graph_count(const posenc_graph *g); /* graphs in the batch; 1 without ptr */
bool posenc_graph_batched(const posenc_graph *g);
/* "sha256-<hex>" of the content; NULL: no memory. Made when first asked for: it reads every edge. */
const char *posenc_graph_id(const posenc_graph *g);

/* ---- 6. encodings -------------------------------------------------------------------------------------------- */

/* extension, media type, one tensor only, whether the length follows from shapes alone */
#define POSENC_FORMATS(X)                               \
    X(json, "application/json", 0, 0)                   \
    X(npy, "application/x-npy", 1, 1)                   \
    X(npz, "application/x-npz", 0, 1)                   \
    X(safetensors, "application/vnd.safetensors", 0, 1) \
    X(bin, "application/octet-stream", 1, 1)            \
    X(csv, "text/csv", 1, 0)                            \
    X(png, "image/png", 1, 0)                           \
    X(svg, "image/svg+xml", 1, 0)

typedef enum posenc_format {
#define X(name, media, single, sized) PE_##name,
    POSENC_FORMATS(X)
#undef X
        PE_NFORMATS
} posenc_format;

typedef enum posenc_input { PE_NO_INPUT, PE_GRAPH } posenc_input;

typedef struct posenc_request posenc_request;
typedef struct posenc_result posenc_result;
typedef struct posenc_origin posenc_origin;
typedef struct posenc_selection posenc_selection;
typedef struct posenc_document posenc_document;

typedef struct posenc_output {
    const char *name, *shape, *doc; /* shape in words: "[num_nodes, k]" */
    const char *dtype;              /* NULL: the request's dtype */
} posenc_output;

/* What a computation is expected to cost, from sizes alone. */
typedef struct posenc_cost {
    double ns;        /* on one core of a current machine, within a factor of about 4 */
    uint64_t scratch; /* bytes beside the result */
} posenc_cost;

/* An encoding is this constant and four functions; everything else reads it. */
typedef struct posenc_encoding {
    const char *name, *family, *title, *source;
    const char *formula; /* the definition as plain text, lines of at most 110 characters: the letters are row names */
    const char *example; /* a valid query string: documentation, smoke test, fuzz seed */
    int revision;        /* goes up when the numbers change */
    posenc_input input;
    posenc_table table;
    const posenc_output *outputs;
    size_t noutputs;
    posenc_status (*check)(posenc_request *r, posenc_error *err); /* rules between fields; fills derived rows */
    posenc_status (*shape)(const posenc_request *r, posenc_result *out, posenc_error *err); /* exact, before computing */
    void (*cost)(const posenc_request *r, posenc_cost *out);
    posenc_status (*compute)(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err);
    /* of reports (section 12): the result in words or as a picture, instead of containers of tensors; otherwise NULL */
    posenc_status (*write)(posenc_format f, const posenc_origin *origin, const posenc_result *result,
                           const posenc_selection *sel, posenc_document *out, posenc_error *err);
} posenc_encoding;

size_t posenc_encodings(void);                                              /* how many there are */
const posenc_encoding *posenc_encoding_at(size_t i);                        /* in the order of the documentation */
const posenc_encoding *posenc_encoding_named(const char *name);             /* NULL: none */
posenc_status posenc_unknown_encoding(const char *name, posenc_error *err); /* NOT_FOUND, suggests the nearest */
/* A small graph (7 nodes, one ring with a tail) that goes with the example of graph encodings. */
const posenc_edges *posenc_example_edges(void);

/* ---- 7. requests --------------------------------------------------------------------------------------------- */

typedef struct posenc_common { /* parameters that every encoding has */
    posenc_given given;
    int dtype;   /* posenc_dtype of real outputs: float32 float64 float16 bfloat16 */
    int64_t rev; /* pinned revision; 0: the current one */
} posenc_common;
extern const posenc_table posenc_common_table;

#define PE_MAX_OUTPUTS 16
#define PE_MAX_WARNINGS 8
struct posenc_result {
    int ntensors, nwarnings;
    posenc_tensor tensor[PE_MAX_OUTPUTS];
    char warning[PE_MAX_WARNINGS][200];
    bool partial; /* stopped early, as the request allowed: another time it may be more. Not to be kept under its digest */
};

struct posenc_request {
    const posenc_encoding *encoding;
    posenc_arena *arena; /* borrowed; holds all the request points to */
    void *params;        /* the encoding's struct */
    posenc_common common;
    const posenc_graph *graph; /* input PE_GRAPH */
    posenc_request *of;        /* of reports: the request whose table is looked at; NULL: the table is a parameter */
    posenc_context *ctx;       /* borrowed: polled while the graph is built and named, before computing; NULL: none */
    /* filled in by posenc_resolve; the last three not by posenc_request_check: */
    posenc_result shape; /* tensors with data NULL */
    posenc_cost cost;
    uint64_t size;           /* bytes of all tensors */
    const char *key;         /* the readable digest input: "sinusoidal/2 dtype=float32 embedding_dim=64 ..." */
    char digest[65];         /* SHA-256 of the key, hex */
    const char *params_json; /* the resolved parameters, one JSON object */
};

/* Starts a request: the encoding, parameters at their defaults. NOT_FOUND, BUSY. */
posenc_status posenc_request_init(posenc_request *r, const char *encoding, posenc_arena *a, posenc_error *err);
/* Sets one parameter (the encoding's or a common one) as typed in a query. */
posenc_status posenc_request_set(posenc_request *r, const char *name, const char *text, size_t n, posenc_error *err);
/* "name=value&name=value" (or separated by spaces), percent-decoded already. */
posenc_status posenc_request_parse(posenc_request *r, const char *query, posenc_error *err);
/* Checks everything, fills in what is derived, says shapes, cost, key and digest. After it the request is
 * immutable and may be shared. All faults are reported together. */
posenc_status posenc_resolve(posenc_request *r, posenc_error *err);
/* The same but for the name: no key, digest or JSON. For who computes and keeps no result: the digest reads every byte of
 * tensors and long lists, which may take longer than the computation. */
posenc_status posenc_request_check(posenc_request *r, posenc_error *err);

/* How a computation is watched, and what it may use. Zeroed storage: never stopped, no progress, no limit, one thread. */
struct posenc_context {
    posenc_status (*stop)(void *user); /* polled at least every 10 ms: PE_OK, or PE_CANCELLED / PE_DEADLINE to stop */
    void (*progress)(void *user, double fraction, const char *sentence);
    void *user;
    uint64_t memory_limit; /* bytes of scratch; 0: none */
    /* The library starts no threads; it uses the caller's. `parallel` calls task(arg, i) once for each i = 0 .. n - 1, on
     * any threads, up to `threads` at once, and returns when all have returned. It may be called from within a task.
     * `stop` is then called by several threads at once, `progress` by one at a time. Results have the same bytes with any
     * number of threads. NULL, or threads under 2: all on the calling thread. */
    void (*parallel)(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg);
    int threads;
};
posenc_status posenc_poll(const posenc_context *ctx); /* ctx may be NULL */

/* Computes into `out`, whose tensors are r->shape's with data pointing to memory of the caller
 * (posenc_tensor_size bytes each, aligned to 64). */
posenc_status posenc_compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err);

/* ---- 8. one call --------------------------------------------------------------------------------------------- */

typedef struct posenc_answer {
    posenc_result result;
    posenc_request request; /* as resolved */
    posenc_arena *arena;
    void *memory;
} posenc_answer;
/* `query` may be NULL or "" ; `edges` for graph encodings, otherwise NULL; `ctx` may be NULL. On failure `a` is zeroed. */
posenc_status posenc_encode(const char *encoding, const char *query, const posenc_edges *edges, posenc_answer *a,
                            posenc_context *ctx, posenc_error *err);
void posenc_answer_fini(posenc_answer *a);

/* ---- 9. containers ------------------------------------------------------------------------------------------- */

const char *posenc_format_name(posenc_format f);
const char *posenc_format_media(posenc_format f);
bool posenc_format_single(posenc_format f);
bool posenc_format_sized(posenc_format f);
bool posenc_format_named(const char *extension, posenc_format *out);

typedef enum posenc_json_data { PE_JSON_NESTED, PE_JSON_FLAT, PE_JSON_BASE64 } posenc_json_data;

/* Which part of a result is written. Zeroed: all of it. */
struct posenc_selection {
    uint32_t tensors; /* bit i: tensor i; 0: all */
    bool rows;        /* slice the first axis of each selected tensor: row_begin .. row_end - 1 */
    int64_t row_begin, row_end;
    posenc_json_data data;
    int64_t json_limit; /* elements that nested or flat JSON may hold; 0: 65536 */
    int64_t csv_limit;  /* elements that CSV may hold; 0: 1048576 */
    int64_t plot_limit; /* elements that a heat map may show; 0: 16777216 */
};

/* Where a result came from: what containers say about it. Borrowed. */
struct posenc_origin {
    const posenc_encoding *encoding;
    const char *digest; /* hex */
    const char *params_json;
};

typedef struct posenc_piece {
    const void *data; /* NULL where the result has no data yet */
    uint64_t size;
} posenc_piece;

/* A container as a list of pieces: own bytes (headers, text, checksums) and the result's own tensors, not copied. */
struct posenc_document {
    posenc_piece *piece;
    size_t npieces;
    uint64_t size;     /* of all pieces */
    uint64_t own_size; /* bytes held beside the tensors */
    void *own;
};

/* Makes the container. For sized formats (npy npz safetensors bin) tensors may have data NULL: the sizes are then
 * right and the contents are not there. Errors: a single-tensor format with several tensors selected (names the
 * outputs), csv of rank over 2, JSON over its element limit, rows out of range, BUSY. The pieces borrow from
 * `result`. Deterministic: equal arguments give equal bytes. */
posenc_status posenc_write(posenc_format f, const posenc_origin *origin, const posenc_result *result,
                           const posenc_selection *sel, posenc_document *out, posenc_error *err);
void posenc_document_fini(posenc_document *d);

/* Readers: tensors borrow from `bytes` where alignment allows, otherwise live in the arena. `field` names the
 * source in errors ("body"). Hostile input costs no more memory than its own size (npz members: 100 times). */
posenc_status posenc_read_npy(const void *bytes, size_t size, const char *field, posenc_tensor *out, posenc_arena *a,
                              posenc_error *err);
posenc_status posenc_read_npz(const void *bytes, size_t size, const char *field, posenc_tensor **out, size_t *n,
                              posenc_arena *a, posenc_error *err);
posenc_status posenc_read_safetensors(const void *bytes, size_t size, const char *field, posenc_tensor **out, size_t *n,
                                      posenc_arena *a, posenc_error *err);

/* JSON: nested arrays, or {"dtype","shape","data": base64}; duplicate keys and depth over 32 are refused. */
posenc_status posenc_request_json(posenc_request *r, const char *json, size_t n, posenc_error *err);
/* The tensors of a binary body (edge_index, edge_weight, ptr, and tensor parameters by name). num_nodes is -1 when
 * the query does not say. */
posenc_status posenc_request_tensors(posenc_request *r, const posenc_tensor *t, size_t n, int64_t num_nodes, bool directed,
                                     posenc_error *err);

/* ---- 10. words about the tables -------------------------------------------------------------------------------- */

/* JSON texts, malloc'ed; NULL: no memory. */
char *posenc_describe(const posenc_encoding *e); /* the descriptor with a JSON Schema of its parameters */
char *posenc_describe_all(void);                 /* {"encodings": [...]} */
/* The nearest of n names by edit distance, NULL when none is near. */
const char *posenc_nearest(const char *name, const char *(*at)(const void *list, size_t i), const void *list, size_t n);

/* ---- 11. model configurations --------------------------------------------------------------------------------- */

/* What a model's positions ask for: from a HuggingFace config.json (or that of a diffusers model) to requests. */
typedef struct posenc_resolved {
    const char *layer_type;  /* "all", or the configuration's word: "full_attention", "vision", "decoder", ... */
    const char *encoding;    /* an encoding's name; "none": these layers use no positions; "conv_position": a convolution */
    const char *params_json; /* an object, as posenc_request_json reads it; positions and lengths are the caller's to add */
    const char *needs_json;  /* an object: what only the caller has ("table_shape", "first_position", "timesteps", ...) */
    const char *note;        /* for people; "" */
    const int64_t *layer;    /* (nlayers) numbers from 0; NULL: all layers of that tower, or their number is not known */
    size_t nlayers;
    bool complete; /* the params alone make a request that can be computed */
} posenc_resolved;

typedef struct posenc_default {
    const char *path, *value_json; /* "text_config.rope_theta", "10000" */
} posenc_default;

typedef struct posenc_resolution { /* lives in the arena that it was made in */
    const char *model_type;        /* NULL: the configuration names none */
    const posenc_resolved *request;
    size_t nrequests;
    const posenc_default *default_used; /* what the peer's class fills in and the configuration does not say */
    size_t ndefaults;
    const char *const *warning;
    size_t nwarnings;
} posenc_resolution;

/* Every request is checked by its encoding. INVALID with the path of each field that contradicts another or lacks
 * ("rope_scaling.factor"; "$": the document does not parse), LIMIT over 2 MiB, BUSY. */
posenc_status posenc_resolve_config(const char *json, size_t n, posenc_arena *a, posenc_resolution *out, posenc_error *err);
/* The request of one that is complete, resolved; `r` lives in the arena. `large`: so large (over 16 MiB of tensors or of
 * scratch, or 2 s) that a container of all of a configuration's tensors leaves it out. */
posenc_status posenc_resolved_request(const posenc_resolved *q, posenc_arena *a, posenc_request *r, bool *large,
                                      posenc_error *err);
/* {"model_type","requests":[{"layer_type","layers","encoding","params","needs","note"}],"defaults_used","warnings"},
 * malloc'ed; NULL: no memory. */
char *posenc_resolution_json(const posenc_resolution *r);

/* ---- 12. reports ---------------------------------------------------------------------------------------------- */

/* What a table is like. A report is a request as any other - parameters, digest, result - whose table is that of an
 * encoding's request, r->of, or a tensor of its own parameter `table`. Names are set as ever (posenc_request_set, _json,
 * _tensors): rows of the encoding, its graph, and rows of the report; only `table` may be in both, and is then the
 * encoding's. posenc_resolve resolves both; posenc_write gives json, png or svg. The table of an encoding is computed in
 * float64 unless dtype says otherwise, and all numbers from that table, in float64.
 *
 * `analysis`: `what` chooses among
 *   norms frequencies similarity shift direction uniqueness resolution subspace base decay spectrum attention_probe
 * json is {"report","revision","digest","warnings","params","about","analysis":{what:{field: value, ...}}}; a field that has
 * no value is null. The fields, their units and the formulas: posenc_describe_report, lib/analysis/ANALYSIS.md. */
size_t posenc_reports(void);
const posenc_encoding *posenc_report_at(size_t i);
const posenc_encoding *posenc_report_named(const char *name); /* NULL: none */
/* What there is to know of it, as JSON, malloc'ed: posenc_describe and, of each `what`, title, definition, which tables it
 * applies to, and its fields with unit, shape and meaning. NULL: no memory. */
char *posenc_describe_report(const posenc_encoding *report);
/* Starts the request of a report. `encoding`: whose table; NULL: the parameter `table` is. NOT_FOUND, BUSY. */
posenc_status posenc_report_init(posenc_request *r, const char *report, const char *encoding, posenc_arena *a,
                                 posenc_error *err);

/* One call: the analysis of an encoding's table as json, png or svg. `query` has the parameters of both; `ctx` may be NULL.
 */
posenc_status posenc_analyze(const char *encoding, const char *query, const posenc_edges *edges, posenc_format f,
                             posenc_document *out, posenc_context *ctx, posenc_error *err);

/* ---- 13. identify and compare ---------------------------------------------------------------------------------- */

/* A request that gives a table. */
typedef struct posenc_match {
    const char *encoding, *output; /* names of the encoding and of its tensor; static */
    const char *query;             /* parameters as posenc_request_parse reads them; what is not there is at its default */
    char digest[65];               /* of the request in the table's dtype, hex */
    bool transposed;               /* the table is the output with rows and columns exchanged */
    double largest, rms;           /* over all elements: the largest difference, the root of the mean square difference */
} posenc_match;

typedef struct posenc_identification { /* lives in the arena that it was made in */
    int64_t rows, columns;             /* of the table: its last axis against the others */
    posenc_dtype dtype;                /* the narrowest real type that holds every element */
    double tolerance;                  /* the largest difference that a match may have, absolute */
    const posenc_match *match;         /* the best first; equal tables are equal answers, the shortest request first */
    size_t nmatches;                   /* 0 .. 8; 0: no encoding that is known by its parameters gives this table */
} posenc_identification;

/* Which encoding, convention and parameters give the table: (rows, columns), or more axes as the encoding has them, or one
 * axis of frequencies or slopes; any dtype; also transposed, with the first position anywhere and noise below `tolerance`.
 * Frequencies, bases, factors, offsets are fitted, and every match was computed and held against the whole table.
 * tolerance: largest difference, as a share of the largest magnitude of the table, 0 .. 0.1; 0: 0.006.
 * At least 8 rows are needed for a promise; with fewer there may be no match. Errors: INVALID (NaN, infinity, one row, no
 * elements; the field says which), LIMIT (over 2^24 elements, or scratch over ctx->memory_limit), CANCELLED, DEADLINE, BUSY.
 * Deterministic; `ctx` may be NULL and is polled. */
posenc_status posenc_identify(const posenc_tensor *table, double tolerance, posenc_arena *a, posenc_identification *out,
                              posenc_context *ctx, posenc_error *err);
/* {"rows","columns","dtype","tolerance","answer" (an encoding or "none"),"matches":[{"encoding","output","transposed",
 * "largest","rms","params"}]}, malloc'ed; NULL: no memory. */
char *posenc_identification_json(const posenc_identification *r);

/* A known way to get a table wrong. */
typedef struct posenc_mistake {
    const char *name;    /* one word: "halves_swapped"; all are listed at posenc_compare */
    char detail[120];    /* a sentence of what was done, with its numbers */
    double largest, rms; /* what is left of the difference when the same is done to the answer */
} posenc_mistake;

typedef struct posenc_comparison { /* lives in the arena that it was made in */
    const char *output;            /* of the request, that was compared */
    int64_t rows, columns;         /* of the table: its last axis against the others */
    int64_t answer_rows, answer_columns;
    bool same_sides; /* these are equal; otherwise only `mistake` is set */
    int64_t ndiffering, first,
        worst; /* elements that differ; the first, and the one that differs most, as flat indices; -1 */
    double largest_absolute, largest_relative; /* relative to the answer, where that is not 0 */
    double largest_ulp, rms;                   /* in neighbours of the request's dtype */
    const double *row, *column;                /* (rows), (columns) the largest difference in each */
    const posenc_mistake *mistake;             /* the one that leaves least first; none where none explains the difference */
    size_t nmistakes;                          /* 0 .. 4 */
    const posenc_match *match;                 /* what the table is instead, where no mistake explains it; NULL: not known */
} posenc_comparison;

/* A table against a resolved request. `output`: which tensor; NULL: the one of the table's sides. A mistake is named when it
 * leaves less than a tenth of the difference and at most 0.006 of the largest magnitude:
 *   transposed halves_swapped sin_cos_exchanged split_for_interleaved interleaved_for_split layout sign_flipped
 *   rows_reversed columns_reversed columns_padded columns_cut off_by_one exponent base scale_left_out scale_twice scaled
 *   attention_factor_left_out attention_factor_twice rope_scaling_left_out rope_type rounded precision precision_of_angles
 *   short_angles axis_order form odd_dim normalize direction other_output
 * Errors, limits, polling: as posenc_identify; INVALID also for an output that is not there, LIMIT also over 262,144 rows
 * and columns together, which have a figure each. */
posenc_status posenc_compare(const posenc_tensor *table, const posenc_request *r, const char *output, posenc_arena *a,
                             posenc_comparison *out, posenc_context *ctx, posenc_error *err);
/* {"output","rows","columns","answer_rows","answer_columns","same_sides","equal","differing","largest_absolute",
 * "largest_relative","largest_ulp","rms","first":[row,column],"worst","by_row","by_column","mistake" (a name or null),
 * "mistakes":[{"mistake","detail","largest","rms"}],"instead" (a match of identify, or null)}; those from "equal" to
 * "by_column" only with same_sides. malloc'ed; NULL: no memory. */
char *posenc_comparison_json(const posenc_comparison *r);

#ifdef __cplusplus
}
#endif

#endif
