#include "supernodes.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "core/params.h"

#include <stdlib.h>
#include <string.h>

enum { STRIP = 48 }; /* columns that are updated at once */

void pe_supernodes_fini(pe_supernodes *s)
{
    free(s->first);
    free(s->parent);
    free(s->of);
    free(s->below);
    free(s->row);
    free(s->panel);
    pe_cut_fini(&s->cut);
    free(s->block);
    free(s->member);
    free(s->spot);
    *s = (pe_supernodes){ 0 };
}

/* ---- structure ----------------------------------------------------------------------------------------------- */

/* Whether a supernode of `width` columns may hold `zeros` of its `all` entries for nothing: short loops cost more than
 * zeros. Measured on grids and triangulations. */
static bool tolerable(int64_t width, double zeros, double all)
{
    return zeros <= 8 || zeros < (width <= 4 ? 0.5 : width <= 16 ? 0.2 : width <= 48 ? 0.1 : 0.05) * all;
}

/* Runs of columns, each the parent of the one before, with the same rows; then runs are joined to the one that follows
 * and is their parent, where that costs few zeros. Into first, of and count. */
static posenc_status partition(pe_supernodes *s, int64_t n, const int32_t *parent, const int64_t *size, pe_pace *pace,
                               posenc_error *err)
{
    posenc_status st = PE_OK;
    double *zeros = calloc((size_t)n + 1, sizeof *zeros);
    int32_t *end = pe_work_memory(((size_t)n + 1) *
                                  sizeof *end); /* by first column: where the run ends; -1: not a first column */
    if (!zeros || !end) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    for (int64_t k = n - 1; k >= 0 && !st; k--) {
        end[k] = (int32_t)(k + 1);
        st = pe_pace_add(pace, 6);
        if (k + 1 == n || parent[k] < 0)
            continue;
        /* the run that starts at k + 1 takes column k in, if k's parent is one of its columns */
        const int64_t stop = end[k + 1], width = stop - k;
        if (parent[k] >= stop)
            continue;
        const int64_t height = width + size[stop - 1];
        const double all = (double)width * (double)height - (double)width * (double)(width - 1) / 2;
        const double more = zeros[k + 1] + (double)(height - 1 - size[k]);
        if (!tolerable(width, more, all))
            continue;
        zeros[k] = more;
        end[k] = (int32_t)stop;
        end[k + 1] = -1;
    }
    s->count = 0;
    for (int64_t k = 0; k < n && !st; k++) {
        if (end[k] >= 0)
            s->first[s->count++] = k;
        s->of[k] = (int32_t)(s->count - 1);
        st = pe_pace_add(pace, 4);
    }
    s->first[s->count] = n;
done:
    free(zeros);
    free(end);
    return st;
}

/* Row k appears in each supernode on the paths from its entries of A up to its own: so lists ascend. Counts, or with
 * `fill` writes. */
static posenc_status rows_below(pe_supernodes *s, const pe_component *c, const int32_t *order, const int32_t *place,
                                int32_t *mark, bool fill, pe_pace *pace)
{
    posenc_status st = PE_OK;
    for (int64_t j = 0; j < s->count; j++)
        mark[j] = -1;
    for (int64_t k = 0; k < c->n && !st; k++) {
        const int64_t v = order[k];
        const int32_t own = s->of[k];
        int64_t steps = 4;
        for (int64_t r = c->ptr[v]; r < c->ptr[v + 1]; r++) {
            const int64_t i = place[c->col[r]];
            if (i >= k)
                continue;
            for (int32_t j = s->of[i]; j != own && mark[j] != k; j = s->parent[j], steps++) {
                if (fill)
                    s->row[s->below[j]] = (int32_t)k;
                s->below[j]++;
                mark[j] = (int32_t)k;
            }
            steps++;
        }
        st = pe_pace_add(pace, 12 * steps);
    }
    return st;
}

/* ---- parts --------------------------------------------------------------------------------------------------- */

/* The tier that j is the root of a part of; PE_TIERS: none. Parts are far smaller than the whole, and not too small. */
static int root_of(const int32_t *parent, const int64_t *sum, int64_t all, int64_t j)
{
    enum { LEAST = 1 << 15 };
    int tier = sum[j] < LEAST / 8 ? PE_TIERS : 0;
    for (; tier < PE_TIERS; tier++) {
        const int64_t most = all >> (2 * (PE_TIERS - tier));
        if (most >= LEAST && parent[j] >= 0 && sum[j] <= most && sum[j] >= most / 8 && sum[parent[j]] > most)
            break;
    }
    return tier;
}

