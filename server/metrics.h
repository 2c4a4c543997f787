/* metrics.h - counters and histograms, spoken as Prometheus text.
 *
 * Any thread. Labels are a ready-made text like `route="/livez",method="GET",code="200"` from a bounded set: route
 * templates, encodings, codes; never raw paths or client data. */
#ifndef PE_METRICS_H
#define PE_METRICS_H

#include "posenc.h"

/* name, help */
#define PE_COUNTERS(X)                                                                         \
    X(posenc_http_requests_total, "HTTP requests by route, method and status")                 \
    X(posenc_http_refused_total, "HTTP connections that the framing guard refused, by reason") \
    X(grpc_server_started_total, "gRPC calls started by method")                               \
    X(grpc_server_handled_total, "gRPC calls ended by method and code")                        \
    X(posenc_cache_requests_total, "look-ups by tier and result: hit, miss, collapsed")        \
    X(posenc_cache_evicted_bytes_total, "bytes that left the memory tier to make room")        \
    X(posenc_computations_total, "computations started by encoding")                           \
    X(posenc_compute_elements_total, "tensor elements computed by encoding")                   \
    X(posenc_cancelled_total, "computations stopped because nobody waited any more")           \
    X(posenc_rejected_total, "requests refused by reason: queue_full, draining, memory, deadline")

/* name, help; in seconds, buckets from 50 us by doubling to 26 s */
#define PE_HISTOGRAMS(X)                                                                               \
    X(posenc_http_request_duration_seconds, "time from the request line to the last byte handed over") \
    X(grpc_server_handling_seconds, "time of a gRPC call")                                             \
    X(posenc_compute_seconds, "time of a computation by encoding")                                     \
    X(posenc_queue_wait_seconds, "time a computation waited for a thread")

typedef enum pe_counter {
#define X(name, help) PE_##name,
    PE_COUNTERS(X)
#undef X
        PE_NCOUNTERS
} pe_counter;

typedef enum pe_histogram {
#define X(name, help) PE_##name,
    PE_HISTOGRAMS(X)
#undef X
        PE_NHISTOGRAMS
} pe_histogram;

typedef struct pe_metrics pe_metrics;
pe_metrics *pe_metrics_new(void);
void pe_metrics_free(pe_metrics *m);
void pe_metrics_add(pe_metrics *m, pe_counter c, const char *labels, double v);
void pe_metrics_observe(pe_metrics *m, pe_histogram h, const char *labels, double seconds);
double pe_metrics_get(pe_metrics *m, pe_counter c, const char *labels);
/* The exposition text, malloc'ed; `gauges` (may be NULL) is appended as it is. NULL: no memory. */
char *pe_metrics_text(pe_metrics *m, const char *gauges);

#endif
