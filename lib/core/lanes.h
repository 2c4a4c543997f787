/* lanes.h - eight float64 lanes, the same with every instruction set.
 *
 * A kernel is written once, on pe_lanes, as an always-inlined body; PE_KERNEL makes of it one function an instruction set
 * (baseline, AVX2, AVX-512 on x86-64; baseline elsewhere) and pe_simd says which to call. The lanes are eight whatever
 * the registers hold and no operation is contracted, so that all give the same bits. Comparisons of lanes are left to
 * integer arithmetic on their bits: GCC 12 makes eight scalar ones of them. */
#ifndef PE_LANES_H
#define PE_LANES_H

#include "posenc.h"

#include <stdint.h>
#include <string.h>

typedef double pe_lanes __attribute__((vector_size(64)));
typedef int64_t pe_masks __attribute__((vector_size(64)));
typedef uint64_t pe_bits __attribute__((vector_size(64)));
typedef float pe_floats __attribute__((vector_size(32)));
enum { PE_LANES = 8 };

typedef enum pe_path { PE_PATH_BASE, PE_PATH_AVX2, PE_PATH_AVX512, PE_PATHS } pe_path;
/* The widest that this CPU has. */
pe_path pe_simd(void);
/* posenc_convert by one path, which this CPU has: for tests. */
void pe_convert_on(pe_path path, posenc_dtype t, void *dst, const double *src, size_t n);
/* pe_tensor_read by one path: for tests. */
void pe_tensor_read_on(pe_path path, const posenc_tensor *t, int64_t first, size_t n, double *out);

#define PE_BODY static inline __attribute__((always_inline))

/* PE_KERNEL(name, body, (parameters), (arguments)) defines name_base, name_avx2, name_avx512 and the table name_paths;
 * call name_paths[pe_simd()]. Arguments may be pe_here, the path of the function. The names of all kernels lie together in
 * the section pe_kernels: tests/unit/test_simd.c has a request for each, and fails where it has none. */
#define PE_KERNEL_NAME(name) static const char *const name##_listed __attribute__((section("pe_kernels"), used)) = #name;
#define PE_VARIANT(name, suffix, here, target, body, parameters, arguments) \
    target static void name##suffix parameters                              \
    {                                                                       \
        const pe_path pe_here = here;                                       \
        (void)pe_here;                                                      \
        body arguments;                                                     \
    }
#define PE_AVX2 __attribute__((target("avx2,fma")))
#define PE_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl")))
#if defined(__x86_64__)
#define PE_KERNEL(name, body, parameters, arguments)                                  \
    PE_KERNEL_NAME(name)                                                              \
    PE_VARIANT(name, _base, PE_PATH_BASE, , body, parameters, arguments)              \
    PE_VARIANT(name, _avx2, PE_PATH_AVX2, PE_AVX2, body, parameters, arguments)       \
    PE_VARIANT(name, _avx512, PE_PATH_AVX512, PE_AVX512, body, parameters, arguments) \
    static void(*const name##_paths[PE_PATHS]) parameters = { name##_base, name##_avx2, name##_avx512 };
#else
#define PE_KERNEL(name, body, parameters, arguments)                     \
    PE_KERNEL_NAME(name)                                                 \
    PE_VARIANT(name, _base, PE_PATH_BASE, , body, parameters, arguments) \
    static void(*const name##_paths[PE_PATHS]) parameters = { name##_base, name##_base, name##_base };
#endif

/* clang-format off */
#define PE_SPLAT(v) ((pe_lanes){ (v), (v), (v), (v), (v), (v), (v), (v) })
/* clang-format on */

/* Memory need not be aligned; fewer than eight: the other lanes are 0 and stay unwritten. */
#define PE_LOAD(to, from, n) memcpy(&(to), (from), (size_t)(n) * sizeof(double))
#define PE_STORE(to, from, n) memcpy((to), &(from), (size_t)(n) * sizeof(double))
/* where mask ? a : b, bit by bit */
#define PE_SELECT(mask, a, b) ((pe_lanes)(((pe_masks)(a) & (pe_masks)(mask)) | ((pe_masks)(b) & ~(pe_masks)(mask))))

/* r = a b + c, rounded once. A loop that compilers make one instruction of; a call a lane where the CPU has none. */
PE_BODY void pe_fma_lanes(pe_lanes *r, const pe_lanes *a, const pe_lanes *b, const pe_lanes *c)
{
    pe_lanes t;
    for (int l = 0; l < PE_LANES; l++)
        t[l] = __builtin_fma((*a)[l], (*b)[l], (*c)[l]);
    *r = t;
}
#define PE_FMA(r, x, y, z)                           \
    do {                                             \
        const pe_lanes x_ = (x), y_ = (y), z_ = (z); \
        pe_fma_lanes(&(r), &x_, &y_, &z_);           \
    } while (0)

/* The first n lanes from memory, the others 0; and back. Copies of a constant size are single instructions. */
PE_BODY void pe_load_some(pe_lanes *to, const double *from, size_t n)
{
    *to = (pe_lanes){ 0 };
    if (n == PE_LANES)
        memcpy(to, from, sizeof *to);
    else
        memcpy(to, from, n * sizeof *from);
}

PE_BODY void pe_store_some(double *to, const pe_lanes *from, size_t n)
{
    if (n == PE_LANES)
        memcpy(to, from, sizeof *from);
    else
        memcpy(to, from, n * sizeof *to);
}

#endif