posenc_status pe_cut_init(pe_cut *c, int64_t count, const int32_t *parent, const int64_t *work, pe_pace *pace,
                          posenc_error *err)
{
    posenc_status st = PE_OK;
    int64_t *sum = calloc((size_t)count, sizeof *sum), all = 0, made[PE_TIERS + 1] = { 0 };
    int32_t *low = pe_work_memory((size_t)count * sizeof *low);
    c->owner = pe_work_memory((size_t)count * sizeof *c->owner);
    if (!sum || !low || !c->owner) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    for (int64_t j = 0; j < count; j++)
        low[j] = (int32_t)j;
    for (int64_t j = 0; j < count && !st; j++) {
        sum[j] += work[j];
        all += work[j];
        if (parent[j] >= 0) {
            sum[parent[j]] += sum[j];
            low[parent[j]] = low[j] < low[parent[j]] ? low[j] : low[parent[j]];
        }
        st = pe_pace_add(pace, 10);
    }
    for (int64_t j = 0; j < count && !st; j++) {
        made[root_of(parent, sum, all, j)]++;
        st = pe_pace_add(pace, 8);
    }
    made[PE_TIERS] = 1;
    for (int i = 0; i <= PE_TIERS; i++)
        c->tier[i + 1] = c->tier[i] + made[i];
    const int64_t last = c->tier[PE_TIERS];
    if (!st && !(c->part = calloc((size_t)last + 1, sizeof *c->part)))
        st = pe_no_memory("memory", err);
    for (int64_t p = 0; p <= last && !st; p++)
        c->part[p].kid = c->part[p].next_kid = -1;
    for (int64_t j = count - 1; j >= 0 && !st; j--) { /* from the last one, so that lists of kids ascend */
        const int tier = root_of(parent, sum, all, j);
        const int32_t above = parent[j] >= 0 ? c->owner[parent[j]] : (int32_t)last;
        c->owner[j] = above;
        st = pe_pace_add(pace, 8);
        if (tier == PE_TIERS)
            continue;
        const int32_t p = (int32_t)(c->tier[tier] + --made[tier]);
        c->owner[j] = p;
        c->part[p].low = low[j];
        c->part[p].root = j;
        c->part[p].next_kid = c->part[above].kid;
        c->part[above].kid = p;
    }
    if (!st)
        c->part[last].root = count - 1;
done:
    free(sum);
    free(low);
    return st;
}

posenc_status pe_too_many_rows(int64_t rows, posenc_error *err)
{
    return posenc_fail(err, PE_LIMIT, "LIMIT_EXCEEDED", "graph", posenc_text("%lld rows of right sides", (long long)rows).s,
                       "at most %lld, or solver=chebyshev", (long long)INT32_MAX);
}

void pe_cut_fini(pe_cut *c)
{
    free(c->part);
    free(c->owner);
    free(c->up);
    *c = (pe_cut){ 0 };
}

/* Panels one after another. Products read up to fifteen numbers behind a panel, and use them for nothing: where another
 * thread may be at work there, they have a place of their own. */
static posenc_status place_panels(pe_supernodes *s, pe_pace *pace)
{
    posenc_status st = PE_OK;
    const int32_t last = (int32_t)s->cut.tier[PE_TIERS];
    int64_t entries = 0;
    for (int64_t j = 0; j < s->count && !st; j++) {
        const int64_t width = s->first[j + 1] - s->first[j];
        const bool border = j + 1 < s->count && s->cut.owner[j] != s->cut.owner[j + 1];
        s->panel[j] = entries;
        entries += width * (width + s->below[j + 1] - s->below[j]) +
                   (border || (last > 0 && s->cut.owner[j] == last) ? 16 : 0);
        st = pe_pace_add(pace, 8);
    }
    s->panel[s->count] = entries;
    return st;
}

