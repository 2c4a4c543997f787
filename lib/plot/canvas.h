/* canvas.h - what a plot is drawn with, on paper (svg) or on a raster (png). Private to lib/plot.
 *
 * Units are those of the page, y downwards. A canvas that ran out of memory drops everything and fails at the end. */
#ifndef PE_CANVAS_H
#define PE_CANVAS_H

#include "posenc.h"

typedef struct pe_rgb {
    uint8_t r, g, b;
} pe_rgb;

typedef struct pe_point {
    double x, y;
} pe_point;

typedef enum pe_anchor { PE_START, PE_MIDDLE, PE_END } pe_anchor;

typedef struct pe_style {
    double size;
    pe_anchor anchor;
    bool upright, bold; /* upright: turned by 90 degrees, to be read from below */
    pe_rgb colour;
} pe_style;

typedef struct pe_canvas pe_canvas;
struct pe_canvas {
    double width, height;
    void (*line)(pe_canvas *c, const pe_point *p, size_t n, double width, bool dashed, pe_rgb colour);
    void (*dots)(pe_canvas *c, const pe_point *p, size_t n, double radius, pe_rgb colour);
    void (*rect)(pe_canvas *c, double x, double y, double width, double height, pe_rgb colour);
    /* between two curves, shining through */
    void (*band)(pe_canvas *c, const double *x, const double *top, const double *bottom, size_t n, pe_rgb colour);
    void (*text)(pe_canvas *c, double x, double y, const pe_style *s, const char *text); /* y: the base line */
    void (*image)(pe_canvas *c, double x, double y, double width, double height, const pe_rgb *cell, size_t columns,
                  size_t rows);
    /* The document, malloc'ed; NULL: no memory. Ends the canvas. */
    char *(*finish)(pe_canvas *c, size_t *size);
};

pe_canvas *pe_canvas_svg(double width, double height, const char *title); /* NULL: no memory */
pe_canvas *pe_canvas_png(double width, double height);

/* ---- png.c ---- */
/* A png of 8-bit colours, malloc'ed; NULL: no memory. */
char *pe_png(const pe_rgb *pixel, size_t columns, size_t rows, size_t *size);

/* ---- font.c ---- */
/* Strokes of one line of text at the origin, anchored at its start; `stroke` is called with each. */
typedef void pe_stroke(void *user, const pe_point *p, size_t n);
void pe_font_strokes(const char *text, double size, pe_stroke *stroke, void *user);
double pe_font_width(const char *text, double size);

/* ---- colour.c ---- */
enum { PE_COLOURS = 256 };
/* From dark blue to light yellow, lightness rising evenly; or from blue through white to red. */
void pe_colour_map(bool diverging, pe_rgb out[PE_COLOURS]);
pe_rgb pe_colour_of_series(int i); /* well apart for i < 8 */

#endif
