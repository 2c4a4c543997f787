/* remote.h - the same request, asked of a server.
 *
 * Tries at most three times, and only where the server surely did no work for us or says to come back: no connection,
 * a connection cut before the first byte, 503. */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include "input.h"
#include "watch.h"

enum { MAX_WARNINGS = 16 };

typedef struct answer {
    long status; /* HTTP; 0: none */
    char *body;  /* a NUL follows */
    size_t size;
    char warning[MAX_WARNINGS][512]; /* of Posenc-Warning headers */
    int nwarnings;
    double retry_after_s; /* -1: not said */
} answer;

/* GET of a path below the server's address. All return an exit code and put what went wrong into err. */
int remote_get(const order *o, const char *path, watch *w, answer *out, posenc_error *err);
/* POST of a JSON document to a path below it. */
int remote_post_json(const order *o, const char *path, const char *json, size_t size, watch *w, answer *out,
                     posenc_error *err);
/* The request itself, as `format`; explain: only the words about it. */
int remote_encode(const order *o, const input *in, posenc_format format, bool explain, posenc_arena *a, watch *w,
                  answer *out, posenc_error *err);
void answer_fini(answer *a);

#endif
