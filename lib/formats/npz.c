/* npz.c - a zip archive of npy members: written stored, with fixed dates; read stored or deflated.
 *
 * Source: APPNOTE.TXT 6.3.10 of PKWARE. The central directory is what counts; local headers must agree with it.
 * The data of every member written here starts at a multiple of 64 bytes. */
#include "formats/input.h"
#include "formats/output.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    LOCAL = 0x04034b50,
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    END64 = 0x06064b50,
    LOCATOR = 0x07064b50,
    LOCAL_SIZE = 30,
    CENTRAL_SIZE = 46,
    END_SIZE = 22,
    END64_SIZE = 56,
    LOCATOR_SIZE = 20,
    STORED = 0,
    DEFLATED = 8,
    ENCRYPTED = 1,
    LARGE = 1 /* id of the zip64 extra field */,
    PADDING = 0xd935,
    ALIGN = 64,
    MAX_NAME = 255,
    RATIO = 100,
    FREE = 1 << 20 /* bytes that inflating may always give */
};
static const uint64_t max32 = 0xffffffff;

static const char about[] = "__posenc__.json";

/* ---- writing ------------------------------------------------------------------------------------------------- */

typedef struct member {
    char name[80];
    size_t name_size;
    uint64_t size, offset;
    uint32_t crc;
    bool large;
} member;

/* Times and dates: 1980-01-01 00:00, the first that the format knows. */
static void put_common(pe_builder *b, const member *m, uint64_t size)
{
    pe_put_le(b, m->large ? 45 : 20, 2); /* version needed */
    pe_put_le(b, 0, 2);                  /* flags */
    pe_put_le(b, STORED, 2);
    pe_put_le(b, 0, 2);
    pe_put_le(b, 1 << 5 | 1, 2);
    pe_put_le(b, m->crc, 4);
    pe_put_le(b, size, 4);
    pe_put_le(b, size, 4);
    pe_put_le(b, m->name_size, 2);
}

/* The local header, with an extra field so that what follows is aligned. */
static void put_local(pe_builder *b, member *m)
{
    m->large = m->size >= max32;
    m->offset = pe_builder_size(b);
    uint64_t large = m->large ? 20 : 0;
    uint64_t after = m->offset + LOCAL_SIZE + m->name_size + large + 4;
    uint64_t pad = (ALIGN - after % ALIGN) % ALIGN;
    pe_put_le(b, LOCAL, 4);
    put_common(b, m, m->large ? max32 : m->size);
    pe_put_le(b, large + 4 + pad, 2);
    pe_put(b, m->name, m->name_size);
    if (m->large) {
        pe_put_le(b, LARGE, 2);
        pe_put_le(b, 16, 2);
        pe_put_le(b, m->size, 8);
        pe_put_le(b, m->size, 8);
    }
    pe_put_le(b, PADDING, 2);
    pe_put_le(b, pad, 2);
    for (uint64_t i = 0; i < pad; i++)
        pe_put_le(b, 0, 1);
}

static void put_central(pe_builder *b, const member *m)
{
    bool far = m->offset >= max32;
    uint64_t extra = (uint64_t)(m->large ? 16 : 0) + (far ? 8 : 0);
    member needs = *m;
    needs.large = extra > 0;
    pe_put_le(b, CENTRAL, 4);
    pe_put_le(b, 3 << 8 | 45, 2); /* made by: Unix, for the permissions below */
    put_common(b, &needs, m->large ? max32 : m->size);
    pe_put_le(b, extra ? extra + 4 : 0, 2);
    pe_put_le(b, 0, 2 + 2 + 2); /* comment, disk, internal attributes */
    pe_put_le(b, (uint64_t)0100644 << 16, 4);
    pe_put_le(b, far ? max32 : m->offset, 4);
    pe_put(b, m->name, m->name_size);
    if (!extra)
        return;
    pe_put_le(b, LARGE, 2);
    pe_put_le(b, extra, 2);
    if (m->large) {
        pe_put_le(b, m->size, 8);
        pe_put_le(b, m->size, 8);
    }
    if (far)
        pe_put_le(b, m->offset, 8);
}

