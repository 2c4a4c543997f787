/* indices.c - tables of numbers of rows: buckets of distances, places in windows; and coordinates of windows.
 *
 * A matrix of queries and keys that follows key - query alone is read along its first row and column; the buckets that are
 * one distance each tell how many there are, and where the others begin bounds max_distance from both sides. */
#include "analysis/identify.h"

#include "core/elementary.h"

#include <math.h>
#include <string.h>

enum { MOST_SIDE = 4096 };

typedef struct distances { /* at(d) for d = -(queries - 1) .. keys - 1 of the matrix's own coordinates */
    pe_search *s;
    const double *x;
    int64_t queries, keys;
} distances;

static double at(const distances *m, int64_t d) { return d >= 0 ? m->x[d] : m->x[-d * m->keys]; }

static bool follows_distance(const distances *m)
{
    for (int64_t q = 1; q < m->queries; q++)
        for (int64_t k = 1; k < m->keys; k++)
            if (m->x[q * m->keys + k] != m->x[(q - 1) * m->keys + k - 1])
                return false;
    return true;
}

static void put_sides(const distances *m, pe_guess *w, int64_t past, int64_t usual)
{
    pe_guess_int(w, "query_length", m->queries);
    pe_guess_int(w, "key_length", m->keys);
    if (past != usual)
        pe_guess_int(w, "past_seen_tokens", past);
}

/* ln of the ratio of a last to a first distance, between these bounds; the shortest number for the last. */
typedef struct bounds {
    double low, high;
} bounds;

static double last_distance(const bounds *b, double first)
{
    if (!(b->low < b->high))
        return 0;
    const double low = first * pe_exp(b->low), high = b->high < 50 ? first * pe_exp(b->high) : 4 * low;
    for (double p = 1; p <= high; p *= 2) /* powers of two are what models have */
        if (p >= low)
            return p;
    return rint(pe_nice((low + high) / 2, (high - low) / 2));
}

/* ---- T5 ---- */

static void try_t5(const distances *m, int64_t zero, bool both)
{
    const int64_t behind = zero + m->queries - 1; /* the farthest key before a query */
    int64_t exact = 0;
    while (exact < behind && at(m, zero - exact - 1) == (double)exact + 1)
        exact++;
    double most = 0;
    for (int64_t n = 0; n <= behind; n++)
        most = pe_max(most, at(m, zero - n));
    /* of a direction 2h or 2h + 1 buckets, h of them one distance each; the first of the others may continue the count */
    for (int64_t h = exact; h >= 1 && h >= exact - 3 && !pe_exact_found(m->s); h--)
        for (int64_t b = 2 * h; b <= 2 * h + 1; b++) {
            bounds ln = { 1e-9, 60 };
            for (int64_t n = h + 1; n <= behind; n++) {
                const double k = at(m, zero - n) - (double)h, span = (double)(b - h) * pe_log((double)n / (double)h);
                if (k < 0 || k > (double)(b - h) - 1)
                    ln.high = -1;
                if (k < (double)(b - h) - 1)
                    ln.low = pe_max(ln.low, span / (k + 1) * (1 + 1e-12));
                if (k > 0)
                    ln.high = pe_min(ln.high, span / k);
            }
            const double last = last_distance(&ln, (double)h);
            if (!(last > 0))
                continue;
            pe_guess w = pe_guess_begin(m->s, "t5_bucket");
            put_sides(m, &w, zero, m->keys - m->queries);
            if (zero == m->keys - m->queries)
                pe_guess_int(&w, "past_seen_tokens", zero);
            if (!both)
                pe_guess_flag(&w, "bidirectional", false);
            if (b * (1 + both) != 32)
                pe_guess_int(&w, "num_buckets", b * (1 + both));
            if (last != 128)
                pe_guess_real(&w, "max_distance", last);
            pe_try(m->s, &w);
        }
}

/* ---- DeBERTa ---- */

