/* plot.c - where everything of a plot stands: titles, axes with round numbers, legend, colour bar. */
#include "plot/plot.h"

#include "core/elementary.h"
#include "core/params.h"
#include "plot/canvas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* [units of the page] */
enum {
    WIDTH = 880,
    TOP = 56,     /* title and subtitle */
    PANEL = 330,  /* a panel with its axes */
    LEFT = 92,    /* numbers and label of the y axis */
    RIGHT = 24,   /* beside a panel without legend */
    LEGEND = 196, /* with a legend, or a colour bar */
    ABOVE = 34,   /* a panel's title */
    BELOW = 58,   /* numbers and label of the x axis */
    TEXT = 13,
    SMALL = 12,
};

static const pe_rgb black = { 0x22, 0x22, 0x22 }, grey = { 0x66, 0x66, 0x66 }, faint = { 0xe4, 0xe4, 0xe4 },
                    axis_line = { 0x99, 0x99, 0x99 }, absent = { 0xcc, 0xcc, 0xcc };

/* ---- numbers on axes ---- */

/* t * 10^e, in few letters: 0.25, 2000, 3e-7. */
static void tick_text(long long t, int e, char out[48])
{
    char digits[24];
    const bool minus = t < 0;
    while (t && t % 10 == 0) {
        t /= 10;
        e++;
    }
    const int n = snprintf(digits, sizeof digits, "%lld", llabs(t));
    const char *sign = minus ? "-" : "";
    if (!t)
        snprintf(out, 48, "0");
    else if (e >= 0 && n + e <= 6)
        snprintf(out, 48, "%s%s%.*s", sign, digits, e, "000000");
    else if (e < 0 && n + e > 0)
        snprintf(out, 48, "%s%.*s.%s", sign, n + e, digits, digits + n + e);
    else if (e < 0 && n + e > -4)
        snprintf(out, 48, "%s0.%.*s%s", sign, -(n + e), "0000", digits);
    else
        snprintf(out, 48, "%s%c%s%se%d", sign, digits[0], n > 1 ? "." : "", digits + 1, e + n - 1);
}

/* 10^e for the exponents of float64. */
static double power_of_ten(int e)
{
    double v = 1;
    for (; e > 0; e--)
        v *= 10;
    for (; e < 0; e++)
        v /= 10;
    return v;
}

static int floor_log10(double v)
{
    int e = 0;
    for (double p = v; p >= 10; p /= 10)
        e++;
    for (double p = v; p < 1; p *= 10)
        e--;
    return e;
}

typedef struct axis {
    double low, high; /* of the data, padded; of a logarithmic axis their logarithms */
    bool log;
    double from, to; /* on the page */
} axis;

static bool shows(const axis *a, double v) { return isfinite(v) && (!a->log || v > 0); }

static double place(const axis *a, double v)
{
    const double u = a->log ? pe_log(v) : v;
    return a->from + (u - a->low) / (a->high - a->low) * (a->to - a->from);
}

/* What does not vary but by rounding is a flat line in the middle, not noise. */
static void widen(axis *a, bool pad)
{
    const double size = pe_max(fabs(a->low), fabs(a->high)), span = a->high - a->low;
    if (!(a->low <= a->high)) { /* nothing to show */
        a->low = 0;
        a->high = 1;
    } else if (span <= 1e-9 * size || span < 1e-300) {
        const double by = a->log ? 1 : size > 0 ? 0.1 * size : 1;
        a->low -= by;
        a->high += by;
    } else if (pad) {
        a->low -= 0.05 * span;
        a->high += 0.05 * span;
    }
}

static void include(axis *a, double v)
{
    if (!shows(a, v))
        return;
    v = a->log ? pe_log(v) : v;
    a->low = pe_min(a->low, v);
    a->high = pe_max(a->high, v);
}

typedef struct tick {
    double value;
    char text[48]; /* "": a small one */
} tick;

enum { MOST_TICKS = 64 };

