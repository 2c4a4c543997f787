/* stream.h - large results, written past the cache.
 *
 * A store to memory that is not in the cache first reads it. Beyond the cache that halves what a table can reach, unless
 * the rows are gathered in the cache and copied from there by stores that go around it. Of memory that was never touched
 * the opposite holds: the kernel has just cleared the page, which lies in the cache, so rows are written where they belong.
 * The bytes are the same.
 * One stream belongs to one call; it borrows its memory. */
#ifndef PE_STREAM_H
#define PE_STREAM_H

#include "core/lanes.h"

#include <stdbool.h>
#include <stddef.h>

enum { PE_STREAM_BUFFER = 1 << 15 }; /* bytes; longer rows are written where they belong */

typedef struct pe_stream {
    char *to; /* where the buffer, or the next row, goes */
    size_t used;
    bool past; /* the cache */
    char buffer[PE_STREAM_BUFFER] __attribute__((aligned(64)));
} pe_stream;

/* For `size` bytes at `to`, in rows of at most `row` bytes. */
void pe_stream_begin(pe_stream *s, void *to, size_t size, size_t row);
/* Where the next `row` bytes are to be written, before any other call. */
void *pe_stream_row(pe_stream *s, size_t row);
void pe_stream_end(pe_stream *s); /* all rows are where they belong, for every thread */

/* What it copies the buffer by, on one path, which this CPU has: for tests. Not yet in order with other stores. */
void pe_stream_copy_on(pe_path path, void *to, const void *from, size_t n);

#endif
