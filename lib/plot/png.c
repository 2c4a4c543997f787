/* png.c - the canvas of pixels, and the file format (ISO/IEC 15948).
 *
 * Lines are drawn by distance: a pixel is covered by as much of it as lies within half the width, up to the rounding of its
 * corners. A stroke is first collected as coverage and painted once, so that its joints are as dark as the rest. */
#include "plot/canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- the file ---- */

static void put32(char *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (char)(v >> (24 - 8 * i) & 0xff);
}

/* `size` bytes of data stand at to + 8 already; returns the end of the chunk. */
static char *chunk(char *to, const char *name, size_t size)
{
    put32(to, (uint32_t)size);
    memcpy(to + 4, name, 4);
    put32(to + 8 + size, (uint32_t)crc32(0, (const Bytef *)to + 4, (uInt)(size + 4)));
    return to + 12 + size;
}

char *pe_png(const pe_rgb *pixel, size_t columns, size_t rows, size_t *size)
{
    enum { HEAD = 8 + 25, LEVEL = 6 };
    static const char magic[8] = { (char)0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };
    const size_t row = 1 + columns * 3;
    uLongf packed = compressBound((uLong)(row * rows));
    char *raw = malloc(row * rows + 1), *file = malloc(HEAD + 12 + packed + 12), *to = file;
    if (!raw || !file) {
        free(raw);
        free(file);
        return NULL;
    }
    for (size_t y = 0; y < rows; y++) {
        raw[y * row] = 0; /* no filter: the pictures are flat */
        memcpy(raw + y * row + 1, pixel + y * columns, columns * 3);
    }
    memcpy(to, magic, 8);
    to += 8;
    put32(to + 8, (uint32_t)columns);
    put32(to + 12, (uint32_t)rows);
    memcpy(to + 16, "\x08\x02\0\0\0", 5); /* 8 bits of red, green and blue */
    to = chunk(to, "IHDR", 13);
    const int failed = compress2((Bytef *)to + 8, &packed, (const Bytef *)raw, (uLong)(row * rows), LEVEL);
    free(raw);
    if (failed != Z_OK) {
        free(file);
        return NULL;
    }
    to = chunk(to, "IDAT", packed);
    to = chunk(to, "IEND", 0);
    *size = (size_t)(to - file);
    return file;
}

/* ---- the canvas ---- */

#define SCALE 1.5 /* pixels a unit */

typedef struct raster {
    pe_canvas canvas; /* first */
    size_t columns, rows;
    pe_rgb *pixel;
    uint8_t *cover;                  /* of the stroke that is being collected */
    size_t left, right, top, bottom; /* where it is not 0; right and bottom are beyond */
} raster;

static uint8_t blend(uint8_t under, uint8_t over, unsigned cover)
{
    return (uint8_t)((under * (255 - cover) + over * cover + 127) / 255);
}

static void paint(raster *r, size_t x, size_t y, pe_rgb c, unsigned cover)
{
    pe_rgb *p = &r->pixel[y * r->columns + x];
    *p = (pe_rgb){ blend(p->r, c.r, cover), blend(p->g, c.g, cover), blend(p->b, c.b, cover) };
}

/* A coordinate as a pixel that exists, or the end. */
static size_t within(double v, size_t most) { return v <= 0 ? 0 : v >= (double)most ? most : (size_t)v; }

static void begin(raster *r)
{
    r->left = r->columns;
    r->top = r->rows;
    r->right = r->bottom = 0;
}

