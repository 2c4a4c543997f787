/* params.c - the reader of parameter tables: defaults, setters, rules that need all values. */
#include "core/params.h"

#include "core/number.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char bad[] = "INVALID_PARAMETER";

static void *at(const posenc_param *row, void *params) { return (char *)params + row->offset; }

static uint64_t bit(const posenc_table *t, const posenc_param *row) { return 1ULL << (row - t->rows); }

static posenc_given *given(void *params) { return params; }

const posenc_param *posenc_row(const posenc_table *t, const char *name)
{
    for (size_t i = 0; i < t->nrows; i++)
        if (!strcmp(t->rows[i].name, name))
            return &t->rows[i];
    return NULL;
}

void posenc_defaults(const posenc_table *t, void *params)
{
    memset(params, 0, t->size);
    for (size_t i = 0; i < t->nrows; i++) {
        const posenc_param *r = &t->rows[i];
        void *p = at(r, params);
        switch ((posenc_kind)r->kind) {
        case PE_T_INT: *(int64_t *)p = (int64_t)r->def; break;
        case PE_T_REAL: *(double *)p = r->def; break;
        case PE_T_BOOL: *(bool *)p = r->def != 0; break;
        case PE_T_ENUM: *(int *)p = (int)r->def; break;
        case PE_T_TEXT: *(const char **)p = r->text; break;
        case PE_T_WORDS: *(uint64_t *)p = (uint64_t)r->def; break;
        case PE_T_REALS:
        case PE_T_TENSOR: break;
        }
    }
}

static const posenc_param *selector(const posenc_table *t)
{
    for (size_t i = 0; i < t->nrows; i++)
        if (t->rows[i].flags & PE_SELECTOR)
            return &t->rows[i];
    return NULL;
}

bool posenc_applies(const posenc_table *t, const posenc_param *row, const void *params)
{
    const posenc_param *s = row->when ? selector(t) : NULL;
    const void *chosen = s ? (const char *)params + s->offset : NULL;
    if (s && s->kind == PE_T_WORDS) { /* one of the words chosen will do; none chosen yet: all may be */
        const uint64_t set = *(const uint64_t *)chosen;
        return !set || (set & row->when);
    }
    return !s || posenc_in_mask(row->when, (size_t) * (const int *)chosen);
}

bool posenc_was_given(const posenc_table *t, const posenc_param *row, const void *params)
{
    return (*(const posenc_given *)params & bit(t, row)) != 0;
}

/* ---- names that are alike ---- */

enum { LONGEST_NAME = 64, ONE_EDIT = 100, STRANGERS = 100000 };

