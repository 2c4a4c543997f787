/* config.c - the settings table, and its reader: file, environment, flags. */
#include "config.h"

#include "core/params.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

extern char **environ;

#define MIB (1024.0 * 1024)
#define ADDRESS(m, d, what)                                                 \
    {                                                                       \
        PE_TEXT(pe_config, m), .text = d, .min = 1, .max = 255, .doc = what \
    }
#define COUNT(m, d, lo, hi, what)                                         \
    {                                                                     \
        PE_INT(pe_config, m), .def = d, .min = lo, .max = hi, .doc = what \
    }

static const posenc_param rows[] = {
    ADDRESS(http, "127.0.0.1:8080", "HOST:PORT of the REST door; port 0 picks a free one"),
    ADDRESS(grpc, "127.0.0.1:50051", "HOST:PORT of the gRPC door"),
    ADDRESS(admin, NULL, "HOST:PORT of /metrics and other admin routes; without it they are on the REST door"),
    { PE_BOOL(pe_config, insecure), .doc = "listen beyond loopback although there is neither a key nor TLS" },
    { PE_TEXT(pe_config, memory_budget_text), .min = 1, .max = 32,
      .doc = "memory of cache and computations (512MiB); a quarter of the machine's or cgroup's memory when absent" },
    COUNT(threads, 0, 0, 1024,
          "threads for long computations, one of which may use them all; 0: one a core. One more is kept for short ones"),
    COUNT(http_threads, 0, 0, 256, "threads of the REST door; 0: one a core"),
    COUNT(grpc_threads, 0, 0, 256, "threads of the gRPC door; 0: one a core"),
    COUNT(queue, 1024, 1, 1e6, "computations that may wait for a thread"),
    COUNT(connections, 4096, 1, 1e6, "connections a door holds at most"),
    COUNT(connections_per_address, 256, 1, 1e6, "connections a door holds from one address at most"),
    COUNT(deadline_ms, 60000, 1, 86400e3, "[ms] deadline of a request that sets none"),
    COUNT(drain_delay_ms, 0, 0, 600e3,
          "[ms] how long SIGTERM goes on serving, not ready, before it drains (behind a load balancer: 5000)"),
    COUNT(drain_timeout_ms, 20000, 0, 3600e3, "[ms] how long SIGTERM waits for running requests"),
    COUNT(keep_alive_ms, 75000, 1000, 3600e3, "[ms] idle time after which a connection is closed"),
    COUNT(header_ms, 10000, 100, 600e3, "[ms] time to send a request's headers"),
    COUNT(body_ms, 30000, 100, 3600e3, "[ms] time to send a request's body, and 1 s more for each 64 KiB"),
    COUNT(max_body, 64 * MIB, 1024, 0x1p40, "[bytes] of a REST body"),
    COUNT(max_target, 8192, 256, 65536, "[bytes] of a request target"),
    COUNT(max_headers, 16384, 1024, 262144, "[bytes] of a request's headers"),
    COUNT(max_result, 2048 * MIB, 1024, 0x1p40, "[bytes] of one result"),
    COUNT(max_request_memory, 4096 * MIB, 65536, 0x1p42, "[bytes] of one request: input, scratch and result"),
    COUNT(max_json_elements, 65536, 1, 0x1p31, "elements that a JSON answer holds as numbers"),
    COUNT(max_csv_elements, 1048576, 1, 0x1p31, "elements that a CSV answer holds"),
    COUNT(max_plot_elements, 16777216, 1, 0x1p31, "elements that a heat map (png, svg) shows"),
    COUNT(max_grpc_message, 4 * MIB, 1024, 0x1p30, "[bytes] of a gRPC request"),
    COUNT(max_grpc_unary, 3.5 * MIB, 1024, 0x1p30, "[bytes] of a unary gRPC answer; larger ones are streamed"),
    COUNT(max_metadata, 16384, 1024, 1e6, "[bytes] of gRPC metadata"),
    COUNT(max_streams, 128, 1, 100000, "calls at once on one gRPC connection"),
    COUNT(stream_chunk, 262144, 65536, 2 * MIB, "[bytes] of a chunk of EncodeStream"),
    COUNT(max_nodes, 2147483646, 1, 2147483646, "nodes of a graph"),
    COUNT(max_edges, 1e8, 1, 1e10, "edges of a graph"),
    COUNT(max_graphs, 1e6, 1, 1e8, "graphs of a batch"),
    { PE_TEXT(pe_config, log_level), .text = "info", .min = 1, .max = 8, .doc = "error, warn, info or debug" },
};
const posenc_table pe_config_table = { rows, PE_LEN(rows), sizeof(pe_config) };