/* Blocks and members, by parts; own, out and at of the parts. */
static posenc_status gather_blocks(pe_supernodes *s, pe_pace *pace)
{
    const int64_t parts = s->cut.tier[PE_TIERS + 1];
    posenc_status st = PE_OK;
    for (int64_t j = 0; j < s->count && !st; j++) {
        s->cut.part[s->cut.owner[j]].end++;
        st = pe_pace_add(pace, 4);
    }
    for (int64_t p = 0, total = 0; p < parts; p++) {
        pe_subtree *part = &s->cut.part[p];
        total += part->end;
        part->begin = part->end = total - part->end;
        if (p + 1 < parts)
            part->out = s->below[part->root + 1] - s->below[part->root];
    }
    for (int64_t j = 0; j < s->count && !st; j++) {
        pe_subtree *part = &s->cut.part[s->cut.owner[j]];
        const int64_t width = s->first[j + 1] - s->first[j], rows = s->below[j + 1] - s->below[j];
        s->member[part->end] = (int32_t)j;
        s->block[part->end++] = (pe_block){ .panel = s->panel[j],
                                            .spot = s->below[j],
                                            .first = (int32_t)s->first[j],
                                            .at = (int32_t)part->own,
                                            .width = (int32_t)width,
                                            .rows = (int32_t)rows };
        part->own += width;
        part->buffer = width + rows + PE_WIDTH > part->buffer ? width + rows + PE_WIDTH : part->buffer;
        st = pe_pace_add(pace, 20);
    }
    for (int64_t p = 0, to = 0; p < parts; p++) {
        pe_subtree *part = &s->cut.part[p];
        part->to = to;
        part->at = s->rows;
        to += part->out;
        s->rows += (part->own + part->out + part->buffer + PE_WIDTH - 1) / PE_WIDTH * PE_WIDTH;
    }
    return st;
}

/* Where the rows below supernodes and parts stand. `place` (n): scratch. */
static posenc_status set_spots(pe_supernodes *s, int32_t *place, pe_pace *pace)
{
    const int64_t parts = s->cut.tier[PE_TIERS + 1];
    posenc_status st = PE_OK;
    for (int64_t p = 0; p < parts && !st; p++) {
        pe_subtree *part = &s->cut.part[p];
        for (int64_t b = part->begin; b < part->end; b++) {
            s->block[b].at += (int32_t)part->at;
            for (int32_t i = 0; i < s->block[b].width; i++)
                place[s->block[b].first + i] = s->block[b].at + i;
        }
        for (int64_t i = 0; i < part->out; i++)
            place[s->row[s->below[part->root] + i]] = (int32_t)(part->at + part->own + i);
        for (int64_t b = part->begin; b < part->end && !st; b++) {
            const int64_t spot = s->block[b].spot, rows = s->block[b].rows;
            for (int64_t i = spot; i < spot + rows; i++)
                s->spot[i] = place[s->row[i]];
            st = pe_pace_add(pace, 8 + 3 * (rows + s->block[b].width));
        }
        for (int32_t kid = part->kid; kid >= 0; kid = s->cut.part[kid].next_kid)
            for (int64_t i = 0; i < s->cut.part[kid].out; i++)
                s->cut.up[s->cut.part[kid].to + i] = place[s->row[s->below[s->cut.part[kid].root] + i]];
    }
    return st;
}

static posenc_status divide(pe_supernodes *s, pe_pace *pace, posenc_error *err)
{
    const size_t count = (size_t)s->count, n = (size_t)s->first[count];
    posenc_status st = PE_OK;
    int64_t *work = pe_work_memory(count * sizeof *work);
    s->block = pe_work_memory(count * sizeof *s->block);
    s->member = pe_work_memory(count * sizeof *s->member);
    s->spot = pe_work_memory(((size_t)s->below[count] + 1) * sizeof *s->spot);
    if (!work || !s->block || !s->member || !s->spot) {
        free(work);
        return pe_no_memory("memory", err);
    }
    for (int64_t j = 0; j < s->count && !st; j++) { /* short loops cost as much as some entries */
        const int64_t width = s->first[j + 1] - s->first[j];
        work[j] = width * (width + s->below[j + 1] - s->below[j]) + 32;
        st = pe_pace_add(pace, 8);
    }
    if (!st)
        st = pe_cut_init(&s->cut, s->count, s->parent, work, pace, err);
    free(work);
    if (st || (st = place_panels(s, pace)) || (st = gather_blocks(s, pace)))
        return st;
    const pe_subtree *last = &s->cut.part[s->cut.tier[PE_TIERS]];
    if (s->rows > INT32_MAX)
        return pe_too_many_rows(s->rows, err);
    int32_t *place = pe_work_memory(n * sizeof *place);
    s->cut.up = pe_work_memory(((size_t)last->to + 1) * sizeof *s->cut.up);
    st = place && s->cut.up ? set_spots(s, place, pace) : pe_no_memory("memory", err);
    free(place);
    return st;
}

