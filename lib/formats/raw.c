/* raw.c - bin: the bytes of one tensor and nothing else. */
#include "formats/output.h"

void pe_write_bin(const pe_writing *w, pe_builder *b) { pe_borrow(b, w->tensor[0].data, posenc_tensor_size(&w->tensor[0])); }
