/* times.h - the rows that say which moments, shared by every encoding of continuous time.
 *
 *     typedef struct time2vec { posenc_given given; ...; pe_times when; ... } time2vec;
 *     static const posenc_param rows[] = { ..., PE_TIME_ROWS(time2vec, when), ... };
 *
 * One source: timestamps (numbers), or timestamps_iso (calendar times, which become seconds since 1970-01-01T00:00:00Z).
 * The encoding sees (timestamp - time_origin) / time_unit, reduced in double-double: a clock reading of 1.7e9 s has a
 * float32 step of 128 s, so the origin must go before anything is rounded.
 * Pure functions; any thread. The request borrows. */
#ifndef PE_TIMES_H
#define PE_TIMES_H

#include "core/exact.h"
#include "core/params.h"

typedef struct pe_times {
    posenc_reals timestamps;
    const char *timestamps_iso, *time_origin_iso;
    double time_origin, time_unit;
} pe_times;

enum { PE_TIMES_ISO = 1 << 20 }; /* characters of timestamps_iso */

/* clang-format off */
#define PE_TIME_ROWS(T, when)                                                                                              \
    { PE_ROW_IN(T, when, timestamps, PE_T_REALS, posenc_reals), .flags = PE_OPTIONAL, .min = -0x1p63, .max = 0x1p63,       \
      .doc = "moments, in any order and at any distances" },                                                               \
    { PE_ROW_IN(T, when, timestamps_iso, PE_T_TEXT, const char *), .flags = PE_OPTIONAL, .min = 1, .max = PE_TIMES_ISO,    \
      .doc = "moments as ISO 8601, separated by commas, instead of timestamps: 2024-02-29T12:00:00.5Z is that many "      \
             "seconds since 1970-01-01T00:00:00Z; without Z or an offset such as +01:00 the time is UTC" },                \
    { PE_ROW_IN(T, when, time_origin, PE_T_REAL, double), .min = -0x1p63, .max = 0x1p63,                                   \
      .doc = "the moment that becomes 0, in the units of timestamps; subtracted exactly, before any rounding" },           \
    { PE_ROW_IN(T, when, time_origin_iso, PE_T_TEXT, const char *), .flags = PE_OPTIONAL, .min = 1, .max = 64,             \
      .doc = "time_origin as ISO 8601" },                                                                                  \
    { PE_ROW_IN(T, when, time_unit, PE_T_REAL, double), .def = 1, .min = 1e-30, .max = 1e30,                               \
      .doc = "what becomes 1, in the units of timestamps: 3600 counts seconds in hours" }
/* clang-format on */

/* For `check`: one source (none at all when not `required`), well-formed times, nothing that belongs to another source. */
void pe_times_check(const posenc_request *r, const pe_times *p, bool required, posenc_error *err);

bool pe_times_given(const posenc_request *r);
int64_t pe_times_count(const posenc_request *r, const pe_times *p);
/* e: every reduced moment is below 2^e; at least 0. */
int pe_times_exponent(const posenc_request *r, const pe_times *p);

/* For `compute`: the moments one after the other, reduced. About 20 ns each; calendar times 100. */
typedef struct pe_time_reader {
    const pe_times *p;
    const char *iso; /* the next calendar time; NULL: timestamps */
    size_t next;
    pe_dd origin;
} pe_time_reader;
pe_time_reader pe_times_start(const posenc_request *r, const pe_times *p);
pe_dd pe_times_next(pe_time_reader *t); /* at most pe_times_count times */

#endif
