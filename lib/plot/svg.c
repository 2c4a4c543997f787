/* svg.c - the canvas of paper: lines and text as elements, heat maps as an image within. */
#include "plot/canvas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct paper {
    pe_canvas canvas; /* first */
    char *s;
    size_t n, cap;
    bool failed;
} paper;

static void put(paper *p, const char *bytes, size_t n)
{
    if (!p->failed && n > p->cap - p->n) {
        const size_t cap = (p->n + n) * 2 + 4096;
        char *s = realloc(p->s, cap);
        p->failed = !s;
        p->s = s ? s : p->s;
        p->cap = s ? cap : p->cap;
    }
    if (p->failed)
        return;
    memcpy(p->s + p->n, bytes, n);
    p->n += n;
}

static void puts_to(paper *p, const char *s) { put(p, s, strlen(s)); }

/* Two decimals, in any locale. */
static void number(paper *p, double v)
{
    char text[32];
    const long long hundredths = (long long)rint(v * 100), whole = llabs(hundredths) / 100, rest = llabs(hundredths) % 100;
    int n = snprintf(text, sizeof text, "%s%lld", hundredths < 0 ? "-" : "", whole);
    if (rest)
        n += snprintf(text + n, sizeof text - (size_t)n, rest % 10 ? ".%02lld" : ".%lld", rest % 10 ? rest : rest / 10);
    put(p, text, (size_t)n);
}

static void attribute(paper *p, const char *name, double v)
{
    puts_to(p, " ");
    puts_to(p, name);
    puts_to(p, "=\"");
    number(p, v);
    puts_to(p, "\"");
}

static void colour(paper *p, const char *name, pe_rgb c)
{
    char text[64];
    put(p, text, (size_t)snprintf(text, sizeof text, " %s=\"#%02x%02x%02x\"", name, c.r, c.g, c.b));
}

static void words(paper *p, const char *s)
{
    for (; *s; s++)
        if (*s == '&')
            puts_to(p, "&amp;");
        else if (*s == '<')
            puts_to(p, "&lt;");
        else if (*s == '>')
            puts_to(p, "&gt;");
        else
            put(p, (unsigned char)*s < 0x20 ? " " : s, 1);
}

static void point(paper *p, pe_point at)
{
    number(p, at.x);
    puts_to(p, " ");
    number(p, at.y);
}

static void line(pe_canvas *c, const pe_point *at, size_t n, double width, bool dashed, pe_rgb of)
{
    paper *p = (paper *)c;
    puts_to(p, "<path fill=\"none\" stroke-linejoin=\"round\" stroke-linecap=\"round\"");
    colour(p, "stroke", of);
    attribute(p, "stroke-width", width);
    if (dashed)
        puts_to(p, " stroke-dasharray=\"5 4\"");
    puts_to(p, " d=\"");
    for (size_t i = 0; i < n; i++) {
        puts_to(p, i ? "L" : "M");
        point(p, at[i]);
    }
    puts_to(p, "\"/>\n");
}

static void dots(pe_canvas *c, const pe_point *at, size_t n, double radius, pe_rgb of)
{
    paper *p = (paper *)c;
    puts_to(p, "<g");
    colour(p, "fill", of);
    puts_to(p, ">");
    for (size_t i = 0; i < n; i++) {
        puts_to(p, "<circle");
        attribute(p, "cx", at[i].x);
        attribute(p, "cy", at[i].y);
        attribute(p, "r", radius);
        puts_to(p, "/>");
    }
    puts_to(p, "</g>\n");
}

static void rect(pe_canvas *c, double x, double y, double width, double height, pe_rgb of)
{
    paper *p = (paper *)c;
    puts_to(p, "<rect");
    attribute(p, "x", x);
    attribute(p, "y", y);
    attribute(p, "width", width);
    attribute(p, "height", height);
    colour(p, "fill", of);
    puts_to(p, "/>\n");
}

static void band(pe_canvas *c, const double *x, const double *top, const double *bottom, size_t n, pe_rgb of)
{
    paper *p = (paper *)c;
    puts_to(p, "<path fill-opacity=\"0.22\"");
    colour(p, "fill", of);
    puts_to(p, " d=\"");
    for (size_t i = 0; i < n; i++) {
        puts_to(p, i ? "L" : "M");
        point(p, (pe_point){ x[i], top[i] });
    }
    for (size_t i = n; i > 0; i--) {
        puts_to(p, "L");
        point(p, (pe_point){ x[i - 1], bottom[i - 1] });
    }
    puts_to(p, "Z\"/>\n");
}

static void text(pe_canvas *c, double x, double y, const pe_style *s, const char *of)
{
    static const char *const anchors[] = { "start", "middle", "end" };
    paper *p = (paper *)c;
    puts_to(p, "<text");
    if (s->upright) {
        puts_to(p, " transform=\"translate(");
        point(p, (pe_point){ x, y });
        puts_to(p, ") rotate(-90)\"");
    } else {
        attribute(p, "x", x);
        attribute(p, "y", y);
    }
    attribute(p, "font-size", s->size);
    if (s->anchor != PE_START) {
        puts_to(p, " text-anchor=\"");
        puts_to(p, anchors[s->anchor]);
        puts_to(p, "\"");
    }
    if (s->bold)
        puts_to(p, " font-weight=\"bold\"");
    colour(p, "fill", s->colour);
    puts_to(p, ">");
    words(p, of);
    puts_to(p, "</text>\n");
}

static void base64(paper *p, const char *bytes, size_t size)
{
    static const char letter[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *s = (const unsigned char *)bytes;
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const unsigned v = (unsigned)s[i] << 16 | (left > 1 ? (unsigned)s[i + 1] << 8 : 0) | (left > 2 ? s[i + 2] : 0);
        const char four[] = { letter[v >> 18], letter[v >> 12 & 63], left > 1 ? letter[v >> 6 & 63] : '=',
                              left > 2 ? letter[v & 63] : '=' };
        put(p, four, 4);
    }
}

static void image(pe_canvas *c, double x, double y, double width, double height, const pe_rgb *cell, size_t columns,
                  size_t rows)
{
    paper *p = (paper *)c;
    size_t size;
    char *png = pe_png(cell, columns, rows, &size);
    p->failed |= !png;
    if (p->failed) {
        free(png);
        return;
    }
    puts_to(p, "<image style=\"image-rendering:pixelated\" preserveAspectRatio=\"none\"");
    attribute(p, "x", x);
    attribute(p, "y", y);
    attribute(p, "width", width);
    attribute(p, "height", height);
    puts_to(p, " href=\"data:image/png;base64,");
    base64(p, png, size);
    puts_to(p, "\"/>\n");
    free(png);
}

static char *finish(pe_canvas *c, size_t *size)
{
    paper *p = (paper *)c;
    puts_to(p, "</g>\n</svg>\n");
    char *s = p->s;
    *size = p->n;
    if (p->failed) {
        free(s);
        s = NULL;
    }
    free(p);
    return s;
}

pe_canvas *pe_canvas_svg(double width, double height, const char *title)
{
    paper *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->canvas = (pe_canvas){ width, height, line, dots, rect, band, text, image, finish };
    puts_to(p, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    attribute(p, "width", width);
    attribute(p, "height", height);
    puts_to(p, " viewBox=\"0 0 ");
    point(p, (pe_point){ width, height });
    puts_to(p, "\" role=\"img\">\n<title>");
    words(p, title);
    puts_to(p, "</title>\n<g font-family=\"DejaVu Sans, Verdana, Helvetica, Arial, sans-serif\">\n");
    return &p->canvas;
}
