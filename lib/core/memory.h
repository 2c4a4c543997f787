/* memory.h - memory for results, and stores around the cache. */
#ifndef PE_MEMORY_H
#define PE_MEMORY_H

#include "posenc.h"

#include <stdbool.h>
#include <stddef.h>

/* `size` bytes aligned to 64, on huge pages where they are many: a fresh page costs more than the numbers written to it,
 * and a page that is given back costs as well: a gigabyte of small ones some 50 ms. Freed by free(). NULL: no memory. Any
 * thread. */
void *pe_result_memory(size_t size);
void *pe_work_memory(size_t size); /* the same, aligned as by malloc where it is not large */
/* posenc_alloc without zeros: for what is written as a whole, and too large to be cleared between two polls. */
void *pe_alloc_plain(posenc_arena *a, size_t size);

/* Whether `size` bytes at `to`, part of `all`, are better written around the cache: all are more than it holds, on an
 * x86-64, in memory that was touched before. A store into the cache first reads the line. But the first touch of a page has
 * the kernel clear it, which leaves it in the cache: then stores are better made as usual. The bytes are the same. */
bool pe_past_cache(const void *to, size_t size, size_t all);
/* Such stores are not in order with others: after the last of a thread's, before others may read. */
void pe_past_cache_end(void);

#endif
