/* store.h - the one rounding at the end, for results that may be too large for their dtype.
 *
 * Where parameters alone bound the results, `check` refuses them and posenc_convert does; where only the numbers
 * themselves tell, this does both. Pure functions; any thread. */
#ifndef PE_STORE_H
#define PE_STORE_H

#include "posenc.h"

/* Rounds n values into elements first, first + 1, ... of t. INVALID, naming `dtype` and the first such element, when one
 * does not round to a finite number of that type. */
posenc_status pe_store(const posenc_tensor *t, int64_t first, const double *v, size_t n, posenc_error *err);

#endif
