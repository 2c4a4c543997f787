/* convention.h - the rows that say which sinusoid, shared by encodings that leave the convention to the request, and the
 * rules of every sinusoid.
 *
 *     typedef struct relative_shift { posenc_given given; pe_convention of; ... } relative_shift;
 *     static const posenc_param rows[] = { PE_CONVENTION_WIDTH(relative_shift, of, "width of the encoding"),
 *                                          PE_CONVENTION_ROWS(relative_shift, of), ... };
 *
 * Pure functions; any thread. */
#ifndef PE_CONVENTION_H
#define PE_CONVENTION_H

#include "core/params.h"
#include "sequence/sines.h"

typedef struct pe_convention {
    int64_t embedding_dim;
    double max_period, min_timescale, max_timescale, downscale_freq_shift;
    int layout;
    bool flip_sin_to_cos;
    double scale;
    int odd_dim;
} pe_convention;

/* clang-format off */
#define PE_CONVENTION_WIDTH(T, in, words)                                                                                  \
    { PE_ROW_IN(T, in, embedding_dim, PE_T_INT, int64_t), .flags = PE_REQUIRED, .min = 1, .max = 1048576, .doc = words }
#define PE_CONVENTION_ROWS(T, in)                                                                                          \
    { PE_ROW_IN(T, in, max_period, PE_T_REAL, double), .def = 10000, .min = 1e-100, .max = 1e100,                          \
      .doc = "base of the ladder of frequencies" },                                                                        \
    { PE_ROW_IN(T, in, min_timescale, PE_T_REAL, double), .flags = PE_OPTIONAL, .min = 1e-100, .max = 1e100,               \
      .doc = "multiplies every frequency and divides max_timescale (1 when absent); given, the ladder has at least "       \
             "1 step" },                                                                                                   \
    { PE_ROW_IN(T, in, max_timescale, PE_T_REAL, double), .flags = PE_OPTIONAL, .min = 1e-100, .max = 1e100,               \
      .doc = "the base is max_timescale / min_timescale, instead of max_period; given, the ladder has at least 1 step" },  \
    { PE_ROW_IN(T, in, downscale_freq_shift, PE_T_REAL, double), .min = -1e100, .max = 1e100,                              \
      .doc = "exponents are -i / (embedding_dim/2 - shift): 0 as in the paper, 1 as in tensor2tensor" },                   \
    { PE_ROW_IN(T, in, layout, PE_T_ENUM, int), .names = pe_sines_layouts, .def = PE_INTERLEAVED,                          \
      .doc = "sin cos sin cos ..., or all sines then all cosines" },                                                       \
    { PE_ROW_IN(T, in, flip_sin_to_cos, PE_T_BOOL, bool), .doc = "cosines first" },                                        \
    { PE_ROW_IN(T, in, scale, PE_T_REAL, double), .def = 1, .min = -1e100, .max = 1e100, .doc = "multiplies the angle" },  \
    { PE_ROW_IN(T, in, odd_dim, PE_T_ENUM, int), .names = pe_odd_words, .def = PE_ODD_ERROR,                               \
      .doc = "an odd width: refused; a last column of zeros; one more sine than cosines; or the next even width less its " \
             "last column" }
/* clang-format on */

/* In float64; the caller sets form and single where it has them. */
pe_sines pe_convention_sines(const posenc_request *r, const pe_convention *c);

/* ---- for `check` ---- */

/* All three rules below, with the names of these rows. */
void pe_convention_check(const posenc_request *r, const pe_convention *c, const pe_sines *s, int exponent,
                         posenc_error *err);
/* The same without timescales. `base` is the row that the base comes from. */
void pe_sines_check(const pe_sines *s, const char *base, double base_value, int exponent, posenc_error *err);

/* That there is a ladder: over 0 steps. `hint`: what else would help, or "". */
bool pe_sines_check_steps(const pe_sines *s, const char *hint, posenc_error *err);
/* That every angle of a position below 2^exponent, and each step of the way to it, is finite. */
void pe_sines_check_range(const pe_sines *s, const char *base, double base_value, int exponent, posenc_error *err);

#endif