/* Letters in lower case and digits: ropeTheta, rope-theta and rope_theta are one. Returns the length; 0: too long. */
static size_t plain(const char *s, char out[LONGEST_NAME + 1])
{
    size_t n = 0;
    for (; *s; s++) {
        const char c = *s >= 'A' && *s <= 'Z' ? (char)(*s - 'A' + 'a') : *s;
        if ((c < 'a' || c > 'z') && (c < '0' || c > '9'))
            continue;
        if (n == LONGEST_NAME)
            return 0;
        out[n++] = c;
    }
    out[n] = 0;
    return n;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Edits that make the one the other: a letter more, less or another, or two that changed places. */
static size_t edits(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][LONGEST_NAME + 1];
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3];
        const size_t *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]), 1 + least(last[j], row[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

/* How far apart two names are: edits, less a little for a common beginning. A beginning of the candidate ("rop", "llama3"
 * for llama-3-8b) counts as one edit, its end ("dim" for head_dim) as a little more, a part within it as nearly two; the
 * shorter rest wins. STRANGERS: not alike. */
static unsigned likeness(const char *name, const char *candidate)
{
    char a[LONGEST_NAME + 1], b[LONGEST_NAME + 1];
    const size_t n = plain(name, a), m = plain(candidate, b);
    if (!n || !m)
        return STRANGERS;
    size_t common = 0, most = n < 4 ? n / 2 : n < 6 ? 2 : n / 2 - 1;
    while (common < n && a[common] == b[common])
        common++;
    const size_t d = edits(a, n, b, m);
    unsigned score = d > (most < 5 ? most : 5) ? STRANGERS : (unsigned)(d * ONE_EDIT + (LONGEST_NAME - common) / 2);
    if (n > 1 && m > n) {
        const bool begins = common == n, ends = n > 2 && !memcmp(b + m - n, a, n), within = n > 2 && strstr(b, a);
        const unsigned whole = (unsigned)(m - n) + (begins ? ONE_EDIT : ends ? ONE_EDIT + 40 : 2 * ONE_EDIT - 10);
        if ((begins || ends || within) && whole < score)
            score = whole;
    }
    return score;
}

const char *posenc_nearest(const char *name, const char *(*name_at)(const void *list, size_t i), const void *list, size_t n)
{
    const char *best = NULL;
    unsigned nearest = STRANGERS;
    for (size_t i = 0; i < n; i++) {
        const unsigned score = likeness(name, name_at(list, i));
        if (score < nearest) {
            best = name_at(list, i);
            nearest = score;
        }
    }
    return best;
}

/* ---- what a row allows, in words ---- */

static void list_words(char *buf, size_t size, const char *const *names, uint64_t mask)
{
    size_t used = 0;
    buf[0] = 0;
    for (size_t i = 0; names[i] && used < size; i++)
        if (posenc_in_mask(mask, i)) {
            int n = snprintf(buf + used, size - used, "%s%s", used ? ", " : "", names[i]);
            used += n > 0 ? (size_t)n : 0;
        }
}

static bool bounded(const posenc_param *r) { return r->min != 0 || r->max != 0; }

static const char *allowed(const posenc_param *r, char *buf, size_t size)
{
    char words[160];
    switch ((posenc_kind)r->kind) {
    case PE_T_INT: snprintf(buf, size, "an integer in %.17g .. %.17g", r->min, r->max); break;
    case PE_T_REAL:
    case PE_T_REALS: {
        const char *what = r->kind == PE_T_REAL ? "a finite number" : "a list of finite numbers, each";
        if (bounded(r))
            snprintf(buf, size, "%s in %g .. %g%s", what, r->min, r->max, r->flags & PE_NAN ? ", or nan" : "");
        else
            snprintf(buf, size, "%s%s", r->kind == PE_T_REAL ? what : "a list of finite numbers",
                     r->flags & PE_NAN ? ", or nan" : "");
        break;
    }
    case PE_T_BOOL: snprintf(buf, size, "true or false"); break;
    case PE_T_ENUM:
        list_words(words, sizeof words, r->names, 0);
        snprintf(buf, size, "one of: %s", words);
        break;
    case PE_T_WORDS:
        list_words(words, sizeof words, r->names, 0);
        snprintf(buf, size, "a list of words, each once: %s", words);
        break;
    case PE_T_TEXT: snprintf(buf, size, "%.0f to %.0f characters", r->min, r->max); break;
    case PE_T_TENSOR:
        snprintf(buf, size, "a tensor: nested arrays, or {dtype, shape, data}, or a tensor of a binary body");
        break;
    }
    return buf;
}

static posenc_status refuse(const posenc_param *r, const char *value, posenc_error *err)
{
    char words[200];
    return posenc_fail(err, PE_INVALID, bad, r->name, value, "%s", allowed(r, words, sizeof words));
}

static const char *word_at(const void *list, size_t i) { return ((const char *const *)list)[i]; }

/* The nearest word, then the others: all where they fit, otherwise those that are nearest. */
static posenc_status refuse_word(const posenc_param *r, const char *value, posenc_error *err)
{
    enum { ROOM = 159, MOST = 64, TAIL = 32 };
    char words[ROOM + 1];
    unsigned score[MOST];
    size_t n = 0, used = 0, all = 0, order[MOST];
    for (; r->names[n] && n < MOST; n++) {
        score[n] = likeness(value, r->names[n]);
        all += strlen(r->names[n]) + 2;
        order[n] = n;
    }
    const char *near = posenc_nearest(value, word_at, r->names, n);
    const bool cut = all + 12 + (near ? strlen(near) + 16 : 0) > ROOM;
    for (size_t i = 1; near && cut && i < n; i++) /* few words: insertion */
        for (size_t k = i; k > 0 && score[order[k]] < score[order[k - 1]]; k--) {
            const size_t other = order[k];
            order[k] = order[k - 1];
            order[k - 1] = other;
        }
    used += (size_t)snprintf(words, sizeof words, near ? "did you mean %.60s? one of: " : "one of: ", near);
    for (size_t i = 0; i < n; i++) {
        const char *word = r->names[order[i]];
        if (cut && used + strlen(word) + TAIL > ROOM) {
            snprintf(words + used, sizeof words - used, ", ... (%zu words)", n);
            break;
        }
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", i ? ", " : "", word);
    }
    return posenc_fail(err, PE_INVALID, bad, r->name, value, "%s", words);
}

/* Marks the row as given, also when its value is bad: one fault a row is enough. */
static posenc_status take(const posenc_table *t, const posenc_param *row, void *params, posenc_error *err)
{
    if (*given(params) & bit(t, row))
        return posenc_fail(err, PE_INVALID, "DUPLICATE_PARAMETER", row->name, "given twice", "once");
    *given(params) |= bit(t, row);
    return PE_OK;
}

/* ---- typed setters ---- */

posenc_status posenc_set_int(const posenc_table *t, const posenc_param *row, void *params, int64_t v, posenc_error *err)
{
    posenc_status st;
    if (row->kind == PE_T_REAL || row->kind == PE_T_REALS) {
        if (v > (1LL << 53) || v < -(1LL << 53))
            return take(t, row, params, NULL),
                   posenc_fail(err, PE_INVALID, bad, row->name, posenc_text("%lld", (long long)v).s,
                               "an integer that a float64 holds exactly: at most 2^53");
        double d = (double)v;
        return row->kind == PE_T_REAL ? posenc_set_real(t, row, params, d, err)
                                      : refuse(row, posenc_text("%lld", (long long)v).s, err);
    }
    if ((st = take(t, row, params, err)))
        return st;
    if (row->kind != PE_T_INT || (double)v < row->min || (double)v > row->max)
        return refuse(row, posenc_text("%lld", (long long)v).s, err);
    *(int64_t *)at(row, params) = v;
    return PE_OK;
}

posenc_status posenc_set_real(const posenc_table *t, const posenc_param *row, void *params, double v, posenc_error *err)
{
    posenc_status st;
    if (row->kind == PE_T_INT && v >= -0x1p53 && v <= 0x1p53 && v == floor(v))
        return posenc_set_int(t, row, params, (int64_t)v, err);
    if ((st = take(t, row, params, err)))
        return st;
    bool nan_ok = isnan(v) && (row->flags & PE_NAN);
    v = isnan(v) ? (double)NAN : v + 0.0; /* one NaN, one zero: as they stand in the key */
    if (row->kind != PE_T_REAL || (!isfinite(v) && !nan_ok) || (bounded(row) && !nan_ok && (v < row->min || v > row->max)))
        return refuse(row, posenc_text("%.17g", v).s, err);
    *(double *)at(row, params) = v;
    return PE_OK;
}

posenc_status posenc_set_bool(const posenc_table *t, const posenc_param *row, void *params, bool v, posenc_error *err)
{
    posenc_status st = take(t, row, params, err);
    if (st)
        return st;
    if (row->kind != PE_T_BOOL)
        return refuse(row, v ? "true" : "false", err);
    *(bool *)at(row, params) = v;
    return PE_OK;
}

posenc_status posenc_set_enum(const posenc_table *t, const posenc_param *row, void *params, int v, posenc_error *err)
{
    posenc_status st = take(t, row, params, err);
    int n = 0;
    if (st)
        return st;
    while (row->kind == PE_T_ENUM && row->names[n])
        n++;
    if (v < 0 || v >= n)
        return refuse(row, posenc_text("number %d", v).s, err);
    *(int *)at(row, params) = v;
    return PE_OK;
}

posenc_status posenc_set_words(const posenc_table *t, const posenc_param *row, void *params, uint64_t set, posenc_error *err)
{
    posenc_status st = take(t, row, params, err);
    size_t n = 0;
    if (st)
        return st;
    while (row->kind == PE_T_WORDS && row->names[n])
        n++;
    if (!set || (n < 64 && set >> n))
        return refuse(row, posenc_text("%llx", (unsigned long long)set).s, err);
    *(uint64_t *)at(row, params) = set;
    return PE_OK;
}

posenc_status posenc_set_reals(const posenc_table *t, const posenc_param *row, void *params, double *v, size_t n,
                               posenc_error *err)
{
    posenc_status st = take(t, row, params, err);
    if (st)
        return st;
    if (row->kind != PE_T_REALS)
        return refuse(row, posenc_text("a list of %zu", n).s, err);
    for (size_t i = 0; i < n; i++) {
        v[i] += 0.0;
        if (!isfinite(v[i]) || (bounded(row) && (v[i] < row->min || v[i] > row->max))) {
            char words[200];
            st = posenc_fail(err, PE_INVALID, bad, posenc_text("%.40s[%zu]", row->name, i).s, posenc_text("%.17g", v[i]).s,
                             "%s", allowed(row, words, sizeof words));
            if (err && err->dropped)
                break;
        }
    }
    if (!st)
        *(posenc_reals *)at(row, params) = (posenc_reals){ v, n };
    return st;
}

posenc_status posenc_set_tensor(const posenc_table *t, const posenc_param *row, void *params, const posenc_tensor *v,
                                posenc_error *err)
{
    posenc_status st = take(t, row, params, err);
    if (st)
        return st;
    if (row->kind != PE_T_TENSOR)
        return refuse(row, "a tensor", err);
    posenc_tensor named = *v;
    named.name = row->name;
    const int64_t i = pe_tensor_infinite(v);
    if (i >= 0)
        return posenc_fail(err, PE_INVALID, bad, pe_tensor_place(&named, i).s, posenc_text("%g", posenc_tensor_get(v, i)).s,
                           "finite numbers");
    posenc_tensor *dst = at(row, params);
    *dst = named;
    return PE_OK;
}

/* ---- text ---- */

static bool number(const char *s, double *out) { return pe_parse_number(s, strlen(s), out); }

/* A whole number, written out, that no float64 holds: to round it would be to compute something else. */
static bool inexact(const char *s, size_t n, double v)
{
    char text[32];
    s += n > 0 && (*s == '-' || *s == '+') ? (n--, 1) : 0;
    while (n > 1 && *s == '0')
        s++, n--;
    if (n < 16 || n > 24 || strspn(s, "0123456789") < n)
        return false;
    return snprintf(text, sizeof text, "%.0f", fabs(v)) != (int)n || memcmp(text, s, n) != 0;
}

static bool integer(const char *s, int64_t *out)
{
    char *end;
    double d;
    if (*s && strspn(s + (*s == '-'), "0123456789") == strlen(s + (*s == '-')) && s[*s == '-']) {
        errno = 0;
        long long v = strtoll(s, &end, 10);
        *out = v;
        return !errno && !*end;
    }
    if (!number(s, &d) || d != floor(d) || fabs(d) > 0x1p53) /* 1e4 and 10000.0 are 10000 */
        return false;
    *out = (int64_t)d;
    return true;
}

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* What stands between blanks. */
static const char *trim(const char *s, size_t *n)
{
    while (*n > 0 && blank(*s))
        s++, (*n)--;
    while (*n > 0 && blank(s[*n - 1]))
        (*n)--;
    return s;
}

/* 1,2,3 as typed in a query; [1, 2, 3] as JSON has it, where blanks mean nothing. */
static posenc_status set_list(const posenc_table *t, const posenc_param *row, void *params, const char *s, posenc_arena *a,
                              posenc_error *err)
{
    size_t n = 1, size = strlen(s);
    const char *inner = trim(s, &size);
    const bool brackets = size > 1 && inner[0] == '[' && inner[size - 1] == ']';
    if (brackets) {
        size -= 2;
        s = trim(inner + 1, &size);
        n = size ? 1 : 0;
    } else {
        size = strlen(s);
    }
    for (size_t i = 0; i < size; i++)
        n += s[i] == ',';
    double *v = n < SIZE_MAX / 8 ? posenc_alloc(a, (n ? n : 1) * sizeof *v) : NULL;
    if (!v)
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", row->name, posenc_text("%zu elements", n).s, "fewer elements");
    for (size_t i = 0; i < n; i++) {
        const char *comma = memchr(s, ',', size);
        size_t len = comma ? (size_t)(comma - s) : size, bare = len;
        const char *one = brackets ? trim(s, &bare) : s;
        if (!pe_parse_number(one, bare, &v[i]) || inexact(one, bare, v[i])) {
            posenc_status st = take(t, row, params, err);
            char words[200];
            return st ? st
                      : posenc_fail(err, PE_INVALID, bad, posenc_text("%.40s[%zu]", row->name, i).s,
                                    posenc_text("%.*s", bare < 60 ? (int)bare : 60, one).s, "%s",
                                    allowed(row, words, sizeof words));
        }
        s += len + (comma != NULL);
        size -= len + (comma != NULL);
    }
    return posenc_set_reals(t, row, params, v, n, err);
}

/* norms,shift as typed in a query; [norms, shift] as lists of numbers may be. `s` is taken apart. */
static posenc_status set_words(const posenc_table *t, const posenc_param *row, void *params, char *s, posenc_error *err)
{
    uint64_t set = 0;
    posenc_status st;
    size_t size = strlen(s);
    const char *inner = trim(s, &size);
    if (size > 1 && inner[0] == '[' && inner[size - 1] == ']')
        inner = trim(inner + 1, (size -= 2, &size));
    for (bool more = size > 0; more;) {
        const char *comma = memchr(inner, ',', size);
        size_t len = comma ? (size_t)(comma - inner) : size, bare = len;
        const char *one = trim(inner, &bare);
        char word[LONGEST_NAME + 1];
        int k = 0;
        snprintf(word, sizeof word, "%.*s", bare < LONGEST_NAME ? (int)bare : LONGEST_NAME, one);
        while (row->names[k] && strcmp(word, row->names[k]) != 0)
            k++;
        if (!row->names[k] || set >> k & 1) {
            if ((st = take(t, row, params, err)))
                return st;
            return row->names[k] ? posenc_fail(err, PE_INVALID, bad, row->name, word, "each word once")
                                 : refuse_word(row, *word ? word : "(empty)", err);
        }
        set |= UINT64_C(1) << k;
        more = comma != NULL;
        inner += len + more;
        size -= len + more;
    }
    return posenc_set_words(t, row, params, set, err);
}

posenc_status posenc_set_text(const posenc_table *t, const posenc_param *row, void *params, const char *text, size_t n,
                              posenc_arena *a, posenc_error *err)
{
    char *s = posenc_strdup(a, text, n);
    double d;
    int64_t i;
    posenc_status st;
    if (!s)
        return posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", row->name, posenc_text("%zu bytes", n).s, "a shorter value");
    bool whole = strlen(s) == n;
    if (row->kind == PE_T_INT && whole && integer(s, &i))
        return posenc_set_int(t, row, params, i, err);
    if (row->kind == PE_T_REAL && whole && number(s, &d) && !inexact(s, n, d))
        return posenc_set_real(t, row, params, d, err);
    if (row->kind == PE_T_REAL && (row->flags & PE_NAN) && whole && (!strcmp(s, "nan") || !strcmp(s, "NaN")))
        return posenc_set_real(t, row, params, (double)NAN, err);
    if (row->kind == PE_T_REALS && whole && n)
        return set_list(t, row, params, s, a, err);
    if (row->kind == PE_T_BOOL && whole && (!strcmp(s, "true") || !strcmp(s, "false")))
        return posenc_set_bool(t, row, params, s[0] == 't', err);
    if (row->kind == PE_T_ENUM && whole)
        for (int k = 0; row->names[k]; k++)
            if (!strcmp(s, row->names[k]))
                return posenc_set_enum(t, row, params, k, err);
    if (row->kind == PE_T_WORDS && whole && n)
        return set_words(t, row, params, s, err);
    if ((st = take(t, row, params, err)))
        return st;
    if (row->kind == PE_T_TEXT && whole && (double)n >= row->min && (double)n <= row->max) {
        size_t ok = 0;
        while (ok < n && (unsigned char)s[ok] > 0x20 && (unsigned char)s[ok] < 0x7f)
            ok++;
        if (ok == n) {
            *(const char **)at(row, params) = s;
            return PE_OK;
        }
    }
    if (row->kind == PE_T_ENUM && whole && n)
        return refuse_word(row, s, err);
    return refuse(row, whole ? (n ? s : "(empty)") : "a text with a NUL", err);
}

/* ---- unknown names ---- */

posenc_status posenc_unknown(const posenc_table *t, const posenc_table *also, const char *name, posenc_error *err)
{
    const char *near = NULL;
    unsigned nearest = STRANGERS;
    for (size_t i = 0; i < t->nrows + (also ? also->nrows : 0); i++) {
        const posenc_param *r = i < t->nrows ? &t->rows[i] : &also->rows[i - t->nrows];
        const unsigned score = 10 + likeness(name, r->name) - (r->flags & PE_REQUIRED ? 10 : 0);
        if (score < nearest) { /* "dim" is embedding_dim rather than odd_dim */
            near = r->name;
            nearest = score;
        }
    }
    if (near)
        return posenc_fail(err, PE_INVALID, "UNKNOWN_PARAMETER", name, "unknown name", "did you mean %s?", near);
    char words[150] = "";
    size_t used = 0;
    for (size_t i = 0; i < t->nrows; i++) {
        if (used + strlen(t->rows[i].name) + 8 > sizeof words) {
            snprintf(words + used, sizeof words - used, ", ...");
            break;
        }
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", i ? ", " : "", t->rows[i].name);
    }
    return posenc_fail(err, PE_INVALID, "UNKNOWN_PARAMETER", *name ? name : "(empty)", "unknown name", "%s", words);
}

/* ---- rules that need all values ---- */

posenc_status posenc_finish(const posenc_table *t, void *params, posenc_error *err)
{
    posenc_status st = PE_OK;
    const posenc_param *s = selector(t);
    for (size_t i = 0; i < t->nrows; i++) {
        const posenc_param *r = &t->rows[i];
        bool is_given = posenc_was_given(t, r, params);
        if (!posenc_applies(t, r, params)) {
            char words[160];
            if (is_given) {
                list_words(words, sizeof words, s->names, r->when);
                const char *word = s->kind == PE_T_WORDS ? s->names[__builtin_ctzll(*(uint64_t *)at(s, params))]
                                                         : s->names[*(int *)at(s, params)];
                st = posenc_fail(err, PE_INVALID, "NOT_APPLICABLE", r->name,
                                 posenc_text("given with %s=%s", s->name, word).s, "only with %s one of: %s", s->name,
                                 words);
            }
        } else if ((r->flags & PE_REQUIRED) && !is_given) {
            st = posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", r->name, "absent", "a value, it is required: %s", r->doc);
        }
    }
    return st;
}

/* ---- what encodings call ---- */

posenc_status pe_output(posenc_result *out, const char *name, posenc_dtype dtype, int rank, const int64_t *shape,
                        posenc_error *err)
{
    int64_t n = (int64_t)posenc_dtype_size(dtype);
    for (int i = 0; i < rank; i++)
        if (!posenc_mul_size(n, shape[i], &n))
            return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", name, "over 2^63 bytes", "a smaller shape");
    posenc_tensor *t = &out->tensor[out->ntensors++];
    *t = (posenc_tensor){ .name = name, .dtype = dtype, .rank = rank };
    memcpy(t->shape, shape, (size_t)rank * sizeof *shape);
    return PE_OK;
}

posenc_tensor *pe_tensor(posenc_result *out, const char *name)
{
    for (int i = 0; i < out->ntensors; i++)
        if (!strcmp(out->tensor[i].name, name))
            return &out->tensor[i];
    return NULL;
}

void pe_warn(posenc_result *out, const char *format, ...)
{
    if (out->nwarnings == PE_MAX_WARNINGS)
        return;
    va_list ap;
    va_start(ap, format);
    vsnprintf(out->warning[out->nwarnings++], sizeof out->warning[0], format, ap);
    va_end(ap);
}
