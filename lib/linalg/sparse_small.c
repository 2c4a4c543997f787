/* sparse_small.c - a few eigenpairs of one small sparse component. */
#include "linalg/sparse_small.h"
#include "core/lanes.h"
#include "linalg/small.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ABS(x) ((pe_lanes)((pe_masks)(x)&INT64_MAX))
#define SIGN(x) ((pe_masks)(x) >> 63) /* all bits where negative */
#define LESS(x, y) SIGN((x) - (y))

enum {
    ROWS = PE_SPARSE_ROWS,
    WORDS = ROWS / 64,
    ENTRIES = 4096,     /* of the factor, below its diagonal */
    PRODUCTS = 1 << 15, /* of two of them in a column */
    PANELS = PE_SPARSE_WANT / PE_LANES,
    PASSES = 6,   /* of counting, before vectors are tried */
    CAREFUL = 40, /* the same where that did not do */
    ROUNDS = 8    /* of iteration */
};

/* The eigenvalues sought, ascending, eight a panel: between which shifts they were counted, in units of the scaled spectrum.
 */
typedef struct bracket {
    pe_lanes low, high;
    pe_masks below, above; /* eigenvalues below low and below high: target is one of below .. above - 1 */
    pe_masks target;       /* index of the eigenvalue, ascending from 0 */
} bracket;

typedef union node_set {
    uint64_t word[WORDS];
    uint64_t all __attribute__((vector_size(8 * WORDS)));
} node_set;

struct pe_sparse_solver {
    pe_lanes l[ENTRIES], d[ROWS]; /* -F by columns, 1 / D */
    pe_lanes z[PANELS][ROWS], y[ROWS];
    bracket b[PANELS + 1];
    pe_lanes x, to, quotient[PANELS], rest; /* shifts of the factor at hand, of the next one */
    double diagonal[ROWS], kernel[ROWS], base[ENTRIES];
    int64_t n, first, width; /* rows; index of the first eigenvalue sought; most entries of a row or a column of F */
    int32_t ptr[ROWS + 1], place[ROWS], node[ROWS], left[ROWS], degree[ROWS], mark[ROWS];
    node_set adjacent[ROWS];
    uint16_t row[ENTRIES], target[PRODUCTS];
    int64_t products;    /* of one factorisation */
    double scale, bound; /* of the scaled spectrum */
};

pe_sparse_solver *pe_sparse_new(void) { return aligned_alloc(64, (sizeof(pe_sparse_solver) + 63) / 64 * 64); }
uint64_t pe_sparse_bytes(void) { return sizeof(pe_sparse_solver); }

/* ---- pattern ---- */

