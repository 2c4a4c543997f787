/* registry.c - the list of encodings. */
#include "core/params.h"

#include <string.h>

#define X(name) extern const posenc_encoding pe_##name;
#include "encodings/list.h"
#undef X

static const posenc_encoding *const list[] = {
#define X(name) &pe_##name,
#include "encodings/list.h"
#undef X
};

size_t posenc_encodings(void) { return PE_LEN(list); }
const posenc_encoding *posenc_encoding_at(size_t i) { return i < PE_LEN(list) ? list[i] : NULL; }

const posenc_encoding *posenc_encoding_named(const char *name)
{
    for (size_t i = 0; i < PE_LEN(list); i++)
        if (!strcmp(list[i]->name, name))
            return list[i];
    return NULL;
}

static const char *name_at(const void *unused, size_t i)
{
    (void)unused;
    return list[i]->name;
}

posenc_status posenc_unknown_encoding(const char *name, posenc_error *err)
{
    const char *near = posenc_nearest(name, name_at, NULL, PE_LEN(list));
    if (near)
        return posenc_fail(err, PE_NOT_FOUND, "UNKNOWN_ENCODING", "encoding", name, "did you mean %s?", near);
    return posenc_fail(err, PE_NOT_FOUND, "UNKNOWN_ENCODING", "encoding", name,
                       "a name that GET /v1/encodings or ListEncodings lists");
}
