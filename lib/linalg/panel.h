/* panel.h - blocks of eight vectors, the unit that the iterations of this folder work on.
 *
 * A panel is (n, 8) float64, row-major, aligned to 64 bytes: one row is one 512-bit register, so the compiler
 * vectorises over independent columns and the bits do not depend on the instruction set. Sums run over rows in
 * ascending order, in chunks of 256 rows whose partial sums are added in order.
 * A column that is zero throughout is allowed everywhere and stands for "no vector". */
#ifndef PE_PANEL_H
#define PE_PANEL_H

#include "core/pace.h"

enum { PE_WIDTH = 8 };

typedef double pe_lanes __attribute__((vector_size(64), may_alias));                   /* one row of a panel */
typedef double pe_loose_lanes __attribute__((vector_size(64), aligned(8), may_alias)); /* any eight doubles */

/* Code for several instruction sets, chosen once at load time. Only element-wise IEEE operations (no contraction),
 * so all copies give the same bits. Sanitizers instrument the resolver before they are ready: plain code there. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PE_CLONES
#endif

/* A panel of anything, or NULL. Freed with free. */
double *pe_panel_new(int64_t n);

/* Sets the columns whose bit is set to x / divisor; divisor 0: to zero. */
posenc_status pe_panel_divide(int64_t n, double *x, unsigned columns, double divisor, pe_pace *pace);

/* Fills the columns whose bit is set with a fixed sequence of uniform numbers in (-1, 1). */
posenc_status pe_panel_random(int64_t n, double *x, unsigned columns, uint64_t seed, pe_pace *pace);

/* c = V^T w; v (np panels), c (8 np, 8) */
posenc_status pe_panel_dots(int64_t n, double *const *v, int64_t np, const double *w, double *c, pe_pace *pace);

/* w -= V c */
posenc_status pe_panel_subtract(int64_t n, double *const *v, int64_t np, const double *c, double *w, pe_pace *pace);

/* w = V c */
posenc_status pe_panel_combine(int64_t n, double *const *v, int64_t np, const double *c, double *w, pe_pace *pace);

/* Modified Gram-Schmidt of the columns of w: w_in = w r, r (8, 8) upper triangular.
 * A column that is left with a norm of at most floor[c] becomes zero, its row of r too, and its bit in *dead is set. */
posenc_status pe_panel_orthonormalize(int64_t n, double *w, const double *floor, double *r, unsigned *dead, pe_pace *pace);

#endif
