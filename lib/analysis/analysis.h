/* analysis.h - what every file of this folder shares: the table that is looked at, the numbers that come out, the list.
 *
 * The report `analysis` looks at one subject and answers several `what`. Each `what` is a constant: the kinds of subject
 * that it applies to, the fields of its answer (name, unit, shape, meaning), and functions that say sizes and cost, compute
 * and draw. Its numbers are one block of float64: sizes first, then the fields one after the other. JSON and pictures are
 * made from blocks alone, so that a cached answer has them all. Private to lib/analysis. Any thread; a subject and a block
 * belong to one request. */
#ifndef PE_ANALYSIS_H
#define PE_ANALYSIS_H

#include "core/elementary.h"
#include "core/params.h"
#include "plot/plot.h"

#include <math.h>

/* ---- the subject ---- */

typedef enum pe_subject_kind {
    PE_ROWS,     /* a row a position, (n, d) */
    PE_ROTARY,   /* cosines and sines: the table is (n, 2 pairs), all cosines and then all sines */
    PE_BIAS,     /* added to scores, (heads, queries, keys) */
    PE_SPECTRUM, /* eigenvectors as columns, (n, d), with eigenvalues */
    PE_NKINDS
} pe_subject_kind;
extern const char *const pe_subject_words[]; /* rows, rotary, bias, spectrum */

/* How the channels of a table turn in pairs, as found in the numbers. */
typedef struct pe_pairing {
    bool looked; /* it was asked for */
    enum { PE_UNPAIRED, PE_PAIRS_SPLIT, PE_PAIRS_INTERLEAVED } layout;
    int64_t n;        /* pairs; 0: unpaired */
    double *w;        /* (n) angle per position, its sign as (first, second) turns */
    double *leftover; /* (n) what the turning does not explain of the motion: 0 pure, 1 nothing */
} pe_pairing;

typedef struct pe_subject {
    pe_subject_kind kind;
    bool ordered; /* rows are positions one after the other, so that offsets between them mean something */
    int64_t n, d;
    int64_t heads, queries, keys;
    /* while computing: */
    const double *table;       /* (n, d) */
    const double *bias;        /* (heads, queries, keys) */
    const double *eigenvalues; /* (d) */
    const double *determined;  /* (d) 0 or 1; NULL: not known */
    double components;
    pe_pairing pairing;   /* of ordered rows and rotary */
    const double *before; /* rotary, pairs of the rope before its scaling; NULL: not scaled, or not known */
} pe_subject;

/* ---- parameters ---- */

typedef struct pe_analysis {
    posenc_given given;
    uint64_t what;
    posenc_tensor table, embeddings;
    const char *tensor;
    int64_t train_length, test_length, probe_length, probe_head, probe_seed;
    posenc_reals offsets, bases;
    double embedding_std;
    /* by `check`: */
    pe_subject subject; /* without numbers */
    int source, second; /* outputs of the encoding that are looked at; second: sines, eigenvalues */
    int64_t columns;    /* of the source; rotary: those that repeat others are left out */
    int64_t column_step;
} pe_analysis;

/* ---- answers ---- */

enum { PE_MAX_SIZES = 4 };

typedef enum pe_field_kind { PE_F_NUMBER, PE_F_WHOLE, PE_F_FLAG, PE_F_WORD } pe_field_kind;

typedef struct pe_field {
    const char *name, *unit, *doc; /* unit "": a pure number */
    pe_field_kind kind;
    int axis[2];              /* 1 + index of the size; 0: none. Both 0: a single number */
    const char *const *words; /* PE_F_WORD */
} pe_field;

typedef struct pe_what pe_what;

/* The answer to one `what`. Not a number: no value. */
typedef struct pe_block {
    const pe_what *what;
    double *size; /* PE_MAX_SIZES whole numbers, then the fields */
} pe_block;

