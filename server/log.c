/* log.c - key=value lines. */
#include "log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic int level_now = PE_INFO;

void pe_log_level(pe_level level) { atomic_store(&level_now, (int)level); }
bool pe_log_on(pe_level level) { return (int)level <= atomic_load(&level_now); }

typedef struct line {
    char s[2048];
    size_t n;
} line;

static void add(line *l, char c)
{
    if (l->n + 1 < sizeof l->s) /* the last byte is the newline's */
        l->s[l->n++] = c;
}

static void add_word(line *l, const char *s)
{
    for (; *s; s++)
        add(l, *s);
}

/* Plain where nothing needs care, otherwise quoted with escapes: one value can't look like two. */
static void add_value(line *l, const char *s)
{
    bool plain = *s != 0;
    for (const char *p = s; *p && plain; p++)
        plain = (unsigned char)*p > 0x20 && *p != '"' && *p != '=' && *p != '\\' && *p != 0x7f;
    if (plain) {
        add_word(l, s);
        return;
    }
    add(l, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            add(l, '\\');
            add(l, (char)c);
        } else if (c < 0x20 || c == 0x7f) {
            add(l, '\\');
            add(l, 'x');
            add(l, "0123456789abcdef"[c >> 4]);
            add(l, "0123456789abcdef"[c & 15]);
        } else {
            add(l, (char)c);
        }
    }
    add(l, '"');
}

void pe_log_event(pe_level level, const char *event, ...)
{
    static const char *const levels[] = { "error", "warn", "info", "debug" };
    if (!pe_log_on(level))
        return;
    line l = { .n = 0 };
    struct timespec t;
    struct tm tm;
    char stamp[64];
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &tm);
    size_t n = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(stamp + n, sizeof stamp - n, ".%06ldZ", t.tv_nsec / 1000);
    add_word(&l, "ts=");
    add_word(&l, stamp);
    add_word(&l, " level=");
    add_word(&l, levels[level]);
    add_word(&l, " event=");
    add_value(&l, event);
    va_list ap;
    va_start(ap, event);
    for (const char *key; (key = va_arg(ap, const char *));) {
        const char *value = va_arg(ap, const char *);
        if (!value)
            continue;
        add(&l, ' ');
        add_word(&l, key);
        add(&l, '=');
        add_value(&l, value);
    }
    va_end(ap);
    l.s[l.n++] = '\n';
    ssize_t written = write(STDERR_FILENO, l.s, l.n);
    (void)written; /* a log that can't be written must not fail a request */
}
