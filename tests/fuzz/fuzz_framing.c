/* fuzz_framing.c - the verdict on a byte stream, and where its messages end, do not depend on how it is split.
 *
 * Input: one byte seeds the splits, the rest is the stream. The whole stream is fed at once, byte by byte, and in
 * random pieces; the three machines must agree in everything but time. */
#include "http/guard.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Small, so that short inputs reach them. */
static const pe_guard_route routes[] = { { "PUT /t", 300 } };
static const pe_guard_limits limits = {
    .body = 60,
    .target = 24,
    .headers = 120,
    .header_count = 5,
    .arg_count = 4,
    .header_ms = 1000,
    .body_ms = 1000,
    .body_rate = 1,
    .routes = routes,
    .nroutes = 1,
};

enum { MAX_MESSAGES = 64 };

typedef struct trace {
    pe_framing f;
    uint64_t boundary[MAX_MESSAGES]; /* of message i, modulo MAX_MESSAGES; 0: passed inside a piece */
} trace;

static void feed(trace *t, const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1); /* its own block: the sanitizer sees a byte too many */
    const uint64_t had = t->f.messages;
    bool good;

    if (!copy)
        abort();
    if (n)
        memcpy(copy, data, n);
    good = pe_framing_feed(&t->f, copy, n, &limits, 5);
    free(copy);
    if (good != !t->f.fault.reason || t->f.boundary > t->f.total)
        abort();
    if (t->f.messages > had)
        t->boundary[(t->f.messages - 1) % MAX_MESSAGES] = t->f.boundary;
}

/* `every` has seen each boundary, `other` the last of each piece. */
static void compare(const trace *every, const trace *other)
{
    const pe_framing *a = &every->f, *b = &other->f;

    if (a->total != b->total || a->boundary != b->boundary || a->messages != b->messages || a->state != b->state ||
        a->received != b->received || memcmp(&a->fault, &b->fault, sizeof a->fault) != 0)
        abort();
    for (size_t i = 0; a->messages <= MAX_MESSAGES && i < MAX_MESSAGES; i++)
        if (other->boundary[i] && other->boundary[i] != every->boundary[i])
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static trace whole, bytes, pieces;
    uint32_t seed;
    char answer[2048];

    if (!size)
        return 0;
    seed = *data++ * 2654435761u + 1u;
    size--;
    memset(&whole, 0, sizeof whole);
    memset(&bytes, 0, sizeof bytes);
    memset(&pieces, 0, sizeof pieces);
    pe_framing_init(&whole.f, 5);
    pe_framing_init(&bytes.f, 5);
    pe_framing_init(&pieces.f, 5);
    feed(&whole, data, size);
    for (size_t i = 0; i < size; i++)
        feed(&bytes, data + i, 1);
    for (size_t i = 0, n; i < size; i += n) {
        seed = seed * 1664525u + 1013904223u;
        n = (seed >> 24) % 17u;
        if (n > size - i)
            n = size - i;
        feed(&pieces, data + i, n);
    }
    compare(&bytes, &whole);
    compare(&bytes, &pieces);
    if (whole.f.fault.reason) {
        const size_t n = pe_framing_answer(&whole.f.fault, 5, answer, sizeof answer);

        if (n < 100 || n >= sizeof answer - 1 || strlen(answer) != n)
            abort();
    }
    return 0;
}