struct pe_what {
    const char *name, *title;
    const char *doc;   /* the definition: lines of at most 110 characters */
    const char *sizes; /* names of the sizes, separated by blanks: "offsets groups" */
    unsigned kinds;    /* set of pe_subject_kind */
    bool ordered;      /* only where rows are positions in order */
    bool pairs;        /* reads the pairing */
    const pe_field *fields;
    size_t nfields;
    /* Upper bounds from shapes and parameters; compute may lower them. */
    void (*measure)(const pe_analysis *a, int64_t size[PE_MAX_SIZES]);
    void (*cost)(const pe_analysis *a, const int64_t size[PE_MAX_SIZES], posenc_cost *out);
    posenc_status (*check)(const pe_analysis *a, posenc_error *err); /* NULL: no rules of its own */
    posenc_status (*compute)(const pe_analysis *a, const pe_subject *s, pe_block *b, pe_pace *pace, posenc_error *err);
    /* Panels from the numbers; their texts and further numbers live in the arena. Returns how many; -1: no memory. */
    int (*draw)(const pe_block *b, posenc_arena *arena, pe_panel *out);
};

#define X(name) extern const pe_what pe_what_##name;
#include "analysis/whats.h"
#undef X
extern const pe_what *const pe_whats[]; /* in the order of the words, NULL after the last */
extern const pe_what pe_what_about;     /* the subject itself, always there */

int64_t pe_block_room(const pe_what *w, const int64_t size[PE_MAX_SIZES]); /* numbers */
int64_t pe_block_length(const pe_what *w, const double *size, int field);  /* numbers of a field */
double *pe_block_field(const pe_block *b, int field);
static inline double pe_block_number(const pe_block *b, int field) { return *pe_block_field(b, field); }
static inline int64_t pe_block_size(const pe_block *b, int i) { return (int64_t)b->size[i]; }
static inline void pe_block_set(pe_block *b, int field, double v) { *pe_block_field(b, field) = v; }

/* ---- what several answers share ---- */

/* The offsets to look at, ascending, 1 .. n - 1: those asked for, or all up to 256 and then about 3 % more each time.
 * Returns how many; `out` may be NULL. */
enum { PE_MAX_OFFSETS = 1024 };
int64_t pe_offsets(const pe_analysis *a, int64_t n, double *out);
/* Few offsets for what costs much: those asked for, or powers of two up to a quarter of the rows. */
int64_t pe_few_offsets(const pe_analysis *a, int64_t n, double *out);
int64_t pe_farthest(const pe_analysis *a); /* the last of these */
/* At most `most` rows, evenly from first to last. Returns how many. */
int64_t pe_sample(int64_t n, int64_t most, double *out);

/* 0, 1, 2 ... (n) in the arena; NULL: no memory. */
double *pe_count_up(posenc_arena *a, int64_t n);
char *pe_words(posenc_arena *a, const char *format, ...) POSENC_PRINTF(2, 3); /* NULL: no memory */

/* ---- pairing.c ---- */

/* Finds the pairs of an ordered table; w and leftover in `storage` (2 d). */
posenc_status pe_pairing_find(const pe_subject *s, double *storage, pe_pairing *out, pe_pace *pace);
static inline int64_t pe_pair_first(const pe_pairing *p, int64_t j) { return p->layout == PE_PAIRS_SPLIT ? j : 2 * j; }
static inline int64_t pe_pair_second(const pe_pairing *p, int64_t j)
{
    return p->layout == PE_PAIRS_SPLIT ? p->n + j : 2 * j + 1;
}

/* ---- linear.c ---- */

double pe_dot(const double *a, const double *b, int64_t n);       /* eight sums, added in a fixed order */
double pe_distance2(const double *a, const double *b, int64_t n); /* squared */
void pe_add_times(double *to, const double *from, double factor, int64_t n);
/* G = X^T X (d, d) of n rows that are `stride` numbers apart. */
posenc_status pe_gram(const double *x, int64_t n, int64_t d, int64_t stride, double *g, pe_pace *pace);
/* C (n, m) = A (n, k) B (k, m); C is overwritten. */
posenc_status pe_product(const double *a, const double *b, int64_t n, int64_t k, int64_t m, double *c, pe_pace *pace);
/* Singular values, descending, and right singular vectors as rows of a table (n, d): `out` (d) and `vectors` (d, d). */
posenc_status pe_singular(const double *x, int64_t n, int64_t d, double *out, double *vectors, pe_pace *pace,
                          posenc_error *err);
static inline double pe_gram_ns(int64_t n, int64_t d) { return 0.12 * (double)n * (double)d * (double)d; }
static inline double pe_eigen_ns(int64_t d) { return 1e3 + 2.5 * (double)d * (double)d * (double)d; }

#endif
