/* lane_inverse.c - grounded inverses of eight small Laplacians at once. */
#include "linalg/lane_inverse.h"
#include "core/lanes.h"

/* Takes out the rows from the last one on: what was joined to row i is joined to each other. Row i holds then its weights by
 * their sum, its diagonal the inverse of the sum. */
PE_BODY void take_out(int64_t n, pe_lanes *z, int32_t *start)
{
    const pe_lanes zero = { 0 };
    for (int64_t i = n - 1; i > 0; i--) {
        pe_lanes *row = z + i * n, sum = zero;
        const int64_t s = start[i];
        for (int64_t j = s; j < i; j++)
            sum += row[j];
        const pe_masks some = (pe_masks)(zero - sum) >> 63;
        const pe_lanes by = PE_SELECT(some, 1 / sum, zero);
        for (int64_t j = s; j < i; j++) {
            pe_lanes *other = z + j * n;
            const pe_lanes w = row[j];
            for (int64_t k = s; k < j; k++)
                PE_FMA(other[k], w, row[k], other[k]);
            start[j] = (int32_t)(s < start[j] ? s : start[j]);
            row[j] = w * by;
        }
        row[i] = by;
    }
}

/* From the inverse of the first i rows that of i + 1. */
PE_BODY void put_back(int64_t n, pe_lanes *z, const int32_t *start)
{
    for (int64_t i = 1; i < n; i++) {
        pe_lanes *row = z + i * n, corner = row[i];
        for (int64_t j = 0; j < i; j++) {
            pe_lanes sum = { 0 };
            for (int64_t k = start[i]; k < i; k++)
                PE_FMA(sum, row[k], z[j * n + k], sum);
            z[j * n + i] = sum;
        }
        for (int64_t k = start[i]; k < i; k++)
            PE_FMA(corner, row[k], z[k * n + i], corner);
        for (int64_t j = 0; j < i; j++)
            row[j] = z[j * n + i];
        row[i] = corner;
    }
}

PE_BODY void inverse_body(int64_t n, double *z, int32_t *start)
{
    take_out(n, (pe_lanes *)z, start);
    put_back(n, (pe_lanes *)z, start);
}
PE_KERNEL(inverse, inverse_body, (int64_t n, double *z, int32_t *start), (n, z, start))

void pe_lane_inverse(int64_t n, double *z, int32_t *start) { inverse_paths[pe_simd()](n, z, start); }