/* All in pixels. */
static void collect(raster *r, pe_point a, pe_point b, double half)
{
    const double dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy, reach = half + 1;
    const size_t x0 = within((a.x < b.x ? a.x : b.x) - reach, r->columns),
                 x1 = within((a.x > b.x ? a.x : b.x) + reach + 1, r->columns),
                 y0 = within((a.y < b.y ? a.y : b.y) - reach, r->rows),
                 y1 = within((a.y > b.y ? a.y : b.y) + reach + 1, r->rows);
    if (x0 >= x1 || y0 >= y1)
        return;
    r->left = x0 < r->left ? x0 : r->left;
    r->right = x1 > r->right ? x1 : r->right;
    r->top = y0 < r->top ? y0 : r->top;
    r->bottom = y1 > r->bottom ? y1 : r->bottom;
    for (size_t y = y0; y < y1; y++)
        for (size_t x = x0; x < x1; x++) {
            const double px = (double)x + 0.5 - a.x, py = (double)y + 0.5 - a.y;
            double t = length2 > 0 ? (px * dx + py * dy) / length2 : 0;
            t = t < 0 ? 0 : t > 1 ? 1 : t;
            const double ex = px - t * dx, ey = py - t * dy, cover = half + 0.5 - sqrt(ex * ex + ey * ey);
            const uint8_t v = cover <= 0 ? 0 : cover >= 1 ? 255 : (uint8_t)(cover * 255 + 0.5);
            uint8_t *to = &r->cover[y * r->columns + x];
            *to = v > *to ? v : *to;
        }
}

static void end(raster *r, pe_rgb c)
{
    for (size_t y = r->top; y < r->bottom; y++)
        for (size_t x = r->left; x < r->right; x++) {
            uint8_t *cover = &r->cover[y * r->columns + x];
            if (*cover)
                paint(r, x, y, c, *cover);
            *cover = 0;
        }
}

static pe_point scaled(pe_point p) { return (pe_point){ p.x * SCALE, p.y * SCALE }; }

static void line(pe_canvas *c, const pe_point *p, size_t n, double width, bool dashed, pe_rgb colour)
{
    raster *r = (raster *)c;
    const double half = width * SCALE / 2, on = 5 * SCALE, off = 4 * SCALE;
    double gone = 0; /* since the last dash began */
    begin(r);
    for (size_t i = 0; i + 1 < n; i++) {
        const pe_point a = scaled(p[i]), b = scaled(p[i + 1]);
        const double dx = b.x - a.x, dy = b.y - a.y, length = sqrt(dx * dx + dy * dy);
        if (!dashed || !(length > 0)) {
            collect(r, a, b, half);
            continue;
        }
        for (double at = 0; at < length;) {
            const double rest = gone < on ? on - gone : on + off - gone, to = at + rest < length ? at + rest : length;
            if (gone < on)
                collect(r, (pe_point){ a.x + dx * at / length, a.y + dy * at / length },
                        (pe_point){ a.x + dx * to / length, a.y + dy * to / length }, half);
            gone += to - at;
            gone = gone >= on + off - 1e-9 ? 0 : gone >= on - 1e-9 && gone < on ? on : gone;
            at = to;
        }
    }
    end(r, colour);
}

static void dots(pe_canvas *c, const pe_point *p, size_t n, double radius, pe_rgb colour)
{
    raster *r = (raster *)c;
    for (size_t i = 0; i < n; i++) {
        begin(r);
        collect(r, scaled(p[i]), scaled(p[i]), radius * SCALE);
        end(r, colour);
    }
}

/* How much of pixel i lies between low and high. */
static unsigned share(size_t i, double low, double high)
{
    const double a = low > (double)i ? low : (double)i, b = high < (double)i + 1 ? high : (double)i + 1;
    return b <= a ? 0 : (unsigned)((b - a) * 255 + 0.5);
}

static void rect(pe_canvas *c, double x, double y, double width, double height, pe_rgb colour)
{
    raster *r = (raster *)c;
    const double x0 = x * SCALE, x1 = (x + width) * SCALE, y0 = y * SCALE, y1 = (y + height) * SCALE;
    for (size_t j = within(y0, r->rows), last = within(ceil(y1), r->rows); j < last; j++)
        for (size_t i = within(x0, r->columns), end_x = within(ceil(x1), r->columns); i < end_x; i++)
            paint(r, i, j, colour, share(i, x0, x1) * share(j, y0, y1) / 255);
}

