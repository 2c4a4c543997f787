/* returns.c - two steps of the encoding are one product with the matrix and two sums, formed in the same pass. */
#include "graph/returns.h"

#include "core/lanes.h"

/* Four registers of lanes, of which the first `blocks` count: written out, since loops over them are kept in memory. */
typedef struct four {
    pe_lanes a, b, c, d;
} four;

PE_BODY four load(const double *from, int blocks)
{
    four x = { { 0 }, { 0 }, { 0 }, { 0 } };
    PE_LOAD(x.a, from, PE_LANES);
    if (blocks > 1)
        PE_LOAD(x.b, from + PE_LANES, PE_LANES);
    if (blocks > 2)
        PE_LOAD(x.c, from + 2 * PE_LANES, PE_LANES);
    if (blocks > 3)
        PE_LOAD(x.d, from + 3 * PE_LANES, PE_LANES);
    return x;
}

PE_BODY void store(double *to, four x, int blocks)
{
    PE_STORE(to, x.a, PE_LANES);
    if (blocks > 1)
        PE_STORE(to + PE_LANES, x.b, PE_LANES);
    if (blocks > 2)
        PE_STORE(to + 2 * PE_LANES, x.c, PE_LANES);
    if (blocks > 3)
        PE_STORE(to + 3 * PE_LANES, x.d, PE_LANES);
}

PE_BODY four plus(four x, four y) { return (four){ x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d }; }
PE_BODY four times(four x, four y) { return (four){ x.a * y.a, x.b * y.b, x.c * y.c, x.d * y.d }; }

/* Each lane a source. next = (A here) / d, and scale times the sums of here x (A here) and of next x (A here). */
PE_BODY void step_lanes(const pe_csr *c, const double *inverse, const double *scale, const double *here, double *next,
                        double *odd, double *even, int blocks)
{
    four one = { { 0 }, { 0 }, { 0 }, { 0 } }, two = one;
    const int64_t n = c->n, *ptr = c->ptr, width = blocks * PE_LANES;
    const int32_t *col = c->col;
    for (int64_t v = 0, a = 0; v < n; v++) {
        const pe_lanes by = PE_SPLAT(inverse[v]);
        four sum = { { 0 }, { 0 }, { 0 }, { 0 } };
        for (; a < ptr[v + 1]; a++)
            sum = plus(sum, load(here + col[a] * width, blocks));
        const four next_v = times(sum, (four){ by, by, by, by });
        one = plus(one, times(load(here + v * width, blocks), sum));
        two = plus(two, times(next_v, sum));
        store(next + v * width, next_v, blocks);
    }
    const four by = load(scale, blocks);
    store(odd, times(one, by), blocks);
    store(even, times(two, by), blocks);
}

PE_BODY void step_body(const pe_csr *c, const double *inverse, const double *scale, const double *here, double *next,
                       double *odd, double *even, int blocks)
{
    switch (blocks) { /* known numbers: the sums stay in registers */
    case 1: step_lanes(c, inverse, scale, here, next, odd, even, 1); break;
    case 2: step_lanes(c, inverse, scale, here, next, odd, even, 2); break;
    case 3: step_lanes(c, inverse, scale, here, next, odd, even, 3); break;
    default: step_lanes(c, inverse, scale, here, next, odd, even, 4); break;
    }
}

PE_KERNEL(step, step_body,
          (const pe_csr *c, const double *inverse, const double *scale, const double *here, double *next, double *odd,
           double *even, int blocks),
          (c, inverse, scale, here, next, odd, even, blocks))

posenc_status pe_returns(const pe_csr *c, int64_t u, int64_t count, int64_t last, double *scratch, double *back,
                         pe_pace *pace)
{
    const pe_path path = pe_simd();
    const int64_t n = c->n, lanes = pe_returns_lanes(count);
    double *inverse = scratch, *here = inverse + (n + 7) / 8 * 8, *next = here + n * lanes, scale[PE_RETURNS] = { 0 },
           spare[PE_RETURNS];
    posenc_status st = PE_OK;
    memset(here, 0, (size_t)(n * lanes) * sizeof *here);
    for (int64_t v = 0; v < n; v++)
        inverse[v] = c->degree[v] > 0 ? 1 / c->degree[v] : 0;
    for (int64_t i = 0; i < count; i++) {
        here[(u + i) * lanes + i] = inverse[u + i];
        scale[i] = c->degree[u + i];
    }
    for (int64_t t = 1; t <= last && !st; t += 2) {
        double *to = back + (t - 1) * lanes, *swap = here;
        step_paths[path](c, inverse, scale, here, next, to, t < last ? to + lanes : spare, (int)(lanes / PE_LANES));
        here = next;
        next = swap;
        st = pe_pace_add(pace, (c->arcs + 4 * n) * lanes / PE_LANES + 16);
    }
    return st;
}