static int linear_ticks(const axis *a, int wanted, tick *out)
{
    static const int steps[] = { 1, 2, 5, 10 };
    const double rough = (a->high - a->low) / wanted;
    const int e = floor_log10(rough);
    const double unit = power_of_ten(e);
    int step = 0, n = 0;
    while (step < 3 && steps[step] * unit < rough * 0.999)
        step++;
    const double by = steps[step] * unit;
    if (!(fabs(a->low / by) < 1e15) || !(fabs(a->high / by) < 1e15))
        return 0;
    for (double k = ceil(a->low / by - 1e-9); k * by <= a->high + 1e-9 * by && n < MOST_TICKS; k++) {
        out[n].value = k * by;
        tick_text((long long)k * steps[step], e, out[n++].text);
    }
    return n;
}

/* Powers of ten, every so many, and 2 .. 9 between where they are few. */
static int log_ticks(const axis *a, int wanted, tick *out)
{
    const double ten = 0x1.26bb1bbb55516p+1; /* ln 10 */
    const int first = (int)floor(a->low / ten), last = (int)ceil(a->high / ten), decades = last - first;
    const int every = decades > wanted ? (decades + wanted - 1) / wanted : 1;
    int n = 0;
    for (int e = first; e <= last; e++)
        for (int m = 1; m < (decades > 8 ? 2 : 10) && n < MOST_TICKS; m++) {
            const double v = m * power_of_ten(e), u = pe_log(v);
            if (u < a->low - 1e-9 || u > a->high + 1e-9)
                continue;
            out[n].value = v;
            out[n].text[0] = 0;
            if ((m == 1 && (e - first) % every == 0) || a->high - a->low < ten / 2 || (decades <= 2 && (m == 2 || m == 5)))
                tick_text(m, e, out[n].text);
            n++;
        }
    return n;
}

static int ticks(const axis *a, int wanted, tick *out)
{
    return a->log ? log_ticks(a, wanted, out) : linear_ticks(a, wanted, out);
}

/* ---- a panel ---- */

typedef struct frame {
    pe_canvas *c;
    const pe_panel *p;
    axis x, y;
    double left, top, right, bottom; /* of the area that shows data */
    bool empty;                      /* no point can be shown */
} frame;

static void label(frame *f, double x, double y, double size, pe_anchor anchor, pe_rgb colour, const char *text)
{
    const pe_style s = { .size = size, .anchor = anchor, .colour = colour };
    f->c->text(f->c, x, y, &s, text);
}

static void line2(frame *f, double x0, double y0, double x1, double y1, double width, pe_rgb colour)
{
    const pe_point p[] = { { x0, y0 }, { x1, y1 } };
    f->c->line(f->c, p, 2, width, false, colour);
}

static void draw_axes(frame *f, bool grid)
{
    tick t[MOST_TICKS];
    const pe_panel *p = f->p;
    const int nx = ticks(&f->x, 8, t);
    for (int i = 0; i < nx; i++) {
        const double x = place(&f->x, t[i].value);
        if (grid && t[i].text[0])
            line2(f, x, f->top, x, f->bottom, 0.8, faint);
        line2(f, x, f->bottom, x, f->bottom + (t[i].text[0] ? 5 : 3), 0.8, axis_line);
        if (t[i].text[0])
            label(f, x, f->bottom + 19, SMALL, PE_MIDDLE, black, t[i].text);
    }
    const int ny = ticks(&f->y, 6, t);
    for (int i = 0; i < ny; i++) {
        const double y = place(&f->y, t[i].value);
        if (grid && t[i].text[0])
            line2(f, f->left, y, f->right, y, 0.8, faint);
        line2(f, f->left - (t[i].text[0] ? 5 : 3), y, f->left, y, 0.8, axis_line);
        if (t[i].text[0])
            label(f, f->left - 8, y + 4, SMALL, PE_END, black, t[i].text);
    }
    const pe_point box[] = {
        { f->left, f->top }, { f->left, f->bottom }, { f->right, f->bottom }, { f->right, f->top }, { f->left, f->top }
    };
    f->c->line(f->c, box, 5, 0.8, false, axis_line);
    if (p->x_label)
        label(f, (f->left + f->right) / 2, f->bottom + 40, TEXT, PE_MIDDLE, black, p->x_label);
    if (p->y_label) {
        const pe_style s = { .size = TEXT, .anchor = PE_MIDDLE, .upright = true, .colour = black };
        f->c->text(f->c, 20, (f->top + f->bottom) / 2, &s, p->y_label);
    }
}

