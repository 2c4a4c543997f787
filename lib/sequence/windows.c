/* windows.c - displacements in a window, as an index and as logarithmic coordinates. */
#include "sequence/windows.h"

#include "core/elementary.h"

#include <math.h>
#include <stdlib.h>

/* ---- the index ---- */

static int64_t side(const posenc_reals *size, bool class_token)
{
    return (int64_t)size->v[0] * (int64_t)size->v[1] + class_token;
}

posenc_status pe_window_index_output(posenc_result *out, const posenc_reals *size, bool class_token, posenc_error *err)
{
    const int64_t n = side(size, class_token);
    return pe_output(out, "index", PE_int64, 2, (int64_t[]){ n, n }, err);
}

posenc_cost pe_window_index_cost(const posenc_reals *size, bool class_token)
{
    const double n = (double)side(size, class_token);
    return (posenc_cost){ .ns = 2e3 + n * (10 + 2.5 * n) };
}

posenc_status pe_window_index(const posenc_reals *size, bool class_token, int64_t *out, pe_pace *pace)
{
    const int64_t h = (int64_t)size->v[0], w = (int64_t)size->v[1], n = h * w, all = (2 * h - 1) * (2 * w - 1);
    posenc_status st = PE_OK;
    if (class_token) {
        *out++ = all + 2;
        for (int64_t j = 0; j < n && !st; j++, st = pe_pace_add(pace, 1))
            *out++ = all;
    }
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w && !st; x++) {
            if (class_token)
                *out++ = all + 1;
            for (int64_t v = 0; v < h && !st; v++) { /* one row of the window: indices go down by one */
                const int64_t first = (y - v + h - 1) * (2 * w - 1) + x + w - 1;
                for (int64_t u = 0; u < w; u++)
                    *out++ = first - u;
                st = pe_pace_add(pace, 4 * w + 10);
            }
        }
    return st;
}

/* ---- logarithmic coordinates ---- */

void pe_pretrained_check(posenc_request *r, const posenc_reals *size, posenc_reals *pretrained, posenc_error *err)
{
    static const char name[] = "pretrained_window_size";
    if (!pe_given(r, name) || !pe_reals_two(name, pretrained, err) || size->n != 2)
        return;
    if (pretrained->v[0] == 0 && pretrained->v[1] == 0) { /* as if it were not there: one digest for one table */
        pe_mark(r, name, false);
        *pretrained = (posenc_reals){ 0 };
        return;
    }
    for (size_t i = 0; i < 2; i++)
        if (pretrained->v[i] < 2 && !(pretrained->v[i] == 1 && size->v[i] == 1))
            pe_invalid(err, posenc_text("%s[%zu]", name, i).s, posenc_text("%.17g", pretrained->v[i]),
                       "at least 2 (coordinates are divided by it less 1), or 0,0");
}

posenc_status pe_window_coordinates_output(posenc_result *out, posenc_dtype dtype, const posenc_reals *size,
                                           posenc_error *err)
{
    const int64_t h = (int64_t)size->v[0], w = (int64_t)size->v[1];
    return pe_output(out, "table", dtype, 3, (int64_t[]){ 2 * h - 1, 2 * w - 1, 2 }, err);
}

enum { AXIS_NS = 800 }; /* one coordinate */

/* The curves of both axes from displacement 0 on. */
static uint64_t coordinates_scratch(const posenc_reals *size)
{
    return (uint64_t)(size->v[0] + size->v[1]) * sizeof(double);
}

posenc_cost pe_window_coordinates_cost(const posenc_reals *size)
{
    const double h = size->v[0], w = size->v[1];
    return (posenc_cost){ .ns = 4e3 + AXIS_NS * (h + w) + 2 * h * (10 + 12 * w), .scratch = coordinates_scratch(size) };
}

/* curve[d], d = 0 .. n - 1 */
static posenc_status axis(int64_t n, double divisor, bool natural, double *curve, pe_pace *pace)
{
    const pe_dd log8 = pe_dd_log((pe_dd){ 8, 0 });
    posenc_status st = PE_OK;
    curve[0] = 0;
    for (int64_t d = 1; d < n && !st; d++) {
        const pe_dd one_more = pe_dd_div((pe_dd){ divisor + 8 * (double)d, 0 }, (pe_dd){ divisor, 0 });
        curve[d] = natural ? pe_log((double)(1 + d)) : pe_dd_div(pe_dd_log(one_more), log8).hi;
        st = pe_pace_add(pace, AXIS_NS);
    }
    return st;
}

static double at(const double *curve, int64_t d) { return d < 0 ? -curve[-d] : curve[d]; }

posenc_status pe_window_coordinates(const posenc_reals *size, const posenc_reals *pretrained, bool natural,
                                    const posenc_tensor *dst, pe_pace *pace, posenc_error *err)
{
    enum { BLOCK = 512 };
    const int64_t h = (int64_t)size->v[0], w = (int64_t)size->v[1];
    const double *by = pretrained->n ? pretrained->v : size->v;
    double *y = malloc(coordinates_scratch(size));
    if (!y)
        return pe_no_memory("memory", err);
    double *x = y + h, row[2 * BLOCK];
    posenc_status st = axis(h, by[0] - 1, natural, y, pace);
    if (!st)
        st = axis(w, by[1] - 1, natural, x, pace);
    const int64_t columns = 2 * w - 1;
    const size_t cell = 2 * posenc_dtype_size(dst->dtype);
    for (int64_t i = 0; i < 2 * h - 1; i++)
        for (int64_t first = 0; first < columns && !st; first += BLOCK) {
            const int64_t n = columns - first < BLOCK ? columns - first : BLOCK;
            for (int64_t j = 0; j < n; j++) {
                row[2 * j] = at(y, i - (h - 1));
                row[2 * j + 1] = at(x, first + j - (w - 1));
            }
            posenc_convert(dst->dtype, (char *)dst->data + (size_t)(i * columns + first) * cell, row, 2 * (size_t)n);
            st = pe_pace_add(pace, 16 * n);
        }
    free(y);
    return st;
}
