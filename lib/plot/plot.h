/* plot.h - pictures of numbers: lines, bands and heat maps with title, axes, units, legend and colour bar.
 *
 * A plot is a description; drawing it as png or as svg is the same code on two canvases. Fonts are strokes of our own in
 * png, text elements in svg: no font files, no settings, no state, so that the same plot is the same bytes on every machine
 * (png: with the same zlib).
 * Ownership: a description borrows all it points to. Any thread. */
#ifndef PE_PLOT_H
#define PE_PLOT_H

#include "posenc.h"

enum { PE_MAX_SERIES = 12, PE_MAX_RULES = 8, PE_MAX_PANELS = 24 };

typedef enum pe_marker { PE_MARK_LINE, PE_MARK_POINTS, PE_MARK_BARS } pe_marker;

typedef struct pe_series {
    const char *label;        /* in the legend; NULL: not there */
    const double *x, *y;      /* (n) x ascending; what is not finite, or not positive on a logarithmic axis, is a gap */
    const double *low, *high; /* (n) a band around the line; NULL: none */
    size_t n;
    pe_marker mark;
    bool dashed;
} pe_series;

typedef struct pe_rule { /* a line across the panel, with words */
    double at;
    const char *label;
    bool vertical;
} pe_rule;

typedef struct pe_panel {
    const char *title, *x_label, *y_label; /* labels with their unit: "offset [positions]" */
    bool x_log, y_log;
    bool ordered; /* series are steps of one quantity: coloured from dark to light */
    pe_series series[PE_MAX_SERIES];
    int nseries;
    pe_rule rule[PE_MAX_RULES];
    int nrules;
    /* a heat map instead of series: (rows, columns), row 0 on top; NaN is grey */
    const double *heat;
    int64_t rows, columns;
    double x_first, x_step, y_first, y_step; /* centre of the first cell on each axis, and from one to the next; 0: 1 */
    const char *heat_label;
    bool diverging; /* colours are symmetric about 0 */
} pe_panel;

typedef struct pe_plot {
    const char *title, *subtitle; /* subtitle may be NULL */
    const pe_panel *panel;
    int npanels; /* 1 .. PE_MAX_PANELS, one below the other */
} pe_plot;

/* `f` is PE_png or PE_svg. The bytes are malloc'ed. BUSY. */
posenc_status pe_plot_draw(const pe_plot *p, posenc_format f, char **bytes, size_t *size, posenc_error *err);

#endif