static pe_rgb colour_of(const pe_panel *p, int i)
{
    pe_rgb map[PE_COLOURS];
    if (!p->ordered)
        return pe_colour_of_series(i);
    pe_colour_map(false, map);
    return map[p->nseries > 1 ? i * 215 / (p->nseries - 1) : 0]; /* the lightest would be lost on white */
}

/* A run of points that can be shown, from i on; the next one begins where it ends. */
static size_t run_end(const frame *f, const pe_series *s, size_t i)
{
    while (i < s->n && shows(&f->x, s->x[i]) && shows(&f->y, s->y[i]))
        i++;
    return i;
}

/* Of many points only those that the page can tell apart: first, last, lowest and highest of each step of a quarter unit. */
static size_t thin(pe_point *p, size_t n)
{
    size_t m = 0;
    for (size_t i = 0; i < n;) {
        size_t k = i, low = i, high = i;
        for (; k < n && p[k].x - p[i].x < 0.25; k++) {
            low = p[k].y < p[low].y ? k : low;
            high = p[k].y > p[high].y ? k : high;
        }
        const pe_point a = p[i], b = p[low < high ? low : high], c = p[low < high ? high : low], d = p[k - 1];
        const size_t count = k - i;
        p[m++] = a;
        if (count > 1) {
            if (count > 4) {
                p[m++] = b;
                p[m++] = c;
            } else {
                for (size_t j = 1; j + 1 < count; j++)
                    p[m++] = p[i + j];
            }
            p[m++] = d;
        }
        i = k;
    }
    return m;
}

static bool draw_band(frame *f, const pe_series *s, pe_rgb colour)
{
    double *v = malloc((s->n + 1) * 3 * sizeof *v), *top = v + s->n, *bottom = top + s->n;
    size_t n = 0;
    if (!v)
        return false;
    for (size_t i = 0; i < s->n; i++)
        if (shows(&f->x, s->x[i]) && shows(&f->y, s->low[i]) && shows(&f->y, s->high[i])) {
            v[n] = place(&f->x, s->x[i]);
            top[n] = place(&f->y, s->high[i]);
            bottom[n++] = place(&f->y, s->low[i]);
        }
    if (n > 1)
        f->c->band(f->c, v, top, bottom, n, colour);
    free(v);
    return true;
}

static bool draw_series(frame *f, const pe_series *s, pe_rgb colour)
{
    pe_point *p = malloc((s->n + 1) * sizeof *p);
    if (!p || (s->low && !draw_band(f, s, colour))) {
        free(p);
        return false;
    }
    for (size_t i = 0; i < s->n;) {
        const size_t end = run_end(f, s, i);
        size_t n = 0;
        for (; i < end; i++)
            p[n++] = (pe_point){ place(&f->x, s->x[i]), place(&f->y, s->y[i]) };
        if (n && s->mark == PE_MARK_BARS) {
            const double ground = !f->y.log && f->y.low <= 0 ? place(&f->y, pe_max(0, f->y.low)) : f->bottom;
            const double width = pe_max(1, pe_min(14, 0.7 * (f->right - f->left) / (double)s->n));
            for (size_t k = 0; k < n; k++)
                f->c->rect(f->c, p[k].x - width / 2, pe_min(p[k].y, ground), width, pe_max(fabs(p[k].y - ground), 0.8),
                           colour);
        } else if (n && s->mark == PE_MARK_POINTS) {
            f->c->dots(f->c, p, n, s->n > 200 ? 1.6 : 2.6, colour);
        } else if (n > 1) {
            f->c->line(f->c, p, thin(p, n), 1.8, s->dashed, colour);
        } else if (n == 1) { /* alone: a line would not show */
            f->c->dots(f->c, p, 1, 2.6, colour);
        }
        i = end + (end < s->n && i == end && n == 0);
    }
    free(p);
    return true;
}

