/* crew.h - the threads of a command's own computations: posenc_context.parallel. */
#ifndef CLI_CREW_H
#define CLI_CREW_H

#include "posenc.h"

/* Gives ctx `threads` threads (0: one a core), which live only while they work. */
void crew_join(posenc_context *ctx, int threads);

#endif
