/* windows.h - pairs of places in a window of h x w tokens: the index of their displacement, and its coordinates.
 *
 * What the Swin, BEiT and timm encodings share. Pure functions; any thread. */
#ifndef PE_WINDOWS_H
#define PE_WINDOWS_H

#include "core/pace.h"
#include "core/params.h"

/* clang-format off */
#define PE_WINDOW_ROW(T)                                                                                                  \
    { PE_REALS(T, window_size), .flags = PE_REQUIRED, .min = 1, .max = 1 << 20, .doc = "height and width of the window" }
#define PE_PRETRAINED_ROW(T, more)                                                                                        \
    { PE_REALS(T, pretrained_window_size), .flags = PE_OPTIONAL, .max = 1 << 20,                                          \
      .doc = "height and width that coordinates are divided by, each less 1; 0,0 or absent: those of window_size" more }
/* clang-format on */

/* ---- the index ---- */

/* For `shape`: index [n, n], n = h w, one more with the class token. */
posenc_status pe_window_index_output(posenc_result *out, const posenc_reals *size, bool class_token, posenc_error *err);
posenc_cost pe_window_index_cost(const posenc_reals *size, bool class_token);
/* out (n, n): (dy + h - 1) (2w - 1) + dx + w - 1, where dy and dx are row's place less column's. With the class token, which
 * comes first, and N = (2h - 1)(2w - 1): its row is N, its column N + 1, the element of both N + 2. */
posenc_status pe_window_index(const posenc_reals *size, bool class_token, int64_t *out, pe_pace *pace);

/* ---- logarithmic coordinates ---- */

/* For `check`: none, 0,0 (then made absent), or two that can divide. */
void pe_pretrained_check(posenc_request *r, const posenc_reals *size, posenc_reals *pretrained, posenc_error *err);

/* Displacements -(h - 1) .. h - 1 and -(w - 1) .. w - 1:
 *     natural        sign(d) ln(1 + |d|)
 *     otherwise      sign(d) log2(1 + 8 |d| / (size - 1)) / 3, size the pretrained one where there is one; 0 of a size of 1
 */
/* For `shape`: table [2h - 1, 2w - 1, 2]. */
posenc_status pe_window_coordinates_output(posenc_result *out, posenc_dtype dtype, const posenc_reals *size,
                                           posenc_error *err);
posenc_cost pe_window_coordinates_cost(const posenc_reals *size);
/* dst (2h - 1, 2w - 1, 2) */
posenc_status pe_window_coordinates(const posenc_reals *size, const posenc_reals *pretrained, bool natural,
                                    const posenc_tensor *dst, pe_pace *pace, posenc_error *err);

#endif
