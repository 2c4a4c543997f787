/* guard.h - HTTP/1.1 framing, checked before libmicrohttpd parses it.
 *
 * libmicrohttpd 0.9.75 takes messages that two parties can cut in two ways: both lengths at once, bare LF, folded
 * headers, a header that is slow for ever. The guard reads the same bytes first. What it lets through has one
 * reading only, and libmicrohttpd's reading is that one. What it refuses is answered by the guard itself with one
 * problem document, and the connection is closed.
 *
 * Two halves. pe_framing is the state machine: bytes in, verdict out; no sockets, no clock, no allocation.
 * pe_guard puts one pe_framing on every connection by replacing the read calls of libmicrohttpd.a at link time:
 *     -Wl,--wrap=recv -Wl,--wrap=gnutls_record_recv      (and the static libmicrohttpd.a)
 * Descriptors that were not opened with pe_guard_open are passed through. Shared libraries are not touched at all.
 * The TLS twin needs nothing else; it is used as soon as the door starts its listener with TLS, and sleeps until then.
 *
 * What the HTTP door owes the guard:
 *     pe_guard_init          once, before MHD_start_daemon
 *     pe_guard_open, _close  from MHD_OPTION_NOTIFY_CONNECTION (the descriptor is still valid at CLOSED)
 *     pe_guard_busy          before MHD_suspend_connection
 *     pe_guard_answering     before MHD_queue_response: also the answer has a deadline
 *     pe_guard_done          from MHD_OPTION_NOTIFY_COMPLETED, for every request: answers are counted
 *     pe_guard_sweep         every 250 ms or so, from one thread
 *     MHD_OPTION_CONNECTION_MEMORY_LIMIT of at least pe_guard_memory(), so that libmicrohttpd has no limits of its own
 *     SIGPIPE ignored
 *
 * Why answers never interleave. The guard counts the complete messages that it has let through and, with
 * pe_guard_done, those that have been answered. While answers are owed it writes nothing: libmicrohttpd gets the bytes
 * up to the end of the last complete message, and a fault behind it is withheld until the count is level again; then
 * libmicrohttpd's next read brings it out, or the sweep, unless libmicrohttpd has closed meanwhile. When nothing is
 * owed, a read shows that libmicrohttpd only waits, and the guard may write. The sweep writes only to plain
 * connections whose message is incomplete and not busy; TLS ones it wakes by ending their input, because a session has
 * one writer. After its answer the guard shuts the sending side, so nothing can follow; then it discards input until
 * the peer closes, at most PE_GUARD_LINGER_MS, lest a reset destroys the answer on its way. No thread waits for that.
 *
 * Threads: pe_guard functions may be called from any thread; one lock per connection, never held with another.
 * Ownership: nothing is handed over. A connection's state lives as long as the process and is used again with its
 *   descriptor; open and close bracket the life of the descriptor, so a late sweep cannot reach a stranger.
 * Not promised: that a request is meaningful; only where it begins and ends, and that it is within the limits. */
#ifndef PE_GUARD_H
#define PE_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* ---- limits -------------------------------------------------------------------------------------------------- */

/* A larger body where the request line begins with `start`, e.g. "PUT /v1/tables/". Another spelling of the same
 * path does not match, and gets the smaller limit. At most 95 bytes. */
typedef struct pe_guard_route {
    const char *start;
    uint64_t body;
} pe_guard_route;

typedef struct pe_guard_limits {
    uint64_t body;         /* bytes of content, chunked or not */
    uint32_t target;       /* bytes */
    uint32_t headers;      /* bytes after the request line, line ends included */
    uint32_t header_count; /* fields; also cookies, which libmicrohttpd takes apart like fields; no setting moves it */
    uint32_t arg_count;    /* query parameters: likewise */
    uint32_t header_ms;    /* from the first byte (first request: from the connection) to the end of the head */
    uint32_t body_ms;      /* from the end of the head; */
    uint32_t body_rate;    /*   more by one second per so many bytes received; 0: not at all */
    uint32_t send_ms;      /* from the answer's begin to its last byte in the kernel; */
    uint32_t send_rate;    /*   more by one second per so many bytes; 0: not at all */
    const pe_guard_route *routes;
    size_t nroutes;
} pe_guard_limits;

#define PE_GUARD_LIMITS_DEFAULT                                                                                         \
    {                                                                                                                   \
        .body = 64u << 20, .target = 8192, .headers = 16384, .header_count = 128, .arg_count = 256, .header_ms = 10000, \
        .body_ms = 30000, .body_rate = 65536, .send_ms = 30000, .send_rate = 65536                                      \
    }
#define PE_GUARD_LINGER_MS 1000u

/* ---- faults -------------------------------------------------------------------------------------------------- */

