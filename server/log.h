/* log.h - one line per event on standard error: ts=... level=... event=... key=value ...
 *
 * Any thread; a line is one write, never mixed with another. Values are escaped: control characters, quotes and
 * spaces cannot forge a line. */
#ifndef PE_LOG_H
#define PE_LOG_H

#include "posenc.h"

typedef enum pe_level { PE_ERROR, PE_WARN, PE_INFO, PE_DEBUG } pe_level;

void pe_log_level(pe_level level);
bool pe_log_on(pe_level level);
/* pairs: "key", "value", ..., NULL; a NULL value leaves the pair out */
void pe_log_event(pe_level level, const char *event, ...) __attribute__((sentinel));

#endif
