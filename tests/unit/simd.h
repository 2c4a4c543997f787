/* simd.h - what the tests choose in the place of pe_simd: one path for every kernel. */
#ifndef TESTS_SIMD_H
#define TESTS_SIMD_H

#include "core/lanes.h"

extern const char *const simd_names[PE_PATHS];
pe_path simd_widest(void);      /* of this CPU */
void simd_choose(pe_path path); /* for this process, from here on; at the beginning the widest */

#endif
