/* rotor.c - factors, anchors and rotations. */
#include "sequence/rotor.h"

#include "core/narrow.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <math.h>
#include <string.h>

enum {
    DIGITS = PE_ROTOR_DIGITS,
    LEVELS = PE_ROTOR_LEVELS,
    STEPS = 64, /* positions of a block: -FARTHEST .. FARTHEST - 1 from its anchor */
    FARTHEST = STEPS / 2,
    WIDE = 8192, /* pairs from which factors and rotations are not kept */
};
#define SMALL 0x1p-18

static bool keeps(size_t pairs) { return pairs < WIDE; }

/* From sines to cosines and on to the next row: not a multiple of a page, for then all of them would fall together in the
 * cache. */
static size_t stride(size_t pairs) { return (pairs + 7) / 8 * 8 + 8; }

/* ---- storage, in rows ---- */

static size_t digit_rows(size_t pairs) { return keeps(pairs) ? DIGITS * 7 : DIGITS; }
static size_t rotation_rows(size_t pairs) { return keeps(pairs) ? FARTHEST + 1 : 1; }

/* In float32: from sines to cosines. */
static size_t narrow_stride(size_t pairs) { return (pairs + 31) / 32 * 32 + 16; }
static size_t narrow_rows(size_t pairs) { return keeps(pairs) ? FARTHEST + 2 : 0; }

/* A power of two: as many as take half a megabyte, fewer of narrow rows, which are soon made again; one at least. */
static size_t kept_rows(size_t pairs)
{
    size_t n = pairs < 16 ? 64 : 256;
    while (n > 1 && n * 2 * stride(pairs) > 1 << 16)
        n /= 2;
    return n;
}

uint64_t pe_rotor_size(size_t pairs)
{
    const uint64_t rows = 1 + digit_rows(pairs) + rotation_rows(pairs) + LEVELS + kept_rows(pairs);
    return rows * 2 * stride(pairs) * sizeof(double) + narrow_rows(pairs) * 2 * narrow_stride(pairs) * sizeof(float) +
           kept_rows(pairs) * sizeof(int64_t);
}

pe_rotor pe_rotor_begin(const pe_dd *w, size_t pairs, void *storage)
{
    const size_t row = 2 * stride(pairs);
    pe_rotor r = { .pairs = pairs, .w = w, .unit = storage, .at = { -1, -1, -1, -1 }, .last = -1, .narrow_at = -1 };
    r.digit = r.unit + row;
    r.rotation = r.digit + digit_rows(pairs) * row;
    r.chain = r.rotation + rotation_rows(pairs) * row;
    r.kept = r.chain + LEVELS * row;
    r.keeps = kept_rows(pairs);
    r.narrow = (float *)(void *)(r.kept + r.keeps * row);
    r.kept_at = (int64_t *)(void *)(r.narrow + narrow_rows(pairs) * 2 * narrow_stride(pairs));
    for (size_t i = 0; i < r.keeps; i++)
        r.kept_at[i] = -1;
    for (size_t i = 0; i < pairs; i++) {
        r.unit[i] = 0;
        r.unit[row / 2 + i] = 1;
    }
    return r;
}

/* ---- products ---- */

/* (a + i b) (c + i d), and whether a result is small. `a` sines, `b` cosines, of anchor and rotation; `back`: the rotation
 * turns the other way. */
PE_BODY void turn_body(const double *sa, const double *ca, const double *sb, const double *cb, bool back, size_t n,
                       double *sine, double *cosine, bool *small)
{
    const uint64_t sign = (uint64_t)back << 63;
    const pe_masks small_bits = (pe_masks)PE_SPLAT(SMALL * SMALL);
    pe_masks low = { 0 };
    size_t i = 0;
    for (; i + PE_LANES <= n; i += PE_LANES) {
        pe_lanes a, b, c, d;
        PE_LOAD(a, sa + i, PE_LANES);
        PE_LOAD(b, ca + i, PE_LANES);
        PE_LOAD(c, sb + i, PE_LANES);
        PE_LOAD(d, cb + i, PE_LANES);
        c = (pe_lanes)((pe_bits)c ^ sign);
        pe_lanes s = a * d + b * c, k = b * d - a * c;
        low |= ((pe_masks)(s * s) - small_bits) | ((pe_masks)(k * k) - small_bits); /* negative where below */
        PE_STORE(sine + i, s, PE_LANES);
        PE_STORE(cosine + i, k, PE_LANES);
    }
    bool any = false;
    for (int l = 0; l < PE_LANES; l++)
        any |= low[l] < 0;
    for (; i < n; i++) {
        const double sine_b = back ? -sb[i] : sb[i];
        sine[i] = sa[i] * cb[i] + ca[i] * sine_b;
        cosine[i] = ca[i] * cb[i] - sa[i] * sine_b;
        any |= sine[i] * sine[i] < SMALL * SMALL || cosine[i] * cosine[i] < SMALL * SMALL;
    }
    *small = any;
}

PE_KERNEL(turn, turn_body,
          (const double *sa, const double *ca, const double *sb, const double *cb, bool back, size_t n, double *sine,
           double *cosine, bool *small),
          (sa, ca, sb, cb, back, n, sine, cosine, small))

/* The same product, rounded to where it goes: of one row, or of the two at the same distance from the anchor. Whether one
 * is small is asked of the float32, and of 2^-18 itself too: where `small` is false, none is; where it is true, one may be.
 */
typedef struct product {
    const double *sa, *ca, *sb, *cb;
    size_t n;                         /* a multiple of GROUP */
    float most;                       /* what is small: 2^-18 times the scale */
    bool negative, back;              /* the position is negative; the row is before the anchor */
    const pe_rotor_place *to;         /* whose two places are not read, but */
    char *first, *second;             /* those of the row; zipped: the row, and NULL */
    char *first2, *second2;           /* those of the row opposite, which is after the anchor; NULL: none */
    const float *narrow_a, *narrow_b; /* sines of anchor and rotation in float32; NULL: none */
    size_t narrow_stride;             /* from there to the cosines */
} product;

