/* accept.c - the accept loop: one thread, one epoll.
 *
 * The core never says that a connection it was given has closed. Each connection's socket cookie (a number that the kernel
 * never gives out twice) is kept beside its descriptor: as long as the descriptor answers with that cookie, the
 * connection is open. That is asked when a cap is near, and every tick. */
#include "grpc/accept.h"

#include "log.h"
#include "service.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum {
    PREFACE = sizeof preface - 1,
    HELLO = PREFACE + 9, /* and the header of the first frame, which must be SETTINGS */
    FRAME_TYPE = PREFACE + 3,
    SETTINGS = 4,
    BACKLOG = 1024,
    HELLO_MS = 10000,
    TICK_MS = 500,
    PAUSE_MS = 50, /* when descriptors have run out */
    BURST = 64,    /* connections taken before others are looked at */
};

typedef struct connection {
    int fd; /* -1: free */
    uint64_t cookie;
    uint8_t address[16]; /* IPv6, or IPv4 mapped into it; the network of an IPv6 host (64 bits) */
    int64_t deadline_ns; /* of the preface; 0: the core has it */
} connection;

struct pe_accept {
    pe_accept_hooks hooks;
    int64_t cap, cap_address;
    int epoll, wake, listener;
    char address[300];
    connection *table; /* (cap) the first `used` may be taken; the thread's alone */
    int64_t used;
    int64_t paused_until_ns;
    uint64_t refused, complained;
    pthread_t thread;
    bool running;
};

/* epoll's word for the listener, the wake-up, a connection by its place in the table */
enum { LISTENER, WAKE, FIRST };

/* ---- connections ---- */

static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t n = sizeof cookie;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &n) ? 0 : cookie;
}

static void address_of(const struct sockaddr_storage *from, uint8_t out[16])
{
    memset(out, 0, 16);
    if (from->ss_family == AF_INET) {
        out[10] = out[11] = 0xff;
        memcpy(out + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    } else if (from->ss_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
        memcpy(out, v6, IN6_IS_ADDR_V4MAPPED(v6) || IN6_IS_ADDR_LOOPBACK(v6) ? 16 : 8);
    }
}

/* Frees the places of connections that the core has closed. */
static void sweep(pe_accept *a)
{
    int64_t used = 0;
    for (int64_t i = 0; i < a->used; i++) {
        connection *c = &a->table[i];
        if (c->fd >= 0 && !c->deadline_ns && cookie_of(c->fd) != c->cookie)
            c->fd = -1;
        if (c->fd >= 0)
            used = i + 1;
    }
    a->used = used;
}

static int64_t place(pe_accept *a, const uint8_t address[16])
{
    for (int again = 0; again < 2; again++) {
        int64_t same = 0, free_place = -1;
        for (int64_t i = 0; i < a->used; i++) {
            if (a->table[i].fd < 0)
                free_place = free_place < 0 ? i : free_place;
            else
                same += !memcmp(a->table[i].address, address, 16);
        }
        if (free_place < 0 && a->used < a->cap)
            free_place = a->used;
        if (free_place >= 0 && same < a->cap_address) {
            a->used = free_place == a->used ? a->used + 1 : a->used;
            return free_place;
        }
        sweep(a);
    }
    return -1;
}

static void drop(connection *c)
{
    close(c->fd); /* leaves the epoll too */
    c->fd = -1;
}

/* Descriptors are given out lowest first: a number this high says that few are left. The rest of the program needs some. */
static bool too_high(int fd)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur == RLIM_INFINITY)
        return false;
    rlim_t margin = r.rlim_cur / 8 < 256 ? r.rlim_cur / 8 : 256;
    return (rlim_t)fd >= r.rlim_cur - margin;
}

