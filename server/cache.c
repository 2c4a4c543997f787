/* cache.c - S3-FIFO by bytes in 16 shards; flights beside the entries.
 *
 * Each shard has a small queue for newcomers and a main queue for what was asked again. Eviction takes from small
 * while it holds more than a tenth of the shard; a newcomer that was used moves to main, one that was not leaves and is
 * remembered in the ghost list, so that its return goes straight to main. In main an unused tail leaves, a used one
 * goes round again. Results that are dear per byte start with some credit. A scan of one-time requests thus
 * passes through small and never displaces main. */
#include "cache.h"

#include "core/memory.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 16, GHOSTS = 1024, MAX_USE = 3 };

typedef struct node {
    struct node *chain;         /* hash bucket */
    struct node *newer, *older; /* queue */
    pe_entry *entry;
    uint64_t hash, bytes; /* bytes as charged to the shard's queue */
    int use;
    bool in_main;
} node;

typedef struct queue {
    node *newest, *oldest;
    uint64_t bytes;
} queue;

typedef struct shard {
    pthread_mutex_t lock;
    node **bucket;
    size_t nbuckets, nnodes;
    queue small, main;
    uint64_t ghost[GHOSTS]; /* ring of hashes of what left small unused */
    size_t ghost_at;
    pe_flight *flights;
} shard;

struct pe_cache {
    shard shard[SHARDS];
    uint64_t budget;
    _Atomic uint64_t resident, pinned, reserved, entries, evicted;
    atomic_uint turn; /* which shard evicts next */
    void (*on_evict)(void *user, uint64_t bytes);
    void *user;
};

/* ---- entries ---- */

static uint64_t round_up(uint64_t n) { return (n + 63) & ~(uint64_t)63; }

pe_entry *pe_entry_new(pe_cache *c, const posenc_request *r)
{
    size_t json = strlen(r->params_json) + 1;
    uint64_t head = round_up(sizeof(pe_entry) + json), size = head;
    for (int i = 0; i < r->shape.ntensors; i++)
        size += round_up(posenc_tensor_size(&r->shape.tensor[i]));
    pe_entry *e = size < SIZE_MAX / 2 ? pe_result_memory(size) : NULL;
    if (!e)
        return NULL;
    memset(e, 0, sizeof *e);
    atomic_init(&e->refs, 1);
    e->cache = c;
    memcpy(e->digest, r->digest, sizeof e->digest);
    e->encoding = r->encoding;
    e->params_json = memcpy((char *)e + sizeof *e, r->params_json, json);
    e->result = r->shape;
    char *p = (char *)e + head;
    for (int i = 0; i < e->result.ntensors; i++) {
        e->result.tensor[i].data = p;
        p += round_up(posenc_tensor_size(&e->result.tensor[i]));
    }
    e->size = size;
    atomic_init(&e->charged, size);
    pthread_mutex_init(&e->lock, NULL);
    atomic_fetch_add(&c->pinned, size);
    return e;
}

void pe_entry_ref(pe_entry *e) { atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed); }

void pe_representation_free(pe_representation *r)
{
    if (r)
        posenc_document_fini(&r->document);
    free(r);
}