static void try_deberta(const distances *m, int64_t zero)
{
    const int64_t behind = zero + m->queries - 1;
    int64_t exact = 0;
    while (exact < behind && at(m, zero - exact - 1) == (double)exact + 1)
        exact++;
    if (exact == behind) { /* no buckets */
        pe_guess w = pe_guess_begin(m->s, "deberta_relative");
        put_sides(m, &w, zero, 0);
        pe_try(m->s, &w);
        return;
    }
    for (int64_t half = exact; half >= 2 && half >= exact - 2 && !pe_exact_found(m->s); half--) {
        bounds ln = { 1e-9, 60 };
        for (int64_t r = half + 1; r <= behind; r++) {
            const double k = at(m, zero - r) - (double)half, span = (double)(half - 1) * pe_log((double)r / (double)half);
            if (k < 1)
                ln.high = -1;
            ln.low = pe_max(ln.low, k >= (double)half - 1 ? 0 : span / k); /* clamped distances bound nothing */
            if (k > 1 && k < (double)half - 1)
                ln.high = pe_min(ln.high, span / (k - 1));
        }
        const double last = last_distance(&ln, (double)half);
        for (int clamp = 0; clamp < 2 && last > 0 && !pe_exact_found(m->s); clamp++)
            for (double less = 0; less <= 1; less++) {
                pe_guess w = pe_guess_begin(m->s, "deberta_relative");
                put_sides(m, &w, zero, 0);
                pe_guess_int(&w, "position_buckets", 2 * half);
                pe_guess_real(&w, "max_relative_positions", last + less);
                if (clamp)
                    pe_guess_flag(&w, "clamp", true);
                pe_try(m->s, &w);
            }
    }
}

/* ---- clipped differences ---- */

static void try_clipped(const distances *m)
{
    double least = INFINITY, most = 0;
    for (int64_t d = -(m->queries - 1); d < m->keys; d++)
        least = pe_min(least, at(m, d)), most = pe_max(most, at(m, d));
    if (least < 0 || m->keys < 2)
        return;
    const int64_t rest = m->keys - m->queries;
    /* key - query: where the value is `left` is distance 0 of queries from the last, or from the first */
    for (int kind = 0; kind < 2; kind++)
        for (int64_t zero = kind ? 0 : rest; zero >= 0 && zero < m->keys && !pe_exact_found(m->s); zero = m->keys) {
            const double left = at(m, zero), right = pe_max(most - left, 0);
            pe_guess w = pe_guess_begin(m->s, "shaw_relative_index");
            put_sides(m, &w, 0, 0);
            if (!kind) {
                pe_guess_real(&w, "max_relative_position", left);
            } else {
                pe_guess_text(&w, "variant", "wav2vec2_bert");
                pe_guess_real(&w, "left_max_position_embeddings", left);
                pe_guess_real(&w, "right_max_position_embeddings", right);
            }
            pe_try(m->s, &w);
        }
    for (int kind = 0; kind < 2 && !pe_exact_found(m->s); kind++) { /* query - key */
        pe_guess w = pe_guess_begin(m->s, "shaw_relative_index");
        put_sides(m, &w, 0, 0);
        pe_guess_text(&w, "variant", kind ? "speecht5" : "bert_relative_key");
        pe_guess_real(&w, kind ? "max_length" : "max_position_embeddings", at(m, 0) + !kind);
        pe_try(m->s, &w);
    }
}

/* ---- windows ---- */

static void try_windows(pe_search *s, int64_t places)
{
    static const char *const names[] = { "swin_relative_position_index", "beit_relative_position_index",
                                         "timm_relative_position_index" };
    for (int64_t token = 0; token < 2; token++)
        for (int64_t h = 1; h <= places - token && !s->status && !pe_exact_found(s); h++) {
            if ((places - token) % h)
                continue;
            const double size[] = { (double)h, (double)((places - token) / h) };
            for (size_t k = (size_t)token; k < 3; k++) {
                pe_guess w = pe_guess_begin(s, names[k]);
                pe_guess_reals(&w, "window_size", size, 2);
                if (k)
                    pe_guess_flag(&w, "class_token", token);
                pe_try(s, &w);
            }
        }
}

