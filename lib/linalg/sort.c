#include "sort.h"

#include <string.h>

enum { RUN = 8, MOST_BYTES = 64, STEPS = 12 };

static void insertion(int64_t n, size_t size, char *a, int (*compare)(const void *, const void *))
{
    char item[MOST_BYTES];
    for (int64_t i = 1; i < n; i++) {
        int64_t k = i;
        while (k > 0 && compare(a + (size_t)(k - 1) * size, a + (size_t)i * size) > 0)
            k--;
        if (k == i)
            continue;
        memcpy(item, a + (size_t)i * size, size);
        memmove(a + (size_t)(k + 1) * size, a + (size_t)k * size, (size_t)(i - k) * size);
        memcpy(a + (size_t)k * size, item, size);
    }
}

/* Merges two ascending runs of na and nb items that stand behind each other at a. */
static posenc_status merge(int64_t na, int64_t nb, size_t size, char *a, char *scratch,
                           int (*compare)(const void *, const void *), pe_pace *pace)
{
    const char *left = scratch, *right = a + (size_t)na * size;
    const char *left_end = scratch + (size_t)na * size, *right_end = right + (size_t)nb * size;
    posenc_status st = pe_pace_copy(pace, scratch, a, (size_t)na * size);
    while (!st && left < left_end) {
        const char **from = right == right_end || compare(left, right) <= 0 ? &left : &right;
        memcpy(a, *from, size);
        *from += size;
        a += size;
        st = pe_pace_add(pace, STEPS);
    }
    return st;
}

posenc_status pe_sort(int64_t n, size_t size, void *items, void *scratch, int (*compare)(const void *, const void *),
                      pe_pace *pace)
{
    char *a = items;
    posenc_status st = PE_OK;
    for (int64_t i = 0; i < n && !st; i += RUN) {
        insertion(n - i < RUN ? n - i : RUN, size, a + (size_t)i * size, compare);
        st = pe_pace_add(pace, 3 * RUN * STEPS);
    }
    for (int64_t width = RUN; width < n && !st; width *= 2)
        for (int64_t i = 0; i + width < n && !st; i += 2 * width) {
            char *middle = a + (size_t)(i + width) * size;
            if (compare(middle - size, middle) > 0)
                st = merge(width, n - i - width < width ? n - i - width : width, size, a + (size_t)i * size, scratch,
                           compare, pace);
            else
                st = pe_pace_add(pace, STEPS);
        }
    return st;
}
