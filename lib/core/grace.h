/* grace.h - a context whose deadline stops searching, and lets what was found be told.
 *
 * PE_DEADLINE of the context behind it is passed on only while `searching`, once for each pe_grace_search: whoever gets it
 * stops and has time to finish. Other stops are passed on at all times. For requests that allow partial answers.
 * The struct stays where it is as long as ctx is used; several threads may poll. */
#ifndef PE_GRACE_H
#define PE_GRACE_H

#include "posenc.h"

#include <stdatomic.h>

typedef struct pe_grace {
    posenc_context ctx; /* to be used in place of `behind` */
    posenc_context *behind;
    atomic_bool searching;
} pe_grace;

void pe_grace_init(pe_grace *g, posenc_context *behind); /* behind may be NULL */
void pe_grace_search(pe_grace *g);                       /* NULL: nothing happens; also below */
void pe_grace_rest(pe_grace *g);

#endif
