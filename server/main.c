/* main.c - start and stop order; nothing clever.
 *
 * Start: settings, signals blocked (every thread inherits the mask), service, doors, phase serving, the ready line.
 * Stop (SIGTERM, SIGINT): phase draining (readiness false), doors accept nothing new, wait for what runs, doors stop,
 * service stops. A second signal ends the process at once. */
#include "grpc/grpc.h"
#include "http/http.h"
#include "log.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int fail(const posenc_error *err)
{
    for (unsigned i = 0; i < err->n; i++) {
        const posenc_fault *f = &err->fault[i];
        fprintf(stderr, "posencd: %s: %s%s%s%s\n", f->field, f->value[0] ? "got " : "", f->value,
                f->value[0] ? ", allowed: " : "", f->allowed);
    }
    return 2;
}

/* GET /readyz of a running daemon, over a plain socket: 0 when it answers 200. */
static int ask_health(const pe_config *c)
{
    char host[256], port[16], answer[64] = "";
    int number;
    if (!pe_config_address(c->http, host, &number))
        return 1;
    if (!strcmp(host, "0.0.0.0"))
        strcpy(host, "127.0.0.1");
    else if (!strcmp(host, "::"))
        strcpy(host, "::1");
    snprintf(port, sizeof port, "%d", number);
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    if (getaddrinfo(host, port, &hints, &list)) {
        fprintf(stderr, "posencd: http: got %s, allowed: an address that resolves\n", host);
        return 1;
    }
    int fd = socket(list->ai_family, list->ai_socktype | SOCK_CLOEXEC, 0);
    struct timeval wait = { .tv_sec = 2 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    static const char ask[] = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    bool ok = fd >= 0 && !connect(fd, list->ai_addr, list->ai_addrlen) &&
              send(fd, ask, sizeof ask - 1, MSG_NOSIGNAL) == sizeof ask - 1 &&
              recv(fd, answer, sizeof answer - 1, MSG_WAITALL) > 12 && !strncmp(answer + 8, " 200", 4);
    freeaddrinfo(list);
    if (fd >= 0)
        close(fd);
    fprintf(stderr, "posencd: %s:%s is %s\n", host, port, ok ? "ready" : "not ready");
    return !ok;
}

/* As many descriptors as the system lets us have: each connection is one. */
static void raise_descriptors(void)
{
    struct rlimit r;
    if (!getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

static void *end_at_once(void *signals)
{
    int sig;
    sigwait(signals, &sig);
    pe_log_event(PE_ERROR, "killed", "msg", "second signal: ending without waiting", NULL);
    _exit(1);
}

static int serve(const pe_config *c)
{
    posenc_error err = { 0 };
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    raise_descriptors();
    pe_service *s = pe_service_new(c, &err);
    pe_http *http = s ? pe_http_start(s, &err) : NULL;
    pe_grpc *grpc = http ? pe_grpc_start(s, &err) : NULL;
    if (!grpc) {
        pe_http_stop(http);
        pe_service_free(s);
        fail(&err);
        return 1;
    }
    pe_service_set_phase(s, PE_SERVING);
    if (c->insecure)
        pe_log_event(PE_WARN, "insecure", "msg", "listening without keys and TLS: put a proxy in front", NULL);
    const char *admin = pe_http_admin_address(http);
    pe_log_event(PE_INFO, "ready", "http", pe_http_address(http), "grpc", pe_grpc_address(grpc), "admin", admin, "version",
                 POSENC_VERSION, NULL);
    printf("ready http=%s grpc=%s%s%s\n", pe_http_address(http), pe_grpc_address(grpc), admin ? " admin=" : "",
           admin ? admin : "");
    fflush(stdout);

    int sig;
    sigwait(&signals, &sig);
    pthread_t watcher;
    if (!pthread_create(&watcher, NULL, end_at_once, &signals))
        pthread_detach(watcher);
    pe_log_event(PE_INFO, "draining", "signal", sig == SIGTERM ? "SIGTERM" : "SIGINT", NULL);
    pe_service_set_phase(s, PE_LEAVING);
    struct timespec delay = { .tv_sec = c->drain_delay_ms / 1000, .tv_nsec = c->drain_delay_ms % 1000 * 1000000 };
    nanosleep(&delay, NULL);
    int64_t deadline = pe_now_ns() + c->drain_timeout_ms * 1000000;
    pe_service_set_phase(s, PE_DRAINING);
    pe_http_quiesce(http);
    pe_grpc_quiesce(grpc);
    bool http_done = pe_http_drain(http, deadline), grpc_done = pe_grpc_drain(grpc, deadline);
    pe_grpc_stop(grpc);
    pe_http_stop(http);
    pe_service_free(s);
    pe_log_event(PE_INFO, "stopped", "drained", http_done && grpc_done ? "all" : "some requests were cut", NULL);
    if (!grpc_done)
        _exit(0); /* grpc.h, pe_grpc_stop */
    return 0;
}

int main(int argc, char **argv)
{
    posenc_error err = { 0 };
    pe_config c;
    pe_config_mode mode;
    posenc_arena *a = posenc_arena_new(1 << 20);
    if (!a)
        return 1;
    posenc_status st = pe_config_load(argc, argv, a, &c, &mode, &err);
    int rc = 0;
    if (mode == PE_PRINT_HELP)
        pe_config_help(stdout);
    else if (mode == PE_PRINT_VERSION)
        printf("posencd %s\n", POSENC_VERSION);
    else if (st)
        rc = fail(&err);
    else if (mode == PE_PRINT_CONFIG)
        pe_config_print(&c, stdout);
    else if (mode == PE_ASK_HEALTH)
        rc = ask_health(&c);
    else if (mode == PE_RUN) {
        static const char *const levels[] = { "error", "warn", "info", "debug" };
        for (int i = 0; i < 4; i++)
            if (!strcmp(c.log_level, levels[i]))
                pe_log_level((pe_level)i);
        rc = serve(&c);
    }
    posenc_arena_free(a);
    return rc;
}