static void put_end(pe_builder *b, size_t n, uint64_t begin, uint64_t end)
{
    if (begin >= max32 || end - begin >= max32) {
        pe_put_le(b, END64, 4);
        pe_put_le(b, END64_SIZE - 12, 8);
        pe_put_le(b, 3 << 8 | 45, 2);
        pe_put_le(b, 45, 2);
        pe_put_le(b, 0, 8); /* disks */
        pe_put_le(b, n, 8);
        pe_put_le(b, n, 8);
        pe_put_le(b, end - begin, 8);
        pe_put_le(b, begin, 8);
        pe_put_le(b, LOCATOR, 4);
        pe_put_le(b, 0, 4);
        pe_put_le(b, end, 8);
        pe_put_le(b, 1, 4);
    }
    pe_put_le(b, END, 4);
    pe_put_le(b, 0, 4);
    pe_put_le(b, n, 2);
    pe_put_le(b, n, 2);
    pe_put_le(b, end - begin < max32 ? end - begin : max32, 4);
    pe_put_le(b, begin < max32 ? begin : max32, 4);
    pe_put_le(b, 0, 2);
}

/* What numpy cannot hold: where the tensors come from and their dtypes (bfloat16 stands as float32). Only what the
 * request knows: warnings would make the size depend on the result. */
static void put_about(pe_builder *b, const pe_writing *w)
{
    pe_put(b, "{", 1);
    pe_put_origin(b, w->origin);
    if (w->origin->params_json) {
        pe_print(b, "\"params\":");
        pe_put(b, w->origin->params_json, strlen(w->origin->params_json));
        pe_put(b, ",", 1);
    }
    pe_print(b, "\"dtypes\":{");
    for (int i = 0; i < w->ntensors; i++) {
        if (i > 0)
            pe_put(b, ",", 1);
        pe_put_string(b, w->tensor[i].name);
        pe_print(b, ":\"%s\"", posenc_dtype_name(w->tensor[i].dtype));
    }
    pe_print(b, "}}");
}

static bool name_member(member *m, const char *stem, const char *ending)
{
    size_t n = strlen(stem), k = strlen(ending);
    if (n + k >= sizeof m->name)
        return false;
    memcpy(m->name, stem, n);
    memcpy(m->name + n, ending, k + 1);
    m->name_size = n + k;
    return true;
}

static uint32_t crc(uint32_t c, const void *p, uint64_t n) { return (uint32_t)crc32_z(c, p, (z_size_t)n); }

/* The npy header and the data go to `npy` first: the local header before them needs the checksum of both. */
static void put_tensor(pe_builder *b, const posenc_tensor *t, member *m)
{
    pe_builder npy = { 0 };
    pe_put_npy_header(&npy, t);
    m->size = npy.n + pe_npy_size(t);
    if (npy.failed || !name_member(m, t->name, ".npy")) {
        b->failed = true;
    } else {
        put_local(b, m);
        size_t place = b->n;              /* own bytes may move, places do not */
        uint64_t before = m->offset + 14; /* of the checksum in the container */
        size_t local = place - (size_t)(pe_builder_size(b) - before);
        pe_put(b, npy.s, npy.n);
        size_t data = b->n;
        pe_put_npy_data(b, t);
        if (!b->failed && t->data) {
            m->crc = crc(crc(0, npy.s, npy.n), t->dtype == PE_bfloat16 ? b->s + data : t->data, pe_npy_size(t));
            for (size_t i = 0; i < 4; i++)
                b->s[local + i] = (char)(m->crc >> 8 * i & 0xff);
        }
    }
    pe_builder_fini(&npy);
}

