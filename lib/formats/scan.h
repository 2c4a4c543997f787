/* scan.h - JSON text read in place: checked once, then walked. No tree, no allocation, no locale.
 *
 * Thread-safe: nothing is kept. A pe_json borrows from the text and is valid as long as it.
 * The walking functions trust their text: only what pe_json_check accepted may be given to them.
 * Not done here: duplicate keys. Who reads an object knows its keys and refuses one it has seen. */
#ifndef PE_SCAN_H
#define PE_SCAN_H

#include "posenc.h"

enum { PE_JSON_DEPTH = 32, PE_JSON_DIGITS = 1000 }; /* nested brackets; characters of one number */

/* One value: its first byte and the byte after its last. */
typedef struct pe_json {
    const char *p, *end;
} pe_json;

typedef enum pe_json_kind { PE_J_NULL, PE_J_BOOL, PE_J_NUMBER, PE_J_STRING, PE_J_ARRAY, PE_J_OBJECT } pe_json_kind;

/* Strict RFC 8259 in UTF-8; an escaped NUL is refused. INVALID with line and column, LIMIT for the depth. */
posenc_status pe_json_check(const char *text, size_t n, const char *field, pe_json *out, posenc_error *err);

pe_json_kind pe_json_type(pe_json v);
/* The next element or member of v; *element (*value) starts at { 0 }. False after the last. */
bool pe_json_next(pe_json v, pe_json *element);
bool pe_json_member(pe_json v, pe_json *key, pe_json *value);

bool pe_json_true(pe_json v);
/* Whole numbers in any spelling (10000, 1e4, 10000.0); false for others and beyond int64. */
bool pe_json_int(pe_json v, int64_t *out);
/* Correctly rounded; false beyond float64, and for integers that float64 does not hold exactly. */
bool pe_json_real(pe_json v, double *out);
/* Decodes a string into out, which has room for v.end - v.p bytes; ends it with NUL. Returns the length. */
size_t pe_json_string(pe_json v, char *out);
bool pe_json_is(pe_json v, const char *word);

/* The text of v for messages, cut to fit a fault. */
posenc_short pe_json_show(pe_json v);

#endif
