/* pace.h - when a long computation looks at its context.
 *
 * Loops report their work in steps of about a nanosecond; the context is polled some times a millisecond.
 * An access that misses the caches is many steps: a loop may take ten times what it reports, on a busy machine more.
 * One pace belongs to one call: not shared, owns nothing. */
#ifndef PE_PACE_H
#define PE_PACE_H

#include "posenc.h"

#include <string.h>

enum { PE_PACE_STEPS = 1 << 18 };

typedef struct pe_pace {
    posenc_context *ctx;
    int64_t left; /* steps until the next poll */
} pe_pace;

static inline posenc_status pe_pace_add(pe_pace *p, int64_t steps)
{
    p->left -= steps;
    if (p->left > 0)
        return PE_OK;
    p->left = PE_PACE_STEPS;
    return posenc_poll(p->ctx);
}

/* memcpy of what may be large; `to` may be memory never touched. */
static inline posenc_status pe_pace_copy(pe_pace *p, void *to, const void *from, size_t size)
{
    enum { CHUNK = 1 << 18 };
    posenc_status st = PE_OK;
    for (size_t i = 0; i < size && !st; i += CHUNK) {
        size_t bytes = size - i < CHUNK ? size - i : CHUNK;
        memcpy((char *)to + i, (const char *)from + i, bytes);
        st = pe_pace_add(p, (int64_t)bytes / 2);
    }
    return st;
}

/* memset to 0 of what may be large and never touched. */
static inline posenc_status pe_pace_zero(pe_pace *p, void *to, size_t size)
{
    enum { CHUNK = 1 << 18 };
    posenc_status st = PE_OK;
    for (size_t i = 0; i < size && !st; i += CHUNK) {
        memset((char *)to + i, 0, size - i < CHUNK ? size - i : CHUNK);
        st = pe_pace_add(p, CHUNK / 2);
    }
    return st;
}

/* For loops that write here and there in a large result: makes its pages first, for the first byte written to a huge page
 * clears two megabytes. All of `to` is written later. */
static inline posenc_status pe_pace_touch(pe_pace *p, void *to, size_t size)
{
    enum { PAGE = 1 << 12, CHUNK = 1 << 18 };
    posenc_status st = PE_OK;
    for (size_t i = 0; i < size && !st; i += CHUNK) {
        for (size_t k = i; k < size && k < i + CHUNK; k += PAGE)
            ((char *)to)[k] = 0;
        st = pe_pace_add(p, CHUNK / 2);
    }
    return st;
}

#endif
