/* memory.c - memory for results. */
#include "core/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

enum { ALIGN = 64, HUGE = 2 << 20, CACHE = 4 << 20 };

void *pe_result_memory(size_t size)
{
    const size_t align = size < HUGE ? ALIGN : HUGE;
    if (size > (size_t)-1 / 2)
        return NULL;
    void *p = aligned_alloc(align, (size + align - 1) & ~(align - 1)); /* C11: a multiple of the alignment */
    if (p && align == HUGE)
        madvise(p, size & ~(size_t)(HUGE - 1), MADV_HUGEPAGE); /* a hint: small pages do as well */
    return p;
}

void *pe_work_memory(size_t size) { return size < HUGE ? malloc(size) : pe_result_memory(size); }

#if defined(__x86_64__)
/* A hint from a page at the beginning, in the middle and at the end. */
static bool touched(const void *to, size_t size)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at[] = { 0, size / 2, size - 1 };
    for (int i = 0; i < 3; i++) {
        unsigned char there = 0;
        if (mincore((void *)(((uintptr_t)to + at[i]) / page * page), 1, &there) || !(there & 1))
            return false;
    }
    return true;
}

bool pe_past_cache(const void *to, size_t size, size_t all) { return size && all > CACHE && touched(to, size); }
void pe_past_cache_end(void) { _mm_sfence(); }
#else
bool pe_past_cache(const void *to, size_t size, size_t all)
{
    (void)to;
    (void)size;
    (void)all;
    return false;
}

void pe_past_cache_end(void) {}
#endif
