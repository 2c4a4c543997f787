/* charges.h - what electrostatic gathers of the pseudo-inverse of a component's Laplacian; of small components eight at a
 * time.
 *
 * A component's bytes do not depend on which others are solved with it, nor on their order. What is found is measured: where
 * the currents out of a charge do not sum to what they must, the component is left to the caller, who has the sparse way.
 * Pure function: no globals, no threads. */
#ifndef PE_CHARGES_H
#define PE_CHARGES_H

#include "core/pace.h"
#include "linalg/linalg.h"

enum { PE_CHARGE_ROWS = 128 };

/* Of one node v: V_ij = (L^+)_ij - (L^+)_jj. */
typedef struct pe_charge {
    double diagonal;            /* (L^+)_vv */
    double least, most;         /* over the column of L^+ */
    double squares;             /* sum over the column of its squares */
    double row_least, row_most; /* over j of V_vj */
    double dot;                 /* sum over j of (L^+)_vj (L^+)_jj */
    double to, from;            /* sum over i of (D^-1 A)_iv V_iv; over j of (D^-1 A)_vj V_vj */
} pe_charge;

typedef struct pe_charge_job {
    pe_component c; /* none; 2 .. PE_CHARGE_ROWS rows, weights over 0 */
    pe_charge *at;  /* (n) out */
    bool done;      /* out: they hold */
} pe_charge_job;

posenc_status pe_charges(pe_charge_job *jobs, int64_t count, pe_pace *pace, posenc_error *err);
/* Bytes that it holds: components of up to `rows` rows, `count` jobs. */
uint64_t pe_charges_bytes(int64_t rows, int64_t count);

#endif