static void band(pe_canvas *c, const double *x, const double *top, const double *bottom, size_t n, pe_rgb colour)
{
    enum { OPACITY = 56 };
    raster *r = (raster *)c;
    size_t k = 0;
    for (size_t i = within(x[0] * SCALE, r->columns), last = within(x[n - 1] * SCALE, r->columns); i < last; i++) {
        const double at = ((double)i + 0.5) / SCALE;
        while (k + 2 < n && x[k + 1] < at)
            k++;
        const double t = k + 1 < n && x[k + 1] > x[k] ? (at - x[k]) / (x[k + 1] - x[k]) : 0,
                     a = (top[k] + t * ((k + 1 < n ? top[k + 1] : top[k]) - top[k])) * SCALE,
                     b = (bottom[k] + t * ((k + 1 < n ? bottom[k + 1] : bottom[k]) - bottom[k])) * SCALE;
        for (size_t j = within(a, r->rows), end_y = within(ceil(b), r->rows); j < end_y; j++)
            paint(r, i, j, colour, share(j, a, b) * OPACITY / 255);
    }
}

typedef struct writing {
    raster *r;
    pe_point at; /* [units] */
    const pe_style *style;
} writing;

static void write_stroke(void *user, const pe_point *p, size_t n)
{
    const writing *w = user;
    const double half = w->style->size * SCALE * (w->style->bold ? 0.065 : 0.043);
    pe_point last = { 0, 0 };
    for (size_t i = 0; i < n; i++) {
        const pe_point at = w->style->upright ? (pe_point){ w->at.x + p[i].y, w->at.y - p[i].x }
                                              : (pe_point){ w->at.x + p[i].x, w->at.y + p[i].y },
                       here = scaled(at);
        if (i > 0 || n == 1)
            collect(w->r, n == 1 ? here : last, here, half);
        last = here;
    }
}

static void text(pe_canvas *c, double x, double y, const pe_style *s, const char *of)
{
    raster *r = (raster *)c;
    const double back = s->anchor == PE_START ? 0 : pe_font_width(of, s->size) * (s->anchor == PE_END ? 1 : 0.5);
    writing w = { r, { s->upright ? x : x - back, s->upright ? y + back : y }, s };
    begin(r);
    pe_font_strokes(of, s->size, write_stroke, &w);
    end(r, s->colour);
}

static void image(pe_canvas *c, double x, double y, double width, double height, const pe_rgb *cell, size_t columns,
                  size_t rows)
{
    raster *r = (raster *)c;
    const size_t x0 = within(x * SCALE + 0.5, r->columns), x1 = within((x + width) * SCALE + 0.5, r->columns),
                 y0 = within(y * SCALE + 0.5, r->rows), y1 = within((y + height) * SCALE + 0.5, r->rows);
    for (size_t j = y0; j < y1; j++)
        for (size_t i = x0; i < x1; i++)
            r->pixel[j * r->columns + i] = cell[(j - y0) * rows / (y1 - y0) * columns + (i - x0) * columns / (x1 - x0)];
}

static char *finish(pe_canvas *c, size_t *size)
{
    raster *r = (raster *)c;
    char *file = pe_png(r->pixel, r->columns, r->rows, size);
    free(r->pixel);
    free(r->cover);
    free(r);
    return file;
}

pe_canvas *pe_canvas_png(double width, double height)
{
    raster *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->canvas = (pe_canvas){ width, height, line, dots, rect, band, text, image, finish };
    r->columns = (size_t)(width * SCALE + 0.5);
    r->rows = (size_t)(height * SCALE + 0.5);
    r->pixel = malloc(r->columns * r->rows * sizeof *r->pixel);
    r->cover = calloc(r->columns, r->rows);
    if (!r->pixel || !r->cover) {
        free(r->pixel);
        free(r->cover);
        free(r);
        return NULL;
    }
    memset(r->pixel, 0xff, r->columns * r->rows * sizeof *r->pixel);
    return &r->canvas;
}