posenc_status pe_supernodes_init(pe_supernodes *s, const pe_component *c, const int32_t *order, const int32_t *place,
                                 const int32_t *parent, const int64_t *size, pe_pace *pace, posenc_error *err)
{
    const size_t n = (size_t)c->n;
    posenc_status st = PE_OK;
    int32_t *mark = NULL;
    *s = (pe_supernodes){ .first = pe_work_memory((n + 1) * sizeof *s->first), .of = pe_work_memory(n * sizeof *s->of) };
    if (!s->first || !s->of)
        return pe_no_memory("memory", err);
    if ((st = partition(s, c->n, parent, size, pace, err)))
        return st;
    const size_t count = (size_t)s->count;
    s->parent = pe_work_memory(count * sizeof *s->parent);
    s->below = calloc(count + 1, sizeof *s->below);
    s->panel = pe_work_memory((count + 1) * sizeof *s->panel);
    mark = pe_work_memory(count * sizeof *mark);
    if (!s->parent || !s->below || !s->panel || !mark) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    for (int64_t j = 0; j < s->count && !st; j++) {
        const int32_t up = parent[s->first[j + 1] - 1];
        s->parent[j] = up < 0 ? -1 : s->of[up];
        st = pe_pace_add(pace, 8);
    }
    if (st || (st = rows_below(s, c, order, place, mark, false, pace)))
        goto done;
    int64_t total = 0;
    for (int64_t j = 0; j < s->count && !st; j++) {
        const int64_t rows = s->below[j];
        s->below[j] = total;
        total += rows;
        st = pe_pace_add(pace, 4);
    }
    if (st)
        goto done;
    s->below[s->count] = total;
    s->row = pe_work_memory(((size_t)total + 1) * sizeof *s->row);
    if (!s->row) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    if ((st = rows_below(s, c, order, place, mark, true, pace)))
        goto done;
    memmove(s->below + 1, s->below, count * sizeof *s->below); /* each stands at its end now */
    s->below[0] = 0;
    st = divide(s, pace, err);
done:
    free(mark);
    return st;
}

/* ---- numbers ------------------------------------------------------------------------------------------------- */

enum { CHUNK = 256, DEEP = 192 }; /* rows that are updated at once; columns that they owe it to */

/* What one thread factors with: few enough bytes for the second cache. */
typedef struct desk {
    double a[16 * DEEP];    /* sixteen rows */
    double b[DEEP * STRIP]; /* (STRIP / 4, DEEP, 4) */
    double product[STRIP][CHUNK + 16];
    int32_t *at;   /* (n) where a row stands in the panel at work */
    double *floor; /* (most width) */
    pe_pace *pace;
} desk;

typedef struct factoring {
    const pe_supernodes *s;
    const pe_laplacian *lap;
    const int32_t *order, *place;
    double shift, least;
    double *entry, *pivot;
    int64_t widest;
    int32_t *head;     /* (count) supernodes that next owe something to this one; -1: end */
    int32_t *next;     /* (count) */
    int64_t *reached;  /* (count) rows below that are dealt with */
    int32_t *out, *in; /* (parts) first and last of those that next owe something to another part; -1: none */
    int64_t tier;      /* first part of the tier at work */
    posenc_context *ctx;
} factoring;

/* c (16, 4 groups; columns `stride` apart) += a (16, depth; columns `lda` apart) times b (groups, DEEP, 4), or = where it
 * is `fresh`. */
PE_CLONES static void product_16(int64_t depth, const double *a, int64_t lda, const double *b, int64_t groups, bool fresh,
                                 double *c, int64_t stride)
{
    for (int64_t g = 0; g < groups; g++, b += 4 * DEEP, c += 4 * stride) {
        double *c0 = c, *c1 = c + stride, *c2 = c1 + stride, *c3 = c2 + stride;
        pe_lanes s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 }, t0 = { 0 }, t1 = { 0 }, t2 = { 0 }, t3 = { 0 };
        if (!fresh) {
            s0 = *(const pe_loose_lanes *)c0;
            s1 = *(const pe_loose_lanes *)c1;
            s2 = *(const pe_loose_lanes *)c2;
            s3 = *(const pe_loose_lanes *)c3;
            t0 = *(const pe_loose_lanes *)(c0 + 8);
            t1 = *(const pe_loose_lanes *)(c1 + 8);
            t2 = *(const pe_loose_lanes *)(c2 + 8);
            t3 = *(const pe_loose_lanes *)(c3 + 8);
        }
        const double *from = a, *k = b;
        for (int64_t d = 0; d < depth; d++, from += lda, k += 4) {
            const pe_lanes x = *(const pe_loose_lanes *)from, y = *(const pe_loose_lanes *)(from + 8);
            s0 += k[0] * x;
            s1 += k[1] * x;
            s2 += k[2] * x;
            s3 += k[3] * x;
            t0 += k[0] * y;
            t1 += k[1] * y;
            t2 += k[2] * y;
            t3 += k[3] * y;
        }
        *(pe_loose_lanes *)c0 = s0;
        *(pe_loose_lanes *)c1 = s1;
        *(pe_loose_lanes *)c2 = s2;
        *(pe_loose_lanes *)c3 = s3;
        *(pe_loose_lanes *)(c0 + 8) = t0;
        *(pe_loose_lanes *)(c1 + 8) = t1;
        *(pe_loose_lanes *)(c2 + 8) = t2;
        *(pe_loose_lanes *)(c3 + 8) = t3;
    }
}