/* Where a rule stands on the page; false: not within the panel. */
static bool rule_place(const frame *f, const pe_rule *r, double *at)
{
    const axis *a = r->vertical ? &f->x : &f->y;
    if (!shows(a, r->at))
        return false;
    *at = place(a, r->at);
    return *at >= pe_min(a->from, a->to) - 0.5 && *at <= pe_max(a->from, a->to) + 0.5;
}

static void draw_rules(frame *f)
{
    double at;
    for (int i = 0; i < f->p->nrules; i++) {
        const pe_rule *r = &f->p->rule[i];
        if (!rule_place(f, r, &at))
            continue;
        const pe_point ends[] = { { r->vertical ? at : f->left, r->vertical ? f->top : at },
                                  { r->vertical ? at : f->right, r->vertical ? f->bottom : at } };
        f->c->line(f->c, ends, 2, 1, true, grey);
    }
}

/* Their words, over the curves; those of a line too near to the last one are left out. */
static void draw_rule_words(frame *f)
{
    double at, last = -1e9;
    for (int i = 0; i < f->p->nrules; i++) {
        const pe_rule *r = &f->p->rule[i];
        if (!rule_place(f, r, &at) || (!r->vertical && fabs(at - last) < 14))
            continue;
        const double width = pe_font_width(r->label, SMALL) + 4;
        double x = f->right - 6 - width, y = at - (at < f->top + 18 ? -15 : 5);
        if (r->vertical) {
            x = at > f->right - width - 10 ? at - 5 - width : at + 5;
            y = f->top + 36 + 15 * (i % 3);
        } else {
            last = at;
        }
        f->c->rect(f->c, x - 1, y - 11, width + 2, 14, (pe_rgb){ 255, 255, 255 });
        label(f, x + 2, y, SMALL, PE_START, grey, r->label);
    }
}

/* Words that are too long for the place are cut. */
static const char *cut(const char *text, double room, double size, char out[160])
{
    snprintf(out, 160, "%s", text);
    for (size_t n = strlen(out); n > 3 && pe_font_width(out, size) > room; n--)
        snprintf(out + n - 3, 4, "..");
    return out;
}

static void draw_legend(frame *f)
{
    const pe_panel *p = f->p;
    double y = f->top + 10;
    for (int i = 0; i < p->nseries; i++) {
        const pe_series *s = &p->series[i];
        char text[160];
        if (!s->label)
            continue;
        const pe_rgb colour = colour_of(p, i);
        const pe_point ends[] = { { f->right + 14, y }, { f->right + 38, y } };
        if (s->mark == PE_MARK_LINE)
            f->c->line(f->c, ends, 2, 2.2, s->dashed, colour);
        else if (s->mark == PE_MARK_BARS)
            f->c->rect(f->c, f->right + 21, y - 5, 10, 10, colour);
        else
            f->c->dots(f->c, &(pe_point){ f->right + 26, y }, 1, 3, colour);
        label(f, f->right + 44, y + 4, SMALL, PE_START, black, cut(s->label, LEGEND - 48, SMALL, text));
        y += 19;
    }
}

static void range_of_series(frame *f)
{
    const pe_panel *p = f->p;
    bool bars = false, points = false;
    for (int i = 0; i < p->nseries; i++) {
        const pe_series *s = &p->series[i];
        bars |= s->mark == PE_MARK_BARS;
        points |= s->mark != PE_MARK_LINE;
        for (size_t k = 0; k < s->n; k++) {
            if (!shows(&f->x, s->x[k]) || !shows(&f->y, s->y[k]))
                continue;
            include(&f->x, s->x[k]);
            include(&f->y, s->y[k]);
            if (s->low) {
                include(&f->y, s->low[k]);
                include(&f->y, s->high[k]);
            }
        }
    }
    for (int i = 0; i < p->nrules; i++) /* a line that is not far off belongs to the picture */
        if (!p->rule[i].vertical)
            include(&f->y, p->rule[i].at);
    if (bars && !p->y_log)
        include(&f->y, 0);
    f->empty = !(f->x.low <= f->x.high);
    widen(&f->x, points);
    widen(&f->y, true);
}

