/* show.h - what people read: lists, help, summaries, faults. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include "json.h"
#include "posenc.h"

void show_usage(void);
void show_list(js all); /* {"encodings": [...]} */
void show_help(js descriptor);
void show_explained(js explained);
void show_resolution(js resolution);
void show_analysis(js analysis);
void show_identified(js answer);
void show_compared(js answer);
void show_report_help(js descriptor);
void show_tensors(const posenc_tensor *t, size_t n);
void show_warning(const char *text);
void show_faults(const posenc_error *err); /* one a line, on standard error */

#endif
