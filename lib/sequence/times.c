/* times.c - moments as numbers or calendar times, reduced by origin and unit. */
#include "sequence/times.h"

#include <math.h>
#include <string.h>

/* ---- ISO 8601 ---- */

typedef struct reader {
    const char *p, *end;
} reader;

/* `digits` decimal digits as a number in min .. max, -1 for anything else. */
static int number(reader *r, int digits, int min, int max)
{
    int v = 0;
    if (r->end - r->p < digits)
        return -1;
    for (int i = 0; i < digits; i++, r->p++) {
        if (*r->p < '0' || *r->p > '9')
            return -1;
        v = v * 10 + (*r->p - '0');
    }
    return v >= min && v <= max ? v : -1;
}

static bool letter(reader *r, char c)
{
    bool is = r->p < r->end && *r->p == c;
    r->p += is;
    return is;
}

static int days_of_month(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

/* Days since 1970-01-01 in the Gregorian calendar: years counted from March, so that the leap day comes last. */
static int64_t days_since_1970(int year, int month, int day)
{
    const int64_t y = month > 2 ? year : year - 1, m = (month + 9) % 12;
    return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

/* The digits after the point, at most 18 of them; false when there is none. */
static bool fraction(reader *r, pe_dd *out)
{
    int64_t v = 0, scale = 1;
    int n = 0;
    for (; r->p < r->end && *r->p >= '0' && *r->p <= '9' && n < 18; r->p++, n++) {
        v = v * 10 + (*r->p - '0');
        scale *= 10;
    }
    const int64_t high = v / 1000000000, low = v % 1000000000;
    const pe_dd exact = pe_dd_add(pe_dd_times((pe_dd){ (double)high, 0 }, 1e9), (pe_dd){ (double)low, 0 });
    *out = pe_dd_div(exact, (pe_dd){ (double)scale, 0 }); /* 10^18 is a float64 */
    return n > 0;
}

/* Minutes that the clock is ahead of UTC. */
static bool zone(reader *r, int *minutes)
{
    *minutes = 0;
    if (r->p == r->end || letter(r, 'Z'))
        return true;
    const int sign = letter(r, '+') ? 1 : letter(r, '-') ? -1 : 0;
    const int h = sign ? number(r, 2, 0, 23) : -1;
    const bool colon = letter(r, ':');
    const int m = h >= 0 && (colon || r->p < r->end) ? number(r, 2, 0, 59) : 0;
    *minutes = sign * (60 * h + m);
    return h >= 0 && m >= 0;
}

/* YYYY-MM-DD, or that and Thh:mm[:ss[.fraction]][Z | +hh:mm | +hhmm | +hh], as seconds since 1970. */
static bool iso_seconds(const char *text, size_t n, pe_dd *out)
{
    reader r = { text, text + n };
    int h = 0, min = 0, s = 0, ahead = 0;
    pe_dd part = { 0, 0 };
    const int year = number(&r, 4, 1, 9999);
    const int month = letter(&r, '-') ? number(&r, 2, 1, 12) : -1;
    const int day = letter(&r, '-') ? number(&r, 2, 1, 31) : -1;
    if (year < 0 || month < 0 || day < 0 || day > days_of_month(year, month))
        return false;
    if (letter(&r, 'T')) {
        h = number(&r, 2, 0, 23);
        min = letter(&r, ':') ? number(&r, 2, 0, 59) : -1;
        if (letter(&r, ':')) {
            s = number(&r, 2, 0, 59); /* a leap second has no number of its own in seconds since 1970 */
            if (letter(&r, '.') && !fraction(&r, &part))
                return false;
        }
        if (!zone(&r, &ahead))
            return false;
    }
    if (h < 0 || min < 0 || s < 0 || r.p != r.end)
        return false;
    const int64_t whole = days_since_1970(year, month, day) * 86400 + h * 3600 + (min - ahead) * 60 + s;
    *out = pe_dd_add((pe_dd){ (double)whole, 0 }, part);
    return true;
}

/* ---- the rows ---- */

bool pe_times_given(const posenc_request *r) { return pe_given(r, "timestamps") || pe_given(r, "timestamps_iso"); }

static int64_t count_iso(const char *s)
{
    int64_t n = 1;
    for (; *s; s++)
        n += *s == ',';
    return n;
}

int64_t pe_times_count(const posenc_request *r, const pe_times *p)
{
    return pe_given(r, "timestamps")       ? (int64_t)p->timestamps.n
           : pe_given(r, "timestamps_iso") ? count_iso(p->timestamps_iso)
                                           : 0;
}

static void bad_iso(const char *field, const char *s, size_t n, posenc_error *err)
{
    pe_invalid(err, field, n ? posenc_text("%.*s", (int)(n < 60 ? n : 60), s) : posenc_text("nothing"),
               "ISO 8601, a moment that exists: 2024-02-29, 2024-02-29T12:00, 2024-02-29T12:00:00.5+01:00");
}

static void check_iso(const char *s, posenc_error *err)
{
    for (int64_t i = 0;; i++) {
        const size_t n = strcspn(s, ",");
        pe_dd t;
        if (!iso_seconds(s, n, &t))
            bad_iso(posenc_text("timestamps_iso[%lld]", (long long)i).s, s, n, err);
        if (!s[n] || err->dropped)
            return;
        s += n + 1;
    }
}

void pe_times_check(const posenc_request *r, const pe_times *p, bool required, posenc_error *err)
{
    const bool list = pe_given(r, "timestamps"), iso = pe_given(r, "timestamps_iso"), start = pe_given(r, "time_origin_iso");
    pe_dd t;
    if (required && !list && !iso)
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "timestamps", "absent",
                    "a value, it is required: one of timestamps and timestamps_iso");
    if (list && iso)
        pe_not_applicable(err, "timestamps_iso", "given with timestamps", "one of timestamps and timestamps_iso");
    if (iso)
        check_iso(p->timestamps_iso, err);
    if (start && p->time_origin != 0)
        pe_not_applicable(err, "time_origin_iso", "given with time_origin", "one of time_origin and time_origin_iso");
    if (start && !iso_seconds(p->time_origin_iso, strlen(p->time_origin_iso), &t))
        bad_iso("time_origin_iso", p->time_origin_iso, strlen(p->time_origin_iso), err);
    if (list || iso)
        return;
    if (start)
        pe_not_applicable(err, "time_origin_iso", "given without timestamps", "absent, or timestamps or timestamps_iso");
    if (p->time_origin != 0)
        pe_not_applicable(err, "time_origin", posenc_text("%.17g", p->time_origin).s, "0, or timestamps or timestamps_iso");
    if (p->time_unit != 1)
        pe_not_applicable(err, "time_unit", posenc_text("%.17g", p->time_unit).s, "1, or timestamps or timestamps_iso");
}

pe_time_reader pe_times_start(const posenc_request *r, const pe_times *p)
{
    pe_time_reader t = { .p = p, .origin = { p->time_origin, 0 } };
    if (pe_given(r, "timestamps_iso"))
        t.iso = p->timestamps_iso;
    if (pe_given(r, "time_origin_iso"))
        iso_seconds(p->time_origin_iso, strlen(p->time_origin_iso), &t.origin);
    return t;
}

pe_dd pe_times_next(pe_time_reader *t)
{
    pe_dd now = { 0, 0 };
    if (t->iso) {
        const size_t n = strcspn(t->iso, ",");
        iso_seconds(t->iso, n, &now);
        t->iso += n + 1;
    } else {
        now.hi = t->p->timestamps.v[t->next++];
    }
    now = pe_dd_add(now, (pe_dd){ -t->origin.hi, -t->origin.lo });
    return t->p->time_unit == 1 ? now : pe_dd_div(now, (pe_dd){ t->p->time_unit, 0 });
}

int pe_times_exponent(const posenc_request *r, const pe_times *p)
{
    pe_time_reader t = pe_times_start(r, p);
    double most = 0;
    int e = 0;
    for (int64_t i = 0, n = pe_times_count(r, p); i < n; i++)
        most = pe_max(most, fabs(pe_times_next(&t).hi));
    frexp(most, &e);
    return most != 0 && e > 0 ? e : 0;
}
