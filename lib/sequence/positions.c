/* positions.c - which positions: a range, a list, or counted from tokens. */
#include "sequence/positions.h"
#include "core/exact.h"

#include <math.h>
#include <string.h>

const posenc_tensor *pe_positions_tokens(const posenc_request *r, const pe_positions *p)
{
    return pe_given(r, "input_ids") ? &p->input_ids : pe_given(r, "attention_mask") ? &p->attention_mask : NULL;
}

bool pe_positions_given(const posenc_request *r, const pe_positions *p)
{
    return pe_positions_tokens(r, p) || pe_given(r, "positions") || pe_given(r, "num_positions");
}

int64_t pe_positions_count(const posenc_request *r, const pe_positions *p)
{
    const posenc_tensor *t = pe_positions_tokens(r, p);
    return t ? posenc_tensor_count(t) : pe_given(r, "positions") ? (int64_t)p->positions.n : p->num_positions;
}

/* Positions of tokens into `out` (unless NULL); returns how many rows a table needs to hold them.
 * With padding_idx as fairseq and M2M100: (cumsum(real) + past) * real + padding_idx.
 * Without as GPT-2: cumsum(real) + past - 1, and 1 where not real. */
static int64_t token_positions(const posenc_request *r, const pe_positions *p, int64_t *out, pe_pace *pace,
                               posenc_status *st)
{
    const posenc_tensor *t = pe_positions_tokens(r, p);
    const bool pad = pe_given(r, "padding_idx"), by_id = pad && pe_given(r, "input_ids"),
               masked = pe_given(r, "attention_mask");
    const int64_t length = t->shape[t->rank - 1], n = posenc_tensor_count(t), before = p->past_key_values_length;
    enum { BLOCK = 512 };
    double id[BLOCK], mask[BLOCK];
    int64_t seen = 0, need = pad ? p->padding_idx + 1 : 0;
    for (int64_t i = 0, m; i < n && !*st; i += m) {
        m = length - i % length; /* of one sequence */
        m = m < BLOCK ? m : BLOCK;
        if (by_id)
            pe_tensor_read(&p->input_ids, i, (size_t)m, id);
        if (masked)
            pe_tensor_read(&p->attention_mask, i, (size_t)m, mask);
        seen = i % length ? seen : 0;
        for (int64_t k = 0; k < m; k++) {
            const bool real = (!by_id || id[k] != (double)p->padding_idx) && (!masked || mask[k] != 0);
            seen += real;
            const int64_t position = pad ? p->padding_idx + (real ? before + seen : 0) : real ? before + seen - 1 : 1;
            need = position >= need ? position + 1 : need;
            if (out)
                out[i + k] = position;
        }
        *st = pe_pace_add(pace, 6 * m + 20);
    }
    return need;
}

static int64_t rows_needed(const posenc_request *r, const pe_positions *p)
{
    pe_pace unwatched = { .ctx = NULL };
    posenc_status st = PE_OK;
    return token_positions(r, p, NULL, &unwatched, &st);
}

double pe_positions_largest(const posenc_request *r, const pe_positions *p)
{
    double most = 0;
    if (!pe_positions_count(r, p))
        return 0;
    if (pe_positions_tokens(r, p))
        return (double)(rows_needed(r, p) - 1);
    if (!pe_given(r, "positions"))
        return pe_max(fabs((double)p->offset), fabs((double)(p->offset + p->num_positions - 1)));
    for (size_t i = 0; i < p->positions.n; i++)
        most = pe_max(most, fabs(p->positions.v[i]));
    return most;
}

posenc_status pe_positions_source(const posenc_request *r, const pe_positions *p, int64_t *of_token, pe_pace *pace,
                                  pe_source *out)
{
    const bool tokens = pe_positions_tokens(r, p) != NULL;
    posenc_status st = PE_OK;
    if (tokens)
        token_positions(r, p, of_token, pace, &st);
    *out = (pe_source){ .of_token = tokens ? of_token : NULL,
                        .listed = pe_given(r, "positions") ? p->positions.v : NULL,
                        .offset = p->offset };
    return st;
}

int pe_positions_shape(const posenc_request *r, const pe_positions *p, int more, const int64_t *inner,
                       int64_t shape[PE_MAX_RANK])
{
    const posenc_tensor *t = pe_positions_tokens(r, p);
    int rank = t ? t->rank : 1;
    if (t)
        memcpy(shape, t->shape, (size_t)rank * sizeof *shape);
    else
        shape[0] = pe_positions_count(r, p);
    for (int i = 0; i < more; i++)
        shape[rank + i] = inner[i];
    return rank + more;
}

bool pe_tokens_check(const posenc_tensor *t, double min, double max, const char *words, posenc_error *err)
{
    const int64_t any[2] = { -1, -1 };
    return pe_tensor_shaped(t, t->rank == 1 ? 1 : 2, any, "[L] or [B, L]", err) &&
           pe_tensor_integers(t, min, max, words, err);
}

static void check_tokens(const posenc_request *r, const pe_positions *p, posenc_error *err)
{
    const posenc_tensor *ids = &p->input_ids, *mask = &p->attention_mask;
    const bool by_id = pe_given(r, "input_ids"), masked = pe_given(r, "attention_mask");
    bool sound = (!by_id || pe_tokens_check(ids, -0x1p63, 0x1p63, "an integer", err));
    sound = (!masked || pe_tokens_check(mask, 0, 1, "0 or 1", err)) && sound;
    if (by_id && masked &&
        (ids->rank != mask->rank || memcmp(ids->shape, mask->shape, (size_t)ids->rank * sizeof ids->shape[0])))
        sound = !pe_invalid(err, "attention_mask", posenc_text("another shape"), "the shape of input_ids");
    if (!sound || !pe_given(r, "num_positions"))
        return;
    int64_t need = rows_needed(r, p);
    if (pe_positions_count(r, p) && need > p->num_positions)
        pe_invalid(err, "num_positions", posenc_text("%lld", (long long)p->num_positions),
                   "at least %lld rows for these tokens", (long long)need);
}

void pe_positions_check(const posenc_request *r, const pe_positions *p, bool required, posenc_error *err)
{
    static const char one[] = "one of num_positions, positions, or input_ids / attention_mask";
    const bool token = pe_positions_tokens(r, p) != NULL, list = pe_given(r, "positions"),
               range = pe_given(r, "num_positions") && !token;
    if (!token && !list && !range && required)
        posenc_fail(err, PE_INVALID, "MISSING_PARAMETER", "num_positions", "absent", "a value, it is required: %s", one);
    if (list && (token || range))
        pe_not_applicable(err, "positions", token ? "given with tokens" : "given with num_positions", "%s", one);
    if (p->offset && !range)
        pe_not_applicable(err, "offset", posenc_text("%lld", (long long)p->offset).s, "0, or num_positions alone");
    if (p->past_key_values_length && !token)
        pe_not_applicable(err, "past_key_values_length", posenc_text("%lld", (long long)p->past_key_values_length).s,
                          "0, or input_ids or attention_mask");
    if (range && !list && p->num_positions && p->offset > (1LL << 53) - p->num_positions + 1)
        posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "offset", posenc_text("%lld", (long long)p->offset).s,
                    "positions up to 2^53");
    if (token)
        check_tokens(r, p, err);
}

void pe_positions_pad_tokens(const posenc_request *r, const pe_positions *p, posenc_error *err)
{
    if (pe_given(r, "padding_idx") && !pe_positions_tokens(r, p))
        pe_not_applicable(err, "padding_idx", posenc_text("%lld", (long long)p->padding_idx).s,
                          "absent, or input_ids or attention_mask");
}
