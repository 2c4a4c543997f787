/* compare.h - posenc_compare of a request in another dtype. Private to lib/analysis. */
#ifndef PE_COMPARE_H
#define PE_COMPARE_H

#include "posenc.h"

posenc_status pe_compare_as(const posenc_tensor *table, const posenc_request *r, posenc_dtype dtype, const char *output,
                            posenc_arena *a, posenc_comparison *out, posenc_context *ctx, posenc_error *err);

#endif
