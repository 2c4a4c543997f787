/* store.h - how a graph encoding hands its numbers over: rounding that refuses overflow, and the limit of dense answers.
 *
 * Pure functions; any thread. */
#ifndef PE_GRAPH_STORE_H
#define PE_GRAPH_STORE_H

#include "core/pace.h"
#include "core/params.h"

/* Rounds n values into t from element `at` on. INVALID, naming the weights, where one is finite but not in t's dtype: NaN
 * stands for what does not exist and passes. */
posenc_status pe_graph_store(posenc_tensor *t, int64_t at, const double *v, int64_t n, pe_pace *pace, posenc_error *err);

/* For `check`: LIMIT where an output of so many elements has over 2^31 bytes; `instead` says what else there is. */
posenc_status pe_dense_limit(const posenc_request *r, double elements, const char *instead, posenc_error *err);

/* The sum of n^2 over the graphs of a request, as a double: it cannot overflow. */
double pe_squares(const posenc_graph *g);

#endif