void pe_write_npz(const pe_writing *w, pe_builder *b)
{
    member m[PE_MAX_OUTPUTS + 1] = { 0 };
    pe_builder text = { 0 };
    uint64_t own = 0;
    int n = w->ntensors;
    for (int i = 0; i < n; i++)
        own += w->tensor[i].dtype == PE_bfloat16 && w->tensor[i].data ? pe_npy_size(&w->tensor[i]) : 0;
    if (own > 0)
        pe_reserve(b, own + 8192);
    for (int i = 0; i < n; i++)
        put_tensor(b, &w->tensor[i], &m[i]);
    put_about(&text, w);
    if (text.failed || !name_member(&m[n], about, "")) {
        b->failed = true;
    } else {
        m[n].size = text.n;
        m[n].crc = crc(0, text.s, text.n);
        put_local(b, &m[n]);
        pe_put(b, text.s, text.n);
    }
    pe_builder_fini(&text);
    uint64_t begin = pe_builder_size(b);
    for (int i = 0; i <= n; i++)
        put_central(b, &m[i]);
    put_end(b, (size_t)n + 1, begin, pe_builder_size(b));
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

typedef struct archive {
    const uint8_t *p;
    size_t size;
    const char *field;
    posenc_arena *arena;
    posenc_error *err;
    uint64_t begin, end, count; /* of the central directory */
    uint64_t inflated, budget;
} archive;

typedef struct found { /* a member as the central directory tells it */
    const char *name;  /* not terminated */
    size_t name_size;
    unsigned method;
    uint32_t crc;
    uint64_t packed, size, offset, data, stop; /* data .. stop - 1: its bytes */
} found;

static const char bad[] = "INVALID_NPZ";

static uint64_t le(const uint8_t *p, int n)
{
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static posenc_status broken(const archive *z, const char *value, const char *allowed)
{
    return posenc_fail(z->err, PE_INVALID, bad, z->field, value, "%s", allowed);
}

static posenc_status broken_member(const archive *z, const found *m, const char *allowed)
{
    char name[48] = "";
    for (size_t i = 0; i < m->name_size && i < sizeof name - 1; i++)
        name[i] = m->name[i] >= ' ' && m->name[i] <= '~' ? m->name[i] : '?';
    return posenc_fail(z->err, PE_INVALID, bad, z->field, name, "%s", allowed);
}

static posenc_status find_directory(archive *z)
{
    static const char whole[] = "a whole zip archive on one disk, with nothing before or after it";
    size_t at = z->size < END_SIZE ? 0 : z->size - END_SIZE, least = at > 65535 ? at - 65535 : 0;
    if (z->size < END_SIZE)
        return broken(z, "too short", whole);
    while (le(z->p + at, 4) != END || le(z->p + at + 20, 2) != z->size - at - END_SIZE) {
        if (at == least)
            return broken(z, "no end record", whole);
        at--;
    }
    const uint8_t *e = z->p + at;
    uint64_t here = at, disks = le(e + 4, 4), length = le(e + 12, 4);
    z->count = le(e + 10, 2);
    z->begin = le(e + 16, 4);
    bool same = le(e + 8, 2) == z->count;
    if (z->count == 0xffff || length == max32 || z->begin == max32) {
        if (at < LOCATOR_SIZE + END64_SIZE || le(e - LOCATOR_SIZE, 4) != LOCATOR)
            return broken(z, "no zip64 locator", whole);
        here = le(e - LOCATOR_SIZE + 8, 8);
        if (here != at - LOCATOR_SIZE - END64_SIZE || le(z->p + here, 4) != END64)
            return broken(z, "no zip64 end record", whole);
        const uint8_t *l = z->p + here;
        disks = le(l + 16, 8);
        z->count = le(l + 32, 8);
        same = le(l + 24, 8) == z->count;
        length = le(l + 40, 8);
        z->begin = le(l + 48, 8);
    }
    z->end = here;
    if (disks != 0 || !same || length > here || z->begin != here - length || z->count > length / CENTRAL_SIZE)
        return broken(z, "an end record that disagrees with the file", whole);
    return PE_OK;
}

/* Sizes and offset that did not fit 32 bits, in this order, only those. */
static bool read_large(const uint8_t *p, size_t n, found *m)
{
    uint64_t *const want[] = { &m->size, &m->packed, &m->offset };
    while (n >= 4) {
        size_t k = (size_t)le(p + 2, 2);
        if (k > n - 4)
            return false;
        if (le(p, 2) == LARGE) {
            const uint8_t *v = p + 4;
            for (int i = 0; i < 3; i++) {
                if (*want[i] != max32)
                    continue;
                if (k < 8)
                    return false;
                *want[i] = le(v, 8);
                v += 8;
                k -= 8;
            }
            return true;
        }
        p += 4 + k;
        n -= 4 + k;
    }
    return m->size != max32 && m->packed != max32 && m->offset != max32;
}

/* One entry of the central directory at *at, and its local header. */
static posenc_status read_member(archive *z, uint64_t *at, found *m)
{
    if (z->end - *at < CENTRAL_SIZE || le(z->p + *at, 4) != CENTRAL)
        return broken(z, "", "a central directory of as many entries as the end record says");
    const uint8_t *c = z->p + *at;
    size_t name = (size_t)le(c + 28, 2), extra = (size_t)le(c + 30, 2), comment = (size_t)le(c + 32, 2);
    if (z->end - *at - CENTRAL_SIZE < name + extra + comment)
        return broken(z, "", "a central directory whose entries end inside it");
    *at += CENTRAL_SIZE + name + extra + comment;
    *m = (found){ .name = (const char *)c + CENTRAL_SIZE,
                  .name_size = name,
                  .method = (unsigned)le(c + 10, 2),
                  .crc = (uint32_t)le(c + 16, 4),
                  .packed = le(c + 20, 4),
                  .size = le(c + 24, 4),
                  .offset = le(c + 42, 4) };
    if (le(c + 8, 2) & ENCRYPTED)
        return broken_member(z, m, "members that are not encrypted");
    if (m->method != STORED && m->method != DEFLATED)
        return broken_member(z, m, "members that are stored or deflated");
    if (le(c + 34, 2) != 0 || !read_large(c + CENTRAL_SIZE + name, extra, m))
        return broken_member(z, m, "an entry on one disk with its sizes");
    if (m->offset > z->begin || z->begin - m->offset < LOCAL_SIZE)
        return broken_member(z, m, "a place before the central directory");
    const uint8_t *l = z->p + m->offset;
    uint64_t head = LOCAL_SIZE + le(l + 26, 2) + le(l + 28, 2);
    if (le(l, 4) != LOCAL || le(l + 26, 2) != name || le(l + 8, 2) != m->method || z->begin - m->offset < head ||
        memcmp(l + LOCAL_SIZE, m->name, name) != 0)
        return broken_member(z, m, "a local header that agrees with the central directory");
    m->data = m->offset + head;
    if (m->packed > z->begin - m->data || (m->method == STORED && m->packed != m->size))
        return broken_member(z, m, "as many bytes as the central directory says");
    m->stop = m->data + m->packed;
    return PE_OK;
}

static int by_offset(const void *a, const void *b)
{
    const found *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int by_name(const void *a, const void *b)
{
    const found *x = *(const found *const *)a, *y = *(const found *const *)b;
    size_t n = x->name_size < y->name_size ? x->name_size : y->name_size;
    int c = memcmp(x->name, y->name, n);
    return c ? c : (x->name_size > y->name_size) - (x->name_size < y->name_size);
}

/* Members in the order of the file, none inside another, none twice. */
static posenc_status check_members(const archive *z, found *m, size_t n)
{
    found **sorted = posenc_alloc(z->arena, n * sizeof *sorted);
    if (!sorted)
        return pe_no_memory(z->field, z->err);
    qsort(m, n, sizeof *m, by_offset);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && m[i].offset < m[i - 1].stop)
            return broken_member(z, &m[i], "members that do not overlap");
        sorted[i] = &m[i];
    }
    qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 1; i < n; i++)
        if (by_name(&sorted[i - 1], &sorted[i]) == 0)
            return broken_member(z, sorted[i], "every member once");
    return PE_OK;
}