/* name, HTTP status, gRPC's name of it, reason on the wire, detail */
#define PE_FRAMING_FAULTS(X)                                                                                                \
    X(REQUEST_LINE, 400, "INVALID_ARGUMENT", "MALFORMED_REQUEST_LINE", "The request line cannot be read.")                  \
    X(METHOD, 501, "UNIMPLEMENTED", "UNKNOWN_METHOD", "The method is not known.")                                           \
    X(VERSION, 505, "UNIMPLEMENTED", "UNSUPPORTED_VERSION", "The version of HTTP is not supported.")                        \
    X(TARGET, 400, "INVALID_ARGUMENT", "MALFORMED_TARGET", "The request target cannot be read.")                            \
    X(TARGET_LIMIT, 414, "INVALID_ARGUMENT", "LIMIT_EXCEEDED", "The request target is over a limit.")                       \
    X(LINE_END, 400, "INVALID_ARGUMENT", "MALFORMED_LINE_END", "A line does not end with CR LF.")                           \
    X(FIELD_NAME, 400, "INVALID_ARGUMENT", "MALFORMED_HEADER_NAME", "A header line has no proper name.")                    \
    X(FIELD_FOLD, 400, "INVALID_ARGUMENT", "FOLDED_HEADER", "A header line begins with white space.")                       \
    X(FIELD_VALUE, 400, "INVALID_ARGUMENT", "MALFORMED_HEADER_VALUE", "A header value has a control character.")            \
    X(HEADER_LIMIT, 431, "INVALID_ARGUMENT", "LIMIT_EXCEEDED", "The headers are over a limit.")                             \
    X(HOST, 400, "INVALID_ARGUMENT", "MALFORMED_HOST", "There must be one proper Host header.")                             \
    X(CONTENT_LENGTH, 400, "INVALID_ARGUMENT", "MALFORMED_CONTENT_LENGTH", "Content-Length must be one number.")            \
    X(TWO_LENGTHS, 400, "INVALID_ARGUMENT", "AMBIGUOUS_LENGTH", "Content-Length and Transfer-Encoding exclude each other.") \
    X(TRANSFER, 400, "INVALID_ARGUMENT", "MALFORMED_TRANSFER_ENCODING", "Transfer-Encoding is misplaced here.")             \
    X(CODING, 501, "UNIMPLEMENTED", "UNSUPPORTED_TRANSFER_CODING", "The transfer coding is not supported.")                 \
    X(EXPECT, 417, "INVALID_ARGUMENT", "EXPECTATION_FAILED", "The expectation cannot be met.")                              \
    X(NO_BODY, 400, "INVALID_ARGUMENT", "UNEXPECTED_BODY", "A request with this method has no body.")                       \
    X(BODY_LIMIT, 413, "INVALID_ARGUMENT", "LIMIT_EXCEEDED", "The body is over a limit.")                                   \
    X(CHUNK, 400, "INVALID_ARGUMENT", "MALFORMED_CHUNK", "The chunked body cannot be read.")                                \
    X(TRAILER, 400, "INVALID_ARGUMENT", "UNEXPECTED_TRAILER", "Trailers are not accepted.")                                 \
    X(HEADER_TIME, 408, "DEADLINE_EXCEEDED", "REQUEST_TIMEOUT", "The headers took too long.")                               \
    X(BODY_TIME, 408, "DEADLINE_EXCEEDED", "REQUEST_TIMEOUT", "The body took too long.")

typedef enum pe_framing_reason {
    PE_FRAMING_OK,
#define X(name, status, code, wire, detail) PE_FRAMING_##name,
    PE_FRAMING_FAULTS(X)
#undef X
        PE_FRAMING_REASONS
} pe_framing_reason;

typedef struct pe_framing_fault {
    pe_framing_reason reason; /* PE_FRAMING_OK: no fault */
    bool bodyless;            /* the request is a HEAD: the answer has no content */
    uint64_t id;              /* of the request, in the answer; the machine leaves it 0 */
    char field[64];           /* "Content-Length" as it was typed, or "request line", "target", "chunk", "body" */
    char value[64];           /* what was given; shortened with "..." */
    char allowed[96];         /* what would be right */
} pe_framing_fault;

/* "TARGET_LIMIT": the label of a counter. */
const char *pe_framing_reason_name(pe_framing_reason r);
int pe_framing_status(pe_framing_reason r); /* HTTP */

/* ---- the state machine --------------------------------------------------------------------------------------- */

