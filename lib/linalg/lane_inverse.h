/* lane_inverse.h - grounded inverses of eight small Laplacians at once, one a lane.
 *
 * Row 0 is the ground. Nothing is ever subtracted, so that each entry has a small relative error whatever the weights.
 * Pure function; any thread. A lane's bits depend neither on the others nor on the instruction set.
 * Source: elimination by sums, Grassmann, Taksar and Heyman 1985; O'Cinneide 1993, Entrywise perturbation theory and error
 * analysis for Markov chains. */
#ifndef PE_LANE_INVERSE_H
#define PE_LANE_INVERSE_H

#include "core/pace.h"

#include <stdint.h>

/*   z       (n, n, 8), aligned to 64 bytes; in: weights 0 or more below the diagonal, 0 elsewhere, rows beyond a lane's own
 *           are 0, each other row but the first has an entry; out: the inverse of the Laplacian without row and column 0,
 *           which are 0 as rows beyond a lane's own are
 *   start   (n) in: the first column of each row that is not 0 in some lane, at most the row; overwritten
 * What pace returns. */
posenc_status pe_lane_inverse(int64_t n, double *z, int32_t *start, pe_pace *pace);

#endif
