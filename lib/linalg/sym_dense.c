#include "core/params.h"
#include "linalg.h"
#include "panel.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sum of x[i] * y[i]: eight running sums, folded in fixed order, then the rest. */
PE_CLONES static double dot(int64_t n, const double *x, const double *y)
{
    pe_lanes s = { 0 };
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        s += *(const pe_loose_lanes *)(x + i) * *(const pe_loose_lanes *)(y + i);
    double sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    for (; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* y += f x */
PE_CLONES static void add(int64_t n, double f, const double *x, double *y)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        *(pe_loose_lanes *)(y + i) += f * *(const pe_loose_lanes *)(x + i);
    for (; i < n; i++)
        y[i] += f * x[i];
}

/* y -= f u + g v */
PE_CLONES static void subtract_two(int64_t n, double f, const double *u, double g, const double *v, double *y)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        *(pe_loose_lanes *)(y + i) -= f * *(const pe_loose_lanes *)(u + i) + g * *(const pe_loose_lanes *)(v + i);
    for (; i < n; i++)
        y[i] -= f * u[i] + g * v[i];
}

/* Returns dot(a, u) and adds f a to p, in one pass over a. */
PE_CLONES static double dot_add(int64_t n, const double *a, const double *u, double f, double *p)
{
    pe_lanes s = { 0 };
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        pe_lanes x = *(const pe_loose_lanes *)(a + i);
        s += x * *(const pe_loose_lanes *)(u + i);
        *(pe_loose_lanes *)(p + i) += f * x;
    }
    double sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    for (; i < n; i++) {
        sum += a[i] * u[i];
        p[i] += f * a[i];
    }
    return sum;
}

/* Householder reduction of the lower triangle, last row first.
 *   d, e     (n) the tridiagonal matrix; e[i] couples i - 1 and i, e[0] = 0
 *   a        row i, columns 0 .. i - 1: the vector u of reflector i, I - u u^T / h[i]; h[i] = 0: none
 *   p        (n) scratch
 * Each u is scaled by a power of two of its own, so that no square underflows. */
static posenc_status tridiagonalize(int64_t n, double *a, double *d, double *e, double *h, double *p, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t i = n - 1; i >= 1; i--) {
        double *u = a + i * n, most = 0;
        for (int64_t k = 0; k < i - 1; k++)
            most = fabs(u[k]) > most ? fabs(u[k]) : most;
        d[i] = u[i];
        h[i] = 0;
        if (most == 0) {
            e[i] = u[i - 1];
            if ((st = pe_pace_add(pace, i)))
                return st;
            continue;
        }
        most = fabs(u[i - 1]) > most ? fabs(u[i - 1]) : most;
        int exponent;
        frexp(most, &exponent);
        for (int64_t k = 0; k < i; k++)
            u[k] = ldexp(u[k], -exponent);
        double f = u[i - 1], square = dot(i, u, u), g = -copysign(sqrt(square), f);
        e[i] = ldexp(g, exponent);
        h[i] = square - f * g;
        u[i - 1] = f - g;

        memset(p, 0, (size_t)i * sizeof(double));
        for (int64_t j = 0; j < i; j++) {
            const double *row = a + j * n;
            p[j] += dot_add(j, row, u, u[j], p) + row[j] * u[j];
            if ((st = pe_pace_add(pace, j)))
                return st;
        }
        for (int64_t j = 0; j < i; j++)
            p[j] /= h[i];
        double half = dot(i, u, p) / (2 * h[i]);
        add(i, -half, u, p);
        for (int64_t j = 0; j < i; j++) {
            subtract_two(j + 1, u[j], p, p[j], u, a + j * n);
            if ((st = pe_pace_add(pace, j)))
                return st;
        }
    }
    d[0] = a[0];
    e[0] = h[0] = 0;
    return st;
}

/* Replaces the reflectors in a by Q^T, where A = Q T Q^T: rows are the columns of Q, ready to be rotated. */
static posenc_status accumulate(int64_t n, double *a, const double *h, pe_pace *pace)
{
    for (int64_t i = 0; i < n; i++) {
        double *u = a + i * n;
        for (int64_t r = 0; r < i; r++) {
            double *row = a + r * n;
            if (h[i] > 0)
                add(i, -dot(i, row, u) / h[i], u, row);
            row[i] = 0;
            posenc_status st = pe_pace_add(pace, i);
            if (st)
                return st;
        }
        memset(u, 0, (size_t)i * sizeof(double));
        u[i] = 1;
    }
    return PE_OK;
}

/* Applies count rotations, the j-th to rows last - j and last - j - 1, to sixteen or eight columns at a time: a row
 * that two rotations share stays in a register. */
PE_CLONES static void rotate(int64_t n, int64_t begin, int64_t end, int64_t last, int64_t count, const double *cosine,
                             const double *sine, double *a)
{
    int64_t k = begin;
    for (; k + 16 <= end; k += 16) {
        double *row = a + last * n + k;
        pe_lanes x0 = *(const pe_loose_lanes *)row, x1 = *(const pe_loose_lanes *)(row + 8);
        for (int64_t j = 0; j < count; j++, row -= n) {
            pe_lanes y0 = *(const pe_loose_lanes *)(row - n), y1 = *(const pe_loose_lanes *)(row - n + 8);
            *(pe_loose_lanes *)row = sine[j] * y0 + cosine[j] * x0;
            *(pe_loose_lanes *)(row + 8) = sine[j] * y1 + cosine[j] * x1;
            x0 = cosine[j] * y0 - sine[j] * x0;
            x1 = cosine[j] * y1 - sine[j] * x1;
        }
        *(pe_loose_lanes *)row = x0;
        *(pe_loose_lanes *)(row + 8) = x1;
    }
    for (; k < end; k++) {
        double *row = a + last * n + k, x = *row;
        for (int64_t j = 0; j < count; j++, row -= n) {
            double y = row[-n];
            *row = sine[j] * y + cosine[j] * x;
            x = cosine[j] * y - sine[j] * x;
        }
        *row = x;
    }
}