static void welcome(pe_accept *a, int fd, const struct sockaddr_storage *from, int64_t now)
{
    uint8_t address[16];
    int one = 1, hello = HELLO;
    address_of(from, address);
    int64_t i = too_high(fd) ? -1 : place(a, address);
    if (i < 0) {
        a->refused++;
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &hello, sizeof hello); /* readable means: all of it, or the end */
    a->table[i] = (connection){ .fd = fd, .cookie = cookie_of(fd), .deadline_ns = now + (int64_t)HELLO_MS * 1000000 };
    memcpy(a->table[i].address, address, sizeof address);
    struct epoll_event e = { .events = EPOLLIN | EPOLLRDHUP, .data.u64 = (uint64_t)(FIRST + i) };
    if (!a->table[i].cookie || epoll_ctl(a->epoll, EPOLL_CTL_ADD, fd, &e))
        drop(&a->table[i]);
}

static void greet(pe_accept *a, connection *c, uint32_t events)
{
    char hello[HELLO];
    int one = 1;
    ssize_t n = recv(c->fd, hello, HELLO, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    size_t seen = n < 0 ? 0 : n < PREFACE ? (size_t)n : PREFACE;
    bool ended = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    if (seen && n < HELLO && !ended && !memcmp(hello, preface, seen))
        return; /* more will come */
    if (n < HELLO || memcmp(hello, preface, PREFACE) || hello[FRAME_TYPE] != SETTINGS) {
        drop(c);
        return;
    }
    epoll_ctl(a->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
    c->deadline_ns = 0;
    a->hooks.ready(a->hooks.user, c->fd);
}

/* ---- the loop ---- */

static void listen_to(pe_accept *a, bool on)
{
    struct epoll_event e = { .events = on ? EPOLLIN : 0, .data.u64 = LISTENER };
    epoll_ctl(a->epoll, EPOLL_CTL_MOD, a->listener, &e);
}

static void take(pe_accept *a, int64_t now)
{
    for (int i = 0; i < BURST; i++) {
        struct sockaddr_storage from = { 0 };
        socklen_t n = sizeof from;
        int fd = accept4(a->listener, (struct sockaddr *)&from, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            welcome(a, fd, &from, now);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            listen_to(a, false); /* those that wait stay in the backlog */
            a->paused_until_ns = now + (int64_t)PAUSE_MS * 1000000;
            a->refused++;
            return;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } /* ECONNABORTED and the like concern one connection */
    }
}

static void tick(pe_accept *a, int64_t now)
{
    sweep(a);
    for (int64_t i = 0; i < a->used; i++)
        if (a->table[i].fd >= 0 && a->table[i].deadline_ns && a->table[i].deadline_ns <= now)
            drop(&a->table[i]);
    if (a->refused != a->complained) {
        pe_log_event(PE_INFO, "grpc_connections_refused", "count",
                     posenc_text("%llu", (unsigned long long)(a->refused - a->complained)).s, "open",
                     posenc_text("%lld", (long long)a->used).s, NULL);
        a->complained = a->refused;
    }
    a->hooks.tick(a->hooks.user);
}

static void *run(void *arg)
{
    pe_accept *a = arg;
    int64_t next_tick = pe_now_ns();
    for (;;) {
        struct epoll_event e[64];
        int n = epoll_wait(a->epoll, e, 64, a->paused_until_ns ? PAUSE_MS : TICK_MS);
        int64_t now = pe_now_ns();
        for (int i = 0; i < n; i++) {
            uint64_t what = e[i].data.u64;
            if (what == WAKE)
                return NULL;
            if (what == LISTENER)
                take(a, now);
            else if (a->table[what - FIRST].fd >= 0 && a->table[what - FIRST].deadline_ns)
                greet(a, &a->table[what - FIRST], e[i].events);
        }
        if (a->paused_until_ns && now >= a->paused_until_ns) {
            a->paused_until_ns = 0;
            listen_to(a, true);
        }
        if (now >= next_tick) {
            tick(a, now);
            next_tick = now + (int64_t)TICK_MS * 1000000;
        }
    }
}

/* ---- life ---- */

static posenc_status refuse(const char *text, const char *allowed, posenc_error *err)
{
    return posenc_fail(err, PE_INVALID, "INVALID_SETTING", "grpc", text, "%s", allowed);
}

static posenc_status bind_to(pe_accept *a, const char *text, posenc_error *err)
{
    char host[256], port[16], name[NI_MAXHOST], service[NI_MAXSERV];
    int number, one = 1;
    if (!pe_config_address(text, host, &number))
        return refuse(text, "HOST:PORT or [IPV6]:PORT", err);
    snprintf(port, sizeof port, "%d", number);
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *list = NULL;
    if (getaddrinfo(host, port, &hints, &list))
        return refuse(text, "a host that resolves", err);
    int why = 0;
    for (struct addrinfo *i = list; i && a->listener < 0; i = i->ai_next) {
        int fd = socket(i->ai_family, i->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            why = errno;
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        struct sockaddr_storage bound = { 0 };
        socklen_t size = sizeof bound;
        struct epoll_event e = { .events = EPOLLIN, .data.u64 = LISTENER };
        if (bind(fd, i->ai_addr, i->ai_addrlen) || listen(fd, BACKLOG) ||
            getsockname(fd, (struct sockaddr *)&bound, &size) || epoll_ctl(a->epoll, EPOLL_CTL_ADD, fd, &e)) {
            why = errno;
            close(fd);
            continue;
        }
        a->listener = fd;
        getnameinfo((struct sockaddr *)&bound, size, name, sizeof name, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV);
        snprintf(a->address, sizeof a->address, strchr(name, ':') ? "[%s]:%s" : "%s:%s", name, service);
    }
    freeaddrinfo(list);
    char buf[128];
    if (a->listener < 0)
        posenc_fail(err, PE_INVALID, "INVALID_SETTING", "grpc", text, "an address that is free: %s",
                    strerror_r(why, buf, sizeof buf));
    return a->listener < 0 ? PE_INVALID : PE_OK;
}

pe_accept *pe_accept_new(const pe_config *c, const pe_accept_hooks *hooks, posenc_error *err)
{
    pe_accept *a = calloc(1, sizeof *a);
    if (!a)
        goto no_memory;
    *a = (pe_accept){ .hooks = *hooks,
                      .cap = c->connections,
                      .cap_address = c->connections_per_address,
                      .epoll = -1,
                      .wake = -1,
                      .listener = -1 };
    a->table = calloc((size_t)a->cap, sizeof *a->table);
    if (!a->table)
        goto no_memory;
    for (int64_t i = 0; i < a->cap; i++)
        a->table[i].fd = -1;
    struct epoll_event e = { .events = EPOLLIN, .data.u64 = WAKE };
    if ((a->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0 || (a->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 ||
        epoll_ctl(a->epoll, EPOLL_CTL_ADD, a->wake, &e))
        goto no_memory;
    if (bind_to(a, c->grpc, err)) {
        pe_accept_free(a);
        return NULL;
    }
    if (pthread_create(&a->thread, NULL, run, a))
        goto no_memory;
    a->running = true;
    return a;
no_memory:
    pe_accept_free(a);
    posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "grpc", "", "memory, descriptors and threads for the gRPC listener");
    return NULL;
}

const char *pe_accept_address(const pe_accept *a) { return a->address; }

void pe_accept_stop(pe_accept *a)
{
    if (a->running) {
        uint64_t one = 1;
        while (write(a->wake, &one, sizeof one) < 0 && errno == EINTR)
            ;
        pthread_join(a->thread, NULL);
        a->running = false;
    }
    if (a->listener >= 0)
        close(a->listener);
    a->listener = -1;
    for (int64_t i = 0; i < a->used; i++)
        if (a->table[i].fd >= 0 && a->table[i].deadline_ns)
            drop(&a->table[i]);
    a->used = 0;
}

void pe_accept_free(pe_accept *a)
{
    if (!a)
        return;
    pe_accept_stop(a);
    if (a->epoll >= 0)
        close(a->epoll);
    if (a->wake >= 0)
        close(a->wake);
    free(a->table);
    free(a);
}
