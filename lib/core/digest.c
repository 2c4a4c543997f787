/* digest.c - SHA-256 through libcrypto. */
#include "core/digest.h"

#include <openssl/evp.h>

void pe_hash_init(pe_hasher *h)
{
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    if (c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(c);
        c = NULL;
    }
    h->ctx = c;
}

void pe_hash_add(pe_hasher *h, const void *data, size_t size)
{
    if (h->ctx && size && EVP_DigestUpdate(h->ctx, data, size) != 1) {
        EVP_MD_CTX_free(h->ctx);
        h->ctx = NULL;
    }
}

bool pe_hash_final(pe_hasher *h, pe_digest *out)
{
    bool ok = h->ctx && EVP_DigestFinal_ex(h->ctx, out->byte, NULL) == 1;
    EVP_MD_CTX_free(h->ctx);
    h->ctx = NULL;
    return ok;
}

bool pe_hash(const void *data, size_t size, pe_digest *out)
{
    pe_hasher h;
    pe_hash_init(&h);
    pe_hash_add(&h, data, size);
    return pe_hash_final(&h, out);
}

bool pe_hash_next(pe_hasher *h, const void *data, size_t size, pe_digest *out)
{
    return h->ctx && EVP_DigestInit_ex(h->ctx, NULL, NULL) == 1 && EVP_DigestUpdate(h->ctx, data, size) == 1 &&
           EVP_DigestFinal_ex(h->ctx, out->byte, NULL) == 1;
}

void pe_hash_end(pe_hasher *h)
{
    EVP_MD_CTX_free(h->ctx);
    h->ctx = NULL;
}

void pe_hex(const pe_digest *d, char hex[65])
{
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = "0123456789abcdef"[d->byte[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[d->byte[i] & 15];
    }
    hex[64] = 0;
}
