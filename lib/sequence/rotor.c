/* rotor.c - anchors and rotations. */
#include "sequence/rotor.h"

#include <math.h>
#include <string.h>

enum { STEPS = 64, WIDE = 8192 }; /* steps of a block; pairs from which rotations are made anew for each row */
#define SMALL 0x1p-18

static unsigned kept(size_t pairs) { return pairs < WIDE ? STEPS : 1; } /* rotations that storage has room for */

uint64_t pe_rotor_size(size_t pairs) { return (uint64_t)pairs * (2 * kept(pairs) + 2) * sizeof(double); }

pe_rotor pe_rotor_begin(const pe_dd *w, size_t pairs, void *storage)
{
    double *s = storage;
    return (pe_rotor){ .pairs = pairs, .w = w, .anchor = s, .rotation = s + 2 * pairs, .block = -1, .last = -1 };
}

/* (a + i b) (c + i d), and whether a result is small. `a` sines, `b` cosines, of anchor and rotation. */
PE_BODY void turn_body(const double *sa, const double *ca, const double *sb, const double *cb, size_t n, double *sine,
                       double *cosine, bool *small)
{
    const pe_masks small_bits = (pe_masks)PE_SPLAT(SMALL * SMALL);
    pe_masks low = { 0 };
    size_t i = 0;
    for (; i + PE_LANES <= n; i += PE_LANES) {
        pe_lanes a, b, c, d;
        PE_LOAD(a, sa + i, PE_LANES);
        PE_LOAD(b, ca + i, PE_LANES);
        PE_LOAD(c, sb + i, PE_LANES);
        PE_LOAD(d, cb + i, PE_LANES);
        pe_lanes s = a * d + b * c, k = b * d - a * c;
        low |= ((pe_masks)(s * s) - small_bits) | ((pe_masks)(k * k) - small_bits); /* negative where below */
        PE_STORE(sine + i, s, PE_LANES);
        PE_STORE(cosine + i, k, PE_LANES);
    }
    bool any = false;
    for (int l = 0; l < PE_LANES; l++)
        any |= low[l] < 0;
    for (; i < n; i++) {
        sine[i] = sa[i] * cb[i] + ca[i] * sb[i];
        cosine[i] = ca[i] * cb[i] - sa[i] * sb[i];
        any |= sine[i] * sine[i] < SMALL * SMALL || cosine[i] * cosine[i] < SMALL * SMALL;
    }
    *small = any;
}

PE_KERNEL(turn, turn_body,
          (const double *sa, const double *ca, const double *sb, const double *cb, size_t n, double *sine, double *cosine,
           bool *small),
          (sa, ca, sb, cb, n, sine, cosine, small))

PE_BODY void zip_body(const double *first, const double *second, size_t n, double *row)
{
    size_t i = 0;
    for (; i + PE_LANES <= n; i += PE_LANES) {
        pe_lanes a, b;
        PE_LOAD(a, first + i, PE_LANES);
        PE_LOAD(b, second + i, PE_LANES);
        pe_lanes low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        pe_lanes high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
        PE_STORE(row + 2 * i, low, PE_LANES);
        PE_STORE(row + 2 * i + PE_LANES, high, PE_LANES);
    }
    for (; i < n; i++) {
        row[2 * i] = first[i];
        row[2 * i + 1] = second[i];
    }
}

PE_KERNEL(zip, zip_body, (const double *first, const double *second, size_t n, double *row), (first, second, n, row))

void pe_zip(const double *first, const double *second, size_t n, double *row)
{
    zip_paths[pe_simd()](first, second, n, row);
}

/* About nanoseconds a pair: made exactly, and by a product. */
enum { EXACT_NS = 12, TURN_NS = 2, CHUNK = 4096 };

static posenc_status exact(pe_rotor *r, double position, double *sine, double *cosine, pe_pace *pace)
{
    for (size_t first = 0; first < r->pairs; first += CHUNK) {
        const size_t end = first + CHUNK < r->pairs ? first + CHUNK : r->pairs;
        pe_sincos_times(r->w + first, end - first, position, sine + first, cosine + first);
        posenc_status st = pe_pace_add(pace, (int64_t)(end - first) * EXACT_NS);
        if (st)
            return st;
    }
    return PE_OK;
}

/* Makes the small ones among n products exactly, many at a time: of small frequencies, and at position 0, all are small. */
static posenc_status exact_small(const pe_rotor *r, size_t first, double p, size_t n, double *sine, double *cosine,
                                 pe_pace *pace)
{
    enum { BLOCK = 256 };
    pe_dd angle[BLOCK];
    double s[BLOCK], c[BLOCK];
    size_t place[BLOCK], k = 0;
    posenc_status st = PE_OK;
    for (size_t i = 0; i < n && !st; i++) {
        if (fabs(sine[i]) < SMALL || fabs(cosine[i]) < SMALL) {
            place[k] = i;
            angle[k++] = pe_dd_times(r->w[first + i], p);
        }
        if (k < BLOCK && i + 1 < n)
            continue;
        pe_sincos(angle, k, s, c);
        for (size_t j = 0; j < k; j++) {
            sine[place[j]] = s[j];
            cosine[place[j]] = c[j];
        }
        st = pe_pace_add(pace, (int64_t)k * EXACT_NS);
        k = 0;
    }
    return st;
}

posenc_status pe_rotor_row(pe_rotor *r, double position, double *sine, double *cosine, pe_pace *pace)
{
    const double p = fabs(position);
    const size_t n = r->pairs;
    posenc_status st;
    if (p != floor(p))
        return exact(r, position, sine, cosine, pace);
    const int64_t whole = (int64_t)p, block = whole / STEPS, step = whole % STEPS;
    double *sa = r->anchor, *ca = sa + n, *sb = r->rotation + 2 * n * (size_t)(step % kept(n)), *cb = sb + n;
    if (block != r->block) {
        r->block = -1;
        if ((st = exact(r, (double)(block * STEPS), sa, ca, pace)))
            return st;
        r->block = block;
    }
    if (!(r->made >> step & 1) || (kept(n) == 1 && r->last != step)) {
        r->last = -1;
        if ((st = exact(r, (double)step, sb, cb, pace)))
            return st;
        r->made |= 1ULL << step;
        r->last = step;
    }
    for (size_t first = 0; first < n; first += CHUNK) {
        const size_t m = n - first < CHUNK ? n - first : CHUNK;
        double *s = sine + first, *c = cosine + first;
        bool small;
        turn_paths[pe_simd()](sa + first, ca + first, sb + first, cb + first, m, s, c, &small);
        if (small && (st = exact_small(r, first, p, m, s, c, pace)))
            return st;
        for (size_t i = 0; position < 0 && i < m; i++)
            s[i] = -s[i];
        if ((st = pe_pace_add(pace, (int64_t)m * TURN_NS)))
            return st;
    }
    return PE_OK;
}
