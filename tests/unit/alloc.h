/* alloc.h - makes the n-th allocation of the project's own objects fail, or counts their bytes. One thread at a time. */
#ifndef PE_TEST_ALLOC_H
#define PE_TEST_ALLOC_H

#include <stdbool.h>

void alloc_fail_at(long n); /* the n-th from now returns NULL, once; 0: none */
bool alloc_failed(void);    /* it came to that */

/* Bytes that those objects hold more than at the start of the count, at most, since then. */
void alloc_count(void);
long alloc_peak(void);

#endif