/* Inflates exactly m->size bytes into `to`. */
static posenc_status inflate_member(const archive *z, const found *m, uint8_t *to)
{
    z_stream s = { 0 };
    int rc = inflateInit2(&s, -MAX_WBITS);
    if (rc != Z_OK)
        return pe_no_memory(z->field, z->err);
    uint64_t in = m->packed, out = m->size;
    uint8_t spare;
    s.next_in = (z_const Bytef *)(uintptr_t)(z->p + m->data);
    s.next_out = to;
    do {
        uInt give = in < (1u << 30) ? (uInt)in : 1u << 30, room = out < (1u << 30) ? (uInt)out : 1u << 30;
        if (room == 0) { /* all has come: one byte more would be one too many */
            s.next_out = &spare;
            room = 1;
        }
        s.avail_in = give;
        s.avail_out = room;
        rc = inflate(&s, Z_NO_FLUSH);
        uint64_t came = room - s.avail_out;
        in -= give - s.avail_in;
        if (came > out) {
            rc = Z_DATA_ERROR;
            break;
        }
        out -= came;
    } while (rc == Z_OK);
    inflateEnd(&s);
    if (rc == Z_MEM_ERROR)
        return pe_no_memory(z->field, z->err);
    if (rc != Z_STREAM_END || in != 0 || out != 0)
        return broken_member(z, m, "a deflate stream of exactly the sizes of the central directory");
    return PE_OK;
}

