/* lanes.c - which path this CPU has: alone here, so that tests can put their choice in its place (--wrap). */
#include "core/lanes.h"

pe_path pe_simd(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return PE_PATH_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return PE_PATH_AVX2;
#endif
    return PE_PATH_BASE;
}
