/* json.h - reads JSON where it stands: no tree, no allocation.
 *
 * A document is checked once, whole, by js_open; after that a js is a place in it that cannot be wrong.
 * Ownership: everything borrows from the text, which must be followed by a NUL. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct js {
    const char *s; /* first character of a value; NULL: no such value */
} js;

typedef struct js_walk {
    const char *s;
} js_walk;

bool js_open(const char *text, size_t n, js *root); /* false: not JSON, or nested deeper than 64 */
char js_kind(js v);                                 /* one of { [ " 0 t f n, or NUL for no value */
js js_member(js object, const char *key);
/* Elements of an array, values of an object; `key` (may be NULL) becomes the place of the value's name. */
js_walk js_begin(js container);
bool js_next(js_walk *w, js *key, js *value);
bool js_is(js v, const char *text); /* a string that equals text */
bool js_int(js v, int64_t *out);
bool js_real(js v, double *out);
/* Strings decoded, other values as they are written; shortened to fit. Returns buf. */
const char *js_text(js v, char *buf, size_t size);
size_t js_size(js v); /* characters of the value as written */

#endif
