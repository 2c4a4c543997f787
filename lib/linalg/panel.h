/* panel.h - blocks of eight vectors, the unit that the iterations of this folder work on.
 *
 * A panel is (n, 8) float64, row-major, aligned to 64 bytes: one row is one 512-bit register, so the compiler
 * vectorises over independent columns and the bits do not depend on the instruction set. */
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

/* Columns to a panel and back; columns from `width` on are zero. */
posenc_status pe_panel_gather(int64_t n, int64_t width, double *const *x, double *panel, pe_pace *pace);
posenc_status pe_panel_scatter(int64_t n, int64_t width, const double *panel, double *const *y, pe_pace *pace);

#endif
