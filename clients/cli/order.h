/* order.h - the command line, understood.
 *
 * Ownership: strings borrow from argv or live in the arena. */
#ifndef CLI_ORDER_H
#define CLI_ORDER_H

#include "posenc.h"

/* What the command answers to its caller. */
enum { DONE = 0, FAILED = 1, INVALID = 2, NOT_FOUND = 3, SERVER = 4, TOO_LATE = 5 };

typedef enum command { ENCODE, LIST, DESCRIBE, EXPLAIN, RESOLVE, ANALYZE, EXAMPLE_GRAPH, HELP, VERSION } command;

typedef struct pair {
    const char *name, *value;
} pair;

typedef struct order {
    command what;
    bool help;             /* NAME --help */
    const char *report;    /* ANALYZE: "analysis", "identify", "compare" */
    const char *table;     /* identify, compare: the file */
    const char *encoding;  /* NULL with analyze: a table from a file, which is the input `table`; NULL with identify */
    const char *extra;     /* the first word that has no place */
    const char *config;    /* resolve: the file, "-": standard input */
    pair *params, *inputs; /* parameters as typed; tensor parameters and their files */
    size_t nparams, ninputs;
    const char *graph, *weights; /* files */
    int64_t num_nodes;           /* -1: not said */
    bool directed, has_directed;
    bool has_format;
    posenc_format format;
    posenc_selection selection; /* rows and data; the tensor is chosen by name, when the outputs are known */
    const char *tensor, *rows, *data;
    const char *output; /* file; NULL: standard output */
    const char *url;    /* NULL: compute in this process */
    double deadline_s;  /* 0: none of our own */
    int threads;        /* 0: one a core */
    unsigned flags;     /* bit i: the command's own flag i was given */
} order;

posenc_status order_read(int argc, char **argv, posenc_arena *a, order *out, posenc_error *err);
int exit_code(posenc_status s);

#endif