static bool draw_lines(frame *f)
{
    bool ok = true;
    range_of_series(f);
    draw_axes(f, true);
    draw_rules(f);
    for (int i = f->p->nseries; i-- > 0 && ok;) /* the first on top */
        ok = draw_series(f, &f->p->series[i], colour_of(f->p, i));
    draw_rule_words(f);
    if (f->empty)
        label(f, (f->left + f->right) / 2, (f->top + f->bottom) / 2, TEXT, PE_MIDDLE, grey, "no value to show");
    draw_legend(f);
    return ok;
}

/* ---- heat maps ---- */

enum { MOST_CELLS = 560, MOST_ROWS = 300 };

typedef struct cells {
    int64_t columns, rows, across, down; /* of the picture; table cells a cell of it, at most */
    double low, high;
    double *value;
} cells;

/* Where there are more than the page can show, the mean of each block. */
static bool reduce(const pe_panel *p, cells *c)
{
    c->columns = p->columns < MOST_CELLS ? p->columns : MOST_CELLS;
    c->rows = p->rows < MOST_ROWS ? p->rows : MOST_ROWS;
    c->across = (p->columns + c->columns - 1) / c->columns;
    c->down = (p->rows + c->rows - 1) / c->rows;
    c->value = malloc((size_t)(c->columns * c->rows) * sizeof *c->value);
    c->low = INFINITY;
    c->high = -INFINITY;
    for (int64_t y = 0; c->value && y < c->rows; y++)
        for (int64_t x = 0; x < c->columns; x++) {
            const int64_t x0 = x * p->columns / c->columns, x1 = (x + 1) * p->columns / c->columns,
                          y0 = y * p->rows / c->rows, y1 = (y + 1) * p->rows / c->rows;
            double sum = 0;
            for (int64_t i = y0; i < y1; i++)
                for (int64_t k = x0; k < x1; k++)
                    sum += p->heat[i * p->columns + k];
            const double v = sum / (double)((x1 - x0) * (y1 - y0));
            c->value[y * c->columns + x] = v;
            if (isfinite(v)) {
                c->low = pe_min(c->low, v);
                c->high = pe_max(c->high, v);
            }
        }
    return c->value != NULL;
}

static bool draw_cells(frame *f, const cells *c, const pe_rgb map[PE_COLOURS])
{
    pe_rgb *cell = malloc((size_t)(c->columns * c->rows) * sizeof *cell);
    if (!cell)
        return false;
    for (int64_t i = 0; i < c->columns * c->rows; i++) {
        const double t = (c->value[i] - c->low) / (c->high - c->low);
        cell[i] = isfinite(t) ? map[(int)(pe_max(0, pe_min(1, t)) * (PE_COLOURS - 1) + 0.5)] : absent;
    }
    f->c->image(f->c, f->left, f->top, f->right - f->left, f->bottom - f->top, cell, (size_t)c->columns, (size_t)c->rows);
    free(cell);
    return true;
}

static void draw_bar(frame *f, const cells *c, const pe_rgb map[PE_COLOURS])
{
    pe_rgb column[PE_COLOURS];
    char text[160];
    const double left = f->right + 18, width = 16;
    frame bar = *f;
    tick t[MOST_TICKS];
    for (int i = 0; i < PE_COLOURS; i++)
        column[i] = map[PE_COLOURS - 1 - i];
    f->c->image(f->c, left, f->top, width, f->bottom - f->top, column, 1, PE_COLOURS);
    bar.y = (axis){ .low = c->low, .high = c->high, .from = f->bottom, .to = f->top };
    const int n = ticks(&bar.y, 5, t);
    for (int i = 0; i < n; i++) {
        const double y = place(&bar.y, t[i].value);
        line2(f, left + width, y, left + width + 4, y, 0.8, axis_line);
        label(f, left + width + 8, y + 4, SMALL, PE_START, black, t[i].text);
    }
    if (f->p->heat_label) {
        const pe_style s = { .size = TEXT, .anchor = PE_MIDDLE, .upright = true, .colour = black };
        f->c->text(f->c, left + width + 76, (f->top + f->bottom) / 2, &s,
                   cut(f->p->heat_label, f->bottom - f->top + 40, TEXT, text));
    }
    if (c->across > 1 || c->down > 1) {
        snprintf(text, sizeof text, "means of up to %lld x %lld cells", (long long)c->down, (long long)c->across);
        label(f, f->right, f->bottom + 40, SMALL, PE_END, grey, text);
    }
}

