/* identify.h - what the finders of identify share: the table seen as matrices, and requests that are tried against it.
 *
 * A finder reads a view, writes a request and calls pe_try, which computes the request and keeps it where it gives the
 * table. Finders may guess: nothing is claimed that was not recomputed. One search belongs to one call. */
#ifndef PE_IDENTIFY_H
#define PE_IDENTIFY_H

#include "analysis/fit.h"
#include "core/pace.h"
#include "formats/output.h"

/* The elements as a matrix, row-major. */
typedef struct pe_view {
    const double *x; /* (rows, cols) */
    size_t rows, cols;
    bool transposed; /* of the table as given */
} pe_view;

enum { PE_VIEWS = 4, PE_FOUND = 48 };

typedef struct pe_search {
    const posenc_tensor *table;
    pe_view view[PE_VIEWS]; /* as given, its transpose; of more than two axes also (first | others) and its transpose */
    size_t nviews;
    double scale;       /* largest magnitude */
    double allowed;     /* the largest difference of a match */
    double spread;      /* root of the mean square of the elements less their column's mean, of the view as given */
    double grain;       /* about what storage rounds an element by */
    bool whole;         /* every element is an integer */
    posenc_dtype dtype; /* the narrowest that holds every element */
    posenc_arena *arena;
    posenc_context *ctx;
    pe_pace pace;
    posenc_status status; /* not PE_OK: stop, the search failed */
    posenc_match found[PE_FOUND];
    size_t nfound;
} pe_search;

uint64_t pe_search_scratch(const posenc_tensor *table); /* bytes, from its shape alone */
/* The table checked and read, with `more` bytes of scratch counted against the context's limit. Closed on every path. */
posenc_status pe_search_open(pe_search *s, const posenc_tensor *table, double tolerance, uint64_t more, posenc_context *ctx,
                             posenc_error *err);
void pe_search_close(pe_search *s);
void pe_search_find(pe_search *s); /* all finders; then the best match is found[0] */

void pe_put_match(pe_builder *b, const posenc_match *m); /* as one object of JSON */

/* A request being written: "name=value&name=value". */
typedef struct pe_guess {
    pe_search *search;
    const char *encoding;
    char *text; /* in the arena */
    size_t n, cap;
} pe_guess;
pe_guess pe_guess_begin(pe_search *s, const char *encoding);
void pe_guess_int(pe_guess *w, const char *name, int64_t v);
void pe_guess_real(pe_guess *w, const char *name, double v);
void pe_guess_reals(pe_guess *w, const char *name, const double *v, size_t n);
void pe_guess_text(pe_guess *w, const char *name, const char *v);
void pe_guess_flag(pe_guess *w, const char *name, bool v);
/* Whole consecutive numbers as num_positions and offset; others as the list `name`. */
void pe_guess_positions(pe_guess *w, const char *name, const double *t, size_t n);

/* Computes the request and keeps it where it gives a view of the table. True: it does. */
bool pe_try(pe_search *s, const pe_guess *w);
/* The largest difference of the best match so far; infinite where there is none. */
double pe_best(const pe_search *s);
/* Whether a match is right to the last bits, so that looking on is of no use. */
bool pe_exact_found(const pe_search *s);

/* Scratch that lives as long as the search; NULL: search->status says so. */
void *pe_scratch(pe_search *s, size_t n, size_t size);

/* ---- finders ---- */

void pe_find_pairs(pe_search *s, const pe_view *v); /* sines with their cosines: sinusoidal, timestep, relative_sinusoidal */
void pe_find_rotary(pe_search *s, const pe_view *v, bool regular); /* cosines or sines alone: rope; rows that go by ones */
void pe_find_inv_freq(pe_search *s, const double *w, size_t n);    /* frequencies themselves: rope */
void pe_find_slopes(pe_search *s, const double *x, size_t n);      /* alibi_slopes */
void pe_find_biases(pe_search *s, const pe_view *v);               /* alibi */
void pe_find_grids(pe_search *s, const pe_view *v);                /* sinusoidal_2d, sinusoidal_3d, rope_2d */
void pe_find_indices(pe_search *s);                                /* buckets and windows */
void pe_find_coordinates(pe_search *s);                            /* coordinates of windows, sandwich */
void pe_find_bands(pe_search *s);                                  /* fourier_grid */

/* What regular rows of pairs say, without a request. */
typedef struct pe_reading {
    size_t pairs; /* 0: nothing */
    bool interleaved, flip;
    double first, first_error; /* the ladder's first rung, per row */
    double step, step_error;
    double t; /* position of the first row, in rows */
    int direction;
    double left; /* of the angles, root of the mean square */
} pe_reading;
bool pe_read_pairs(pe_search *s, const pe_view *v, pe_reading *out);
/* The base of a ladder rounded to what people type, by measures of how well it is known, the shortest first: at most 3. */
size_t pe_bases(double base, double relative, double out[3]);

/* How rotary frequencies may have come about: calls `emit` with each request begun and its words of the rope type written;
 * the rest is the caller's. `sigma`: absolute errors. `attention`: the amplitude of the waves, 0: not known. */
typedef void pe_rope_emit(void *user, pe_guess *w);
/* Whether a table may be of these frequencies: few rows are looked at. */
typedef bool pe_rope_gives(void *user, const double *w);
/* The scalings that released models have, over the bases that are likely; `base`: what fast pairs say, 0: nothing. Needs no
 * frequencies of slow pairs, which few bits tell badly. */
void pe_rope_usual(pe_search *s, size_t n, double base, double relative, double attention, pe_rope_gives *gives,
                   pe_rope_emit *emit, void *user);
/* `pairs`: every wave stands twice in the table, as rotary tables have them. */
void pe_rope_kinds(pe_search *s, const double *w, const double *sigma, size_t n, double attention, bool pairs,
                   pe_rope_emit *emit, void *user);

#endif
