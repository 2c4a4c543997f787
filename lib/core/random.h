/* random.h - random numbers that are the same everywhere and in any order.
 *
 * Philox4x32-10 (Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3). Element i of a stream depends on
 * (seed, stream, i) alone: counter = (i / 2 in 64 bits, stream in 64 bits), key = seed; words 0, 1 of the block make the
 * element of even i, words 2, 3 that of odd i. Pure functions; any thread. */
#ifndef PE_RANDOM_H
#define PE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#define PE_RANDOM_NAME "philox4x32-10"

void pe_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* Elements first .. first + n - 1: multiples of 2^-53 in [0, 1). */
void pe_random_uniform(uint64_t seed, uint64_t stream, uint64_t first, size_t n, double *out);
/* Standard normal by Box and Muller: with u, v the uniform elements 2j, 2j + 1 of the stream, element 2j is
 * sqrt(-2 ln(1 - u)) cos(2 pi v) and element 2j + 1 the same with sin. At most 8.6 in magnitude. */
void pe_random_normal(uint64_t seed, uint64_t stream, uint64_t first, size_t n, double *out);

#endif
