/* arena.c - blocks that double, freed together. */
#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST = 16384, ALIGN = 64 };

typedef struct block {
    struct block *next;
    size_t size, used; /* of the whole block, this header included */
} block;

struct posenc_arena {
    block *top;
    size_t limit, total, next;
};

static size_t round_up(size_t n) { return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

static block *add_block(posenc_arena *a, size_t need)
{
    size_t size = a->next;
    if (size < need)
        size = need;
    if (size > a->limit - a->total) { /* the last block may be smaller than the doubling asks */
        if (need > a->limit - a->total)
            return NULL;
        size = need;
    }
    block *b = pe_result_memory(size);
    if (!b)
        return NULL;
    *b = (block){ .next = a->top, .size = size, .used = round_up(sizeof *b) };
    a->top = b;
    a->total += size;
    a->next = size * 2;
    return b;
}

posenc_arena *posenc_arena_new(size_t limit)
{
    posenc_arena *a = malloc(sizeof *a);
    if (a)
        *a = (posenc_arena){ .limit = limit & ~(size_t)(ALIGN - 1), .next = FIRST };
    return a;
}

void posenc_arena_free(posenc_arena *a)
{
    if (!a)
        return;
    for (block *b = a->top, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(a);
}

void *pe_alloc_plain(posenc_arena *a, size_t size)
{
    if (size > SIZE_MAX / 4)
        return NULL;
    size = round_up(size ? size : 1);
    block *b = a->top;
    if ((!b || size > b->size - b->used) && !(b = add_block(a, size + round_up(sizeof *b))))
        return NULL;
    void *p = (char *)b + b->used;
    b->used += size;
    return p;
}

void *posenc_alloc(posenc_arena *a, size_t size)
{
    void *p = pe_alloc_plain(a, size);
    return p ? memset(p, 0, round_up(size)) : NULL;
}

char *posenc_strdup(posenc_arena *a, const char *s, size_t n)
{
    char *p = n < SIZE_MAX ? posenc_alloc(a, n + 1) : NULL;
    if (p && n)
        memcpy(p, s, n);
    return p;
}

size_t posenc_arena_used(const posenc_arena *a) { return a->total; }
