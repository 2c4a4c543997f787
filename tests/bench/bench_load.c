/* bench_load.c - asks an HTTP server for one thing, again and again, on connections that stay open: the load of serving.py,
 * which looks at the server's CPU time meanwhile.
 *
 * usage: bench_load HOST PORT CONNECTIONS TARGET [HEADER]      HEADER: a line of the request, such as If-None-Match: "x"
 * A line of standard input, "SECONDS", asks for that long, each connection one request at a time, and prints how many
 * answers came, their status, and the bytes of one with its head. Any other answer than the first one's status is the end.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 256, HEAD = 8192 };

typedef struct connection {
    char head[HEAD + 1];
    size_t got, left; /* of the head; of the body, once the head is whole */
    int in_body;
} connection;

static struct pollfd fds[MOST];
static connection connections[MOST];
static char request[4096], body[1 << 18];
static size_t request_size, answer_size;
static int status;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void ask(int i)
{
    connections[i].got = connections[i].left = 0;
    connections[i].in_body = 0;
    if (write(fds[i].fd, request, request_size) != (ssize_t)request_size)
        fail("write");
}

/* Takes what is there of connection i. 1: the answer is whole. */
static int take(int i)
{
    connection *c = &connections[i];
    ssize_t n = c->in_body ? read(fds[i].fd, body, c->left < sizeof body ? c->left : sizeof body)
                           : read(fds[i].fd, c->head + c->got, HEAD - c->got);
    if (n <= 0)
        fail("read");
    if (c->in_body) {
        c->left -= (size_t)n;
        return !c->left;
    }
    c->got += (size_t)n;
    c->head[c->got] = 0;
    const char *end = strstr(c->head, "\r\n\r\n"), *length = strcasestr(c->head, "\r\nContent-Length:");
    if (!end)
        return 0;
    const int code = atoi(c->head + 9);
    const size_t head = (size_t)(end + 4 - c->head), size = code == 304 || !length ? 0 : strtoul(length + 17, NULL, 10);
    if (status && code != status) {
        fprintf(stderr, "bench_load: status %d after %d\n%.*s\n", code, status, (int)head, c->head);
        exit(1);
    }
    status = code;
    answer_size = head + size;
    c->in_body = 1;
    c->left = answer_size - c->got;
    return !c->left;
}

static long load(int n, double seconds)
{
    const double end = now() + seconds;
    long answers = 0;
    int busy = n;
    for (int i = 0; i < n; i++)
        ask(i);
    while (busy) {
        if (poll(fds, (nfds_t)n, -1) < 0)
            fail("poll");
        const int more = now() < end;
        for (int i = 0; i < n; i++)
            if (fds[i].revents && take(i)) {
                answers++;
                if (more)
                    ask(i);
                else
                    busy--;
            }
    }
    return answers;
}

int main(int argc, char **argv)
{
    const int n = argc > 4 ? atoi(argv[3]) : 0;
    if (n < 1 || n > MOST) {
        fprintf(stderr, "usage: bench_load HOST PORT CONNECTIONS (1 .. %d) TARGET [HEADER]\n", MOST);
        return 2;
    }
    request_size = (size_t)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n", argv[4], argv[1],
                                    argc > 5 ? argv[5] : "", argc > 5 ? "\r\n" : "");
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2])) };
    if (request_size >= sizeof request || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) {
        fprintf(stderr, "bench_load: HOST is an IPv4 address, TARGET short\n");
        return 2;
    }
    for (int i = 0; i < n; i++) {
        fds[i] = (struct pollfd){ .fd = socket(AF_INET, SOCK_STREAM, 0), .events = POLLIN };
        if (fds[i].fd < 0 || connect(fds[i].fd, (struct sockaddr *)&to, sizeof to))
            fail("connect");
    }
    char line[100];
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        const long answers = load(n, atof(line));
        printf("%ld %d %zu\n", answers, status, answer_size);
    }
    return 0;
}