void pe_find_indices(pe_search *s)
{
    const posenc_tensor *t = s->table;
    if (t->rank != 2 || t->shape[0] > MOST_SIDE || t->shape[1] > MOST_SIDE)
        return;
    for (size_t k = 0; k < 2 && !s->status && !pe_exact_found(s); k++) {
        const distances m = { s, s->view[k].x, (int64_t)s->view[k].rows, (int64_t)s->view[k].cols };
        if (!follows_distance(&m))
            continue;
        int64_t zero = 0;
        while (zero < m.keys && at(&m, zero) != 0)
            zero++;
        if (zero < m.keys) {
            const bool later = zero + 1 < m.keys && at(&m, zero + 1) > 0;
            if (!later)
                try_t5(&m, zero, false);
            else
                try_t5(&m, zero, true);
            if (!pe_exact_found(s))
                try_deberta(&m, zero);
        }
        if (!pe_exact_found(s))
            try_clipped(&m);
    }
    if (t->shape[0] == t->shape[1] && !pe_exact_found(s))
        try_windows(s, t->shape[0]);
}

/* ---- coordinates of windows, and Sandwich ---- */

/* log2(1 + 8 d / (n - 1)) / 3 at the window's end tells n. */
static double window_of(double value, double d)
{
    const double up = pe_exp(3 * fabs(value) * pe_log(2)) - 1;
    return up > 0 ? pe_nice(8 * d / up + 1, 0.05) : 0;
}

static void try_coordinates(pe_search *s)
{
    const posenc_tensor *t = s->table;
    const double size[] = { (double)(t->shape[0] + 1) / 2, (double)(t->shape[1] + 1) / 2 };
    const double *last = s->view[0].x + (s->view[0].rows - 1) * 2;
    const double trained[] = { window_of(last[0], size[0] - 1), window_of(last[1], size[1] - 1) };
    static const char *const modes[] = { "swin", "cr" };
    for (int with = 0; with < 2; with++)
        for (int k = 0; k < 3 && !pe_exact_found(s); k++) {
            if (with && !(trained[0] >= 1 && trained[1] >= 1))
                return;
            pe_guess w = pe_guess_begin(s, k ? "timm_relative_log_coords" : "swinv2_relative_coords_table");
            pe_guess_reals(&w, "window_size", size, 2);
            if (k)
                pe_guess_text(&w, "mode", modes[k - 1]);
            if (with)
                pe_guess_reals(&w, "pretrained_window_size", trained, 2);
            pe_try(s, &w);
        }
}

/* The bias of distance 1, as Sandwich has it before the division: sum cos(10000^(-2j/d)) - d/2. */
static double sandwich_one(int64_t hidden)
{
    double sum = -(double)hidden / 2;
    for (int64_t j = 1; j <= hidden / 2; j++) {
        double c, s;
        pe_cis(pe_exp(-2 * (double)j / (double)hidden * pe_log(10000)), &c, &s);
        sum += c;
    }
    return sum;
}

static void try_sandwich(pe_search *s)
{
    const posenc_tensor *t = s->table;
    const int64_t heads = t->shape[0], queries = t->shape[1], keys = t->shape[2];
    if (keys < 2 || queries < 1)
        return;
    /* the last query, the key before it; head 1's divisor is 8 / heads */
    const double one = s->view[0].x[(queries - 1) * keys + keys - 2] * 8 / (double)heads;
    if (!(one < 0))
        return;
    int64_t low = 1, high = 8192; /* in pairs: falls with the width */
    while (low < high && !s->status) {
        const int64_t middle = (low + high) / 2;
        if (sandwich_one(2 * middle) > one)
            low = middle + 1;
        else
            high = middle;
        s->status = pe_pace_add(&s->pace, middle * 1000);
    }
    for (int64_t pairs = low > 1 ? low - 1 : 1; pairs <= low + 1; pairs++)
        for (int both = 0; both < 2 && !pe_exact_found(s); both++) {
            pe_guess w = pe_guess_begin(s, "sandwich");
            pe_guess_int(&w, "num_heads", heads);
            pe_guess_int(&w, "query_length", queries);
            pe_guess_int(&w, "key_length", keys);
            pe_guess_int(&w, "hidden_size", 2 * pairs);
            if (both)
                pe_guess_flag(&w, "bidirectional", true);
            pe_try(s, &w);
        }
}

void pe_find_coordinates(pe_search *s)
{
    const posenc_tensor *t = s->table;
    if (t->rank != 3)
        return;
    if (t->shape[2] == 2 && t->shape[0] % 2 && t->shape[1] % 2)
        try_coordinates(s);
    if (!pe_exact_found(s))
        try_sandwich(s);
}
