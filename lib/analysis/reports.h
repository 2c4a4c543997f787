/* reports.h - every report, in the order of the documentation. Included by reports.c only. */
X(analysis)
X(identify)
X(compare)
