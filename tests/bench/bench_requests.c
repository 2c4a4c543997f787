/* bench_requests.c - times what a client asks for: the engine behind families.py, which times peers in the same run.
 *
 * usage: bench_requests      a line of standard input: encoding, request as one line of JSON, by a tab
 * Prints a line each: seconds of checking and computing once, the JSON already read, as who keeps no result calls the
 * library; of checking alone; and of the name of the request, which reads tensors and long lists once more. Or the error. */
#include "core/memory.h"
#include "posenc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Reads the inputs: they lie in the cache as a peer's do, who is given the same arrays again. */
static void warm(const posenc_request *r)
{
    const posenc_table *t = &r->encoding->table;
    volatile unsigned char sum = 0;
    for (size_t i = 0; i < t->nrows; i++) {
        const posenc_tensor *v = (const void *)((const char *)r->params + t->rows[i].offset);
        for (uint64_t k = 0; t->rows[i].kind == PE_T_TENSOR && v->data && k < posenc_tensor_size(v); k += 64)
            sum = (unsigned char)(sum + ((const unsigned char *)v->data)[k]);
    }
}

/* Seconds of checking and naming the same. */
static posenc_status name(const char *encoding, const char *json, posenc_arena *a, double *seconds, posenc_error *err)
{
    posenc_request r;
    posenc_status st;
    if ((st = posenc_request_init(&r, encoding, a, err)) || (st = posenc_request_json(&r, json, strlen(json), err)))
        return st;
    warm(&r);
    const double begin = now();
    st = posenc_resolve(&r, err);
    *seconds = now() - begin;
    return st;
}

static posenc_status run(const char *encoding, const char *json, posenc_arena *a, double seconds[3], posenc_error *err)
{
    posenc_request r;
    posenc_status st;
    if ((st = posenc_request_init(&r, encoding, a, err)) || (st = posenc_request_json(&r, json, strlen(json), err)))
        return st;
    warm(&r);
    const double begin = now();
    if ((st = posenc_request_check(&r, err)))
        return st;
    seconds[1] = now() - begin;
    void *memory[PE_MAX_OUTPUTS] = { NULL };
    posenc_result out = r.shape;
    for (int i = 0; i < out.ntensors && !st; i++) {
        size_t size = (size_t)posenc_tensor_size(&out.tensor[i]);
        memory[i] = out.tensor[i].data = pe_result_memory(size ? size : 64);
        if (!memory[i])
            st = posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "memory for the result");
    }
    if (!st)
        st = posenc_compute(&r, &out, NULL, err);
    seconds[0] = now() - begin;
    for (int i = 0; i < PE_MAX_OUTPUTS; i++)
        free(memory[i]);
    return st;
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (getline(&line, &room, stdin) > 0) {
        char *json = line, *encoding = strsep(&json, "\t"), text[1000];
        posenc_error err = { 0 };
        double seconds[3] = { 0 };
        posenc_arena *a = json ? posenc_arena_new((size_t)1 << 34) : NULL;
        if (!a) {
            fprintf(stderr, "bench_requests: a line is no order, or no memory\n");
            return 2;
        }
        json[strcspn(json, "\n")] = 0;
        if (run(encoding, json, a, seconds, &err) || name(encoding, json, a, &seconds[2], &err))
            printf("error %s\n", posenc_error_text(&err, text, sizeof text));
        else
            printf("%.9f %.9f %.9f\n", seconds[0], seconds[1], seconds[2] > seconds[1] ? seconds[2] - seconds[1] : 0);
        posenc_arena_free(a);
    }
    free(line);
    return 0;
}
