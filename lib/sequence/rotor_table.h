/* rotor_table.h - whole tables from rotors, by as many threads as the caller has.
 *
 * Where there are several, rows are split into chunks, each with a rotor of its own. A row depends on its position alone:
 * the bytes are the same with any number of threads. */
#ifndef PE_ROTOR_TABLE_H
#define PE_ROTOR_TABLE_H

#include "sequence/positions.h"
#include "sequence/rotor.h"

/* Rows 0 .. n - 1, of the positions of `source`, at `to`; `past` of it is chosen here, for results of `size` bytes in all.
 * A chunk holds pe_rotor_size(pairs) bytes. */
posenc_status pe_rotor_table(const pe_dd *w, size_t pairs, const pe_source *source, int64_t n, const pe_rotor_place *to,
                             size_t size, posenc_context *ctx, posenc_error *err);

#endif
