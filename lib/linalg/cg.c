#include "cg.h"
#include "core/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4096 }; /* rows between two looks at the pace */

posenc_status pe_panel_center(int64_t n, double *x, pe_pace *pace)
{
    posenc_status st = PE_OK;
    pe_lanes *rows = (pe_lanes *)x, sum = { 0 };
    for (int64_t i = 0; i < n && !st; i += CHUNK) {
        const int64_t end = n - i < CHUNK ? n : i + CHUNK;
        for (int64_t j = i; j < end; j++)
            sum += rows[j];
        st = pe_pace_add(pace, 4 * (end - i));
    }
    sum /= (double)n;
    for (int64_t i = 0; i < n && !st; i += CHUNK) {
        const int64_t end = n - i < CHUNK ? n : i + CHUNK;
        for (int64_t j = i; j < end; j++)
            rows[j] -= sum;
        st = pe_pace_add(pace, 4 * (end - i));
    }
    return st;
}

posenc_status pe_cg_init(pe_cg *c, const pe_laplacian *lap, posenc_error *err)
{
    *c = (pe_cg){ .lap = lap, .r = pe_panel_new(lap->c->n), .p = pe_panel_new(lap->c->n), .q = pe_panel_new(lap->c->n) };
    return c->r && c->p && c->q ? PE_OK : pe_no_memory("memory", err);
}

void pe_cg_fini(pe_cg *c)
{
    free(c->r);
    free(c->p);
    free(c->q);
    *c = (pe_cg){ 0 };
}

/* sum += p q by columns */
PE_CLONES static void dot_rows(int64_t n, const double *p, const double *q, double *sum)
{
    const pe_lanes *a = (const pe_lanes *)p, *b = (const pe_lanes *)q;
    pe_lanes s = { 0 };
    for (int64_t i = 0; i < n; i++)
        s += a[i] * b[i];
    *(pe_loose_lanes *)sum += s;
}

/* x += alpha p, r -= alpha q; rho += r r / d, square += r r */
PE_CLONES static void step_rows(int64_t n, const double *d, const double *alpha, const double *p, const double *q, double *x,
                                double *r, double *rho, double *square)
{
    const pe_lanes *from = (const pe_lanes *)p, *image = (const pe_lanes *)q, by = *(const pe_loose_lanes *)alpha;
    pe_lanes *to = (pe_lanes *)x, *rest = (pe_lanes *)r, s = { 0 }, t = { 0 };
    for (int64_t i = 0; i < n; i++) {
        to[i] += by * from[i];
        const pe_lanes left = rest[i] - by * image[i], squares = left * left;
        rest[i] = left;
        s += squares / d[i];
        t += squares;
    }
    *(pe_loose_lanes *)rho += s;
    *(pe_loose_lanes *)square += t;
}

/* p = r / d + beta p */
PE_CLONES static void turn_rows(int64_t n, const double *d, const double *beta, const double *r, double *p)
{
    const pe_lanes *rest = (const pe_lanes *)r, by = *(const pe_loose_lanes *)beta;
    pe_lanes *to = (pe_lanes *)p;
    for (int64_t i = 0; i < n; i++)
        to[i] = rest[i] / d[i] + by * to[i];
}

posenc_status pe_cg_solve(pe_cg *c, const double *b, double *x, double tol, int64_t most, pe_pace *pace, posenc_error *err)
{
    const int64_t n = c->lap->c->n;
    const double *d = c->lap->diagonal;
    double zero[PE_WIDTH] = { 0 }, rho[PE_WIDTH] = { 0 }, first[PE_WIDTH] = { 0 }, worst = 0;
    posenc_status st = pe_pace_copy(pace, c->r, b, (size_t)(n * PE_WIDTH) * sizeof *b);
    if (!st)
        st = pe_panel_center(n, c->r, pace);
    for (int64_t i = 0; i < n && !st; i += CHUNK) {
        const int64_t rows = n - i < CHUNK ? n - i : CHUNK, at = i * PE_WIDTH;
        memset(x + at, 0, (size_t)(rows * PE_WIDTH) * sizeof *x);
        memset(c->p + at, 0, (size_t)(rows * PE_WIDTH) * sizeof *x);
        step_rows(rows, d + i, zero, c->p + at, c->p + at, x + at, c->r + at, rho, first);
        turn_rows(rows, d + i, zero, c->r + at, c->p + at);
        st = pe_pace_add(pace, 24 * rows);
    }
    for (int64_t step = 0; step <= most && !st; step++) {
        double energy[PE_WIDTH] = { 0 }, alpha[PE_WIDTH], beta[PE_WIDTH], next[PE_WIDTH] = { 0 }, square[PE_WIDTH] = { 0 };
        if ((st = pe_laplacian_apply(c->lap, 1, 0, c->p, 0, NULL, c->q, pace)))
            break;
        for (int64_t i = 0; i < n && !st; i += CHUNK) {
            const int64_t rows = n - i < CHUNK ? n - i : CHUNK, at = i * PE_WIDTH;
            dot_rows(rows, c->p + at, c->q + at, energy);
            st = pe_pace_add(pace, 8 * rows);
        }
        for (int k = 0; k < PE_WIDTH; k++)
            alpha[k] = energy[k] > 0 ? rho[k] / energy[k] : 0; /* 0: nothing is left of the column */
        for (int64_t i = 0; i < n && !st; i += CHUNK) {
            const int64_t rows = n - i < CHUNK ? n - i : CHUNK, at = i * PE_WIDTH;
            step_rows(rows, d + i, alpha, c->p + at, c->q + at, x + at, c->r + at, next, square);
            st = pe_pace_add(pace, 24 * rows);
        }
        worst = 0;
        for (int k = 0; k < PE_WIDTH; k++) {
            const double left = first[k] > 0 ? sqrt(square[k] / first[k]) : 0;
            worst = left <= worst ? worst : left; /* NaN, too, is far from done */
            beta[k] = rho[k] > 0 ? next[k] / rho[k] : 0;
            rho[k] = next[k];
        }
        if (worst <= tol)
            return st ? st : pe_panel_center(n, x, pace);
        for (int64_t i = 0; i < n && !st; i += CHUNK) {
            const int64_t rows = n - i < CHUNK ? n - i : CHUNK, at = i * PE_WIDTH;
            turn_rows(rows, d + i, beta, c->r + at, c->p + at);
            st = pe_pace_add(pace, 16 * rows);
        }
    }
    return st ? st
              : posenc_fail(err, PE_NO_CONVERGENCE, "NO_CONVERGENCE", "graph", posenc_text("residual %.3g", worst).s,
                            "a residual of at most %.3g within %lld steps of conjugate gradients", tol, (long long)most);
}