static int bits(uint64_t x)
{
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    return (int)(((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56);
}

/* Multiple minimum degree: in each round all nodes of the least degree that are no neighbours of each other; their divisions
 * overlap, too. Columns hold nodes. */
static bool eliminate_nodes(pe_sparse_solver *s, const pe_component *c)
{
    const int32_t n = (int32_t)c->n, words = (n + 63) / 64;
    int32_t *left = s->left, *degree = s->degree, *round = s->mark, remain = n, entries = 0, j = 0;
    int64_t products = 0;
    for (int32_t v = 0; v < n; v++) {
        s->adjacent[v] = (node_set){ 0 };
        for (int64_t p = c->ptr[v]; p < c->ptr[v + 1]; p++)
            s->adjacent[v].word[c->col[p] / 64] |= (uint64_t)1 << c->col[p] % 64;
        degree[v] = (int32_t)(c->ptr[v + 1] - c->ptr[v]);
        round[v] = -1;
        left[v] = v;
    }
    for (int32_t now = 0; remain; now++) {
        int32_t least = n, kept = 0;
        for (int32_t i = 0; i < remain; i++)
            least = degree[left[i]] < least ? degree[left[i]] : least;
        for (int32_t i = 0; i < remain; i++) {
            const int32_t v = left[i];
            if (degree[v] > least || round[v] == now) {
                left[kept++] = v;
                continue;
            }
            if (entries + least > ENTRIES || (products += least * (least - 1) / 2) > PRODUCTS)
                return false;
            s->node[j] = v;
            s->place[v] = j;
            s->ptr[j] = entries;
            for (int32_t w = 0; w < words; w++)
                for (uint64_t some = s->adjacent[v].word[w]; some; some &= some - 1)
                    s->row[entries++] = (uint16_t)(64 * w + __builtin_ctzll(some));
            for (int32_t p = s->ptr[j]; p < entries; p++) {
                const int32_t u = s->row[p];
                node_set *near = &s->adjacent[u];
                round[u] = now;
                near->word[v / 64] ^= (uint64_t)1 << v % 64;
                if (least == 1) {
                    degree[u]--;
                    continue;
                }
                near->all |= s->adjacent[v].all;
                near->word[u / 64] ^= (uint64_t)1 << u % 64;
                degree[u] = 0;
                for (int32_t w = 0; w < words; w++)
                    degree[u] += bits(near->word[w]);
            }
            j++;
        }
        remain = kept;
    }
    s->ptr[n] = entries;
    s->products = products + entries;
    return true;
}

/* Columns in the order of elimination, ascending; where the products of two entries go. */
static void arrange(pe_sparse_solver *s)
{
    const int64_t n = s->n;
    int32_t *wide = s->mark;
    s->width = 0;
    memset(wide, 0, (size_t)n * sizeof *wide);
    for (int64_t j = 0; j < n; j++) {
        for (int32_t p = s->ptr[j]; p < s->ptr[j + 1]; p++) {
            const uint16_t r = (uint16_t)s->place[s->row[p]];
            int32_t k = p;
            for (; k > s->ptr[j] && s->row[k - 1] > r; k--)
                s->row[k] = s->row[k - 1];
            s->row[k] = r;
            s->width = ++wide[r] > s->width ? wide[r] : s->width;
        }
        const int32_t m = s->ptr[j + 1] - s->ptr[j];
        s->width = m > s->width ? m : s->width;
    }
    uint16_t *to = s->target;
    for (int64_t j = 0; j < n; j++)
        for (int32_t a = s->ptr[j]; a < s->ptr[j + 1]; a++)
            for (int32_t b = a + 1, q = s->ptr[s->row[a]]; b < s->ptr[j + 1]; b++) {
                while (s->row[q] != s->row[b])
                    q++;
                *to++ = (uint16_t)q;
            }
}

bool pe_sparse_analyse(pe_sparse_solver *s, const pe_component *c, const double *entry, double scale)
{
    s->n = c->n;
    s->first = c->kernel != NULL;
    s->scale = scale;
    s->bound = 0;
    if (!eliminate_nodes(s, c))
        return false;
    arrange(s);
    for (int64_t j = 0; j < s->n; j++) {
        const int32_t v = s->node[j];
        s->diagonal[j] = scale * (c->normalized ? 1 : c->diagonal ? c->diagonal[v] : c->degree[v]);
        s->bound = 2 * s->diagonal[j] > s->bound ? 2 * s->diagonal[j] : s->bound;
        s->kernel[j] = c->kernel ? c->kernel[v] : 0;
        for (int32_t p = s->ptr[j]; p < s->ptr[j + 1]; p++) {
            s->base[p] = 0;
            s->mark[s->row[p]] = p;
        }
        for (int64_t p = c->ptr[v]; p < c->ptr[v + 1]; p++)
            if (s->place[c->col[p]] > j)
                s->base[s->mark[s->place[c->col[p]]]] = scale * entry[p];
    }
    return true;
}

/* ---- counting ---- */

/* L - x = F D F^T for the eight shifts s->x.
 *   below    out: negative numbers in D
 *   growth   out: the largest product that was subtracted from the diagonal, where asked for
 *   risk     out: lanes with a small pivot that several entries were divided by, where asked for */
PE_BODY void factorize(pe_sparse_solver *s, pe_masks *below, pe_lanes *growth, pe_masks *risk)
{
    const int64_t n = s->n, entries = s->ptr[n];
    const pe_lanes x = s->x, zero = { 0 };
    const pe_lanes small = PE_SPLAT(0x1p-100); /* instead of a pivot that is none */
    const uint16_t *target = s->target;
    pe_lanes most = zero;
    pe_masks negative = { 0 }, risky = { 0 };
    for (int64_t p = 0; p < entries; p++)
        s->l[p] = PE_SPLAT(s->base[p]);
    for (int64_t j = 0; j < n; j++)
        s->d[j] = s->diagonal[j] - x;
    for (int64_t j = 0; j < n; j++) {
        const pe_lanes pivot = s->d[j];
        const pe_masks none = ((pe_masks)ABS(pivot) - (pe_masks)small) >> 63;
        const pe_lanes inverse = -1 / PE_SELECT(none, small, pivot);
        const int32_t end = s->ptr[j + 1];
        negative += (pe_masks)((pe_bits)pivot >> 63);
        if (risk && end - s->ptr[j] > 1)
            risky |= LESS(ABS(pivot), PE_SPLAT(0x1p-8));
        s->d[j] = -inverse;
        for (int32_t a = s->ptr[j]; a < end; a++) {
            const pe_lanes v = s->l[a], f = v * inverse;
            pe_lanes *d = &s->d[s->row[a]];
            s->l[a] = f;
            PE_FMA(*d, f, v, *d);
            if (growth) {
                const pe_lanes product = ABS(f * v);
                most = PE_SELECT(LESS(most, product), product, most);
            }
            for (int32_t b = a + 1; b < end; b++) {
                pe_lanes *t = &s->l[*target++];
                PE_FMA(*t, f, s->l[b], *t);
            }
        }
    }
    *below = negative;
    if (growth)
        *growth = most;
    if (risk)
        *risk = risky;
}

PE_BODY void prove_body(pe_sparse_solver *s, pe_masks *below, pe_lanes *growth) { factorize(s, below, growth, NULL); }
PE_KERNEL(prove, prove_body, (pe_sparse_solver * s, pe_masks *below, pe_lanes *growth), (s, below, growth))

/* Counts below panel q's shifts; what that says about all that is sought. */
PE_BODY void narrow_body(pe_sparse_solver *s, int64_t panels)
{
    pe_masks below;
    double x[PE_LANES];
    int64_t count[PE_LANES];
    factorize(s, &below, NULL, NULL);
    memcpy(x, &s->x, sizeof x);
    memcpy(count, &below, sizeof count);
    for (int64_t q = 0; q < panels; q++) {
        bracket b = s->b[q];
        for (int l = 0; l < PE_LANES; l++) {
            const pe_lanes at = x[l] + (pe_lanes){ 0 };
            const pe_masks c = count[l] + (pe_masks){ 0 };
            const pe_masks beyond = (b.target - c) >> 63, up = ~beyond & LESS(b.low, at), down = beyond & LESS(at, b.high);
            b.low = PE_SELECT(up, at, b.low);
            b.below = (c & up) | (b.below & ~up);
            b.high = PE_SELECT(down, at, b.high);
            b.above = (c & down) | (b.above & ~down);
        }
        s->b[q] = b;
    }
}
PE_KERNEL(narrow, narrow_body, (pe_sparse_solver * s, int64_t panels), (s, panels))

/* A shift for each of panel q: where its eigenvalue would be if those between low and high were equally far apart. */
static void guess(pe_sparse_solver *s, int64_t q)
{
    const bracket *b = &s->b[q];
    for (int64_t l = 0; l < PE_LANES; l++) {
        const double between = (double)(b->above[l] - b->below[l]), rank = (double)(b->target[l] - b->below[l]);
        s->x[l] = b->low[l] + (b->high[l] - b->low[l]) * ((rank + 0.5) / between);
    }
}

/* ---- vectors ---- */

/* y = (F D F^T)^-1 y */
PE_BODY void solve(const pe_sparse_solver *s, pe_lanes *y)
{
    const int64_t n = s->n;
    for (int64_t j = 0; j < n; j++) {
        const pe_lanes v = y[j];
        for (int32_t p = s->ptr[j]; p < s->ptr[j + 1]; p++) {
            pe_lanes *to = &y[s->row[p]];
            PE_FMA(*to, s->l[p], v, *to);
        }
        y[j] = v * s->d[j];
    }
    for (int64_t j = n - 1; j >= 0; j--) {
        pe_lanes v = y[j];
        for (int32_t p = s->ptr[j]; p < s->ptr[j + 1]; p++)
            PE_FMA(v, s->l[p], y[s->row[p]], v);
        y[j] = v;
    }
}

PE_BODY void roots(pe_lanes *x)
{
    double v[PE_LANES];
    memcpy(v, x, sizeof v);
    for (int l = 0; l < PE_LANES; l++)
        v[l] = sqrt(v[l]);
    memcpy(x, v, sizeof v);
}

/* One step of inverse iteration of panel q with the factor at hand, and its Rayleigh quotient and residual squared:
 * (L - x) y = z gives r = x + y.z / y.y and |z - (r - x) y|^2 / y.y. */
PE_BODY void step(pe_sparse_solver *s, int64_t q)
{
    const int64_t n = s->n;
    const pe_lanes zero = { 0 };
    pe_lanes *y = s->y, *z = s->z[q], share = zero, square = zero, dot = zero, rest = zero;
    memcpy(y, z, (size_t)n * sizeof *y);
    solve(s, y);
    for (int64_t i = 0; i < n && s->first; i++)
        PE_FMA(share, s->kernel[i] + zero, y[i], share);
    for (int64_t i = 0; i < n; i++) {
        pe_lanes v;
        PE_FMA(v, -share, s->kernel[i] + zero, y[i]);
        y[i] = v;
        PE_FMA(square, v, v, square);
        PE_FMA(dot, v, z[i], dot);
    }
    square = PE_SELECT(LESS(square, PE_SPLAT(0x1p-1000)), PE_SPLAT(1), square);
    const pe_lanes inverse = 1 / square, cosine = dot * inverse;
    pe_lanes by = inverse;
    roots(&by);
    s->quotient[q] = s->x + cosine;
    for (int64_t i = 0; i < n; i++) {
        pe_lanes v;
        PE_FMA(v, -cosine, y[i], z[i]);
        PE_FMA(rest, v, v, rest);
        z[i] = y[i] * by;
    }
    s->rest = rest * inverse;
}

/* A step of panel q, at new shifts where `anew`, and the shifts to come: the quotients as long as they lie where their
 * eigenvalues were counted, else the middle.
 *   open   out: lanes that are not done      risk   out, where anew: factors whose errors are to be polished away */
PE_BODY void refine_body(pe_sparse_solver *s, int64_t q, bool anew, pe_masks *open, pe_masks *risk)
{
    /* no shift is the eigenvalue itself: where it is one of a leading block too, its pivot is as small, and what is
     * subtracted for it drowns the rest */
    const pe_lanes beside = PE_SPLAT(0x1p-26), slack = PE_SPLAT(0x1p-24), enough = PE_SPLAT(0x1p-97);
    bracket *b = &s->b[q];
    if (anew) {
        pe_masks below;
        s->x = s->to;
        factorize(s, &below, NULL, risk);
        const pe_masks beyond = (b->target - below) >> 63;
        b->high = PE_SELECT(beyond & LESS(s->x, b->high), s->x, b->high);
        b->low = PE_SELECT(~beyond & LESS(b->low, s->x), s->x, b->low);
    }
    step(s, q);
    const pe_lanes r = s->quotient[q];
    const pe_masks out = LESS(r, b->low - slack) | LESS(b->high + slack, r);
    *open = out | LESS(enough, s->rest);
    s->to = PE_SELECT(out, (b->low + b->high) * 0.5, r + beside);
}
PE_KERNEL(refine, refine_body, (pe_sparse_solver * s, int64_t q, bool anew, pe_masks *open, pe_masks *risk),
          (s, q, anew, open, risk))

/* One step of Newton's method for panel q with the factor at hand: z -= (L - x)^-1 (L - r) z, but for z's own share. Errors
 * of the factor only slow it down. */
PE_BODY void polish_body(pe_sparse_solver *s, int64_t q)
{
    const int64_t n = s->n;
    const pe_lanes zero = { 0 };
    pe_lanes *y = s->y, *z = s->z[q], r = zero, share = zero, square = zero;
    for (int64_t j = 0; j < n; j++)
        y[j] = s->diagonal[j] * z[j];
    for (int64_t j = 0; j < n; j++) {
        pe_lanes sum = y[j];
        for (int32_t p = s->ptr[j]; p < s->ptr[j + 1]; p++) {
            const pe_lanes a = s->base[p] + zero;
            pe_lanes *to = &y[s->row[p]];
            PE_FMA(sum, a, z[s->row[p]], sum);
            PE_FMA(*to, a, z[j], *to);
        }
        y[j] = sum;
    }
    for (int64_t j = 0; j < n; j++)
        PE_FMA(r, y[j], z[j], r);
    for (int64_t j = 0; j < n; j++)
        PE_FMA(y[j], -r, z[j], y[j]);
    solve(s, y);
    for (int64_t j = 0; j < n; j++)
        PE_FMA(share, y[j], z[j], share);
    for (int64_t j = 0; j < n; j++) {
        pe_lanes v;
        PE_FMA(v, share, z[j], z[j] - y[j]);
        z[j] = v;
        PE_FMA(square, v, v, square);
    }
    roots(&square);
    square = 1 / square;
    for (int64_t j = 0; j < n; j++)
        z[j] *= square;
    s->quotient[q] = r;
}
PE_KERNEL(polish, polish_body, (pe_sparse_solver * s, int64_t q), (s, q))

/* Any vectors that no eigenvector is orthogonal to. */
PE_BODY void draw_body(pe_sparse_solver *s, int64_t q)
{
    pe_bits x;
    for (int l = 0; l < PE_LANES; l++)
        x[l] = (uint64_t)(8 * q + l + 1) * 0x9e3779b97f4a7c15u;
    for (int64_t i = 0; i < s->n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        s->z[q][i] = (pe_lanes)((x >> 12) | 0x3ff0000000000000u) - 1.5;
    }
}
PE_KERNEL(draw, draw_body, (pe_sparse_solver * s, int64_t q), (s, q))

/* z += w by dots (8, 8); or, without w, z = z by dots. */
PE_BODY void mix_body(int64_t n, pe_lanes *z, const pe_lanes *w, const double *by)
{
    const pe_lanes *from = w ? w : z;
    pe_lanes dots[PE_LANES];
    memcpy(dots, by, sizeof dots);
    for (int64_t i = 0; i < n; i++) {
        double v[PE_LANES];
        memcpy(v, &from[i], sizeof v);
        pe_lanes sum = w ? z[i] : (pe_lanes){ 0 };
        for (int k = 0; k < PE_LANES; k++)
            PE_FMA(sum, v[k] + (pe_lanes){ 0 }, dots[k], sum);
        z[i] = sum;
    }
}
PE_KERNEL(mix, mix_body, (int64_t n, pe_lanes *z, const pe_lanes *w, const double *by), (n, z, w, by))

static const double near = 0x1p-11; /* of an interval of 4: eigenvalues further apart have orthogonal vectors */

/* Whether columns a <= b, counted over all panels, are linked by eigenvalues each near the one before. */
static bool linked(const pe_sparse_solver *s, int64_t a, int64_t b)
{
    const double *value = (const double *)s->quotient;
    for (; a < b; a++)
        if (!(fabs(value[a + 1] - value[a]) < near))
            return false;
    return true;
}

/* Makes panel q's first `used` columns orthogonal to those before that they are linked with. The least that is left of a
 * unit vector, squared. */
static double orthogonalize(pe_sparse_solver *s, int64_t q, int64_t used)
{
    const int64_t n = s->n, from = q * PE_LANES;
    double dots[PE_LANES][PE_LANES], r[PE_LANES][PE_LANES] = { { 0 } }, t[PE_LANES][PE_LANES] = { { 0 } }, least = 1;
    for (int64_t p = q - 1; p >= 0 && linked(s, p * PE_LANES + PE_LANES - 1, from); p--) {
        pe_panel_dots(n, (double *)s->z[p], (double *)s->z[q], (double *)dots);
        for (int64_t i = 0; i < PE_LANES; i++)
            for (int64_t k = 0; k < PE_LANES; k++)
                dots[i][k] = k < used && linked(s, p * PE_LANES + i, from + k) ? -dots[i][k] : 0;
        mix_paths[pe_simd()](n, s->z[q], s->z[p], (double *)dots);
    }
    bool alone = q == 0 || !linked(s, from - 1, from);
    for (int64_t k = 1; k < used; k++)
        alone = alone && !linked(s, from + k - 1, from + k);
    if (alone)
        return 1;
    pe_panel_dots(n, (double *)s->z[q], (double *)s->z[q], (double *)dots);
    for (int64_t k = 0; k < PE_LANES; k++) { /* Cholesky's R, and its inverse */
        double rest = k < used ? dots[k][k] : 1;
        for (int64_t i = 0; i < k && k < used; i++) {
            if (!linked(s, from + i, from + k))
                continue;
            double sum = dots[i][k];
            for (int64_t m = 0; m < i; m++)
                sum -= r[m][i] * r[m][k];
            r[i][k] = sum * t[i][i];
            rest -= r[i][k] * r[i][k];
        }
        least = rest < least ? rest : least;
        r[k][k] = sqrt(rest > 0x1p-60 ? rest : 0x1p-60);
        t[k][k] = 1 / r[k][k];
        for (int64_t i = 0; i < k; i++) {
            double sum = 0;
            for (int64_t m = i; m < k; m++)
                sum -= t[i][m] * r[m][k];
            t[i][k] = sum * t[k][k];
        }
    }
    mix_paths[pe_simd()](n, s->z[q], NULL, (double *)t);
    return least;
}

/* ---- pairs ---- */

static void open_brackets(pe_sparse_solver *s, int64_t panels)
{
    for (int64_t q = 0; q < panels; q++)
        for (int64_t l = 0; l < PE_LANES; l++) {
            const int64_t k = s->first + q * PE_LANES + l;
            s->b[q].low[l] = 0;
            s->b[q].below[l] = s->first;
            s->b[q].high[l] = s->bound;
            s->b[q].above[l] = s->n;
            s->b[q].target[l] = k < s->n ? k : s->n - 1;
        }
}

/* Whether all of panel q's brackets hold one eigenvalue, or are as narrow as counting can make them. */
static bool narrowed(const bracket *b, int64_t used)
{
    bool all = true;
    for (int64_t l = 0; l < used; l++)
        all = all && (b->above[l] - b->below[l] < 2 || b->high[l] - b->low[l] < 0x1p-24);
    return all;
}

posenc_status pe_sparse_pairs(pe_sparse_solver *s, int64_t want, bool careful, double *panels, pe_pace *pace)
{
    const int64_t n = s->n, most = (want + PE_LANES - 1) / PE_LANES, steps = 8 * n + 4 * s->products;
    const pe_path on = pe_simd();
    posenc_status st = PE_OK;
    bool apart = false;
    if (!careful)
        open_brackets(s, most + 1); /* the one after the last, too */
    for (int pass = 0; pass < (careful ? CAREFUL : PASSES) && !apart && !st; pass++) {
        apart = true;
        for (int64_t q = 0; q < most && !st; q++) {
            if (narrowed(&s->b[q], want - q * PE_LANES < PE_LANES ? want - q * PE_LANES : PE_LANES))
                continue;
            apart = false;
            guess(s, q);
            narrow_paths[on](s, most + 1);
            st = pe_pace_add(pace, steps);
        }
    }
    for (int64_t q = 0; q < most && !st; q++) {
        const int64_t used = want - q * PE_LANES < PE_LANES ? want - q * PE_LANES : PE_LANES;
        guess(s, q);
        s->to = s->x;
        draw_paths[on](s, q);
        s->rest = PE_SPLAT(1);
        bool open = true, anew = true, risky = false;
        pe_masks risk = { 0 };
        for (int round = 0; round < ROUNDS && open && !st; round++) {
            pe_masks left;
            const pe_lanes rest = s->rest;
            refine_paths[on](s, q, anew, &left, &risk);
            st = pe_pace_add(pace, 2 * steps);
            open = anew = false;
            for (int64_t l = 0; l < used; l++) {
                open = open || left[l];
                anew = anew || (round && left[l] && !(fabs(s->to[l] - s->x[l]) < 0x1p-20 && s->rest[l] < rest[l] * 0x1p-14));
            }
            if (!open || round == ROUNDS - 1)
                open = orthogonalize(s, q, used) < 0x1p-10;
        }
        for (int64_t l = 0; l < used; l++)
            risky = risky || risk[l];
        for (int k = 0; k < 2 && risky && !st; k++) {
            polish_paths[on](s, q);
            orthogonalize(s, q, used);
            st = pe_pace_add(pace, steps);
        }
        for (int64_t i = 0; i < n; i++)
            memcpy(panels + (q * n + s->node[i]) * PE_LANES, &s->z[q][i], sizeof s->z[q][i]);
    }
    return st;
}

/* ||error|| of a factorisation by rounding, as a multiple of the largest product: rows of F D F^T have at most 2 w + 1
 * entries, each off by w + 4 roundings of sums of at most w products and 4. */
static double blur(const pe_sparse_solver *s, double growth)
{
    const double w = (double)s->width;
    return (2 * w + 1) * (w + 4) * (w * growth + 8) * 0x1p-52;
}

posenc_status pe_sparse_prove(pe_sparse_solver *s, int64_t want, double last, int64_t *count, double *next, pe_pace *pace)
{
    const double from = last * s->scale, least = 1.25 * 0x1p-18;
    const bracket *b = &s->b[want / PE_LANES];
    double low = from + least, high = b->high[want % PE_LANES];
    bool proven = false;
    posenc_status st = PE_OK;
    *count = -1;
    for (int round = 0; round < ROUNDS && !st && !(proven && high - low <= low - from); round++) {
        pe_masks below;
        pe_lanes growth;
        high = high > low ? high : 4;
        for (int l = 0; l < PE_LANES; l++)
            s->x[l] = low + (high - low) * (0.015625 * l * l); /* nearer ones closer: high may never have been narrowed */
        prove_paths[pe_simd()](s, &below, &growth);
        st = pe_pace_add(pace, 8 * s->n + 4 * s->products);
        for (int l = 0; l < PE_LANES; l++) {
            if (!(blur(s, growth[l]) < 0x1p-20))
                continue;
            const int64_t c = below[l] - s->first;
            if (c <= want) {
                low = s->x[l];
                proven = true;
            } else {
                high = s->x[l];
                if (!l && !proven) { /* the cluster goes on */
                    *count = c;
                    return st;
                }
                break;
            }
        }
        if (!proven)
            low = low + 0x1p-20;
    }
    if (proven)
        *count = want;
    *next = (low + high) * 0.5 / s->scale;
    return st;
}