/* The name that people type: the struct's memory_budget_text is memory_budget outside. */
static const char *outside(const posenc_param *r)
{
    return strcmp(r->name, "memory_budget_text") ? r->name : "memory_budget";
}

static const posenc_param *row_of(const char *name)
{
    for (size_t i = 0; i < PE_LEN(rows); i++)
        if (!strcmp(outside(&rows[i]), name))
            return &rows[i];
    return NULL;
}

/* ---- sizes and addresses ---- */

static bool size_of(const char *s, uint64_t *out)
{
    static const struct {
        const char *unit;
        uint64_t factor;
    } units[] = { { "", 1 },          { "B", 1 },         { "KiB", 1 << 10 },
                  { "MiB", 1 << 20 }, { "GiB", 1 << 30 }, { "TiB", 1ULL << 40 },
                  { "k", 1 << 10 },   { "m", 1 << 20 },   { "g", 1 << 30 } };
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)*s))
        return false;
    uint64_t n = strtoull(s, &end, 10);
    for (size_t i = 0; !errno && i < PE_LEN(units); i++)
        if (!strcasecmp(end, units[i].unit))
            return !__builtin_mul_overflow(n, units[i].factor, out);
    return false;
}

static uint64_t read_number(const char *path)
{
    unsigned long long n = 0;
    FILE *f = fopen(path, "r");
    if (f) {
        if (fscanf(f, "%llu", &n) != 1)
            n = 0;
        fclose(f);
    }
    return n;
}

/* A quarter of what the machine or the control group has. */
static uint64_t default_budget(void)
{
    uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    static const char *const paths[] = { "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes" };
    for (size_t i = 0; i < PE_LEN(paths); i++) {
        uint64_t n = read_number(paths[i]);
        if (n && n < total)
            total = n;
    }
    return total / 4;
}

bool pe_config_address(const char *text, char host[256], int *port)
{
    const char *colon = strrchr(text, ':');
    char *end;
    if (!colon || colon == text || colon - text > 255 || !isdigit((unsigned char)colon[1]))
        return false;
    long n = strtol(colon + 1, &end, 10);
    size_t len = (size_t)(colon - text);
    if (*end || n > 65535)
        return false;
    if (text[0] == '[') {
        if (text[len - 1] != ']')
            return false;
        text++;
        len -= 2;
    } else if (memchr(text, ':', len)) {
        return false;
    }
    memcpy(host, text, len);
    host[len] = 0;
    *port = (int)n;
    return true;
}

bool pe_config_loopback(const char *host)
{
    struct in_addr a;
    if (!strcmp(host, "localhost") || !strcmp(host, "::1"))
        return true;
    return inet_pton(AF_INET, host, &a) == 1 && (ntohl(a.s_addr) >> 24) == 127;
}

/* ---- the three sources ---- */

/* `from` says where the value stands: the fault names it. */
static void set(pe_config *c, const posenc_param *row, const char *value, const char *from, posenc_arena *a,
                posenc_error *err)
{
    unsigned before = err->n;
    uint64_t n;
    if (row->kind == PE_T_INT && size_of(value, &n) && n <= INT64_MAX) /* sizes may be typed as 64MiB */
        posenc_set_int(&pe_config_table, row, c, (int64_t)n, err);
    else
        posenc_set_text(&pe_config_table, row, c, value, strlen(value), a, err);
    for (unsigned i = before; i < err->n; i++) {
        posenc_fault *f = &err->fault[i];
        snprintf(f->value, sizeof f->value, "%.30s (%.28s)", *value ? value : "nothing", from);
        if (row->kind == PE_T_INT && !strncmp(row->doc, "[bytes]", 7))
            strncat(f->allowed, ", or a size such as 64MiB", sizeof f->allowed - strlen(f->allowed) - 1);
    }
}

/* A later source overrides an earlier one: the mark that it was given is lifted first. */
static void override(pe_config *c, const posenc_param *row) { c->given &= ~(1ULL << (row - rows)); }

static const char *name_at(const void *unused, size_t i)
{
    (void)unused;
    return outside(&rows[i]);
}

