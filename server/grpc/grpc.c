/* grpc.c - the door's life: start, quiesce, drain, stop.
 *
 * Threads: N pollers of one completion queue, and the acceptor (accept.c), which also does the upkeep. Signals must be
 * blocked before pe_grpc_start: the core's own threads inherit the mask.
 *
 * Stop order, as each step needs the next ones alive: no new connections; no new calls, streams told; calls in flight end
 * or are cancelled; the core reports the end of the server; no call object is left with the core; the queue is shut down and
 * the pollers leave; the server, the queues, the core. A computation that outlives its call never comes back here: the call
 * has left it by pe_service_cancel. */
#include "grpc/call.h"
#include "grpc/reflect.h"

#include "log.h"

#include <grpc/grpc_posix.h>
#include <grpc/slice.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As operations.md G has them: the core's defaults answer common clients' pings with GOAWAY. */
enum {
    KEEPALIVE_MS = 60000,
    KEEPALIVE_TIMEOUT_MS = 20000,
    MIN_PING_MS = 10000,
    PING_STRIKES = 2,
    IDLE_MS = 300000,
    AGE_MS = 1800000, /* the core adds 10 % jitter */
    AGE_GRACE_MS = 60000,
    GOODBYE_MS = 500, /* for clients to close their connections when no call is left */
    LOG_LINES = 20,   /* of the core, in a second */
    QUOTA_MIN = 64 << 20,
};

/* ---- the core's log ---- */

/* It quotes what clients send, and a client can make it speak at will. */
static void log_core(gpr_log_func_args *args)
{
    static _Atomic int64_t second;
    static atomic_int lines;
    int64_t now = pe_now_ns() / 1000000000;
    if (atomic_exchange(&second, now) != now)
        atomic_store(&lines, 0);
    if (args->severity >= GPR_LOG_SEVERITY_ERROR && atomic_fetch_add(&lines, 1) < LOG_LINES)
        pe_log_event(PE_INFO, "grpc_core", "msg", args->message, NULL);
}

/* ---- start ---- */

static void on_connection(void *user, int fd)
{
    pe_grpc *g = user;
    grpc_server_add_channel_from_fd(g->server, fd, g->credentials);
}

static void on_tick(void *user)
{
    pe_rpc_expire(user);
    pe_health_tell(user); /* readiness changes with the queue, too */
}

static void on_phase(void *user) { pe_health_tell(user); }

static grpc_server *new_server(const pe_config *c)
{
    struct {
        const char *key;
        int64_t value;
    } settings[] = {
        /* what is larger than max_grpc_message and not than a REST body is refused by pe_rpc_read, whose error says more */
        { GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, c->max_grpc_message > c->max_body ? c->max_grpc_message : c->max_body },
        { GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1 },
        { GRPC_ARG_MAX_CONCURRENT_STREAMS, c->max_streams },
        { GRPC_ARG_MAX_METADATA_SIZE, c->max_metadata },
        { GRPC_ARG_KEEPALIVE_TIME_MS, KEEPALIVE_MS },
        { GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KEEPALIVE_TIMEOUT_MS },
        { GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1 },
        { GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, MIN_PING_MS },
        { GRPC_ARG_HTTP2_MAX_PING_STRIKES, PING_STRIKES },
        { GRPC_ARG_MAX_CONNECTION_IDLE_MS, IDLE_MS },
        { GRPC_ARG_MAX_CONNECTION_AGE_MS, AGE_MS },
        { GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, AGE_GRACE_MS },
        { GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 }, /* none: a small message must not unpack to a large one */
    };
    enum { N = sizeof settings / sizeof settings[0] };
    grpc_arg args[N + 1];
    memset(args, 0, sizeof args);
    for (size_t i = 0; i < N; i++) {
        args[i].type = GRPC_ARG_INTEGER;
        args[i].key = (char *)(uintptr_t)settings[i].key;
        args[i].value.integer = settings[i].value > INT_MAX ? INT_MAX : (int)settings[i].value;
    }
    grpc_resource_quota *quota = grpc_resource_quota_create("posenc");
    grpc_resource_quota_resize(quota, (size_t)(c->memory_budget / 4 > QUOTA_MIN ? c->memory_budget / 4 : QUOTA_MIN));
    args[N].type = GRPC_ARG_POINTER;
    args[N].key = (char *)(uintptr_t)GRPC_ARG_RESOURCE_QUOTA;
    args[N].value.pointer.p = quota;
    args[N].value.pointer.vtable = grpc_resource_quota_arg_vtable();
    grpc_channel_args all = { .num_args = N + 1, .args = args };
    grpc_server *server = grpc_server_create(&all, NULL);
    grpc_resource_quota_unref(quota);
    return server;
}

static void register_methods(pe_grpc *g)
{
    for (int m = 0; m < PE_UNKNOWN_METHOD; m++) {
        char path[128];
        snprintf(path, sizeof path, "/%s/%s", pe_methods[m].service, pe_methods[m].name);
        g->tag[m] = grpc_server_register_method(
            g->server, path, NULL, pe_methods[m].reads ? GRPC_SRM_PAYLOAD_NONE : GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER,
            0);
    }
}

static int cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

static void *poll_calls(void *g)
{
    pe_rpc_poll(g);
    return NULL;
}

