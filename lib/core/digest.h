/* digest.h - SHA-256 of keys and contents (libcrypto). Clients choose what is hashed: no weaker hash will do. */
#ifndef PE_DIGEST_H
#define PE_DIGEST_H

#include "posenc.h"

typedef struct pe_digest {
    uint8_t byte[32];
} pe_digest;

typedef struct pe_hasher {
    void *ctx; /* EVP_MD_CTX; NULL after a failure, which final reports */
} pe_hasher;

void pe_hash_init(pe_hasher *h);
void pe_hash_add(pe_hasher *h, const void *data, size_t size);
bool pe_hash_final(pe_hasher *h, pe_digest *out); /* frees; false: out of memory */
bool pe_hash(const void *data, size_t size, pe_digest *out);
/* One of many short ones, between pe_hash_init and pe_hash_end: a hasher costs more than hashing them. */
bool pe_hash_next(pe_hasher *h, const void *data, size_t size, pe_digest *out);
void pe_hash_end(pe_hasher *h);
void pe_hex(const pe_digest *d, char hex[65]);

#endif