/* Sixteen rows of `depth` columns side by side. */
PE_CLONES static void pack(int64_t depth, const double *from, int64_t height, double *to)
{
    for (int64_t d = 0; d < depth; d++, from += height, to += 16) {
        *(pe_lanes *)to = *(const pe_loose_lanes *)from;
        *(pe_lanes *)(to + 8) = *(const pe_loose_lanes *)(from + 8);
    }
}

/* product[j][i - begin] = what the columns 0 .. depth - 1 of a panel owe to its entry (i, row + j): of L D L^T, i from
 * `begin` to end - 1, at most CHUNK, j < many, at most STRIP; where i >= row + j. a: the panel. */
static posenc_status owe(desk *w, const double *a, int64_t height, int64_t depth, const double *pivot, int64_t row,
                         int64_t many, int64_t begin, int64_t end)
{
    posenc_status st = PE_OK;
    for (int64_t at = 0; at < depth && !st; at += DEEP) {
        const int64_t deep = depth - at < DEEP ? depth - at : DEEP, groups = (many + 3) / 4;
        const double *from = a + at * height;
        for (int64_t g = 0; g < groups; g++) {
            const int64_t left = many - 4 * g < 4 ? many - 4 * g : 4;
            const double *column = from + row + 4 * g;
            for (int64_t d = 0; d < deep; d++, column += height) {
                double *to = w->b + (g * DEEP + d) * 4;
                for (int64_t q = 0; q < 4; q++)
                    to[q] = column[q < left ? q : 0] * pivot[at + d];
            }
        }
        for (int64_t i = begin; i < end; i += 16) {
            const int64_t reach = (i + 15 - row) / 4 + 1; /* groups with an entry on or below the diagonal */
            const bool packed = groups > 3;
            if (packed)
                pack(deep, from + i, height, w->a);
            product_16(deep, packed ? w->a : from + i, packed ? 16 : height, w->b, reach < groups ? reach : groups, at == 0,
                       w->product[0] + (i - begin), CHUNK + 16);
        }
        st = pe_pace_add(w->pace, (end - begin + 16) * deep * groups / 3 + 2 * deep * many + 16);
    }
    return st;
}

