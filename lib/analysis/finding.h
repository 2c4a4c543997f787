/* finding.h - what the reports `identify` and `compare` share: their answer is one JSON text, kept as bytes.
 *
 * The text has a room that follows from shapes; what does not fit is left out by its writer. Private to lib/analysis. */
#ifndef PE_FINDING_H
#define PE_FINDING_H

#include "core/params.h"

enum { PE_MOST_ELEMENTS = 1 << 24 }; /* of a table: looking at it takes 64 bytes an element */

/* That a table is there and of a size that is looked at; the numbers are checked as they are read. */
posenc_status pe_finding_check(const posenc_tensor *table, posenc_error *err);
/* The one output, `room` bytes. */
posenc_status pe_finding_shape(posenc_result *out, int64_t room, posenc_error *err);
/* Copies a text and zeros after it; the text is freed. NULL: no memory. */
posenc_status pe_finding_keep(posenc_result *out, char *text, posenc_error *err);
/* {"report","revision","digest","params", then the members of the text}. INVALID for what is not json, and selections. */
posenc_status pe_finding_write(posenc_format f, const posenc_origin *origin, const posenc_result *result,
                               const posenc_selection *sel, posenc_document *out, posenc_error *err);

#endif
