/* memory.h - memory for results. */
#ifndef PE_MEMORY_H
#define PE_MEMORY_H

#include <stddef.h>

/* `size` bytes aligned to 64, on huge pages where they are many: a fresh page costs more than the numbers written to it.
 * Freed by free(). NULL: no memory. Any thread. */
void *pe_result_memory(size_t size);

#endif
