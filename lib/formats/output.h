/* output.h - what the writers of containers share: growing bytes, the list of pieces, one number as text.
 *
 * Ownership: a pe_builder owns its bytes until pe_builder_finish hands them to a document; fini is safe on zero. */
#ifndef PE_OUTPUT_H
#define PE_OUTPUT_H

#include "core/number.h"
#include "posenc.h"

/* The part of a result that is written: tensors already selected and sliced. */
typedef struct pe_writing {
    const posenc_origin *origin; /* members may be NULL: then nothing is said about them */
    const posenc_result *result;
    const posenc_selection *selection;
    posenc_tensor tensor[PE_MAX_OUTPUTS];
    int ntensors;
} pe_writing;

enum { PE_MAX_PIECES = 2 * PE_MAX_OUTPUTS + 2 };

typedef struct pe_builder {
    char *s; /* the own bytes of all pieces, one after the other */
    size_t n, cap;
    bool failed;           /* out of memory: everything later is dropped */
    size_t npieces, start; /* start: of the own bytes that are no piece yet */
    posenc_piece piece[PE_MAX_PIECES];
    bool own[PE_MAX_PIECES]; /* own pieces: data counts from s until finish */
} pe_builder;

void pe_reserve(pe_builder *b, uint64_t more);
char *pe_extend(pe_builder *b, uint64_t more); /* room for `more` bytes that are appended; NULL: failed */
void pe_put(pe_builder *b, const void *bytes, size_t n);
void pe_print(pe_builder *b, const char *format, ...) POSENC_PRINTF(2, 3); /* short texts: under 200 bytes */
void pe_put_string(pe_builder *b, const char *s);                          /* a JSON string with its quotes */
void pe_put_le(pe_builder *b, uint64_t v, int bytes);
void pe_cut(pe_builder *b);                                     /* own bytes so far become a piece */
void pe_borrow(pe_builder *b, const void *data, uint64_t size); /* a piece of somebody else's bytes */
uint64_t pe_builder_size(const pe_builder *b);                  /* of the container so far */
posenc_status pe_builder_finish(pe_builder *b, posenc_document *out, posenc_error *err);
void pe_builder_fini(pe_builder *b);

/* "encoding":...,"revision":...,"digest":... of the origin, as far as known, each with a comma after it. */
void pe_put_origin(pe_builder *b, const posenc_origin *o);

/* The header of an npy file, of a bfloat16 tensor that of its float32 copy; and the data after it. */
void pe_put_npy_header(pe_builder *b, const posenc_tensor *t);
uint64_t pe_npy_size(const posenc_tensor *t); /* bytes of the data */
/* The data as float32 when bfloat16 (appended to the own bytes and cut), else borrowed. */
void pe_put_npy_data(pe_builder *b, const posenc_tensor *t);

void pe_write_json(const pe_writing *w, pe_builder *b);
void pe_write_npy(const pe_writing *w, pe_builder *b);
void pe_write_npz(const pe_writing *w, pe_builder *b);
void pe_write_safetensors(const pe_writing *w, pe_builder *b);
void pe_write_bin(const pe_writing *w, pe_builder *b);
void pe_write_csv(const pe_writing *w, pe_builder *b);
void pe_write_png(const pe_writing *w, pe_builder *b);
void pe_write_svg(const pe_writing *w, pe_builder *b);

#endif
