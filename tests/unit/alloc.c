/* alloc.c - the linker sends malloc and its kin here (--wrap). */
#include "alloc.h"

#include <malloc.h>
#include <stddef.h>
#include <string.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t a, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t a, size_t n);
void __wrap_free(void *p);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

static _Thread_local long countdown;
static _Thread_local bool failed;

void alloc_fail_at(long n)
{
    countdown = n;
    failed = false;
}

bool alloc_failed(void) { return failed; }

static bool fails(void)
{
    if (!countdown || --countdown)
        return false;
    failed = true;
    return true;
}

static _Thread_local long held, peak;

void alloc_count(void) { held = peak = 0; }
long alloc_peak(void) { return peak; }

static void *counted(void *p)
{
    held += p ? (long)malloc_usable_size(p) : 0;
    peak = held > peak ? held : peak;
    return p;
}

void *__wrap_malloc(size_t n) { return fails() ? NULL : counted(__real_malloc(n)); }
void *__wrap_calloc(size_t n, size_t m) { return fails() ? NULL : counted(__real_calloc(n, m)); }
void *__wrap_aligned_alloc(size_t a, size_t n) { return fails() ? NULL : counted(__real_aligned_alloc(a, n)); }

void *__wrap_realloc(void *p, size_t n)
{
    if (fails())
        return NULL;
    const long before = p ? (long)malloc_usable_size(p) : 0;
    void *q = __real_realloc(p, n);
    held -= q ? before : 0;
    return counted(q);
}

void __wrap_free(void *p)
{
    held -= p ? (long)malloc_usable_size(p) : 0;
    __real_free(p);
}

char *__wrap_strndup(const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *p = __wrap_malloc(len + 1);
    if (p) {
        memcpy(p, s, len);
        p[len] = 0;
    }
    return p;
}

char *__wrap_strdup(const char *s) { return __wrap_strndup(s, strlen(s)); }
