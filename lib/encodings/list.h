/* list.h - every encoding, in the order of the documentation. Included by registry.c only. */
X(sinusoidal)
X(alibi_slopes)
X(laplacian)
