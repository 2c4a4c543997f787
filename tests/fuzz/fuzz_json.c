/* fuzz_json.c - a JSON body never makes the reader read beyond its bytes; a refusal always says what is wrong.
 *
 * Input: the body. Rows of every kind, and a graph. */
#include "core/params.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct trial {
    posenc_given given;
    int64_t count;
    double scale;
    posenc_reals positions;
    bool flag;
    int word;
    const char *label;
    posenc_tensor table;
} trial;

static const char *const words[] = { "alpha", "beta", NULL };
static const char *const pattern[] = { "[a-z]+", NULL };
static const posenc_param rows[] = {
    { PE_INT(trial, count), .min = -9e15, .max = 9e15, .doc = "an integer" },
    { PE_REAL(trial, scale), .flags = PE_NAN, .doc = "a real" },
    { PE_REALS(trial, positions), .doc = "a list" },
    { PE_BOOL(trial, flag), .doc = "a truth" },
    { PE_ENUM(trial, word), .names = words, .doc = "a word" },
    { PE_TEXT(trial, label), .names = pattern, .min = 0, .max = 20, .doc = "a text" },
    { PE_TENSOR(trial, table), .doc = "a tensor" },
};
static const posenc_encoding encoding = { .name = "trial", .revision = 1, .input = PE_GRAPH, PE_TABLE(trial, rows) };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    posenc_arena *a = posenc_arena_new(1 << 24);
    char *body = malloc(size ? size : 1); /* freed before the request is looked at: nothing may point into it */
    trial p;
    posenc_error err = { 0 };
    double sum = 0;
    if (!a || !body)
        abort();
    if (size)
        memcpy(body, data, size);
    posenc_defaults(&encoding.table, &p);
    posenc_request r = { .encoding = &encoding, .arena = a, .params = &p };
    posenc_defaults(&posenc_common_table, &r.common);
    posenc_status st = posenc_request_json(&r, body, size, &err);
    free(body);
    if ((st == PE_OK) != (err.n == 0) || st != err.status)
        abort();
    if (st == PE_OK) {
        for (size_t i = 0; i < p.positions.n; i++)
            sum += p.positions.v[i];
        for (int64_t i = 0; p.table.data && i < posenc_tensor_count(&p.table); i++)
            sum += posenc_tensor_get(&p.table, i);
        sum += p.label ? (double)strlen(p.label) : 0;
    }
    *(volatile double *)&sum = sum; /* the sum is read so that the loops stay */
    posenc_arena_free(a);
    return 0;
}