static posenc_status unknown(const char *what, const char *name, posenc_error *err)
{
    const char *near = posenc_nearest(name, name_at, NULL, PE_LEN(rows));
    return posenc_fail(err, PE_INVALID, "UNKNOWN_SETTING", name, what,
                       near ? "did you mean %s?" : "a setting that --help lists%s", near ? near : "");
}

static char *trim(char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    char *end = s + strlen(s);
    while (end > s && isspace((unsigned char)end[-1]))
        *--end = 0;
    return s;
}

static void read_file(const char *path, pe_config *c, posenc_arena *a, posenc_error *err)
{
    FILE *f = fopen(path, "r");
    char line[1024];
    if (!f) {
        posenc_fail(err, PE_INVALID, "CONFIG_FILE", "--config", path, "a file that can be read (%s)", strerror(errno));
        return;
    }
    for (int number = 1; fgets(line, sizeof line, f); number++) {
        char *hash = strchr(line, '#');
        if (hash)
            *hash = 0;
        char *name = trim(line), *eq = strchr(name, '=');
        if (!*name)
            continue;
        if (!eq) {
            posenc_fail(err, PE_INVALID, "CONFIG_FILE", posenc_text("%.40s:%d", path, number).s, name, "name = value");
            continue;
        }
        *eq = 0;
        name = trim(name);
        const posenc_param *row = row_of(name);
        if (row)
            set(c, row, trim(eq + 1), posenc_text("%.40s:%d", path, number).s, a, err);
        else
            unknown(posenc_text("unknown setting in %.40s:%d", path, number).s, name, err);
    }
    if (ferror(f)) /* a folder opens, but can't be read */
        posenc_fail(err, PE_INVALID, "CONFIG_FILE", "--config", path, "a file that can be read (%s)", strerror(errno));
    fclose(f);
}

static void read_environment(pe_config *c, posenc_arena *a, posenc_error *err)
{
    for (char **e = environ; *e; e++) {
        char name[64];
        const char *eq = strchr(*e, '=');
        if (strncmp(*e, "POSENC_", 7) || !eq || (size_t)(eq - *e) - 7 >= sizeof name)
            continue;
        size_t n = 0;
        for (const char *p = *e + 7; p < eq; p++)
            name[n++] = (char)tolower((unsigned char)*p);
        name[n] = 0;
        const posenc_param *row = row_of(name);
        if (row) { /* other POSENC_ names are the clients' and the tests' */
            override(c, row);
            set(c, row, eq + 1, "environment", a, err);
        }
    }
}

static void read_flags(int argc, char **argv, pe_config *c, posenc_arena *a, pe_config_mode *mode, posenc_error *err)
{
    static const struct {
        const char *flag;
        pe_config_mode mode;
    } modes[] = { { "--check-config", PE_CHECK_CONFIG },
                  { "--print-config", PE_PRINT_CONFIG },
                  { "--version", PE_PRINT_VERSION },
                  { "--help", PE_PRINT_HELP },
                  { "-h", PE_PRINT_HELP },
                  { "--health", PE_ASK_HEALTH } };
    posenc_given seen = 0;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *value = NULL;
        size_t m = 0;
        while (m < PE_LEN(modes) && strcmp(arg, modes[m].flag))
            m++;
        if (m < PE_LEN(modes)) {
            *mode = modes[m].mode;
            continue;
        }
        if (strncmp(arg, "--", 2)) {
            posenc_fail(err, PE_INVALID, "UNKNOWN_SETTING", "argument", arg, "--name value; see --help");
            continue;
        }
        char name[64];
        size_t n = 0;
        for (const char *p = arg + 2; *p && *p != '=' && n < sizeof name - 1; p++)
            name[n++] = (char)(*p == '-' ? '_' : *p);
        name[n] = 0;
        const posenc_param *row = row_of(name);
        if (strchr(arg, '='))
            value = strchr(arg, '=') + 1;
        else if (row && row->kind == PE_T_BOOL &&
                 (i + 1 == argc || (strcmp(argv[i + 1], "true") && strcmp(argv[i + 1], "false"))))
            value = "true";
        else if (i + 1 < argc)
            value = argv[++i];
        if (!strcmp(name, "config"))
            continue; /* read before everything else */
        if (!row) {
            unknown("unknown flag", name, err);
        } else if (!value) {
            posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", arg, "no value", "--%s value", name);
        } else {
            if (!(seen >> (row - rows) & 1))
                override(c, row);
            seen |= 1ULL << (row - rows);
            set(c, row, value, "flag", a, err);
        }
    }
}

