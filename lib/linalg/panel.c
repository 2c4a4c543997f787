#include "panel.h"
#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

double *pe_panel_new(int64_t n)
{
    if (n < 0 || (uint64_t)n > SIZE_MAX / 128)
        return NULL;
    size_t size = (size_t)n * PE_WIDTH * sizeof(double);
    return pe_result_memory(size ? size : 64);
}

enum { ROWS = 64 }; /* of a panel that stay in the first cache while columns are read one by one */

posenc_status pe_panel_gather(int64_t n, int64_t width, double *const *x, double *panel, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t at = 0; at < n && !st; at += ROWS) {
        const int64_t end = n - at < ROWS ? n : at + ROWS;
        for (int64_t c = 0; c < PE_WIDTH; c++)
            for (int64_t i = at; i < end; i++)
                panel[i * PE_WIDTH + c] = c < width ? x[c][i] : 0;
        st = pe_pace_add(pace, 8 * ROWS);
    }
    return st;
}

posenc_status pe_panel_scatter(int64_t n, int64_t width, const double *panel, double *const *y, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t at = 0; at < n && !st; at += ROWS) {
        const int64_t end = n - at < ROWS ? n : at + ROWS;
        for (int64_t c = 0; c < width; c++)
            for (int64_t i = at; i < end; i++)
                y[c][i] = panel[i * PE_WIDTH + c];
        st = pe_pace_add(pace, 8 * ROWS);
    }
    return st;
}