/* Implicit QL with Wilkinson's shift on (d, e), rotating the rows of a; cosine, sine (n) scratch.
 * Entries are at most about 1 (the caller scaled), so squares cannot overflow; where both squares underflow the
 * entries are far below the rounding of the matrix.
 * Source: Golub, Van Loan, "Matrix Computations", section 8.3; Dubrulle 1970 for the implicit form. */
static posenc_status implicit_ql(int64_t n, double *a, double *d, double *e, double *cosine, double *sine, pe_pace *pace,
                                 posenc_error *err)
{
    double norm = 0;
    for (int64_t i = 0; i < n; i++) {
        double s = fabs(d[i]) + fabs(e[i]);
        norm = s > norm ? s : norm;
    }
    const double small = norm * DBL_EPSILON * 0x1p-10;
    for (int64_t i = 1; i < n; i++)
        e[i - 1] = e[i];
    e[n - 1] = 0;
    for (int64_t l = 0; l < n; l++) {
        for (int round = 0;; round++) {
            int64_t m = l;
            while (m < n - 1 && fabs(e[m]) > DBL_EPSILON * (fabs(d[m]) + fabs(d[m + 1])) && fabs(e[m]) > small)
                m++;
            if (m == l)
                break;
            if (round == 60)
                return posenc_fail(err, PE_NO_CONVERGENCE, "NO_CONVERGENCE", "solver", "dense",
                                   "a matrix on which QL converges in 60 rounds");
            double g = (d[l + 1] - d[l]) / (2 * e[l]);
            g = d[m] - d[l] + e[l] / (g + copysign(sqrt(g * g + 1), g));
            double s = 1, c = 1, p = 0;
            int64_t i, count = 0;
            for (i = m - 1; i >= l; i--) {
                double f = s * e[i], b = c * e[i], r = sqrt(f * f + g * g);
                e[i + 1] = r;
                if (r == 0)
                    break;
                s = f / r;
                c = g / r;
                g = d[i + 1] - p;
                r = (d[i] - g) * s + 2 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
                cosine[count] = c;
                sine[count++] = s;
            }
            for (int64_t k = 0; k < n; k += 64) {
                rotate(n, k, k + 64 < n ? k + 64 : n, m, count, cosine, sine, a);
                posenc_status st = pe_pace_add(pace, 192 * count);
                if (st)
                    return st;
            }
            if (i >= l) { /* r was 0: the matrix split; start again on the rest */
                d[i + 1] -= p;
                e[m] = 0;
                continue;
            }
            d[l] -= p;
            e[l] = g;
            e[m] = 0;
        }
    }
    return PE_OK;
}

static posenc_status sort_rows(int64_t n, double *a, double *values, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t i = 0; i + 1 < n && !st; i++) {
        int64_t least = i;
        st = pe_pace_add(pace, 4 * n);
        for (int64_t j = i + 1; j < n; j++)
            if (values[j] < values[least])
                least = j;
        if (least == i)
            continue;
        double *x = a + i * n, *y = a + least * n, t = values[i];
        values[i] = values[least];
        values[least] = t;
        for (int64_t k = 0; k < n; k++) {
            t = x[k];
            x[k] = y[k];
            y[k] = t;
        }
    }
    return st;
}

posenc_status pe_sym_dense(int64_t n, double *a, double *values, posenc_context *ctx, posenc_error *err)
{
    posenc_status st = PE_OK;
    pe_pace pace = { .ctx = ctx, .left = PE_PACE_STEPS };
    double *work = NULL, most = 0;

    if (n <= 0)
        return PE_OK;
    for (int64_t i = 0; i < n * n; i++) {
        if (i % n == 0 && (st = pe_pace_add(&pace, 3 * n)))
            return st;
        if (!(fabs(a[i]) <= DBL_MAX))
            return posenc_fail(err, PE_NO_CONVERGENCE, "NO_CONVERGENCE", "solver", "dense", "a matrix of finite numbers");
        most = fabs(a[i]) > most ? fabs(a[i]) : most;
    }
    int exponent = 0;
    frexp(most, &exponent);
    for (int64_t i = 0; i < n * n && most > 0; i++) {
        a[i] = ldexp(a[i], -exponent);
        if (i % n == 0 && (st = pe_pace_add(&pace, 10 * n)))
            return st;
    }

    work = calloc((size_t)n * 5, sizeof(double));
    if (!work)
        return pe_no_memory("memory", err);
    double *e = work, *h = work + n, *p = work + 2 * n, *cosine = work + 3 * n, *sine = work + 4 * n;
    if ((st = tridiagonalize(n, a, values, e, h, p, &pace)))
        goto done;
    if ((st = accumulate(n, a, h, &pace)))
        goto done;
    if ((st = implicit_ql(n, a, values, e, cosine, sine, &pace, err)))
        goto done;
    if ((st = sort_rows(n, a, values, &pace)))
        goto done;
    for (int64_t i = 0; i < n; i++)
        values[i] = ldexp(values[i], exponent);
done:
    free(work);
    return st;
}
