/* config.h - the daemon's settings: flags over environment over file over default.
 *
 * Every setting is one row (config.c): `--http-threads 2`, POSENC_HTTP_THREADS=2, `http_threads = 2` in the file.
 * Read once at start; immutable afterwards, so any thread may read it. */
#ifndef PE_CONFIG_H
#define PE_CONFIG_H

#include "posenc.h"

#include <stdio.h>

typedef struct pe_config {
    posenc_given given;
    const char *http, *grpc, *admin;             /* HOST:PORT; port 0 picks a free one; admin NULL: admin routes on http */
    bool insecure;                               /* listen beyond loopback without key or TLS */
    const char *memory_budget_text;              /* "512MiB"; NULL: a quarter of the machine's or the cgroup's memory */
    int64_t threads, http_threads, grpc_threads; /* 0: one a core */
    int64_t queue;                               /* computations waiting at most */
    int64_t connections, connections_per_address;
    int64_t deadline_ms;      /* when the client sets none */
    int64_t drain_delay_ms;   /* how long SIGTERM goes on serving with readiness false */
    int64_t drain_timeout_ms; /* how long SIGTERM waits for running requests */
    int64_t keep_alive_ms, header_ms, body_ms;
    int64_t max_body, max_target, max_headers, max_result, max_request_memory, max_json_elements, max_csv_elements,
        max_plot_elements;
    int64_t max_grpc_message, max_grpc_unary, max_metadata, max_streams, stream_chunk;
    int64_t max_nodes, max_edges, max_graphs;
    const char *log_level; /* error, info, debug */
    /* filled in by pe_config_load: */
    uint64_t memory_budget; /* bytes */
} pe_config;

extern const posenc_table pe_config_table;

typedef enum pe_config_mode {
    PE_RUN,
    PE_CHECK_CONFIG,
    PE_PRINT_CONFIG,
    PE_PRINT_VERSION,
    PE_PRINT_HELP,
    PE_ASK_HEALTH
} pe_config_mode;

/* Reads file (--config FILE), environment and flags; every fault is in `err`. Strings live in the arena. */
posenc_status pe_config_load(int argc, char **argv, posenc_arena *a, pe_config *out, pe_config_mode *mode,
                             posenc_error *err);
void pe_config_print(const pe_config *c, FILE *f); /* name = value lines that pe_config_load reads back */
void pe_config_help(FILE *f);
/* "HOST:PORT" or "[V6]:PORT" split; false when it is not of that form. */
bool pe_config_address(const char *text, char host[256], int *port);
bool pe_config_loopback(const char *host);

#endif