static posenc_status unpack(archive *z, const found *m, const uint8_t **bytes)
{
    *bytes = z->p + m->data;
    if (m->method == DEFLATED) {
        if (m->size > z->budget - z->inflated)
            return posenc_fail(z->err, PE_LIMIT, "LIMIT_EXCEEDED", z->field,
                               posenc_text("%llu bytes inflated", (unsigned long long)m->size).s,
                               "at most %d times the size of the archive when inflated", RATIO);
        z->inflated += m->size;
        uint8_t *to = posenc_alloc(z->arena, (size_t)m->size);
        if (!to)
            return pe_no_memory(z->field, z->err);
        posenc_status st = inflate_member(z, m, to);
        if (st)
            return st;
        *bytes = to;
    }
    if (crc(0, *bytes, m->size) != m->crc)
        return broken_member(z, m, "bytes that agree with the checksum");
    return PE_OK;
}

/* "edge_index.npy" -> "edge_index"; letters, digits, '_', '-' and '.' only, no leading '.'. */
static posenc_status stem(const archive *z, const found *m, char **out)
{
    size_t n = m->name_size < 4 ? 0 : m->name_size - 4;
    bool good = n > 0 && n <= MAX_NAME && !memcmp(m->name + n, ".npy", 4) && m->name[0] != '.';
    for (size_t i = 0; good && i < n; i++) {
        char c = m->name[i];
        good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
               c == '.';
    }
    if (!good)
        return broken_member(z, m, "members called NAME.npy, NAME of letters, digits, _, - and .");
    *out = posenc_strdup(z->arena, m->name, n);
    return *out ? PE_OK : pe_no_memory(z->field, z->err);
}

static posenc_status read_tensor(archive *z, const found *m, posenc_tensor *t)
{
    posenc_status st;
    char *name;
    const uint8_t *bytes;
    if ((st = stem(z, m, &name)) || (st = unpack(z, m, &bytes)))
        return st;
    st = posenc_read_npy(bytes, (size_t)m->size, posenc_text("%.20s.%.40s", z->field, name).s, t, z->arena, z->err);
    t->name = name;
    return st;
}

posenc_status posenc_read_npz(const void *bytes, size_t size, const char *field, posenc_tensor **out, size_t *n,
                              posenc_arena *a, posenc_error *err)
{
    archive z = { .p = bytes, .size = size, .field = field, .arena = a, .err = err };
    posenc_status st;
    *out = NULL;
    *n = 0;
    z.budget = size < UINT64_MAX / RATIO ? (uint64_t)size * RATIO : UINT64_MAX;
    z.budget = z.budget < FREE ? FREE : z.budget;
    if ((st = find_directory(&z)))
        return st;
    size_t count = (size_t)z.count, tensors = 0;
    found *m = posenc_alloc(a, count * sizeof *m);
    posenc_tensor *t = posenc_alloc(a, count * sizeof *t);
    if (!m || !t)
        return pe_no_memory(field, err);
    uint64_t at = z.begin;
    for (size_t i = 0; i < count; i++)
        if ((st = read_member(&z, &at, &m[i])))
            return st;
    if (at != z.end)
        return broken(&z, "", "a central directory of as many entries as the end record says");
    if ((st = check_members(&z, m, count)))
        return st;
    for (size_t i = 0; i < count; i++) {
        if (m[i].name_size == sizeof about - 1 && !memcmp(m[i].name, about, sizeof about - 1))
            continue;
        if ((st = read_tensor(&z, &m[i], &t[tensors++])))
            return st;
    }
    *out = t;
    *n = tensors;
    return PE_OK;
}
