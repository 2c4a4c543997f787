/* test_guard.c - the framing machine: every vector, whole and split at every byte. */
#include "http/guard.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

Suite *guard_suite(void);

static const pe_guard_route routes[] = { { "PUT /v1/tables/", 1000 } };
static const pe_guard_limits limits = {
    .body = 100,
    .target = 40,
    .headers = 160,
    .header_count = 4,
    .arg_count = 3,
    .header_ms = 1000,
    .body_ms = 2000,
    .body_rate = 10,
    .send_ms = 3000,
    .send_rate = 10,
    .routes = routes,
    .nroutes = 1,
};

#define GET "GET /a HTTP/1.1\r\nHost: x\r\n"
#define POST "POST /a HTTP/1.1\r\nHost: x\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define TEN "0123456789"

/* The bytes may hold NULs: n is the literal's size. `messages` complete ones come before the verdict. */
static const struct vector {
    const char *bytes;
    size_t n;
    pe_framing_reason reason;
    unsigned messages;
} vectors[] = {
#define V(bytes, reason, messages)                              \
    {                                                           \
        bytes, sizeof(bytes) - 1, PE_FRAMING_##reason, messages \
    }
    /* good */
    V(GET "\r\n", OK, 1),
    V("\r\n" GET "\r\n\r\n" GET "\r\n", OK, 2),
    V(GET "\r\n" POST "Content-Length: 5\r\n\r\nhello" GET "\r\n", OK, 3),
    V(POST "content-length:\t0005\r\n\r\nhello", OK, 1),
    V(POST "Content-Length: 0\r\n\r\n", OK, 1),
    V(GET "Content-Length: 0\r\n\r\n", OK, 1),
    V(CHUNKED "5\r\nhello\r\n00A\r\n" TEN "\r\n0\r\n\r\n" GET "\r\n", OK, 2),
    V(POST "Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n", OK, 1),
    V("GET /a HTTP/1.0\r\n\r\n", OK, 1),
    V("GET /a HTTP/1.0\r\nExpect: nothing\r\n\r\n", OK, 1),
    V("GET /a HTTP/1.0\r\n\r\n\1\2\3", OK, 1),
    V("GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n" GET "\r\n", OK, 2),
    V(GET "Connection: x, Close\r\n\r\nnonsense", OK, 1),
    V("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", OK, 1),
    V("GET /a%2f?x=%FF HTTP/1.1\r\nHost: [::1]:80\r\nX:\r\nY: \t \xc3\xa4\t z \r\n\r\n", OK, 1),
    V(POST "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx", OK, 1),
    V("PUT /v1/tables/t HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n", OK, 0),
    V("GET /?a&b&c HTTP/1.1\r\nHost:\r\nCookie: a;b;c;d\r\n\r\n", OK, 1),
    V("BREW /a HTTP/1.1\r\nHost: x\r\n\r\n", OK, 1),
    /* request line */
    V("\r\n\r\n" GET "\r\n", REQUEST_LINE, 0),
    V("\n" GET "\r\n", LINE_END, 0),
    V("\r" GET "\r\n", LINE_END, 0),
    V(" GET /a HTTP/1.1\r\n", REQUEST_LINE, 0),
    V("GET  /a HTTP/1.1\r\n", TARGET, 0),
    V("GET\t/a HTTP/1.1\r\n", REQUEST_LINE, 0),
    V("GET /a  HTTP/1.1\r\n", REQUEST_LINE, 0),
    V("GET /a b HTTP/1.1\r\n", REQUEST_LINE, 0),
    V("GET /a HTTP/1.1 \r\n", REQUEST_LINE, 0),
    V("GET /a\r\n", TARGET, 0),
    V("GET /a HTTP/1.1\n", LINE_END, 0),
    V("GET /a HTTP/1.1\r\r\n", LINE_END, 0),
    V("GET /a http/1.1\r\n", REQUEST_LINE, 0),
    V("GET /a HTTP/1.2\r\n", VERSION, 0),
    V("GET /a HTTP/0.9\r\n", VERSION, 0),
    V("PRI * HTTP/2.0\r\n", TARGET, 0),
    V("GET /a HTTP/11.1\r\n", REQUEST_LINE, 0),
    V("G\0T /a HTTP/1.1\r\n", REQUEST_LINE, 0),
    V("\x16\x03\x01\x02", REQUEST_LINE, 0),
    V("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\n", METHOD, 0),
    /* target */
    V("GET * HTTP/1.1\r\n", TARGET, 0),
    V("OPTIONS */ HTTP/1.1\r\n", TARGET, 0),
    V("GET http://x/a HTTP/1.1\r\n", TARGET, 0),
    V("CONNECT x:80 HTTP/1.1\r\n", TARGET, 0),
    V("GET a HTTP/1.1\r\n", TARGET, 0),
    V("GET /a#b HTTP/1.1\r\n", TARGET, 0),
    V("GET /a\0b HTTP/1.1\r\n", TARGET, 0),
    V("GET /\xc3\xa4 HTTP/1.1\r\n", TARGET, 0),
    V("GET /a\tb HTTP/1.1\r\n", TARGET, 0),
    V("GET /a%00x HTTP/1.1\r\n", TARGET, 0),
    V("GET /a%0 HTTP/1.1\r\n", TARGET, 0),
    V("GET /a% HTTP/1.1\r\n", TARGET, 0),
    V("GET /a%gg HTTP/1.1\r\n", TARGET, 0),
    V("GET /" TEN TEN TEN "012345678 HTTP/1.1\r\nHost: x\r\n\r\n", OK, 1),
    V("GET /" TEN TEN TEN "0123456789 HTTP/1.1\r\n", TARGET_LIMIT, 0),
    V("GET /?a&b&c&d HTTP/1.1\r\n", TARGET_LIMIT, 0),
    /* headers */
    V("GET /a HTTP/1.1\r\nHost: x\nX: y\r\n\r\n", LINE_END, 0),
    V(GET "X: y\nZ: a\r\n\r\n", LINE_END, 0),
    V(GET "X: y\rZ: a\r\n\r\n", LINE_END, 0),
    V(GET "\n", LINE_END, 0),
    V(GET "\rX", LINE_END, 0),
    V(GET "X : y\r\n\r\n", FIELD_NAME, 0),
    V(GET "X\r\n\r\n", FIELD_NAME, 0),
    V(GET ": y\r\n\r\n", FIELD_NAME, 0),
    V(GET "X(: y\r\n\r\n", FIELD_NAME, 0),
    V(GET "X: a\r\n  b\r\n\r\n", FIELD_FOLD, 0),
    V("GET /a HTTP/1.1\r\n Host: x\r\n\r\n", FIELD_FOLD, 0),
    V(GET "X: a\0b\r\n\r\n", FIELD_VALUE, 0),
    V(GET "X: a\x7f\r\n\r\n", FIELD_VALUE, 0),
    V(GET "A: \r\nB: \r\nC: \r\nD: \r\n\r\n", HEADER_LIMIT, 0),
    V(GET "A: " TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "0123\r\n\r\n", OK, 1),
    V(GET "A: " TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "01234\r\n\r\n", HEADER_LIMIT, 0),
    V(GET "Cookie: a;b;c;d;e\r\n\r\n", HEADER_LIMIT, 0),
    V("GET /a HTTP/1.1\r\n\r\n", HOST, 0),
    V(GET "Host: x\r\n\r\n", HOST, 0),
    V("GET /a HTTP/1.1\r\nHost: x y\r\n\r\n", HOST, 0),
    V("GET /a HTTP/1.1\r\nHost: u@x\r\n\r\n", HOST, 0),
    V(POST "Expect: 200-ok\r\n\r\n", EXPECT, 0),
    /* lengths */
    V(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", TWO_LENGTHS, 0),
    V(POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", TWO_LENGTHS, 0),
    V(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", CONTENT_LENGTH, 0),
    V(POST "Content-Length: +5\r\n\r\nhello", CONTENT_LENGTH, 0),
    V(POST "Content-Length: -1\r\n\r\n", CONTENT_LENGTH, 0),
    V(POST "Content-Length: 5, 5\r\n\r\nhello", CONTENT_LENGTH, 0),
    V(POST "Content-Length: 5 \r\n\r\nhello", CONTENT_LENGTH, 0),
    V(POST "Content-Length: 0x5\r\n\r\nhello", CONTENT_LENGTH, 0),
    V(POST "Content-Length:\r\n\r\n", CONTENT_LENGTH, 0),
    V(POST "Content-Length: 18446744073709551616\r\n\r\n", BODY_LIMIT, 0),
    V(POST "Content-Length: 18446744073709551621\r\n\r\n", BODY_LIMIT, 0),
    V(POST "Content-Length: 101\r\n\r\n", BODY_LIMIT, 0),
    V("PUT /v1/tables/t HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", BODY_LIMIT, 0),
    V("PUT /v1/%74ables/t HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n", BODY_LIMIT, 0),
    V(GET "Content-Length: 1\r\n\r\nx", NO_BODY, 0),
    V("HEAD /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", NO_BODY, 0),
    V(POST "Transfer-Encoding: gzip, chunked\r\n\r\n", CODING, 0),
    V(POST "Transfer-Encoding: xchunked\r\n\r\n", CODING, 0),
    V(POST "Transfer-Encoding: chunked \r\n\r\n", CODING, 0),
    V(POST "Transfer-Encoding: identity\r\n\r\n", CODING, 0),
    V(POST "Transfer-Encoding:\r\n\r\n", CODING, 0),
    V(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", TRANSFER, 0),
    V("POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", TRANSFER, 0),
    /* chunks */
    V(CHUNKED "0x5\r\nhello\r\n0\r\n\r\n", CHUNK, 0),
    V(CHUNKED "10000000000000005\r\nhello\r\n0\r\n\r\n", CHUNK, 0),
    V(CHUNKED "ffffffffffffffff\r\n", BODY_LIMIT, 0),
    V(CHUNKED "5;x=y\r\nhello\r\n0\r\n\r\n", CHUNK, 0),
    V(CHUNKED "5 \r\nhello\r\n0\r\n\r\n", CHUNK, 0),
    V(CHUNKED " 5\r\nhello\r\n0\r\n\r\n", CHUNK, 0),
    V(CHUNKED "\r\nhello\r\n0\r\n\r\n", CHUNK, 0),
    V(CHUNKED "5\nhello\r\n0\r\n\r\n", LINE_END, 0),
    V(CHUNKED "5\r\nhello\n0\r\n\r\n", CHUNK, 0),
    V(CHUNKED "5\r\nhelloX\r\n0\r\n\r\n", CHUNK, 0),
    V(CHUNKED "0\r\nX: y\r\n\r\n", TRAILER, 0),
    V(CHUNKED "0\r\n\n", TRAILER, 0),
    V(CHUNKED "40\r\n" TEN TEN TEN TEN TEN TEN "0123\r\n25\r\n", BODY_LIMIT, 0),
    /* behind good ones */
    V(GET "\r\nGET /b HTTP/1.1\r\nHost : x\r\n\r\n", FIELD_NAME, 1),
    V(POST "Content-Length: 3\r\n\r\nabc" CHUNKED "g\r\n", CHUNK, 1),
#undef V
};

static void feed_in(pe_framing *f, const struct vector *v, size_t first, size_t step)
{
    char *copy;
    size_t n = first;

    pe_framing_init(f, 7);
    for (size_t at = 0; at < v->n; at += n, n = step) {
        if (n > v->n - at)
            n = v->n - at;
        copy = malloc(n ? n : 1); /* its own block: the sanitizer sees a byte too many */
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, v->bytes + at, n);
        pe_framing_feed(f, copy, n, &limits, 7);
        free(copy);
    }
}

START_TEST(test_vector)
{
    const struct vector *v = &vectors[_i];
    pe_framing whole, split;

    feed_in(&whole, v, v->n, v->n);
    ck_assert_msg(whole.fault.reason == v->reason && whole.messages == v->messages,
                  "vector %d: %s at %" PRIu64 " after %" PRIu64 " messages", _i, pe_framing_reason_name(whole.fault.reason),
                  whole.total, whole.messages);
    for (size_t first = 0; first <= v->n; first++)
        for (size_t step = 1; step <= 3; step += 2) {
            feed_in(&split, v, first, step == 3 ? v->n : step);
            ck_assert_int_eq(split.fault.reason, whole.fault.reason);
            ck_assert_uint_eq(split.total, whole.total);
            ck_assert_uint_eq(split.boundary, whole.boundary);
            ck_assert_uint_eq(split.messages, whole.messages);
            ck_assert_str_eq(split.fault.field, whole.fault.field);
            ck_assert_str_eq(split.fault.value, whole.fault.value);
            ck_assert_str_eq(split.fault.allowed, whole.fault.allowed);
        }
}
END_TEST

START_TEST(test_boundary)
{
    static const char bytes[] = GET "\r\n" POST "Content-Length: 2\r\n\r\nab" GET "\r\n"
                                    "GET /c HT";
    pe_framing f;

    pe_framing_init(&f, 0);
    ck_assert(pe_framing_feed(&f, bytes, sizeof bytes - 1, &limits, 0));
    ck_assert_uint_eq(f.messages, 3);
    ck_assert_uint_eq(f.boundary, sizeof bytes - 1 - strlen("GET /c HT"));
    ck_assert_uint_eq(f.total, sizeof bytes - 1);
    ck_assert(!pe_framing_last(&f));
}
END_TEST

START_TEST(test_nothing_after_last)
{
    static const char bytes[] = GET "Connection: close\r\n\r\n" GET "\r\n";
    pe_framing f;

    pe_framing_init(&f, 0);
    ck_assert(pe_framing_feed(&f, bytes, sizeof bytes - 1, &limits, 0));
    ck_assert_uint_eq(f.messages, 1);
    ck_assert_uint_eq(f.total, f.boundary);
    ck_assert(pe_framing_last(&f));
    ck_assert_uint_eq(pe_framing_deadline(&f, &limits), UINT64_MAX);
}
END_TEST

START_TEST(test_deadlines)
{
    pe_framing f;

    pe_framing_init(&f, 100);
    ck_assert_uint_eq(pe_framing_deadline(&f, &limits), 1100); /* from the connection */
    ck_assert(pe_framing_feed(&f, "GET /", 5, &limits, 300));
    ck_assert_uint_eq(pe_framing_deadline(&f, &limits), 1100);
    ck_assert(pe_framing_feed(&f, " HTTP/1.1\r\nHost: x\r\n\r\n", 22, &limits, 400));
    ck_assert_uint_eq(pe_framing_deadline(&f, &limits), UINT64_MAX); /* between messages */
    ck_assert(pe_framing_feed(&f, "P", 1, &limits, 5000));
    ck_assert_uint_eq(pe_framing_deadline(&f, &limits), 6000); /* from the first byte */
    ck_assert(pe_framing_feed(&f, "OST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n", 47, &limits, 5500));
    ck_assert_uint_eq(pe_framing_deadline(&f, &limits), 7500);
    ck_assert(pe_framing_feed(&f, TEN TEN TEN, 30, &limits, 5600));
    ck_assert_uint_eq(pe_framing_deadline(&f, &limits), 10500); /* 3 s more for 30 bytes */
    pe_framing_expire(&f, &limits);
    ck_assert_int_eq(f.fault.reason, PE_FRAMING_BODY_TIME);
    ck_assert(!pe_framing_feed(&f, "x", 1, &limits, 5700));
}
END_TEST

START_TEST(test_answer)
{
    static const char bad[] = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: \"\\\r\n";
    static const char head[] = "HEAD /# HTTP/1.1\r\n";
    pe_framing f;
    char out[2048], *body, *length;

    pe_framing_init(&f, 0);
    ck_assert(!pe_framing_feed(&f, bad, sizeof bad - 1, &limits, 0));
    f.fault.id = 0xab;
    ck_assert_uint_eq(pe_framing_answer(&f.fault, 784111777, out, sizeof out), strlen(out));
    ck_assert_ptr_eq(strstr(out, "HTTP/1.1 400 Bad Request\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), out);
    ck_assert_ptr_nonnull(strstr(out, "\r\nConnection: close\r\n"));
    ck_assert_ptr_nonnull(strstr(out, "\r\nX-Request-Id: 00000000000000ab\r\n"));
    ck_assert_ptr_nonnull(strstr(out, "\"instance\":\"urn:posenc:request:00000000000000ab\""));
    ck_assert_ptr_nonnull(strstr(out, "\"reason\":\"MALFORMED_CONTENT_LENGTH\""));
    ck_assert_ptr_nonnull(strstr(out, "\"field\":\"Content-Length\",\"value\":\"\\\"\""));
    body = strstr(out, "\r\n\r\n");
    length = strstr(out, "Content-Length: ");
    ck_assert(body && length);
    ck_assert_uint_eq(strtoul(length + 16, NULL, 10), strlen(body + 4));

    pe_framing_init(&f, 0);
    ck_assert(!pe_framing_feed(&f, head, sizeof head - 1, &limits, 0));
    pe_framing_answer(&f.fault, 0, out, sizeof out);
    body = strstr(out, "\r\n\r\n");
    ck_assert(body && !body[4]);
}
END_TEST

/* The sweep alone, on a socket pair in place of a connection: one answer, one end. */
START_TEST(test_sweep)
{
    const pe_guard_limits defaults = PE_GUARD_LIMITS_DEFAULT;
    pe_guard_stats before, after;
    const uint64_t now = pe_guard_now();
    char c;
    int fd[2];

    pe_guard_init(&defaults);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    pe_guard_read_stats(&before);
    ck_assert(pe_guard_open(fd[0]));
    ck_assert(pe_guard_busy(fd[0]));
    pe_guard_sweep(now + 60000); /* busy: no deadline */
    pe_guard_read_stats(&after);
    ck_assert_uint_eq(after.idle, before.idle);
    pe_guard_close(fd[0]);
    ck_assert(pe_guard_open(fd[0]));
    pe_guard_sweep(now + 60000); /* never sent a byte: ended without an answer */
    pe_guard_sweep(now + 70000);
    pe_guard_read_stats(&after);
    ck_assert_uint_eq(after.idle, before.idle + 1);
    ck_assert_int_eq(recv(fd[1], &c, 1, MSG_DONTWAIT), -1);
    ck_assert_int_eq(recv(fd[0], &c, 1, MSG_DONTWAIT), 0);
    pe_guard_close(fd[0]);
    pe_guard_close(fd[0]);
    ck_assert(!pe_guard_open(1 << 20));
    close(fd[0]);
    close(fd[1]);
}
END_TEST

/* An answer that does not leave in time ends the connection; one that does leaves no deadline behind. */
START_TEST(test_answer_deadline)
{
    pe_guard_stats before, after;
    char c;
    int fd[2];

    pe_guard_init(&limits);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    pe_guard_read_stats(&before);
    ck_assert(pe_guard_open(fd[0]));
    ck_assert(pe_guard_answering(fd[0], 50)); /* 3 s, and 5 for 50 bytes */
    const uint64_t now = pe_guard_now();
    pe_guard_done(fd[0]);
    pe_guard_sweep(now + 9000);
    ck_assert(pe_guard_answering(fd[0], 50));
    pe_guard_sweep(now + 7000);
    pe_guard_read_stats(&after);
    ck_assert_uint_eq(after.cut, before.cut);
    ck_assert_int_eq(recv(fd[1], &c, 1, MSG_DONTWAIT), -1); /* open */
    pe_guard_sweep(now + 9000);
    pe_guard_sweep(now + 9500);
    pe_guard_read_stats(&after);
    ck_assert_uint_eq(after.cut, before.cut + 1);
    ck_assert_int_eq(recv(fd[1], &c, 1, MSG_DONTWAIT), 0);
    ck_assert_int_eq(send(fd[0], "x", 1, MSG_NOSIGNAL), -1);
    pe_guard_close(fd[0]);
    close(fd[0]);
    close(fd[1]);
}
END_TEST

/* Faults name the settings of config.c, and say where there is none. */
START_TEST(test_names_of_limits)
{
    static const struct {
        const char *bytes, *allowed;
    } t[] = { { "GET /" TEN TEN TEN TEN " HTTP/1.1\r\n", "at most 40 bytes (setting max_target)" },
              { GET "A: " TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN,
                "at most 160 bytes (setting max_headers)" },
              { "GET /?a&b&c&d HTTP/1.1\r\n", "at most 3 query parameters (fixed)" },
              { GET "A: \r\nB: \r\nC: \r\nD: \r\n\r\n", "at most 4 headers (fixed)" },
              { GET "Cookie: a;b;c;d;e\r\n\r\n", "at most 4 cookies (fixed)" },
              { POST "Content-Length: 101\r\n\r\n", "at most 100 bytes (setting max_body)" },
              { CHUNKED "65\r\n", "at most 100 bytes (setting max_body)" } };

    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        pe_framing f;

        pe_framing_init(&f, 0);
        ck_assert(!pe_framing_feed(&f, t[i].bytes, strlen(t[i].bytes), &limits, 0));
        ck_assert_str_eq(f.fault.allowed, t[i].allowed);
    }
}
END_TEST

Suite *guard_suite(void)
{
    Suite *s = suite_create("guard");
    TCase *t = tcase_create("framing");

    tcase_add_loop_test(t, test_vector, 0, (int)(sizeof vectors / sizeof *vectors));
    tcase_add_test(t, test_boundary);
    tcase_add_test(t, test_nothing_after_last);
    tcase_add_test(t, test_deadlines);
    tcase_add_test(t, test_answer);
    tcase_add_test(t, test_sweep);
    tcase_add_test(t, test_answer_deadline);
    tcase_add_test(t, test_names_of_limits);
    suite_add_tcase(s, t);
    return s;
}
