/* stream.c - copies around the cache. */
#include "core/stream.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LINE = 64, LARGE = 1 << 25 }; /* results up to LARGE bytes stay in the cache of most machines */

/* ---- stores ---- */

#if defined(__x86_64__)
#include <immintrin.h>

/* Whole lines; `to` is aligned to them. */
static void lines_base(char *to, const char *from, size_t n)
{
    for (size_t i = 0; i < n; i += sizeof(__m128i))
        _mm_stream_si128((__m128i *)(to + i), _mm_loadu_si128((const __m128i *)(from + i)));
}

__attribute__((target("avx2"))) static void lines_avx2(char *to, const char *from, size_t n)
{
    for (size_t i = 0; i < n; i += sizeof(__m256i))
        _mm256_stream_si256((__m256i *)(to + i), _mm256_loadu_si256((const __m256i *)(from + i)));
}

__attribute__((target("avx512f"))) static void lines_avx512(char *to, const char *from, size_t n)
{
    for (size_t i = 0; i < n; i += sizeof(__m512i))
        _mm512_stream_si512((__m512i *)(to + i), _mm512_loadu_si512(from + i));
}

static void lines(pe_path path, char *to, const char *from, size_t n)
{
    static void (*const paths[PE_PATHS])(char *, const char *, size_t) = { lines_base, lines_avx2, lines_avx512 };
    paths[path](to, from, n);
}

static void fence(void) { _mm_sfence(); } /* such stores are not in order with others */
#else
static void lines(pe_path path, char *to, const char *from, size_t n)
{
    (void)path;
    memcpy(to, from, n);
}

static void fence(void) {}
#endif

void pe_stream_copy_on(pe_path path, void *to, const void *from, size_t n)
{
    const size_t head = (size_t)(-(uintptr_t)to % LINE), first = head < n ? head : n, middle = (n - first) / LINE * LINE;
    memcpy(to, from, first);
    lines(path, (char *)to + first, (const char *)from + first, middle);
    memcpy((char *)to + first + middle, (const char *)from + first + middle, n - first - middle);
}

/* ---- which memory ---- */

/* Whether the pages at its beginning, in its middle and at its end were touched before: a hint, no more. */
static bool touched(const char *to, size_t size)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < size; at += size / 2 - 1) {
        unsigned char there = 0;
        if (mincore((void *)(((uintptr_t)to + at) / page * page), 1, &there) || !(there & 1))
            return false;
    }
    return true;
}

void pe_stream_begin(pe_stream *s, void *to, size_t size, size_t row)
{
    s->to = to;
    s->used = 0;
#if defined(__x86_64__)
    s->past = size > LARGE && row <= PE_STREAM_BUFFER && touched(to, size);
#else
    (void)touched;
    (void)row;
    s->past = false;
#endif
}

static void flush(pe_stream *s)
{
    pe_stream_copy_on(pe_simd(), s->to, s->buffer, s->used);
    s->to += s->used;
    s->used = 0;
}

void *pe_stream_row(pe_stream *s, size_t row)
{
    void *at = s->to;
    if (!s->past) {
        s->to += row;
        return at;
    }
    if (s->used + row > PE_STREAM_BUFFER)
        flush(s);
    at = s->buffer + s->used;
    s->used += row;
    return at;
}

void pe_stream_end(pe_stream *s)
{
    if (!s->past)
        return;
    flush(s);
    fence();
}
