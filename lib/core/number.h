/* number.h - numbers as text and back, the same in every locale, correctly rounded. Pure functions. */
#ifndef PE_NUMBER_H
#define PE_NUMBER_H

#include "posenc.h"

enum { PE_NUMBER_TEXT = 40, PE_NUMBER_DIGITS = 1000 };

/* The double nearest to digits * 10^exp10. */
double pe_decimal(uint64_t digits, int exp10);

/* Element i as text: integers plain; reals the shortest decimal that reads back as the same value of the tensor's
 * own dtype; NaN, Infinity, -Infinity. Returns the length; there is no NUL. */
size_t pe_number_text(const posenc_tensor *t, int64_t i, char out[PE_NUMBER_TEXT]);
/* v exactly, as C's %a writes it: "0x1.388p+13". */
void pe_hex_text(double v, char out[PE_NUMBER_TEXT]);

/* All n bytes as one number: a decimal of at most PE_NUMBER_DIGITS characters ("1", "-2.5", "+1e4"), or the form of
 * pe_hex_text. False for anything else and for what is not finite. */
bool pe_parse_number(const char *s, size_t n, double *out);

#endif
