/* random.c - Philox4x32-10, uniform and normal numbers. */
#include "core/random.h"

#include "core/elementary.h"

#include <math.h>
#include <string.h>

void pe_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4], k[2] = { key[0], key[1] };
    memcpy(c, counter, sizeof c);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53 * c[0], b = (uint64_t)0xCD9E8D57 * c[2];
        uint32_t next[4] = { (uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k[1],
                             (uint32_t)a };
        memcpy(c, next, sizeof c);
        k[0] += 0x9E3779B9;
        k[1] += 0xBB67AE85;
    }
    memcpy(out, c, sizeof c);
}

/* The two uniform numbers of block `index`. */
static void block(uint64_t seed, uint64_t stream, uint64_t index, double u[2])
{
    const uint32_t counter[4] = { (uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32) };
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t w[4];
    pe_philox(counter, key, w);
    for (int i = 0; i < 2; i++)
        u[i] = (double)(((uint64_t)w[2 * i + 1] << 32 | w[2 * i]) >> 11) * 0x1p-53;
}

static void normal_block(uint64_t seed, uint64_t stream, uint64_t index, double z[2])
{
    double u[2], s, c;
    block(seed, stream, index, u);
    double radius = sqrt(-2 * pe_log(1 - u[0]));
    pe_dd angle = pe_dd_times(pe_two_pi, u[1]);
    pe_sincos(&angle, 1, &s, &c);
    z[0] = radius * c;
    z[1] = radius * s;
}

static void fill(void (*pair)(uint64_t, uint64_t, uint64_t, double[2]), uint64_t seed, uint64_t stream, uint64_t first,
                 size_t n, double *out)
{
    double two[2];
    for (size_t i = 0; i < n; i++) {
        uint64_t at = first + i;
        if (i == 0 || at % 2 == 0)
            pair(seed, stream, at / 2, two);
        out[i] = two[at % 2];
    }
}

void pe_random_uniform(uint64_t seed, uint64_t stream, uint64_t first, size_t n, double *out)
{
    fill(block, seed, stream, first, n, out);
}

void pe_random_normal(uint64_t seed, uint64_t stream, uint64_t first, size_t n, double *out)
{
    fill(normal_block, seed, stream, first, n, out);
}
