/* headers.h - what clients write in targets and header fields, taken apart.
 *
 * Pure functions on bounded texts: no sockets, no allocation, no state. Any thread may call them. */
#ifndef PE_HEADERS_H
#define PE_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pe_span {
    const char *p;
    size_t n;
} pe_span;

/* ---- targets ---- */

/* Undoes %XX; `+` stays a plus sign, because numbers like 1e+3 occur. out has room for in.n + 1 bytes and is ended with
 * NUL. False: a % without two hexadecimal digits, or an encoded NUL. */
bool pe_percent_decode(pe_span in, char *out, size_t *n);
/* Takes the next pair off a query; empty pairs are skipped. value->p is NULL where there is no `=`. False at the end. */
bool pe_query_next(const char **query, pe_span *name, pe_span *value);
/* A path may be routed as it stands: it begins with a slash, has no empty, "." or ".." segment (a lone "/" is fine),
 * and only letters, digits and - . _ ~ in segments. What needs percent-encoding names nothing here. */
bool pe_path_plain(const char *path);
/* "/v1/{name}.{ext}" against "/v1/rope.npy": the texts of the placeholders in their order, at most `max`. A placeholder
 * takes at least one byte, no slash, and dots only where it follows a dot. Returns how many, -1: no match. */
int pe_path_match(const char *path_template, const char *path, pe_span *out, int max);
/* "3:17" as 3 and 17, with 0 <= a <= b. */
bool pe_rows_parse(const char *s, int64_t *a, int64_t *b);
/* Digits and nothing else. */
bool pe_count_parse(const char *s, int64_t *out);

/* ---- header fields ---- */

/* Does the list name this tag? `weak`: W/ is ignored on both sides; otherwise tags with W/ never match. "*" matches. */
bool pe_etag_listed(const char *list, const char *tag, bool weak);

typedef enum pe_range {
    PE_RANGE_IGNORED, /* absent, several ranges, another unit, or not understood: the whole is sent */
    PE_RANGE_PART,
    PE_RANGE_OUTSIDE /* 416 */
} pe_range;
/* "bytes=a-b", "bytes=a-", "bytes=-n" of a body of `size` bytes: first .. last inclusive. */
pe_range pe_range_parse(const char *s, uint64_t size, uint64_t *first, uint64_t *last);

/* May the answer be gzip? Weights are read; identity has to be the lesser. */
bool pe_accepts_gzip(const char *accept_encoding);
/* Seconds with at most nine decimals, over 0 and at most a day. */
bool pe_timeout_parse(const char *s, int64_t *ns);
/* A request id that may be echoed: 1 .. 64 of A-Z a-z 0-9 . _ - */
bool pe_request_id_sane(const char *s);

typedef enum pe_media {
    PE_MEDIA_NONE,
    PE_MEDIA_JSON,
    PE_MEDIA_SAFETENSORS,
    PE_MEDIA_NPZ,
    PE_MEDIA_NPY,
    PE_MEDIA_OTHER
} pe_media;
/* The media type of a body; JSON must be UTF-8. NULL: PE_MEDIA_NONE. */
pe_media pe_media_parse(const char *content_type);

/* ---- texts for the wire ---- */

/* s as a header value: visible ASCII and single bytes of space; everything else and % as %XX. Cut where out is full. */
void pe_header_escape(const char *s, char *out, size_t size);
/* s as valid UTF-8: each byte that is not part of a well-formed character becomes U+FFFD. Cut where out is full, never
 * inside a character. */
void pe_utf8_clean(const char *s, char *out, size_t size);

#endif
