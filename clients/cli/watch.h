/* watch.h - what may stop a command: Ctrl-C and the deadline; and the bar that shows how far it is. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "posenc.h"

typedef struct watch {
    double start_s, deadline_s; /* monotonic; deadline 0: none */
    double drawn_s;             /* when the bar was last drawn; 0: never */
    bool bar;                   /* standard error is a terminal */
} watch;

/* Takes over SIGINT and SIGTERM and fills in ctx, whose user is w. deadline_s: seconds from now, 0: none. */
void watch_start(watch *w, posenc_context *ctx, double deadline_s);
void watch_clear(watch *w);        /* wipes the bar */
void watch_let_finish(watch *w);   /* no deadline from here on */
double watch_left(const watch *w); /* seconds to the deadline, at least 0; huge without one */
bool watch_interrupted(void);
void watch_die(void); /* when interrupted: ends the process by that signal */

#endif