static int64_t lower_bound(const int32_t *row, int64_t begin, int64_t end, int64_t value)
{
    while (begin < end) {
        const int64_t middle = begin + (end - begin) / 2;
        if (row[middle] < value)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

/* Takes from the panel of j what supernode k owes those of its columns that are the rows from .. to - 1 below k. */
static posenc_status receive(const factoring *f, desk *w, int64_t j, int64_t k, int64_t from, int64_t to)
{
    const pe_supernodes *s = f->s;
    const int64_t width = s->first[k + 1] - s->first[k], rows = s->below[k + 1] - s->below[k], height = width + rows;
    const int64_t tall = s->first[j + 1] - s->first[j] + s->below[j + 1] - s->below[j];
    const int32_t *row = s->row + s->below[k];
    const double *a = f->entry + s->panel[k], *pivot = f->pivot + s->first[k];
    double *panel = f->entry + s->panel[j];
    posenc_status st = PE_OK;
    if (width == 1) {
        for (int64_t c = from; c < to && !st; c++) {
            double *column = panel + w->at[row[c]] * tall;
            const double x = a[1 + c] * pivot[0];
            for (int64_t i = c; i < rows; i++)
                column[w->at[row[i]]] -= x * a[1 + i];
            st = pe_pace_add(w->pace, 3 * (rows - c) + 4);
        }
        return st;
    }
    for (int64_t begin = from; begin < to && !st; begin += STRIP) {
        const int64_t many = to - begin < STRIP ? to - begin : STRIP;
        for (int64_t top = begin; top < rows && !st; top += CHUNK) {
            const int64_t end = rows - top < CHUNK ? rows : top + CHUNK;
            if ((st = owe(w, a, height, width, pivot, width + begin, many, width + top, width + end)))
                break;
            for (int64_t c = 0; c < many; c++) {
                double *column = panel + w->at[row[begin + c]] * tall;
                for (int64_t i = begin + c > top ? begin + c : top; i < end; i++)
                    column[w->at[row[i]]] -= w->product[c][i - top];
            }
            st = pe_pace_add(w->pace, 3 * many * (end - top) + 40);
        }
    }
    return st;
}

/* Supernode k will be received where its next row is. */
static void enlist(factoring *f, int64_t part, int32_t k)
{
    const pe_supernodes *s = f->s;
    if (f->reached[k] == s->below[k + 1] - s->below[k])
        return;
    const int32_t other = s->of[s->row[s->below[k] + f->reached[k]]];
    if (s->cut.owner[other] == part) {
        f->next[k] = f->head[other];
        f->head[other] = k;
        return;
    }
    f->next[k] = -1;
    if (f->out[part] < 0)
        f->out[part] = k;
    else
        f->next[f->in[part]] = k;
    f->in[part] = k;
}

/* y -= x[0] k[0] .. x[many - 1] k[many - 1] in that order, over rows; x: columns `stride` apart; many at most 4 */
PE_CLONES static void subtract(int64_t rows, int64_t many, const double *x, int64_t stride, const double *k, double *y)
{
    const double *a = x, *b = x + (many > 1 ? stride : 0), *c = x + (many > 2 ? 2 * stride : 0),
                 *d = x + (many > 3 ? 3 * stride : 0);
    int64_t i = 0;
    if (many == 4) {
        for (; i + 8 <= rows; i += 8) {
            pe_lanes z = *(const pe_loose_lanes *)(y + i);
            z -= *(const pe_loose_lanes *)(a + i) * k[0];
            z -= *(const pe_loose_lanes *)(b + i) * k[1];
            z -= *(const pe_loose_lanes *)(c + i) * k[2];
            z -= *(const pe_loose_lanes *)(d + i) * k[3];
            *(pe_loose_lanes *)(y + i) = z;
        }
        for (; i < rows; i++)
            y[i] = (((y[i] - a[i] * k[0]) - b[i] * k[1]) - c[i] * k[2]) - d[i] * k[3];
        return;
    }
    for (int64_t q = 0; q < many; q++) {
        const double *from = x + q * stride;
        for (i = 0; i + 8 <= rows; i += 8)
            *(pe_loose_lanes *)(y + i) -= *(const pe_loose_lanes *)(from + i) * k[q];
        for (; i < rows; i++)
            y[i] -= from[i] * k[q];
    }
}

PE_CLONES static void divide_all(int64_t rows, double *x, double by)
{
    int64_t i = 0;
    for (; i + 8 <= rows; i += 8)
        *(pe_loose_lanes *)(x + i) /= by;
    for (; i < rows; i++)
        x[i] /= by;
}

/* The columns begin .. end - 1 of a panel, at most STRIP of them, in its rows from `top` to bottom - 1, at most CHUNK:
 * top == begin: the triangle, whose pivots are found, and what follows it; or others below the triangle. */
static posenc_status eliminate(const factoring *f, desk *w, int64_t j, int64_t begin, int64_t end, int64_t top,
                               int64_t bottom)
{
    const pe_supernodes *s = f->s;
    const int64_t height = s->first[j + 1] - s->first[j] + s->below[j + 1] - s->below[j];
    double *panel = f->entry + s->panel[j], *pivot = f->pivot + s->first[j];
    const double one[4] = { 1 };
    posenc_status st = PE_OK;
    if (begin > 0) {
        if ((st = owe(w, panel, height, begin, pivot, begin, end - begin, top, bottom)))
            return st;
        for (int64_t c = begin; c < end; c++) {
            const int64_t from = c > top ? c : top;
            subtract(bottom - from, 1, w->product[c - begin] + (from - top), 0, one, panel + c * height + from);
        }
    }
    for (int64_t c = begin; c < end && !st; c++) {
        const int64_t from = c > top ? c : top;
        double *column = panel + c * height;
        for (int64_t k = begin; k < c; k += 4) {
            const int64_t many = c - k < 4 ? c - k : 4;
            double by[4];
            for (int64_t q = 0; q < many; q++)
                by[q] = panel[(k + q) * height + c] * pivot[k + q];
            subtract(bottom - from, many, panel + k * height + from, height, by, column + from);
        }
        if (top == begin) {
            const double floor = w->floor[c];
            pivot[c] = column[c] > floor || floor == 0 ? column[c] : floor;
            column[c] = 1;
            divide_all(bottom - c - 1, column + c + 1, pivot[c]);
        } else {
            divide_all(bottom - top, column + top, pivot[c]);
        }
        st = pe_pace_add(w->pace, (bottom - from) * (c - begin + 4) / 2);
    }
    return st;
}

/* The entries of A - shift I in the panel of j; floors of its pivots. */
static posenc_status assemble(const factoring *f, desk *w, int64_t j)
{
    const pe_supernodes *s = f->s;
    const pe_component *c = f->lap->c;
    const int64_t first = s->first[j], width = s->first[j + 1] - first, rows = s->below[j + 1] - s->below[j];
    const int64_t height = width + rows;
    double *panel = f->entry + s->panel[j];
    posenc_status st = PE_OK;
    for (int64_t i = s->panel[j] + width * height; i < s->panel[j + 1]; i++)
        f->entry[i] = 0;
    for (int64_t i = 0; i < width; i++)
        w->at[first + i] = (int32_t)i;
    for (int64_t i = 0; i < rows; i++)
        w->at[s->row[s->below[j] + i]] = (int32_t)(width + i);
    for (int64_t i = 0; i < width && !st; i++) {
        const int64_t v = f->order[first + i];
        double *column = panel + i * height;
        memset(column, 0, (size_t)height * sizeof *column);
        column[i] = f->lap->diagonal[v] - f->shift;
        w->floor[i] = f->least * f->lap->diagonal[v];
        for (int64_t r = c->ptr[v]; r < c->ptr[v + 1]; r++)
            if (f->place[c->col[r]] > first + i)
                column[w->at[f->place[c->col[r]]]] = f->lap->entry[r];
        st = pe_pace_add(w->pace, 8 * (c->ptr[v + 1] - c->ptr[v]) + height + 16);
    }
    return st;
}

static desk *desk_new(const factoring *f, pe_pace *pace)
{
    desk *w = aligned_alloc(64, (sizeof *w + 63) / 64 * 64);
    if (!w)
        return NULL;
    w->at = pe_work_memory((size_t)f->lap->c->n * sizeof *w->at);
    w->floor = malloc((size_t)f->widest * sizeof *w->floor);
    w->pace = pace;
    return w;
}

static void desk_free(desk *w)
{
    if (w) {
        free(w->at);
        free(w->floor);
    }
    free(w);
}

/* A large panel of the last part, whose columns (first) or rows (then) are shared out. */
typedef struct large {
    const factoring *f;
    const desk *w;
    int64_t j, begin, end; /* columns whose rows are shared out */
} large;

/* Of a task: what it reads is the same for all. */
static desk *desk_like(const large *l, pe_pace *pace)
{
    desk *w = aligned_alloc(64, (sizeof *w + 63) / 64 * 64);
    *pace = (pe_pace){ .ctx = l->f->ctx, .left = PE_PACE_STEPS };
    if (w) {
        w->at = l->w->at;
        w->floor = l->w->floor;
        w->pace = pace;
    }
    return w;
}

static posenc_status receive_strip(void *arg, int64_t i, posenc_error *err)
{
    const large *l = arg;
    const pe_supernodes *s = l->f->s;
    const int64_t low = s->first[l->j] + i * STRIP, end = s->first[l->j + 1], high = end - low < STRIP ? end : low + STRIP;
    pe_pace pace;
    desk *w = desk_like(l, &pace);
    posenc_status st = w ? PE_OK : pe_no_memory("memory", err);
    for (int32_t k = l->f->head[l->j]; k >= 0 && !st; k = l->f->next[k]) {
        const int32_t *row = s->row + s->below[k];
        const int64_t rows = s->below[k + 1] - s->below[k], from = lower_bound(row, l->f->reached[k], rows, low);
        st = receive(l->f, w, l->j, k, from, lower_bound(row, from, rows, high));
    }
    free(w);
    return st;
}

static posenc_status eliminate_rows(void *arg, int64_t i, posenc_error *err)
{
    const large *l = arg;
    const pe_supernodes *s = l->f->s;
    const int64_t height = s->first[l->j + 1] - s->first[l->j] + s->below[l->j + 1] - s->below[l->j];
    const int64_t top = l->end + i * CHUNK, bottom = height - top < CHUNK ? height : top + CHUNK;
    pe_pace pace;
    desk *w = desk_like(l, &pace);
    posenc_status st = w ? eliminate(l->f, w, l->j, l->begin, l->end, top, bottom) : pe_no_memory("memory", err);
    free(w);
    return st;
}

static posenc_status factor_supernode(factoring *f, desk *w, int64_t part, int64_t j, posenc_error *err)
{
    enum { WIDE = 2 * STRIP }; /* there are few of them, and the threads wait for each */
    const pe_supernodes *s = f->s;
    const int64_t width = s->first[j + 1] - s->first[j], height = width + s->below[j + 1] - s->below[j];
    const bool share = part == s->cut.tier[PE_TIERS] && part > 0 && width >= WIDE;
    large l = { .f = f, .w = w, .j = j };
    posenc_status st = assemble(f, w, j);
    if (share && !st)
        st = pe_parallel(f->ctx, (width + STRIP - 1) / STRIP, sizeof *w, receive_strip, &l, err);
    for (int32_t k = f->head[j], after; k >= 0 && !st; k = after) {
        const int32_t *row = s->row + s->below[k];
        const int64_t rows = s->below[k + 1] - s->below[k], from = f->reached[k];
        after = f->next[k];
        while (f->reached[k] < rows && row[f->reached[k]] < s->first[j + 1])
            f->reached[k]++;
        if (!share)
            st = receive(f, w, j, k, from, f->reached[k]);
        enlist(f, part, k);
    }
    for (int64_t begin = 0; begin < width && !st; begin += STRIP) {
        l.begin = begin;
        l.end = begin + STRIP < width ? begin + STRIP : width;
        const bool small = height - begin <= CHUNK;
        const int64_t bottom = small ? height : l.end, chunks = (height - bottom + CHUNK - 1) / CHUNK;
        st = eliminate(f, w, j, begin, l.end, begin, bottom);
        if (share && !st)
            st = pe_parallel(f->ctx, chunks, sizeof *w, eliminate_rows, &l, err);
        for (int64_t top = bottom; top < height && !share && !st; top += CHUNK)
            st = eliminate(f, w, j, begin, l.end, top, height - top < CHUNK ? height : top + CHUNK);
    }
    if (!st)
        enlist(f, part, (int32_t)j);
    return st;
}

static posenc_status factor_part(factoring *f, int64_t part, pe_pace *pace, posenc_error *err)
{
    const pe_supernodes *s = f->s;
    const pe_subtree *p = &s->cut.part[part];
    posenc_status st = PE_OK;
    desk *w = desk_new(f, pace);
    if (!w || !w->at || !w->floor)
        st = pe_no_memory("memory", err);
    for (int32_t kid = p->kid; kid >= 0; kid = s->cut.part[kid].next_kid)
        for (int32_t k = f->out[kid], after; k >= 0; k = after) {
            after = f->next[k];
            enlist(f, part, k);
        }
    for (int64_t b = p->begin; b < p->end && !st; b++)
        st = factor_supernode(f, w, part, s->member[b], err);
    desk_free(w);
    return st;
}

static posenc_status factor_task(void *arg, int64_t i, posenc_error *err)
{
    factoring *f = arg;
    pe_pace pace = { .ctx = f->ctx, .left = PE_PACE_STEPS };
    return factor_part(f, f->tier + i, &pace, err);
}

posenc_status pe_supernodes_factor(const pe_supernodes *s, const pe_laplacian *lap, const int32_t *order,
                                   const int32_t *place, double shift, double least, double *entry, double *pivot,
                                   pe_pace *pace, posenc_error *err)
{
    const size_t count = (size_t)s->count, parts = (size_t)s->cut.tier[PE_TIERS + 1];
    posenc_status st = PE_OK;
    factoring f = { .s = s,
                    .lap = lap,
                    .order = order,
                    .place = place,
                    .shift = shift,
                    .least = least,
                    .entry = entry,
                    .pivot = pivot,
                    .head = pe_work_memory(count * sizeof *f.head),
                    .next = pe_work_memory(count * sizeof *f.next),
                    .reached = calloc(count, sizeof *f.reached),
                    .out = malloc(parts * sizeof *f.out),
                    .in = malloc(parts * sizeof *f.in),
                    .ctx = pace->ctx };
    if (!f.head || !f.next || !f.reached || !f.out || !f.in) {
        st = pe_no_memory("memory", err);
        goto done;
    }
    for (int64_t j = 0; j < s->count; j++) {
        f.head[j] = -1;
        f.widest = s->first[j + 1] - s->first[j] > f.widest ? s->first[j + 1] - s->first[j] : f.widest;
    }
    for (size_t p = 0; p < parts; p++)
        f.out[p] = f.in[p] = -1;
    memset(entry + s->panel[s->count], 0, 16 * sizeof *entry); /* read behind the last panel, and used by nobody */
    for (int i = 0; i < PE_TIERS && !st; i++) {
        f.tier = s->cut.tier[i];
        st = pe_parallel(f.ctx, s->cut.tier[i + 1] - s->cut.tier[i],
                         sizeof(desk) + (uint64_t)lap->c->n * sizeof(int32_t) + (uint64_t)f.widest * sizeof(double),
                         factor_task, &f, err);
    }
    if (!st)
        st = factor_part(&f, s->cut.tier[PE_TIERS], pace, err);
done:
    free(f.head);
    free(f.next);
    free(f.reached);
    free(f.out);
    free(f.in);
    return st;
}
