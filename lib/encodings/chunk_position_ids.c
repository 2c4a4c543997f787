/* chunk_position_ids.c - a long input cut into windows that overlap: which window each token is in, and where.
 *
 *     window w starts at w * stride and holds up to `window` tokens; windows are cut until the last token is in one
 *     one row for each token of each window, window by window:
 *         window, position = offset + place in the window, global_position = window_start[window] + place
 *
 * So a token that lies in several windows has a row in each: rows are what is fed to the model, and the rows of one
 * global_position are what must be merged afterwards. The last window is short, or with last_window=full is moved back
 * so that it has `window` tokens as well (unless the input is shorter than one window).
 * Tokenizers call the overlap "stride" (transformers' return_overflowing_tokens): it is `overlap` here, and stride is the
 * step from one window to the next, as in sliding-window evaluation and in the BERT authors' run_squad (doc_stride). */
#include "core/pace.h"
#include "core/params.h"

#include <stdlib.h>

extern const posenc_encoding pe_chunk_position_ids;

/* ---- rows ---- */

enum { SHORT, FULL };
static const char *const lasts[] = { "short", "full", NULL };

typedef struct chunk_position_ids {
    posenc_given given;
    int64_t seq_length, window, stride, overlap;
    int last_window;
    int64_t offset;
} chunk_position_ids;

static const posenc_param rows[] = {
    { PE_INT(chunk_position_ids, seq_length), .flags = PE_REQUIRED, .min = 0, .max = 1e12,
      .doc = "tokens of the whole input" },
    { PE_INT(chunk_position_ids, window), .flags = PE_REQUIRED, .min = 1, .max = 1e12, .doc = "tokens of a window" },
    { PE_INT(chunk_position_ids, stride), .flags = PE_DERIVED, .min = 1, .max = 1e12,
      .doc = "from the start of a window to that of the next, at most window; when absent window - overlap" },
    { PE_INT(chunk_position_ids, overlap), .flags = PE_OPTIONAL, .min = 0, .max = 1e12,
      .doc = "tokens that a window shares with the next, instead of stride; when both are absent there is none" },
    { PE_ENUM(chunk_position_ids, last_window), .names = lasts, .def = SHORT,
      .doc = "the last window ends with the input and is short, or starts earlier and is full" },
    { PE_INT(chunk_position_ids, offset), .min = -1e12, .max = 1e12,
      .doc = "position of the first token of each window: 1 after a [CLS], 2 in a RoBERTa table" },
};

static const posenc_output outputs[] = {
    { "window", "[rows]", "the window of each row, 0 ..", "int64" },
    { "position", "[rows]", "the position of the token inside the window, plus offset", "int64" },
    { "global_position", "[rows]", "the position of the token in the whole input, 0 .. seq_length - 1", "int64" },
    { "window_start", "[windows]", "global position of each window's first token", "int64" },
    { "window_offset", "[windows + 1]", "first row of each window, and the number of rows at the end", "int64" },
};

/* ---- the cut ---- */

static int64_t windows(const chunk_position_ids *p)
{
    const int64_t beyond = p->seq_length - p->window;
    return !p->seq_length ? 0 : beyond <= 0 ? 1 : 1 + (beyond + p->stride - 1) / p->stride;
}

static int64_t start(const chunk_position_ids *p, int64_t w)
{
    const int64_t at = w * p->stride, latest = p->seq_length > p->window ? p->seq_length - p->window : 0;
    return p->last_window == FULL && at > latest ? latest : at;
}

static int64_t length(const chunk_position_ids *p, int64_t w)
{
    const int64_t left = p->seq_length - start(p, w);
    return left < p->window ? left : p->window;
}

/* All windows but the last are full. False on overflow. */
static bool count_rows(const chunk_position_ids *p, int64_t *n)
{
    const int64_t w = windows(p);
    *n = 0;
    return !w || (posenc_mul_size(w - 1, p->window, n) && !__builtin_add_overflow(*n, length(p, w - 1), n));
}

