/* lane_inverse.c - grounded inverses of eight small Laplacians at once. */
#include "linalg/lane_inverse.h"
#include "core/lanes.h"

/* Takes out the rows last .. end + 1, in this order: what was joined to row i is joined to each other. Row i holds then its
 * weights by their sum, its diagonal the inverse of the sum. */
PE_BODY void take_out_body(int64_t n, double *square, int32_t *start, int64_t last, int64_t end)
{
    pe_lanes *z = (pe_lanes *)square;
    const pe_lanes zero = { 0 };
    for (int64_t i = last; i > end; i--) {
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

PE_KERNEL(take_out, take_out_body, (int64_t n, double *square, int32_t *start, int64_t last, int64_t end),
          (n, square, start, last, end))

/* From the inverse of the first `from` rows that of the first `to`. */
PE_BODY void put_back_body(int64_t n, double *square, const int32_t *start, int64_t from, int64_t to)
{
    pe_lanes *z = (pe_lanes *)square;
    for (int64_t i = from; i < to; i++) {
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

PE_KERNEL(put_back, put_back_body, (int64_t n, double *square, const int32_t *start, int64_t from, int64_t to),
          (n, square, start, from, to))

posenc_status pe_lane_inverse(int64_t n, double *z, int32_t *start, pe_pace *pace)
{
    const pe_path on = pe_simd();
    posenc_status st = PE_OK;
    for (int64_t i = n - 1; i > 0 && !st; i -= 16) {
        const int64_t end = i > 16 ? i - 16 : 0, width = i - start[i];
        take_out_paths[on](n, z, start, i, end);
        st = pe_pace_add(pace, 16 * width * (width / 2 + 2));
    }
    for (int64_t i = 1; i < n && !st; i += 16) {
        const int64_t end = i + 16 < n ? i + 16 : n;
        put_back_paths[on](n, z, start, i, end);
        st = pe_pace_add(pace, 16 * i * (i - start[i] + 4));
    }
    return st;
}