static bool start_pollers(pe_grpc *g)
{
    int n = g->config->grpc_threads ? (int)g->config->grpc_threads : cores();
    g->poller = calloc((size_t)n, sizeof *g->poller);
    while (g->poller && g->npollers < n && !pthread_create(&g->poller[g->npollers], NULL, poll_calls, g))
        g->npollers++;
    return g->npollers == n;
}

pe_grpc *pe_grpc_start(pe_service *s, posenc_error *err)
{
    if (pe_reflect_check(err))
        return NULL;
    pe_grpc *g = calloc(1, sizeof *g);
    if (!g)
        goto no_memory;
    g->s = s;
    g->config = pe_service_config(s);
    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&g->idle, &monotonic);
    pthread_condattr_destroy(&monotonic);
    gpr_set_log_function(log_core);
    grpc_init();
    g->encodings = g->capabilities = grpc_empty_slice();
    g->cq = grpc_completion_queue_create_for_next(NULL);
    g->end_cq = grpc_completion_queue_create_for_pluck(NULL);
    g->credentials = grpc_insecure_server_credentials_create();
    g->server = new_server(g->config);
    register_methods(g);
    grpc_server_register_completion_queue(g->server, g->cq, NULL);
    grpc_server_register_completion_queue(g->server, g->end_cq, NULL);
    grpc_server_start(g->server);
    if (!pe_methods_prepare(g) || !(g->reflection = pe_reflection_new()) || !start_pollers(g))
        goto no_memory;
    for (int m = 0; m < PE_NMETHODS; m++)
        for (int i = 0; i < pe_methods[m].slots; i++)
            if (!pe_rpc_post(g, m))
                goto no_memory;
    pe_service_on_phase(s, on_phase, g);
    g->accept = pe_accept_new(g->config, &(pe_accept_hooks){ on_connection, on_tick, g }, err);
    if (g->accept)
        return g;
    pe_grpc_stop(g);
    return NULL;
no_memory:
    posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "grpc", "", "memory and threads for the gRPC door");
    pe_grpc_stop(g);
    return NULL;
}

const char *pe_grpc_address(const pe_grpc *g) { return pe_accept_address(g->accept); }

/* ---- end ---- */

void pe_grpc_quiesce(pe_grpc *g)
{
    if (g->shutting)
        return;
    g->shutting = true;
    if (g->accept)
        pe_accept_stop(g->accept);
    pthread_mutex_lock(&g->lock);
    g->quiet = true;
    pthread_mutex_unlock(&g->lock);
    for (pe_rpc *c = pe_rpc_next(g, NULL); c; c = pe_rpc_next(g, c))
        if (c->method == PE_WATCH || c->method == PE_REFLECTION || c->method == PE_REFLECTION_ALPHA)
            pe_rpc_end(c, NULL);
    grpc_server_shutdown_and_notify(g->server, g->end_cq, g);
}

static bool await_end(pe_grpc *g, gpr_timespec until)
{
    if (!g->over)
        g->over = grpc_completion_queue_pluck(g->end_cq, g, until, NULL).type == GRPC_OP_COMPLETE;
    return g->over;
}

bool pe_grpc_drain(pe_grpc *g, int64_t deadline_ns)
{
    struct timespec until = { .tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000 };
    pthread_mutex_lock(&g->lock);
    while (g->nactive && !pthread_cond_timedwait(&g->idle, &g->lock, &until))
        ;
    bool drained = !g->nactive;
    pthread_mutex_unlock(&g->lock);
    if (drained)
        await_end(g, gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(GOODBYE_MS, GPR_TIMESPAN)));
    return drained;
}

void pe_grpc_stop(pe_grpc *g)
{
    if (!g)
        return;
    pe_service_on_phase(g->s, NULL, NULL);
    pe_grpc_quiesce(g);
    bool cut = !g->over;
    if (cut) {
        grpc_server_cancel_all_calls(g->server);
        await_end(g, gpr_inf_future(GPR_CLOCK_MONOTONIC));
    }
    pthread_mutex_lock(&g->lock);
    while (g->npollers && g->nactive + g->nposted) /* without pollers nothing was posted */
        pthread_cond_wait(&g->idle, &g->lock);
    pthread_mutex_unlock(&g->lock);
    grpc_completion_queue_shutdown(g->cq);
    for (int i = 0; i < g->npollers; i++)
        pthread_join(g->poller[i], NULL);
    if (!g->npollers)
        pe_rpc_poll(g);
    grpc_server_destroy(g->server);
    grpc_completion_queue_destroy(g->cq);
    grpc_completion_queue_shutdown(g->end_cq);
    grpc_completion_queue_destroy(g->end_cq);
    grpc_server_credentials_release(g->credentials);
    grpc_slice_unref(g->encodings);
    grpc_slice_unref(g->capabilities);
    pe_accept_free(g->accept);
    if (!cut) /* after a cut the core may sleep up to 10 s on a write that stalled; grpc.h says what main does */
        grpc_shutdown_blocking();
    pe_reflection_free(g->reflection);
    for (pe_rpc *c = g->spare, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    pthread_cond_destroy(&g->idle);
    pthread_mutex_destroy(&g->lock);
    free(g->poller);
    free(g);
}
