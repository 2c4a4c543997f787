/* simd.c - the linker sends pe_simd here (--wrap). */
#include "simd.h"

pe_path __real_pe_simd(void);
pe_path __wrap_pe_simd(void);

const char *const simd_names[PE_PATHS] = { "baseline", "AVX2", "AVX-512" };

static int chosen = -1;

pe_path simd_widest(void) { return __real_pe_simd(); }
void simd_choose(pe_path path) { chosen = (int)path; }
pe_path __wrap_pe_simd(void) { return chosen < 0 ? __real_pe_simd() : (pe_path)chosen; }
