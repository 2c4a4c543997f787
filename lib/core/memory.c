/* memory.c - memory for results. */
#include "core/memory.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { ALIGN = 64, HUGE = 2 << 20 };

void *pe_result_memory(size_t size)
{
    const size_t align = size < 2 * HUGE ? ALIGN : HUGE;
    if (size > (size_t)-1 / 2)
        return NULL;
    void *p = aligned_alloc(align, (size + align - 1) & ~(align - 1)); /* C11: a multiple of the alignment */
    if (p && align == HUGE)
        madvise(p, size & ~(size_t)(HUGE - 1), MADV_HUGEPAGE); /* a hint: small pages do as well */
    return p;
}
