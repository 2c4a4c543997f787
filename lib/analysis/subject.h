/* subject.h - from a request to the table that an analysis looks at. Private to lib/analysis. */
#ifndef PE_ANALYSIS_SUBJECT_H
#define PE_ANALYSIS_SUBJECT_H

#include "analysis/analysis.h"

/* For `check`: chooses the output, or takes the parameter `table`; fills in a->subject but for its numbers. */
posenc_status pe_subject_choose(const posenc_request *r, pe_analysis *a, posenc_error *err);
uint64_t pe_subject_scratch(const posenc_request *r, const pe_analysis *a); /* bytes */

/* For `compute`: the numbers. `memory` is malloc'ed and holds what `s` points to. */
posenc_status pe_subject_read(const posenc_request *r, const pe_analysis *a, bool pairing, pe_subject *s, void **memory,
                              posenc_context *ctx, posenc_error *err);

#endif