enum { GROUP = 2 * PE_LANES, LINE = 64 }; /* pairs written together: whole lines of the cache, where they are float32 */

typedef float quad __attribute__((vector_size(16)));

#if defined(__x86_64__)
/* Not always inlined: then the body of a kernel may name it, which is none of any one path. */
static inline PE_AVX512 void stream64(char *to, const pe_floats16 *f) { _mm512_stream_ps((float *)(void *)to, (__m512)*f); }
static inline PE_AVX2 void stream32(char *to, const pe_floats16 *f)
{
    _mm256_stream_ps((float *)(void *)to, (__m256)__builtin_shufflevector(*f, *f, 0, 1, 2, 3, 4, 5, 6, 7));
    _mm256_stream_ps((float *)(void *)(to + 32), (__m256)__builtin_shufflevector(*f, *f, 8, 9, 10, 11, 12, 13, 14, 15));
}
static inline PE_AVX512 void float16_of(const pe_floats16 *f, pe_words16 *w)
{
    *w = (pe_words16)_mm512_cvtepu16_epi32(_mm512_cvtps_ph((__m512)*f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline PE_AVX512 bool any_up_to(const pe_words16 *least, float most)
{
    return _mm512_cmp_ps_mask((__m512)*least, _mm512_set1_ps(most), _CMP_LE_OQ) != 0;
}
static inline PE_AVX512 void least_magnitude(pe_words16 *least, const pe_floats16 *f)
{
    *least = (pe_words16)_mm512_range_ps((__m512)*f, (__m512)*least, 0xa);
}
PE_BODY void stream16(char *to, const quad *q) { _mm_stream_ps((float *)(void *)to, (__m128)*q); }
#else
PE_BODY void stream16(char *to, const quad *q) { memcpy(to, q, sizeof *q); }
#endif

/* One line; `past`: the alignment, 64 or 16, where around the cache; 0: through it. */
PE_BODY void put_floats(char *to, const pe_floats16 *f, int past, pe_path here)
{
    if (!past) {
        memcpy(to, f, sizeof *f);
        return;
    }
#if defined(__x86_64__)
    if (past == LINE && here == PE_PATH_AVX512) {
        stream64(to, f);
        return;
    }
    if (past == LINE && here == PE_PATH_AVX2) {
        stream32(to, f);
        return;
    }
#endif
    (void)here;
    const quad a = __builtin_shufflevector(*f, *f, 0, 1, 2, 3), b = __builtin_shufflevector(*f, *f, 4, 5, 6, 7);
    const quad c = __builtin_shufflevector(*f, *f, 8, 9, 10, 11), d = __builtin_shufflevector(*f, *f, 12, 13, 14, 15);
    stream16(to, &a);
    stream16(to + 16, &b);
    stream16(to + 32, &c);
    stream16(to + 48, &d);
}

/* ---- whether one is small ---- */

/* Of the float32 so far, by the path: the least magnitudes, or words that are negative where one was up to what `bits` are
 * of. */
PE_BODY void small_begin(pe_words16 *low, pe_path here)
{
    const pe_words16 none = { 0 };
    *low = here == PE_PATH_AVX512 ? none + 0x7f7fffff : none;
}

PE_BODY void small_add(pe_words16 *low, const pe_floats16 *f, uint32_t bits, pe_path here)
{
#if defined(__x86_64__)
    if (here == PE_PATH_AVX512) {
        least_magnitude(low, f);
        return;
    }
#endif
    (void)here;
    *low |= ((pe_words16)*f & 0x7fffffff) - (bits + 1);
}

PE_BODY bool small_end(const pe_words16 *low, float most, pe_path here)
{
#if defined(__x86_64__)
    if (here == PE_PATH_AVX512)
        return any_up_to(low, most);
#endif
    (void)here;
    (void)most;
    uint32_t any = 0;
    for (int l = 0; l < 2 * PE_LANES; l++)
        any |= (*low)[l];
    return any >> 31;
}

/* Two times eight float64 as sixteen float32: rounded to odd on the way to what is shorter. */
PE_BODY void sixteen(const pe_lanes *first, const pe_lanes *second, posenc_dtype dtype, bool zipped, pe_floats16 *f,
                     pe_words16 *low, uint32_t bits, pe_path here)
{
    pe_lanes x = *first, y = *second;
    if (dtype != PE_float32) {
        pe_lanes_odd(&x);
        pe_lanes_odd(&y);
    }
    pe_floats16_of(&x, &y, zipped, f);
    small_add(low, f, bits, here);
}

PE_BODY void shorter(const pe_floats16 *f, posenc_dtype dtype, pe_words16 *w, pe_path here)
{
#if defined(__x86_64__)
    if (dtype == PE_float16 && here == PE_PATH_AVX512) {
        float16_of(f, w);
        return;
    }
#endif
    (void)here;
    if (dtype == PE_float16)
        pe_float16_of(f, true, w);
    else
        pe_bfloat16_of(f, w);
}

/* Rounds sixteen sines or cosines, and stores them, once or twice. */
PE_BODY void put_apart(const pe_lanes *first, const pe_lanes *second, posenc_dtype dtype, int past, size_t again, bool twice,
                       char *to, pe_words16 *low, uint32_t bits, pe_path here)
{
    pe_floats16 f;
    sixteen(first, second, dtype, false, &f, low, bits, here);
    if (dtype == PE_float32) {
        if (twice) {
            const pe_floats16 g = __builtin_shufflevector(f, f, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
            f = __builtin_shufflevector(f, f, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15);
            put_floats(to, &g, past, here);
            put_floats(to + sizeof f, &f, past, here);
            return;
        }
        put_floats(to, &f, past, here);
        if (again)
            put_floats(to + again, &f, past, here);
        return;
    }
    pe_words16 w;
    shorter(&f, dtype, &w, here);
    if (twice) {
        f = (pe_floats16)(w | w << 16);
        put_floats(to, &f, past, here);
        return;
    }
    const pe_halves16 h = __builtin_convertvector(w, pe_halves16);
    memcpy(to, &h, sizeof h);
    if (again)
        memcpy(to + again, &h, sizeof h);
}

/* Rounds sixteen pairs of `a`, `b`, and stores them alternating: two float32 lines, or one of halves. */
PE_BODY void put_zipped(const pe_lanes *a, const pe_lanes *b, const pe_lanes *a2, const pe_lanes *b2, posenc_dtype dtype,
                        int past, char *to, pe_words16 *low, uint32_t bits, pe_path here)
{
    pe_floats16 f, g;
    if (dtype == PE_float32) {
        sixteen(a, b, dtype, true, &f, low, bits, here);
        sixteen(a2, b2, dtype, true, &g, low, bits, here);
        put_floats(to, &f, past, here);
        put_floats(to + sizeof f, &g, past, here);
        return;
    }
    pe_words16 v, w;
    sixteen(a, a2, dtype, false, &f, low, bits, here);
    sixteen(b, b2, dtype, false, &g, low, bits, here);
    shorter(&f, dtype, &v, here);
    shorter(&g, dtype, &w, here);
    f = (pe_floats16)(v | w << 16); /* the first of a pair is the lower half */
    put_floats(to, &f, past, here);
}

/* The results of a row for two times eight pairs: where they go. */
PE_BODY void put_row(const pe_lanes *s, const pe_lanes *k, const pe_lanes *s2, const pe_lanes *k2, posenc_dtype dtype,
                     bool zipped, bool swap, int past, size_t again, bool twice, char *to, char *to2, pe_words16 *low,
                     uint32_t bits, pe_path here)
{
    if (!zipped) {
        put_apart(s, s2, dtype, past, again, twice, to, low, bits, here);
        put_apart(k, k2, dtype, past, again, twice, to2, low, bits, here);
    } else if (swap) {
        put_zipped(k, s, k2, s2, dtype, past, to, low, bits, here);
    } else {
        put_zipped(s, k, s2, k2, dtype, past, to, low, bits, here);
    }
}

PE_BODY void load_four(const product *p, size_t i, pe_lanes *a, pe_lanes *b, pe_lanes *c, pe_lanes *d)
{
    PE_LOAD(*a, p->sa + i, PE_LANES);
    PE_LOAD(*b, p->ca + i, PE_LANES);
    PE_LOAD(*c, p->sb + i, PE_LANES);
    PE_LOAD(*d, p->cb + i, PE_LANES);
}

PE_BODY void four_times(pe_lanes *a, pe_lanes *b, pe_lanes *c, pe_lanes *d, double scale)
{
    *a *= scale;
    *b *= scale;
    *c *= scale;
    *d *= scale;
}

PE_BODY uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

PE_BODY void write_loop(const product *of, posenc_dtype dtype, bool zipped, int past, bool both, pe_words16 *low,
                        pe_path here)
{
    const product p = *of; /* no store is to what it holds */
    const size_t size = PE_LANES * (dtype == PE_float32 ? sizeof(float) : sizeof(uint16_t));
    const bool twice = !zipped && p.to->twice;
    const size_t step = (zipped || twice ? 4 : 2) * size, again = p.to->again;
    const double scale = p.to->scale;
    const uint32_t bits = bits_of(p.most);
    const uint64_t negative = (uint64_t)p.negative << 63, back = (uint64_t)p.back << 63;
    const bool swap = zipped && p.to->cosine_first;
    char *to = p.first, *to2 = zipped ? to : p.second;
    char *at = both ? p.first2 : to, *at2 = both && !zipped ? p.second2 : at;
    for (size_t i = 0; i < p.n; i += GROUP, to += step, to2 += step, at += step, at2 += step) {
        pe_lanes a, b, c, d, a2, b2, c2, d2;
        load_four(&p, i, &a, &b, &c, &d);
        load_four(&p, i + PE_LANES, &a2, &b2, &c2, &d2);
        if (both) {
            const pe_lanes ad = a * d, bc = b * c, bd = b * d, ac = a * c;
            const pe_lanes ad2 = a2 * d2, bc2 = b2 * c2, bd2 = b2 * d2, ac2 = a2 * c2;
            pe_lanes s = ad - bc, k = bd + ac, s2 = ad2 - bc2, k2 = bd2 + ac2;
            if (scale != 0)
                four_times(&s, &k, &s2, &k2, scale);
            put_row(&s, &k, &s2, &k2, dtype, zipped, swap, past, again, twice, to, to2, low, bits, here);
            pe_lanes t = ad + bc, l = bd - ac, t2 = ad2 + bc2, l2 = bd2 - ac2;
            if (scale != 0)
                four_times(&t, &l, &t2, &l2, scale);
            put_row(&t, &l, &t2, &l2, dtype, zipped, swap, past, again, twice, at, at2, low, bits, here);
        } else {
            c = (pe_lanes)((pe_bits)c ^ back);
            c2 = (pe_lanes)((pe_bits)c2 ^ back);
            pe_lanes s = (pe_lanes)((pe_bits)(a * d + b * c) ^ negative), k = b * d - a * c;
            pe_lanes s2 = (pe_lanes)((pe_bits)(a2 * d2 + b2 * c2) ^ negative), k2 = b2 * d2 - a2 * c2;
            if (scale != 0)
                four_times(&s, &k, &s2, &k2, scale);
            put_row(&s, &k, &s2, &k2, dtype, zipped, swap, past, again, twice, to, to2, low, bits, here);
        }
    }
}

PE_BODY void write_past(const product *p, posenc_dtype dtype, bool zipped, int past, pe_words16 *low, pe_path here)
{
    if (p->first2)
        write_loop(p, dtype, zipped, past, true, low, here);
    else
        write_loop(p, dtype, zipped, past, false, low, here);
}

/* ---- bfloat16 by way of float32, with AVX-512 ----
 *
 * A product of float32 is within 4 u of that of float64, u = 2^-24: each factor, a product and sums are rounded, and the
 * sum; and |a d| + |b c| <= 1. Where what is DOUBT below and what is DOUBT above it round to the same bfloat16, what lies
 * between does: the float64 product too. Otherwise that is made. So the bits are those of the other paths. */
#if defined(__x86_64__)
#define DOUBT 0x1.8p-22F /* 6 u */

/* The halves in the upper bits of words, of what lies between two numbers. */
static inline PE_AVX512 __m512i halves_of(__m512 low, __m512 high, __m512i *doubt)
{
    const __m512i half = _mm512_set1_epi32(0x8000);
    const __m512i a = _mm512_add_epi32(_mm512_castps_si512(low), half),
                  b = _mm512_add_epi32(_mm512_castps_si512(high), half);
    *doubt = _mm512_ternarylogic_epi32(*doubt, a, b, 0xf6); /* doubt | (a ^ b) */
    return b;
}

/* Of two words the upper halves: those of `first` below. */
static inline PE_AVX512 __m512i join(__m512i first, __m512i second)
{
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
    return _mm512_ternarylogic_epi32(_mm512_srli_epi32(first, 16), second, upper, 0xf8); /* a | (b & c) */
}

static PE_AVX512 __attribute__((noinline)) void write_in_float64(const product *of, size_t i, size_t n, bool zipped,
                                                                 int past, pe_words16 *low)
{
    const size_t column = i * sizeof(uint16_t) * (zipped ? 2 : 1);
    product p = *of;
    p.sa += i;
    p.ca += i;
    p.sb += i;
    p.cb += i;
    p.n = n;
    p.first += column;
    p.first2 += column;
    if (!zipped) {
        p.second += column;
        p.second2 += column;
    }
    if (zipped && past)
        write_loop(&p, PE_bfloat16, true, LINE, true, low, PE_PATH_AVX512);
    else if (zipped)
        write_loop(&p, PE_bfloat16, true, 0, true, low, PE_PATH_AVX512);
    else
        write_loop(&p, PE_bfloat16, false, 0, true, low, PE_PATH_AVX512);
}

/* Sixteen products of both rows. */
typedef struct both {
    __m512i s, k, t, l;
} both;

static inline PE_AVX512 void both_of(const product *p, size_t i, both *out, __m512i *doubt)
{
    const __m512 a = _mm512_loadu_ps(p->narrow_a + i), b = _mm512_loadu_ps(p->narrow_a + p->narrow_stride + i);
    const __m512 c = _mm512_loadu_ps(p->narrow_b + i), d = _mm512_loadu_ps(p->narrow_b + p->narrow_stride + i);
    const __m512 e = _mm512_set1_ps(DOUBT), bc = _mm512_mul_ps(b, c), ac = _mm512_mul_ps(a, c);
    const __m512 ad = _mm512_fmsub_ps(a, d, e), ad2 = _mm512_fmadd_ps(a, d, e);
    const __m512 bd = _mm512_fmsub_ps(b, d, e), bd2 = _mm512_fmadd_ps(b, d, e);
    out->s = halves_of(_mm512_sub_ps(ad, bc), _mm512_sub_ps(ad2, bc), doubt);
    out->k = halves_of(_mm512_add_ps(bd, ac), _mm512_add_ps(bd2, ac), doubt);
    out->t = halves_of(_mm512_add_ps(ad, bc), _mm512_add_ps(ad2, bc), doubt);
    out->l = halves_of(_mm512_sub_ps(bd, ac), _mm512_sub_ps(bd2, ac), doubt);
}

static inline PE_AVX512 void put_line(char *to, __m512i v, bool past)
{
    if (past)
        _mm512_stream_si512((__m512i *)(void *)to, v);
    else
        _mm512_storeu_si512(to, v);
}

static inline PE_AVX512 void put_lines_twice(char *to, size_t again, __m512i v, bool past)
{
    put_line(to, v, past);
    if (again)
        put_line(to + again, v, past);
}

/* Two rows that alternate, a line of sixteen pairs at a time. */
static PE_AVX512 void narrow_zipped(const product *p, pe_words16 *low)
{
    const bool past = p->to->past == LINE, swap = p->to->cosine_first;
    for (size_t i = 0; i < p->n; i += GROUP) {
        char *to = p->first + 4 * i, *at = p->first2 + 4 * i;
        __m512i doubt = _mm512_setzero_si512();
        both x;
        both_of(p, i, &x, &doubt);
        if (_mm512_test_epi32_mask(doubt, _mm512_set1_epi32((int)0xffff0000))) {
            write_in_float64(p, i, GROUP, true, past, low);
            continue;
        }
        put_line(to, swap ? join(x.k, x.s) : join(x.s, x.k), past);
        put_line(at, swap ? join(x.l, x.t) : join(x.t, x.l), past);
    }
}

/* Two rows of sines and two of cosines, 32 of each at a time: those with even numbers, then those with odd ones. */
static PE_AVX512 void narrow_apart(const product *p, pe_words16 *low)
{
    const bool past = p->to->past == LINE;
    const size_t again = p->to->again;
    for (size_t i = 0; i < p->n; i += 2 * GROUP) {
        __m512i doubt = _mm512_setzero_si512();
        both x, y;
        both_of(p, i, &x, &doubt);
        both_of(p, i + GROUP, &y, &doubt);
        if (_mm512_test_epi32_mask(doubt, _mm512_set1_epi32((int)0xffff0000))) {
            write_in_float64(p, i, 2 * GROUP, false, past, low);
            continue;
        }
        put_lines_twice(p->first + 2 * i, again, join(x.s, y.s), past);
        put_lines_twice(p->second + 2 * i, again, join(x.k, y.k), past);
        put_lines_twice(p->first2 + 2 * i, again, join(x.t, y.t), past);
        put_lines_twice(p->second2 + 2 * i, again, join(x.l, y.l), past);
    }
}

/* A row in float32, in the order that these read. */
static PE_AVX512 void narrow_row(const double *row, size_t to_cosine, size_t pairs, bool zipped, float *to)
{
    for (int half = 0; half < 2; half++, row += to_cosine, to += narrow_stride(pairs)) {
        size_t i = 0;
        for (; !zipped && i + 2 * GROUP <= pairs; i += 2 * GROUP)
            for (size_t k = 0; k < GROUP; k++) {
                to[i + k] = (float)row[i + 2 * k];
                to[i + GROUP + k] = (float)row[i + 2 * k + 1];
            }
        for (; zipped && i + PE_LANES <= pairs; i += PE_LANES)
            _mm256_storeu_ps(to + i, _mm512_cvtpd_ps(_mm512_loadu_pd(row + i)));
    }
}
#endif

/* `n` products of one place and so of one kind. Halves apart do not fill lines: they are not written past
 * the cache, nor are others that are not aligned to lines.
 * `small`: a bit for each. */
PE_BODY void write_body(const product *p, size_t n, posenc_dtype dtype, bool zipped, uint64_t *small, pe_path here)
{
    const bool lines = zipped || dtype == PE_float32;
    *small = 0;
    for (size_t i = 0; i < n; i++) {
        pe_words16 low;
        small_begin(&low, here);
#if defined(__x86_64__)
        if (dtype == PE_bfloat16 && here == PE_PATH_AVX512 && p[i].narrow_a) {
            if (zipped)
                narrow_zipped(&p[i], &low);
            else
                narrow_apart(&p[i], &low);
        } else
#endif
            if (lines && p[i].to->past == LINE && here != PE_PATH_BASE)
            write_past(&p[i], dtype, zipped, LINE, &low, here);
        else if (dtype == PE_float32 && p[i].to->past)
            write_past(&p[i], dtype, zipped, 16, &low, here);
        else
            write_past(&p[i], dtype, zipped, 0, &low, here);
        *small |= (uint64_t)small_end(&low, p[i].most, here) << i;
    }
}

PE_KERNEL(write32, write_body, (const product *p, size_t n, uint64_t *small), (p, n, PE_float32, false, small, pe_here))
PE_KERNEL(write16, write_body, (const product *p, size_t n, uint64_t *small), (p, n, PE_float16, false, small, pe_here))
PE_KERNEL(writeb16, write_body, (const product *p, size_t n, uint64_t *small), (p, n, PE_bfloat16, false, small, pe_here))
PE_KERNEL(zip32, write_body, (const product *p, size_t n, uint64_t *small), (p, n, PE_float32, true, small, pe_here))
PE_KERNEL(zip16, write_body, (const product *p, size_t n, uint64_t *small), (p, n, PE_float16, true, small, pe_here))
PE_KERNEL(zipb16, write_body, (const product *p, size_t n, uint64_t *small), (p, n, PE_bfloat16, true, small, pe_here))

static void write_products(const product *p, size_t n, uint64_t *small)
{
    const pe_path path = pe_simd();
    switch (p->to->dtype) {
    case PE_float16: (p->to->zipped ? zip16_paths : write16_paths)[path](p, n, small); break;
    case PE_bfloat16: (p->to->zipped ? zipb16_paths : writeb16_paths)[path](p, n, small); break;
    default: (p->to->zipped ? zip32_paths : write32_paths)[path](p, n, small); break;
    }
}

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

/* ---- exactly ---- */

/* About nanoseconds a pair: made exactly, and by a product. */
enum { EXACT_NS = 12, TURN_NS = 1, CHUNK = 4096 };

static posenc_status exact(const pe_rotor *r, double position, double *row, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (size_t first = 0; first < r->pairs && !st; first += CHUNK) {
        const size_t m = first + CHUNK < r->pairs ? CHUNK : r->pairs - first;
        pe_sincos_times(r->w + first, m, position, row + first, row + stride(r->pairs) + first);
        st = pe_pace_add(pace, (int64_t)m * EXACT_NS);
    }
    return st;
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

/* ---- factors ---- */

static posenc_status multiply(const pe_rotor *r, const double *a, const double *b, double *row, pe_pace *pace)
{
    const size_t n = r->pairs, to_cosine = stride(n);
    posenc_status st = PE_OK;
    for (size_t first = 0; first < n && !st; first += CHUNK) {
        const size_t m = n - first < CHUNK ? n - first : CHUNK;
        bool small;
        turn_paths[pe_simd()](a + first, a + to_cosine + first, b + first, b + to_cosine + first, false, m, row + first,
                              row + to_cosine + first, &small);
        st = pe_pace_add(pace, (int64_t)m * TURN_NS);
    }
    return st;
}

/* a (b c), by lanes; rows have room for whole ones. */
PE_BODY void three_body(const double *a, const double *b, const double *c, size_t to_cosine, size_t n, double *out)
{
    const double *a2 = a + to_cosine, *b2 = b + to_cosine, *c2 = c + to_cosine;
    double *out2 = out + to_cosine;
    for (size_t i = 0; i < n; i += PE_LANES) {
        pe_lanes s, k, t, l, u, m;
        PE_LOAD(s, b + i, PE_LANES);
        PE_LOAD(k, b2 + i, PE_LANES);
        PE_LOAD(t, c + i, PE_LANES);
        PE_LOAD(l, c2 + i, PE_LANES);
        PE_LOAD(u, a + i, PE_LANES);
        PE_LOAD(m, a2 + i, PE_LANES);
        const pe_lanes sine = s * l + k * t, cosine = k * l - s * t;
        const pe_lanes x = u * cosine + m * sine, y = m * cosine - u * sine;
        PE_STORE(out + i, x, PE_LANES);
        PE_STORE(out2 + i, y, PE_LANES);
    }
}

PE_KERNEL(three, three_body, (const double *a, const double *b, const double *c, size_t to_cosine, size_t n, double *out),
          (a, b, c, to_cosine, n, out))

/* *row: a (b c); `to` has room for it. What is the unit is no factor. */
static posenc_status multiply_three(const pe_rotor *r, const double *a, const double *b, const double *c, double *to,
                                    const double **row, pe_pace *pace)
{
    const size_t n = r->pairs;
    const double *of[3] = { a, b, c }, *factor[3] = { r->unit };
    int count = 0;
    posenc_status st = PE_OK;
    for (int i = 0; i < 3; i++)
        if (of[i] != r->unit)
            factor[count++] = of[i];
    *row = count < 2 ? factor[0] : to;
    if (count == 2)
        return multiply(r, factor[0], factor[1], to, pace);
    for (size_t first = 0; first < n && count == 3 && !st; first += CHUNK) {
        const size_t m = n - first < CHUNK ? n - first : CHUNK;
        three_paths[pe_simd()](a + first, b + first, c + first, stride(n), m, to + first);
        st = pe_pace_add(pace, 2 * (int64_t)m * TURN_NS);
    }
    return st;
}

/* *row: the factor of digit number `place`. */
static posenc_status factor(pe_rotor *r, int place, int digit, const double **row, pe_pace *pace)
{
    *row = r->unit;
    if (!digit)
        return PE_OK;
    const int slot = keeps(r->pairs) ? place * 7 + digit - 1 : place;
    double *to = r->digit + (size_t)slot * 2 * stride(r->pairs);
    *row = to;
    if (r->digits_made >> slot & 1 && (keeps(r->pairs) || r->digit_held[place] == digit))
        return PE_OK;
    r->digits_made &= ~(1ULL << slot);
    posenc_status st = exact(r, (double)((int64_t)digit << 3 * place), to, pace);
    if (st)
        return st;
    r->digits_made |= 1ULL << slot;
    r->digit_held[place] = digit;
    return PE_OK;
}

/* The factors of the two digits, 8 d + e, of a level; of a digit 0 the unit. */
static posenc_status two_factors(pe_rotor *r, int level, int digits, const double **high, const double **low, pe_pace *pace)
{
    posenc_status st = factor(r, 2 * level + 1, digits / 8, high, pace);
    return st ? st : factor(r, 2 * level, digits % 8, low, pace);
}

/* *row: the factor of a step, or of one back. */
static posenc_status rotation(pe_rotor *r, int step, const double **row, pe_pace *pace)
{
    double *to = r->rotation + (keeps(r->pairs) ? (size_t)step * 2 * stride(r->pairs) : 0);
    const bool there = r->rotations_made >> step & 1 && (keeps(r->pairs) || r->last == step);
    if (there && step / 8 && step % 8) {
        *row = to;
        return PE_OK;
    }
    const double *high, *low;
    posenc_status st = two_factors(r, 0, step, &high, &low, pace);
    if (st)
        return st;
    *row = high == r->unit ? low : low == r->unit ? high : to;
    if (*row == to && !(st = multiply(r, high, low, to, pace))) {
        r->rotations_made |= 1ULL << step;
        r->last = step;
    }
    return st;
}

/* Whether the anchor of a level is that of a block, or is kept. */
static bool is_there(pe_rotor *r, int level, int64_t block)
{
    const int64_t at = block >> 6 * (level - 1);
    const size_t place = (size_t)at & (r->keeps - 1);
    if (r->at[level] == at)
        return true;
    if (level != 2 || r->kept_at[place] != at)
        return false;
    r->anchor[2] = r->kept + place * 2 * stride(r->pairs);
    r->at[2] = at;
    return true;
}

/* What is above all digits; where that is nothing, factors begin with the digits. */
static posenc_status make_top(pe_rotor *r, int64_t above, pe_pace *pace)
{
    r->at[0] = -1;
    posenc_status st = above ? exact(r, ldexp((double)above, 6 * LEVELS), r->chain, pace) : PE_OK;
    if (st)
        return st;
    r->anchor[0] = above ? r->chain : r->unit;
    r->at[0] = above;
    return PE_OK;
}

/* The anchor of a level, from that above. */
static posenc_status make_anchor(pe_rotor *r, int level, int64_t at, pe_pace *pace)
{
    const size_t row = 2 * stride(r->pairs), place = (size_t)at & (r->keeps - 1);
    const double *above = r->anchor[level == LEVELS - 1 ? 0 : level + 1], *high, *low;
    double *to = level == 2 ? r->kept + place * row : r->chain + (size_t)level * row;
    r->at[level] = -1;
    if (level == 2)
        r->kept_at[place] = -1;
    posenc_status st = two_factors(r, level, (int)(at & 63), &high, &low, pace);
    st = st ? st : multiply_three(r, above, high, low, to, &r->anchor[level], pace);
    if (st)
        return st;
    r->at[level] = at;
    if (r->anchor[level] == to && level == 2)
        r->kept_at[place] = at;
    return PE_OK;
}

/* Brings the anchors to a block: those of the levels above that stay, stay. */
static posenc_status go_to(pe_rotor *r, int64_t block, pe_pace *pace)
{
    const int64_t above = block >> 6 * (LEVELS - 1);
    int level = 1;
    posenc_status st = PE_OK;
    while (level < LEVELS && !is_there(r, level, block))
        level++;
    if (level == LEVELS && r->at[0] != above)
        st = make_top(r, above, pace);
    while (!st && --level >= 1)
        st = make_anchor(r, level, block >> 6 * (level - 1), pace);
    return st;
}

/* ---- rows ---- */

/* The nearest anchor, and the way from there. */
typedef struct way {
    const double *anchor, *rotation;
    bool back;
    int step; /* how far */
} way;

/* Of a whole position, which is not negative. */
static posenc_status prepare(pe_rotor *r, int64_t p, way *y, pe_pace *pace)
{
    const int64_t block = (p + FARTHEST) / STEPS, step = p - block * STEPS;
    posenc_status st = block == r->at[1] ? PE_OK : go_to(r, block, pace);
    st = st ? st : rotation(r, (int)(step < 0 ? -step : step), &y->rotation, pace);
    y->anchor = r->anchor[1];
    y->back = step < 0;
    y->step = (int)(step < 0 ? -step : step);
    return st;
}

/* Pairs first .. first + m - 1, exactly where they are small. */
static posenc_status turned(const pe_rotor *r, const way *y, double position, size_t first, size_t m, double *sine,
                            double *cosine, pe_pace *pace)
{
    const size_t to_cosine = stride(r->pairs);
    const double *a = y->anchor + first, *b = y->rotation + first;
    bool small;
    posenc_status st = PE_OK;
    turn_paths[pe_simd()](a, a + to_cosine, b, b + to_cosine, y->back, m, sine, cosine, &small);
    if (small)
        st = exact_small(r, first, fabs(position), m, sine, cosine, pace);
    for (size_t i = 0; position < 0 && i < m; i++)
        sine[i] = -sine[i];
    return st ? st : pe_pace_add(pace, (int64_t)m * TURN_NS);
}

static bool is_whole(double position) { return position == floor(position); }

/* The same of a position that may not be whole, for which y is not read. */
static posenc_status some_pairs(const pe_rotor *r, const way *y, double position, size_t first, size_t m, double *sine,
                                double *cosine, pe_pace *pace)
{
    if (is_whole(position))
        return turned(r, y, position, first, m, sine, cosine, pace);
    pe_sincos_times(r->w + first, m, position, sine, cosine);
    return pe_pace_add(pace, (int64_t)m * EXACT_NS);
}

posenc_status pe_rotor_row(pe_rotor *r, double position, double *sine, double *cosine, pe_pace *pace)
{
    way y = { 0 };
    posenc_status st = is_whole(position) ? prepare(r, (int64_t)fabs(position), &y, pace) : PE_OK;
    for (size_t first = 0; first < r->pairs && !st; first += CHUNK) {
        const size_t m = r->pairs - first < CHUNK ? r->pairs - first : CHUNK;
        st = some_pairs(r, &y, position, first, m, sine + first, cosine + first, pace);
    }
    return st;
}

/* ---- rows, rounded ---- */

enum { SOME = 512 };

/* The place of row number i, from pair `first` on. */
static pe_rotor_place place_of(const pe_rotor_place *to, int64_t i, size_t first)
{
    const size_t offset = (size_t)i * to->step, pair = first * posenc_dtype_size(to->dtype);
    const size_t column = to->zipped || to->twice ? 2 * pair : pair;
    pe_rotor_place p = *to;
    p.first = (char *)to->first + offset + column;
    p.second = to->zipped ? NULL : (char *)to->second + offset + column;
    return p;
}

/* Pairs first .. first + m - 1, m <= SOME, one row, as pe_rotor_row makes them. */
static __attribute__((noinline)) posenc_status put_plainly(const pe_rotor *r, const way *y, double position, size_t first,
                                                           size_t m, const pe_rotor_place *to, pe_pace *pace)
{
    double sine[SOME], cosine[SOME], row[2 * SOME];
    posenc_status st = some_pairs(r, y, position, first, m, sine, cosine, pace);
    if (st)
        return st;
    for (size_t i = 0; to->scale != 0 && i < m; i++) {
        sine[i] *= to->scale;
        cosine[i] *= to->scale;
    }
    if (to->twice) {
        pe_zip(sine, sine, m, row);
        posenc_convert(to->dtype, to->first, row, 2 * m);
        pe_zip(cosine, cosine, m, row);
        posenc_convert(to->dtype, to->second, row, 2 * m);
        return PE_OK;
    }
    if (to->zipped) {
        pe_zip(to->cosine_first ? cosine : sine, to->cosine_first ? sine : cosine, m, row);
        posenc_convert(to->dtype, to->first, row, 2 * m);
        return PE_OK;
    }
    posenc_convert(to->dtype, to->first, sine, m);
    posenc_convert(to->dtype, to->second, cosine, m);
    if (to->again) {
        const size_t size = m * posenc_dtype_size(to->dtype);
        memcpy((char *)to->first + to->again, to->first, size);
        memcpy((char *)to->second + to->again, to->second, size);
    }
    return PE_OK;
}

/* One row, or two opposite ones: number i at `position`, and number `opposite` (-1: none) as far after the anchor as that is
 * before it, at `position2`. */
typedef struct line {
    way y;
    double position, position2;
    int64_t i, opposite;
} line;

enum { MOST_LINES = FARTHEST + 1 };

static posenc_status put_line_plainly(const pe_rotor *r, const line *l, size_t first, size_t m, const pe_rotor_place *to,
                                      pe_pace *pace)
{
    pe_rotor_place at = place_of(to, l->i, first);
    posenc_status st = put_plainly(r, &l->y, l->position, first, m, &at, pace);
    if (st || l->opposite < 0)
        return st;
    way forth = l->y;
    forth.back = false;
    at = place_of(to, l->opposite, first);
    return put_plainly(r, &forth, l->position2, first, m, &at, pace);
}

static void set_product(const pe_rotor *r, const line *l, size_t first, size_t m, const pe_rotor_place *to, bool narrow,
                        product *p)
{
    const size_t to_cosine = stride(r->pairs);
    const double *a = l->y.anchor + first, *b = l->y.rotation + first;
    const float most = (float)(to->scale != 0 ? SMALL * to->scale * 1.001 : SMALL); /* rounded, it is no less */
    *p = (product){ .sa = a,
                    .ca = a + to_cosine,
                    .sb = b,
                    .cb = b + to_cosine,
                    .n = m,
                    .most = most,
                    .negative = l->position < 0,
                    .back = l->y.back,
                    .to = to };
    const size_t column = first * posenc_dtype_size(to->dtype) * (to->zipped || to->twice ? 2 : 1);
    size_t row = (size_t)l->i * to->step + column;
    p->first = (char *)to->first + row;
    p->second = to->zipped ? NULL : (char *)to->second + row;
    if (l->opposite >= 0) {
        row = (size_t)l->opposite * to->step + column;
        p->first2 = (char *)to->first + row;
        p->second2 = to->zipped ? NULL : (char *)to->second + row;
        if (narrow) {
            p->narrow_stride = narrow_stride(r->pairs);
            p->narrow_a = r->narrow + first;
            p->narrow_b = p->narrow_a + 2 * p->narrow_stride * (size_t)(1 + l->y.step);
        }
    }
}

enum { LEAST_NARROW = 8 }; /* rows that are worth an anchor in float32 */

/* Anchor and rotations in float32, where they are of use. */
static bool make_narrow(pe_rotor *r, const line *l, size_t n, const pe_rotor_place *to)
{
    bool made = false;
#if defined(__x86_64__)
    const size_t to_cosine = stride(r->pairs), row = 2 * narrow_stride(r->pairs);
    made = to->dtype == PE_bfloat16 && to->scale == 0 && !to->twice && keeps(r->pairs) && pe_simd() == PE_PATH_AVX512;
    if (made && r->narrow_zipped != to->zipped) {
        r->narrow_zipped = to->zipped;
        r->narrow_at = -1;
        r->narrow_made = 0;
    }
    if (made && r->narrow_at != r->at[1]) {
        narrow_row(r->anchor[1], to_cosine, r->pairs, to->zipped, r->narrow);
        r->narrow_at = r->at[1];
    }
    for (size_t i = 0; i < n && made; i++) {
        const int step = l[i].y.step;
        if (!(r->narrow_made >> step & 1))
            narrow_row(l[i].y.rotation, to_cosine, r->pairs, to->zipped, r->narrow + row * (size_t)(1 + step));
        r->narrow_made |= 1ULL << step;
    }
#else
    (void)r;
    (void)l;
    (void)n;
    (void)to;
#endif
    return made;
}

/* Whole positions from one anchor, n <= MOST_LINES. */
static posenc_status put_lines(pe_rotor *r, const line *l, size_t n, const pe_rotor_place *to, pe_pace *pace)
{
    product p[MOST_LINES];
    posenc_status st = PE_OK;
    const bool narrow = n >= LEAST_NARROW && make_narrow(r, l, n, to);
    for (size_t first = 0, m; first < r->pairs && !st; first += m) {
        const size_t left = r->pairs - first; /* whole groups together, then the rest */
        uint64_t small = UINT64_MAX;
        m = left >= SOME ? SOME : left >= GROUP ? left / GROUP * GROUP : left;
        if (m >= GROUP) {
            for (size_t i = 0; i < n; i++)
                set_product(r, &l[i], first, m, to, narrow && (to->zipped || m % (2 * GROUP) == 0), &p[i]);
            write_products(p, n, &small);
            st = pe_pace_add(pace, 2 * (int64_t)(m * n) * TURN_NS);
        }
        for (size_t i = 0; i < n && !st; i++)
            if (small >> i & 1)
                st = put_line_plainly(r, &l[i], first, m, to, pace);
    }
    return st;
}

/* A position that is not whole. */
static posenc_status put_exactly(const pe_rotor *r, double position, int64_t i, const pe_rotor_place *to, pe_pace *pace)
{
    const line l = { .position = position, .i = i, .opposite = -1 };
    posenc_status st = PE_OK;
    for (size_t first = 0; first < r->pairs && !st; first += SOME)
        st = put_line_plainly(r, &l, first, r->pairs - first < SOME ? r->pairs - first : SOME, to, pace);
    return st;
}

posenc_status pe_rotor_rows(pe_rotor *r, double first, int64_t n, const pe_rotor_place *to, pe_pace *pace)
{
    posenc_status st = PE_OK;
    const size_t most = keeps(r->pairs) ? MOST_LINES : 1; /* rotations that are there together */
    for (int64_t i = 0; i < n && !st;) {
        const double position = first + (double)i;
        line l[MOST_LINES];
        size_t lines = 0;
        if (!is_whole(position)) {
            st = put_exactly(r, position, i++, to, pace);
            continue;
        }
        if (position < 0 || n - i < 2) {
            l[0] = (line){ .position = position, .i = i++, .opposite = -1 };
            st = prepare(r, (int64_t)fabs(position), &l[0].y, pace);
            st = st ? st : put_lines(r, l, 1, to, pace);
            continue;
        }
        /* the rows of one block: pairs of them as far as both are there */
        const int64_t p = (int64_t)position, anchor = (p + FARTHEST) / STEPS * STEPS, end = p + n - i;
        const int64_t stop = end < anchor + FARTHEST ? end : anchor + FARTHEST;
        for (int64_t k = 0; k <= FARTHEST && !st; k++) {
            const int64_t back = anchor - k, forth = anchor + k;
            const bool is_back = k > 0 && back >= p && back < stop, is_forth = forth >= p && forth < stop;
            if (is_back || is_forth) {
                const int64_t one = is_back ? back : forth;
                l[lines] = (line){ .position = (double)one, .position2 = (double)forth, .i = i + one - p, .opposite = -1 };
                if (is_back && is_forth)
                    l[lines].opposite = i + forth - p;
                st = prepare(r, one, &l[lines++].y, pace);
            }
            if (!st && (lines == most || (lines && k == FARTHEST))) {
                st = put_lines(r, l, lines, to, pace);
                lines = 0;
            }
        }
        i += stop - p;
    }
    return st;
}