/* One connection's input. Read `messages`, `boundary` and `fault`; the rest is the machine's own. */
typedef struct pe_framing {
    uint64_t total;    /* bytes consumed; at a fault the offset of the byte that shows it */
    uint64_t boundary; /* offset of the end of the last complete message */
    uint64_t messages; /* complete ones */
    uint64_t since;    /* [ms] start of the phase that has a deadline */
    uint64_t left;     /* of the body or the chunk */
    uint64_t received; /* content of this message */
    uint64_t body_limit;
    uint32_t n;    /* bytes of the present element */
    uint32_t head; /* bytes of headers */
    uint32_t nfields, ncookies, nargs;
    uint8_t state, kind, text_n, name_n, line_n, digits;
    uint8_t hosts, lengths, codings; /* 0 or 1 */
    bool begun, blank, v11, forbids_body, closes, keeps, zero_escape;
    char text[64]; /* beginning of the value of a header that matters here */
    char name[64]; /* beginning of the name of the present header */
    char line[96]; /* beginning of the request line */
    pe_framing_fault fault;
} pe_framing;

void pe_framing_init(pe_framing *f, uint64_t now_ms);
/* Takes n more bytes. False: f->fault says why, now and for ever. The verdict depends on the bytes only, not on how
 * they are split. Bytes after a message that ends the connection (Connection: close, HTTP/1.0) are not consumed.
 *
 * Accepted: *( [CRLF] request-line headers CRLF body ) with
 *   request line  token SP target SP HTTP/1.1 (or 1.0); target in origin form, or * with OPTIONS; visible ASCII without
 *                 '#', each % followed by two hexadecimal digits, not %00. Absolute and authority form are refused:
 *                 this is not a proxy
 *   headers       token ":" value CRLF, no folding, no control characters; Host exactly once (1.0: at most)
 *   body          none; Content-Length once, digits only; or Transfer-Encoding once, exactly "chunked". Neither may
 *                 be followed by white space, which libmicrohttpd would misread. Chunks of at most 16 digits, no
 *                 extensions, no trailers. GET, HEAD, DELETE and TRACE: none, or Content-Length 0
 * One empty line before a request line is tolerated (RFC 9112, 2.2). */
bool pe_framing_feed(pe_framing *f, const void *bytes, size_t n, const pe_guard_limits *limits, uint64_t now_ms);
bool pe_framing_last(const pe_framing *f); /* no message follows the last one */
/* [ms] When the present phase must be over; UINT64_MAX between messages. */
uint64_t pe_framing_deadline(const pe_framing *f, const pe_guard_limits *limits);
void pe_framing_expire(pe_framing *f, const pe_guard_limits *limits); /* makes the fault of a missed deadline */
/* The whole HTTP answer to f's fault. `size` of 2048 is enough. Returns its length. */
size_t pe_framing_answer(const pe_framing_fault *fault, time_t date, char *out, size_t size);

/* ---- connections --------------------------------------------------------------------------------------------- */

typedef struct pe_guard_stats {
    uint64_t refused[PE_FRAMING_REASONS]; /* by reason */
    uint64_t messages;                    /* complete ones that libmicrohttpd got */
    uint64_t idle;                        /* connections ended that never sent a byte within header_ms */
    uint64_t unanswered;                  /* faults whose answer the peer did not take */
    uint64_t unguarded;                   /* connections refused because there was no state for them */
    uint64_t cut;                         /* connections ended because the peer did not take its answer in time */
} pe_guard_stats;

/* Copies the limits; the routes must live on. Before the first connection. */
void pe_guard_init(const pe_guard_limits *limits);
/* Bytes that libmicrohttpd needs per connection so that no request within the limits meets a limit of its own. */
size_t pe_guard_memory(const pe_guard_limits *limits);

/* False: no memory or a descriptor over 2^20; the descriptor has been shut down, nothing will be read from it. */
bool pe_guard_open(int fd);
void pe_guard_close(int fd);
/* The request in progress needs no input for now: its deadline stops until libmicrohttpd reads again. Costs nothing
 * when the request is complete already, so call it always. False: the guard has answered; queue nothing, return MHD_NO. */
bool pe_guard_busy(int fd);
/* As busy, before MHD_queue_response of a content of `size` bytes: from now on the peer has send_ms and a second for every
 * send_rate bytes until pe_guard_done; then the sweep shuts the descriptor, and libmicrohttpd closes. libmicrohttpd's own
 * timer knows only idleness, which one byte a minute satisfies. */
bool pe_guard_answering(int fd, uint64_t size);
/* One request is over and its answer has left. */
void pe_guard_done(int fd);

uint64_t pe_guard_now(void);          /* [ms], monotonic: the guard's clock */
uint64_t pe_guard_id(void);           /* of a request: unlike any other of this process, and likely of its neighbours */
void pe_guard_sweep(uint64_t now_ms); /* deadlines, withheld faults, lingering connections */
bool pe_guard_unread(void);           /* has some connection sent what has not been read, or not been answered? */
void pe_guard_read_stats(pe_guard_stats *out);

#endif
