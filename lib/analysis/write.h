/* write.h - an analysis as JSON and as a picture. Private to lib/analysis. */
#ifndef PE_ANALYSIS_WRITE_H
#define PE_ANALYSIS_WRITE_H

#include "posenc.h"

/* As posenc_write: json, png and svg. INVALID for other containers and for selections, LIMIT, BUSY. */
posenc_status pe_analysis_write(posenc_format f, const posenc_origin *origin, const posenc_result *result,
                                const posenc_selection *sel, posenc_document *out, posenc_error *err);

#endif