static bool draw_heat(frame *f)
{
    const pe_panel *p = f->p;
    const double dx = p->x_step != 0 ? p->x_step : 1, dy = p->y_step != 0 ? p->y_step : 1;
    pe_rgb map[PE_COLOURS];
    cells c;
    if (!reduce(p, &c))
        return false;
    axis range = { .low = c.low, .high = c.high };
    if (p->diverging && c.low <= c.high)
        range.high = pe_max(fabs(c.low), fabs(c.high)), range.low = -range.high;
    widen(&range, false);
    c.low = range.low;
    c.high = range.high;
    pe_colour_map(p->diverging, map);
    f->x = (axis){ p->x_first - dx / 2, p->x_first + dx * ((double)p->columns - 0.5), false, f->left, f->right };
    f->y = (axis){ p->y_first - dy / 2, p->y_first + dy * ((double)p->rows - 0.5), false, f->top, f->bottom };
    const bool ok = draw_cells(f, &c, map);
    draw_axes(f, false);
    draw_rules(f);
    draw_bar(f, &c, map);
    free(c.value);
    return ok;
}

/* ---- the page ---- */

static bool has_legend(const pe_panel *p)
{
    bool any = p->heat != NULL;
    for (int i = 0; i < p->nseries; i++)
        any |= p->series[i].label != NULL;
    return any;
}

static bool draw_panel(pe_canvas *c, const pe_panel *p, double top)
{
    frame f = { .c = c, .p = p, .left = LEFT, .top = top + ABOVE, .bottom = top + PANEL - BELOW };
    f.right = WIDTH - (has_legend(p) ? LEGEND : RIGHT);
    f.x = (axis){ INFINITY, -INFINITY, p->x_log, f.left, f.right };
    f.y = (axis){ INFINITY, -INFINITY, p->y_log, f.bottom, f.top };
    const pe_style s = { .size = 14, .bold = true, .colour = black };
    c->text(c, LEFT, top + 22, &s, p->title);
    return p->heat ? draw_heat(&f) : draw_lines(&f);
}

posenc_status pe_plot_draw(const pe_plot *p, posenc_format f, char **bytes, size_t *size, posenc_error *err)
{
    const double height = TOP + p->npanels * PANEL + 8;
    char text[160];
    pe_canvas *c = f == PE_png ? pe_canvas_png(WIDTH, height) : pe_canvas_svg(WIDTH, height, p->title);
    if (!c)
        return pe_no_memory("memory", err);
    const pe_style title = { .size = 18, .bold = true, .colour = black }, subtitle = { .size = SMALL, .colour = grey };
    c->rect(c, 0, 0, WIDTH, height, (pe_rgb){ 255, 255, 255 });
    c->text(c, 24, 28, &title, cut(p->title, WIDTH - 48, 18, text));
    if (p->subtitle)
        c->text(c, 24, 48, &subtitle, cut(p->subtitle, WIDTH - 48, SMALL, text));
    bool ok = true;
    for (int i = 0; i < p->npanels && ok; i++)
        ok = draw_panel(c, &p->panel[i], TOP + i * PANEL);
    *bytes = c->finish(c, size);
    if (ok && *bytes)
        return PE_OK;
    free(*bytes);
    *bytes = NULL;
    return pe_no_memory("memory", err);
}
