/* sines.h - one sinusoid: how a position becomes a row of sines and cosines, in every convention.
 *
 *     w[i] = shortest * (top / bottom)^(-i / steps)        i = 0 .. pairs - 1
 *     sin(scale * position * w[i]), cos(scale * position * w[i])
 *
 * What sinusoidal, timestep, the grids and the relative sinusoids share. Pure functions; any thread. */
#ifndef PE_SINES_H
#define PE_SINES_H

#include "core/exact.h"
#include "core/pace.h"
#include "core/waves.h"
#include "sequence/rotor.h"

/* What becomes of an odd width; in the order of pe_odd_words. */
typedef enum pe_odd { PE_ODD_ERROR, PE_ODD_ZERO_PAD, PE_ODD_SIN_EXTRA, PE_ODD_ROUND_UP_TRUNCATE } pe_odd;
extern const char *const pe_odd_words[];
/* interleaved, split; float64, float32; exp, pow (as pe_power): NULL-terminated. */
enum { PE_INTERLEAVED, PE_SPLIT };
extern const char *const pe_sines_layouts[];
enum { PE_COMPUTE_FLOAT64, PE_COMPUTE_FLOAT32 };
extern const char *const pe_compute_dtypes[];
extern const char *const pe_freq_forms[];

typedef struct pe_sines {
    int64_t width;
    bool split, flip; /* all sines then all cosines; cosines first */
    pe_odd odd;
    double shift;       /* steps = width / 2 - shift */
    bool at_least_one;  /* of steps, where they would be fewer (tensor2tensor); otherwise the caller sees to steps > 0 */
    double top, bottom; /* > 0; the base of the ladder is their quotient */
    double shortest;    /* multiplies every frequency */
    double scale;       /* multiplies the angle, in float32 after the product of position and frequency */
    pe_power form;
    bool single; /* frequencies, angles, sines and cosines are each rounded to float32, as float32 peers do */
    bool divide; /* where `single`: positions are divided by base^(i / steps), as DETR does; shortest and scale are not read
                  */
} pe_sines;

/* Columns: pair i has its sine in sin0 + i * step (the last one in last_sine) and its cosine in cos0 + i * step. */
typedef struct pe_columns {
    size_t pairs, cosines; /* frequencies; those that have a cosine too */
    size_t sin0, cos0, step, last_sine;
    size_t width; /* that these fill, at least; columns from pe_sines.width on are cut */
} pe_columns;

pe_columns pe_sines_columns(const pe_sines *s);
/* The steps from the first frequency to that divided by the base. For sin_extra they count half a step (the exponent stays
 * 2i/d), for round_up_truncate the width is rounded up first. Where the result is not over 0 there is no ladder. */
pe_dd pe_sines_steps(const pe_sines *s);
/* (pairs) frequencies; in float64 they hold `scale` already. */
posenc_status pe_sines_frequencies(const pe_sines *s, pe_dd *w, const posenc_context *ctx);
/* e: every frequency times scale, and each product on the way, is below 2^e. */
double pe_sines_exponent(const pe_sines *s);

/* row[0 .. columns.width - 1] of a position; columns that no pair fills are 0. */
posenc_status pe_sines_row(const pe_sines *s, const pe_columns *c, const pe_dd *w, pe_dd position, double *row,
                           pe_pace *pace);

/* The same of many positions for results that are rounded to float32 or less: by a rotor over the frequencies, with
 * `both` (2 * pairs) as scratch. Not for s->single. */
posenc_status pe_sines_turn(const pe_sines *s, const pe_columns *c, pe_rotor *rotor, double position, double *both,
                            double *row, pe_pace *pace);

/* Whether rows are pairs and nothing else, none of them cut; then pe_rotor_rows writes them at this place: row 0 at `to`. */
bool pe_sines_whole(const pe_sines *s, const pe_columns *c);
pe_rotor_place pe_sines_place(const pe_sines *s, const pe_columns *c, posenc_dtype dtype, void *to);

/* The same of positions that are not whole: by waves of the frequencies. Not for s->single. */
posenc_status pe_sines_wave(const pe_sines *s, const pe_columns *c, const pe_waves *waves, pe_dd position, double *both,
                            double *row, pe_pace *pace);

#endif