/* ---- check ---- */

static posenc_status check(posenc_request *r, posenc_error *err)
{
    chunk_position_ids *p = r->params;
    const bool step = pe_given(r, "stride"), shared = pe_given(r, "overlap");
    if (step && shared)
        pe_not_applicable(err, "overlap", posenc_text("%lld", (long long)p->overlap).s, "either stride or overlap");
    if (step && p->stride > p->window)
        pe_invalid(err, "stride", posenc_text("%lld", (long long)p->stride), "1 .. %lld, the window: no token is left out",
                   (long long)p->window);
    if (shared && p->overlap >= p->window)
        pe_invalid(err, "overlap", posenc_text("%lld", (long long)p->overlap), "0 .. %lld, below the window",
                   (long long)p->window - 1);
    if (!step)
        p->stride = p->window - p->overlap;
    pe_mark(r, "overlap", false); /* leaves no trace: stride says it */
    return err->status;
}

/* ---- shape and cost ---- */

static posenc_status shape(const posenc_request *r, posenc_result *out, posenc_error *err)
{
    static const char *const by_row[] = { "window", "position", "global_position" };
    const chunk_position_ids *p = r->params;
    const int64_t w = windows(p), bounds = w + 1;
    int64_t n;
    posenc_status st = PE_OK;
    if (!count_rows(p, &n))
        return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "window", "over 2^63 rows",
                           "a larger stride, or less of everything");
    for (size_t i = 0; i < PE_LEN(by_row) && !st; i++)
        st = pe_output(out, by_row[i], PE_int64, 1, &n, err);
    st = st ? st : pe_output(out, "window_start", PE_int64, 1, &w, err);
    return st ? st : pe_output(out, "window_offset", PE_int64, 1, &bounds, err);
}

static void cost(const posenc_request *r, posenc_cost *out)
{
    const chunk_position_ids *p = r->params;
    int64_t n = 0;
    count_rows(p, &n);
    *out = (posenc_cost){ .ns = 1000 + 16 * (double)n + 10 * (double)windows(p) };
}

/* ---- compute ---- */

static posenc_status compute(const posenc_request *r, posenc_result *out, posenc_context *ctx, posenc_error *err)
{
    const chunk_position_ids *p = r->params;
    int64_t *window = pe_tensor(out, "window")->data, *position = pe_tensor(out, "position")->data,
            *global = pe_tensor(out, "global_position")->data, *starts = pe_tensor(out, "window_start")->data,
            *offsets = pe_tensor(out, "window_offset")->data, row = 0;
    pe_pace pace = { .ctx = ctx };
    posenc_status st = PE_OK;
    (void)err;
    for (int64_t w = 0, n = windows(p); w < n && !st; w++) {
        const int64_t first = start(p, w), tokens = length(p, w);
        starts[w] = first;
        offsets[w] = row;
        for (int64_t i = 0; i < tokens && !st; i++, row++) {
            window[row] = w;
            position[row] = p->offset + i;
            global[row] = first + i;
            st = pe_pace_add(&pace, 12);
        }
    }
    offsets[windows(p)] = row;
    return st;
}

/* ---- descriptor ---- */

const posenc_encoding pe_chunk_position_ids = {
    .name = "chunk_position_ids",
    .family = "absolute",
    .title = "positions of a long input cut into overlapping windows",
    .source = "Devlin et al. 2019, BERT, run_squad (doc_stride); transformers, return_overflowing_tokens",
    .formula =
        "window w starts at w * stride (last_window=full: at seq_length - window at most), until the last token is in one\n"
        "a row for each token of each window: window, offset + place in the window, global_position",
    .example = "seq_length=20&window=8&stride=6",
    .revision = 1,
    .input = PE_NO_INPUT,
    PE_TABLE(chunk_position_ids, rows),
    .outputs = outputs,
    .noutputs = PE_LEN(outputs),
    .check = check,
    .shape = shape,
    .cost = cost,
    .compute = compute,
};