static void check_address(const pe_config *c, const char *field, const char *text, posenc_error *err)
{
    char host[256];
    int port;
    if (!text)
        return;
    if (!pe_config_address(text, host, &port))
        posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", field, text, "HOST:PORT or [V6]:PORT, ports 0 .. 65535");
    else if (!pe_config_loopback(host) && !c->insecure)
        posenc_fail(err, PE_INVALID, "INSECURE", field, text,
                    "a loopback address: there is neither a key nor TLS; --insecure to listen there all the same");
}

posenc_status pe_config_load(int argc, char **argv, posenc_arena *a, pe_config *c, pe_config_mode *mode, posenc_error *err)
{
    posenc_defaults(&pe_config_table, c);
    *mode = PE_RUN;
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--config=", 9))
            read_file(argv[i] + 9, c, a, err);
        else if (!strcmp(argv[i], "--config") && i + 1 < argc && strncmp(argv[i + 1], "--", 2))
            read_file(argv[i + 1], c, a, err);
        else if (!strcmp(argv[i], "--config"))
            posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "--config", "no value", "a file");
    }
    read_environment(c, a, err);
    read_flags(argc, argv, c, a, mode, err);
    if (*mode == PE_ASK_HEALTH) /* it listens nowhere */
        c->insecure = true;
    check_address(c, "http", c->http, err);
    check_address(c, "grpc", c->grpc, err);
    check_address(c, "admin", c->admin, err);
    c->memory_budget = default_budget();
    if (c->memory_budget_text && (!size_of(c->memory_budget_text, &c->memory_budget) || c->memory_budget < 1 << 20))
        posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "memory_budget", c->memory_budget_text,
                    "a size of at least 1MiB: 512MiB, 2GiB");
    if (strcmp(c->log_level, "error") && strcmp(c->log_level, "warn") && strcmp(c->log_level, "info") &&
        strcmp(c->log_level, "debug"))
        posenc_fail(err, PE_INVALID, "INVALID_PARAMETER", "log_level", c->log_level, "error, warn, info or debug");
    return err->status;
}

/* ---- words ---- */

static void print_value(const pe_config *c, const posenc_param *r, FILE *f)
{
    const void *p = (const char *)c + r->offset;
    if (r->kind == PE_T_INT)
        fprintf(f, "%lld", (long long)*(const int64_t *)p);
    else if (r->kind == PE_T_BOOL)
        fputs(*(const bool *)p ? "true" : "false", f);
    else
        fputs(*(const char *const *)p, f);
}

void pe_config_print(const pe_config *c, FILE *f)
{
    for (size_t i = 0; i < PE_LEN(rows); i++) {
        const posenc_param *r = &rows[i];
        if (!strcmp(outside(r), "memory_budget")) {
            fprintf(f, "memory_budget = %llu\n", (unsigned long long)c->memory_budget);
            continue;
        }
        if (r->kind == PE_T_TEXT && !*(const char *const *)((const char *)c + r->offset))
            continue;
        fprintf(f, "%s = ", outside(r));
        print_value(c, r, f);
        fputc('\n', f);
    }
}

void pe_config_help(FILE *f)
{
    pe_config c;
    posenc_defaults(&pe_config_table, &c);
    fputs("posencd - serves positional encodings over REST and gRPC\n\n"
          "usage: posencd [--config FILE] [--SETTING VALUE ...]\n"
          "       posencd --check-config | --print-config | --version | --help\n"
          "       posencd --health        asks a running daemon; exit 0 when it is ready\n\n"
          "Each setting is a flag (--max-body 64MiB), a variable (POSENC_MAX_BODY) and a line of the file\n"
          "(max_body = 64MiB); flags over environment over file over default.\n\n",
          f);
    for (size_t i = 0; i < PE_LEN(rows); i++) {
        const posenc_param *r = &rows[i];
        char flag[64];
        snprintf(flag, sizeof flag, "%s", outside(r));
        for (char *p = flag; *p; p++)
            *p = *p == '_' ? '-' : *p;
        fprintf(f, "  --%-24s %s", flag, r->doc);
        if (r->kind != PE_T_TEXT || r->text) {
            fputs(" (", f);
            print_value(&c, r, f);
            fputc(')', f);
        }
        fputc('\n', f);
    }
}
