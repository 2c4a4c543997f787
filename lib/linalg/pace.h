/* pace.h - when a long computation looks at its context.
 *
 * Loops report their work in steps of about a nanosecond; the context is polled every two milliseconds or so.
 * One pace belongs to one call: not shared, owns nothing. */
#ifndef PE_PACE_H
#define PE_PACE_H

#include "posenc.h"

enum { PE_PACE_STEPS = 1 << 21 };

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

/* Out of memory, in the words of every function of this folder. */
static inline posenc_status pe_no_memory(posenc_error *err)
{
    return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "memory for the eigensolver; try again later");
}

#endif