void pe_entry_unref(void *arg)
{
    pe_entry *e = arg;
    if (!e || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
        return;
    atomic_fetch_sub(&e->cache->pinned, atomic_load(&e->charged)); /* the index held a reference while it was resident */
    for (pe_representation *r = e->representations, *next; r; r = next) {
        next = r->next;
        pe_representation_free(r);
    }
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* Moves the entry's bytes between the two sums: resident while indexed, pinned while only held. */
static void set_resident(pe_entry *e, bool resident)
{
    pthread_mutex_lock(&e->lock);
    uint64_t n = atomic_load(&e->charged);
    atomic_fetch_add(resident ? &e->cache->resident : &e->cache->pinned, n);
    atomic_fetch_sub(resident ? &e->cache->pinned : &e->cache->resident, n);
    atomic_store(&e->resident, resident);
    pthread_mutex_unlock(&e->lock);
}

static bool same_selection(const posenc_selection *a, const posenc_selection *b)
{
    return a->tensors == b->tensors && a->data == b->data && a->json_limit == b->json_limit &&
           a->csv_limit == b->csv_limit && a->plot_limit == b->plot_limit;
}

static bool hash_document(pe_representation *r)
{
    unsigned char md[32];
    char base64[48];
    EVP_MD_CTX *h = EVP_MD_CTX_new();
    bool ok = h && EVP_DigestInit_ex(h, EVP_sha256(), NULL) == 1;
    for (size_t i = 0; ok && i < r->document.npieces; i++)
        ok = !r->document.piece[i].size || EVP_DigestUpdate(h, r->document.piece[i].data, r->document.piece[i].size) == 1;
    ok = ok && EVP_DigestFinal_ex(h, md, NULL) == 1;
    EVP_MD_CTX_free(h);
    if (ok) {
        EVP_EncodeBlock((unsigned char *)base64, md, 32);
        snprintf(r->repr_digest, sizeof r->repr_digest, "sha-256=:%s:", base64);
    }
    return ok;
}

static void make_room(pe_cache *c, uint64_t extra);

static pe_representation *find(pe_entry *e, posenc_format f, const posenc_selection *sel)
{
    for (pe_representation *r = e->representations; r; r = r->next)
        if (r->format == f && same_selection(&r->selection, sel))
            return r;
    return NULL;
}

/* An upper bound of what a container holds beside the tensors: their text, or bfloat16 as float32. */
static uint64_t own_bytes(const pe_entry *e, posenc_format f, const posenc_selection *sel)
{
    uint64_t n = 4096;
    for (int i = 0; i < e->result.ntensors; i++) {
        const posenc_tensor *t = &e->result.tensor[i];
        if (sel->tensors && !(sel->tensors >> i & 1))
            continue;
        if (f == PE_json && sel->data == PE_JSON_BASE64)
            n += posenc_tensor_size(t) / 3 * 4 + 64;
        else if (f == PE_json || f == PE_csv)
            n += (uint64_t)posenc_tensor_count(t) * 30;
        else if (f == PE_png || f == PE_svg) /* pixels of two panels, and the numbers as float64 */
            n += (8 << 20) + (uint64_t)posenc_tensor_count(t) * 8;
        else if (t->dtype == PE_bfloat16)
            n += posenc_tensor_size(t) * 2;
    }
    return n;
}

posenc_status pe_entry_write(pe_entry *e, posenc_format f, const posenc_selection *sel, const pe_representation **out,
                             pe_representation **own, posenc_error *err)
{
    if (!sel->rows) {
        pthread_mutex_lock(&e->lock);
        *out = find(e, f, sel);
        pthread_mutex_unlock(&e->lock);
        if (*out)
            return PE_OK;
    }
    uint64_t room = own_bytes(e, f, sel);
    pe_representation *r = calloc(1, sizeof *r);
    if (!r || !pe_cache_reserve(e->cache, room)) {
        free(r);
        return posenc_fail(err, PE_BUSY, "UNAVAILABLE", "memory", posenc_text("%llu bytes", (unsigned long long)room).s,
                           "try again: other requests hold the memory budget (setting memory_budget)");
    }
    posenc_origin origin = { e->encoding, e->digest, e->params_json };
    posenc_status st = posenc_write(f, &origin, &e->result, sel, &r->document, err);
    pe_cache_release(e->cache, room); /* what was made is charged below */
    if (!st && !hash_document(r))
        st = posenc_fail(err, PE_BUSY, "OUT_OF_MEMORY", "memory", "", "try again");
    if (st) {
        pe_representation_free(r);
        return st;
    }
    r->format = f;
    r->selection = *sel;
    if (sel->rows) {
        *out = *own = r;
        return PE_OK;
    }
    uint64_t bytes = sizeof *r + r->document.own_size + r->document.npieces * sizeof *r->document.piece;
    pthread_mutex_lock(&e->lock);
    pe_representation *other = find(e, f, sel); /* two may have made it at once: the first stays */
    if (!other) {
        r->next = e->representations;
        e->representations = r;
        atomic_fetch_add(&e->charged, bytes);
        atomic_fetch_add(atomic_load(&e->resident) ? &e->cache->resident : &e->cache->pinned, bytes);
    }
    pthread_mutex_unlock(&e->lock);
    if (other)
        pe_representation_free(r);
    else
        make_room(e->cache, 0);
    *out = other ? other : r;
    return PE_OK;
}

/* ---- shards ---- */

static uint64_t hash_of(const char *digest)
{
    uint64_t h = 0;
    for (int i = 0; i < 16; i++)
        h = h << 4 | (uint64_t)(digest[i] <= '9' ? digest[i] - '0' : digest[i] - 'a' + 10);
    return h;
}

static shard *shard_of(pe_cache *c, uint64_t hash) { return &c->shard[hash >> 60]; }

static node *look(shard *s, uint64_t hash, const char *digest)
{
    node *n = s->nbuckets ? s->bucket[hash & (s->nbuckets - 1)] : NULL;
    while (n && (n->hash != hash || strcmp(n->entry->digest, digest)))
        n = n->chain;
    return n;
}

static void push(queue *q, node *n)
{
    n->newer = NULL;
    n->older = q->newest;
    *(q->newest ? &q->newest->newer : &q->oldest) = n;
    q->newest = n;
    q->bytes += n->bytes;
}

static void take(queue *q, node *n)
{
    *(n->newer ? &n->newer->older : &q->newest) = n->older;
    *(n->older ? &n->older->newer : &q->oldest) = n->newer;
    q->bytes -= n->bytes;
}

static void unchain(shard *s, node *n)
{
    node **p = &s->bucket[n->hash & (s->nbuckets - 1)];
    while (*p != n)
        p = &(*p)->chain;
    *p = n->chain;
    s->nnodes--;
}

static bool grow(shard *s)
{
    size_t n = s->nbuckets ? s->nbuckets * 2 : 64;
    node **b = calloc(n, sizeof *b);
    if (!b)
        return s->nbuckets != 0; /* longer chains are no failure */
    for (size_t i = 0; i < s->nbuckets; i++)
        for (node *x = s->bucket[i], *next; x; x = next) {
            next = x->chain;
            x->chain = b[x->hash & (n - 1)];
            b[x->hash & (n - 1)] = x;
        }
    free(s->bucket);
    s->bucket = b;
    s->nbuckets = n;
    return true;
}

/* Credit of a result that was dear per byte: 0 .. 2. */
static int credit(const pe_entry *e)
{
    double ns_per_byte = e->compute_s * 1e9 / (double)e->size;
    return ns_per_byte > 1000 ? 2 : ns_per_byte > 50 ? 1 : 0;
}

static bool ghost_take(shard *s, uint64_t hash)
{
    for (size_t i = 0; i < GHOSTS; i++)
        if (s->ghost[i] == hash) {
            s->ghost[i] = 0;
            return true;
        }
    return false;
}

/* Takes the next victim out of the shard; NULL: it is empty. */
static pe_entry *evict(shard *s)
{
    for (;;) {
        queue *q = s->small.oldest && (!s->main.oldest || s->small.bytes * 10 > s->small.bytes + s->main.bytes) ? &s->small
                                                                                                                : &s->main;
        node *n = q->oldest;
        if (!n)
            return NULL;
        take(q, n);
        if (n->use > 0) {
            n->use = q == &s->small ? credit(n->entry) : n->use - 1;
            n->in_main = true;
            push(&s->main, n);
            continue;
        }
        if (q == &s->small)
            s->ghost[s->ghost_at++ % GHOSTS] = n->hash;
        unchain(s, n);
        pe_entry *e = n->entry;
        free(n);
        return e;
    }
}

/* Evicts until what is held and `extra` more fit the budget, or nothing is left to evict. */
static void make_room(pe_cache *c, uint64_t extra)
{
    for (int empty = 0; empty < SHARDS;) {
        uint64_t held = atomic_load(&c->resident) + atomic_load(&c->pinned) + atomic_load(&c->reserved);
        if (held + extra <= c->budget || !atomic_load(&c->resident))
            return;
        shard *s = &c->shard[atomic_fetch_add(&c->turn, 1) % SHARDS];
        pthread_mutex_lock(&s->lock);
        pe_entry *e = evict(s);
        pthread_mutex_unlock(&s->lock);
        if (!e) {
            empty++;
            continue;
        }
        empty = 0;
        uint64_t bytes = atomic_load(&e->charged);
        set_resident(e, false);
        atomic_fetch_sub(&c->entries, 1);
        atomic_fetch_add(&c->evicted, bytes);
        if (c->on_evict)
            c->on_evict(c->user, bytes);
        pe_entry_unref(e);
    }
}

pe_cache *pe_cache_new(uint64_t budget, void (*evicted)(void *user, uint64_t bytes), void *user)
{
    pe_cache *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->budget = budget;
    c->on_evict = evicted;
    c->user = user;
    for (int i = 0; i < SHARDS; i++)
        pthread_mutex_init(&c->shard[i].lock, NULL);
    return c;
}

void pe_cache_free(pe_cache *c)
{
    if (!c)
        return;
    for (int i = 0; i < SHARDS; i++) {
        shard *s = &c->shard[i];
        for (pe_entry *e; (e = evict(s));) {
            set_resident(e, false);
            pe_entry_unref(e);
        }
        free(s->bucket);
        pthread_mutex_destroy(&s->lock);
    }
    free(c);
}

/* ---- look-ups and flights ---- */

static pe_entry *use(node *n)
{
    if (n->use < MAX_USE)
        n->use++;
    pe_entry_ref(n->entry);
    return n->entry;
}

static void wait_on(pe_flight *f, pe_waiter *w)
{
    w->flight = f;
    w->prev = NULL;
    w->next = f->waiters;
    if (w->next)
        w->next->prev = w;
    f->waiters = w;
    f->nwaiters++;
}

static void forget(shard *s, pe_flight *f)
{
    pe_flight **p = &s->flights;
    while (*p != f)
        p = &(*p)->next;
    *p = f->next;
    f->indexed = false;
}

pe_cache_answer pe_cache_begin(pe_cache *c, const char *digest, pe_waiter *w, pe_entry **have, pe_flight **flight)
{
    uint64_t hash = hash_of(digest);
    shard *s = shard_of(c, hash);
    pe_cache_answer answer = PE_CACHE_HAVE;
    *w = (pe_waiter){ .shard = s };
    pthread_mutex_lock(&s->lock);
    node *n = look(s, hash, digest);
    if (n) {
        *have = use(n);
    } else {
        pe_flight *f = s->flights;
        while (f && strcmp(f->digest, digest))
            f = f->next;
        answer = PE_CACHE_WAIT;
        if (!f) {
            answer = PE_CACHE_COMPUTE;
            if ((f = calloc(1, sizeof *f))) {
                memcpy(f->digest, digest, sizeof f->digest);
                f->indexed = true;
                f->next = s->flights;
                s->flights = f;
            } else {
                answer = PE_CACHE_NO_MEMORY;
            }
            *flight = f;
        }
        if (f)
            wait_on(f, w);
    }
    pthread_mutex_unlock(&s->lock);
    return answer;
}

pe_entry *pe_cache_get(pe_cache *c, const char *digest, bool count)
{
    uint64_t hash = hash_of(digest);
    shard *s = shard_of(c, hash);
    pe_entry *e = NULL;
    pthread_mutex_lock(&s->lock);
    node *n = look(s, hash, digest);
    if (n && count)
        e = use(n);
    else if (n)
        pe_entry_ref(e = n->entry);
    pthread_mutex_unlock(&s->lock);
    return e;
}

bool pe_cache_leave(pe_cache *c, pe_waiter *w)
{
    (void)c;
    shard *s = w->shard;
    if (!s) /* it never waited */
        return false;
    pthread_mutex_lock(&s->lock);
    pe_flight *f = w->flight;
    if (f) {
        *(w->prev ? &w->prev->next : &f->waiters) = w->next;
        if (w->next)
            w->next->prev = w->prev;
        w->flight = NULL;
        if (--f->nwaiters == 0) {
            forget(s, f); /* whoever asks from now on computes anew */
            atomic_store(&f->stop, PE_CANCELLED);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return f != NULL;
}

pe_waiter *pe_cache_publish(pe_cache *c, pe_flight *f, pe_entry *e)
{
    uint64_t hash = hash_of(f->digest);
    shard *s = shard_of(c, hash);
    node *n = e && e->size <= c->budget ? calloc(1, sizeof *n) : NULL;
    if (n)
        set_resident(e, true);
    pthread_mutex_lock(&s->lock);
    /* a flight that everybody left may meet its successor's entry here: the first one stays */
    bool insert = n && (s->nnodes < s->nbuckets || grow(s)) && !look(s, hash, f->digest);
    if (insert) {
        pe_entry_ref(e);
        *n = (node){ .entry = e, .hash = hash, .bytes = e->size, .use = credit(e), .in_main = ghost_take(s, hash) };
        n->chain = s->bucket[hash & (s->nbuckets - 1)];
        s->bucket[hash & (s->nbuckets - 1)] = n;
        s->nnodes++;
        push(n->in_main ? &s->main : &s->small, n);
    }
    if (f->indexed)
        forget(s, f);
    pe_waiter *waiters = f->waiters;
    for (pe_waiter *w = waiters; w; w = w->next)
        w->flight = NULL;
    pthread_mutex_unlock(&s->lock);
    if (insert) {
        atomic_fetch_add(&c->entries, 1);
    } else if (n) {
        set_resident(e, false);
        free(n);
    }
    free(f);
    make_room(c, 0);
    return waiters;
}

bool pe_cache_reserve(pe_cache *c, uint64_t bytes)
{
    uint64_t kept; /* what eviction can't free: nothing is evicted for a request that is refused all the same */
    if (__builtin_add_overflow(atomic_load(&c->pinned) + atomic_load(&c->reserved), bytes, &kept) || kept > c->budget)
        return false;
    make_room(c, bytes);
    atomic_fetch_add(&c->reserved, bytes);
    if (atomic_load(&c->reserved) + atomic_load(&c->pinned) + atomic_load(&c->resident) <= c->budget)
        return true;
    atomic_fetch_sub(&c->reserved, bytes);
    return false;
}

void pe_cache_release(pe_cache *c, uint64_t bytes) { atomic_fetch_sub(&c->reserved, bytes); }

void pe_cache_stats_get(pe_cache *c, pe_cache_stats *out)
{
    *out = (pe_cache_stats){ .budget = c->budget,
                             .resident = atomic_load(&c->resident),
                             .pinned = atomic_load(&c->pinned),
                             .reserved = atomic_load(&c->reserved),
                             .entries = atomic_load(&c->entries),
                             .evicted_bytes = atomic_load(&c->evicted) };
}
