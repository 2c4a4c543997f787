/* sort.h - qsort for lists so long that the context must be polled meanwhile. Stable: the same order everywhere. */
#ifndef PE_SORT_H
#define PE_SORT_H

#include "core/pace.h"

/* Sorts n items of `size` (at most 64) bytes.
 *   scratch   (n) items
 * Items that are in order already take one comparison each. After an error the list is of no use. */
posenc_status pe_sort(int64_t n, size_t size, void *items, void *scratch, int (*compare)(const void *, const void *),
                      pe_pace *pace);

#endif
