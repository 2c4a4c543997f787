/* cache.h - finished results by digest, and the computations that are under way.
 *
 * Thread-safe: every function may be called from any thread; one lock a shard, never held while computing,
 * allocating results, writing or calling back.
 * Ownership: a pe_entry is immutable and counted; who gets one returns it with pe_entry_unref.
 * Not promised: that an entry stays in the cache; only that yours stays valid.
 * Budget: entries with their metadata and representations, plus those evicted but still being sent (pinned). */
#ifndef PE_CACHE_H
#define PE_CACHE_H

#include "posenc.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct pe_cache pe_cache;
typedef struct pe_representation pe_representation;

/* A result: one allocation for header, metadata and tensors. */
typedef struct pe_entry {
    atomic_int refs;
    pe_cache *cache;
    char digest[65];
    const posenc_encoding *encoding;
    const char *params_json;
    posenc_result result;     /* data pointers into this allocation, in wire form */
    uint64_t size;            /* bytes of this allocation */
    _Atomic uint64_t charged; /* size and representations */
    double compute_s;         /* what making it cost */
    pthread_mutex_t lock;     /* guards representations */
    pe_representation *representations;
    atomic_bool resident; /* in the index (otherwise its bytes count as pinned) */
} pe_entry;

/* One container of an entry, made once. */
struct pe_representation {
    pe_representation *next;
    posenc_format format;
    posenc_selection selection;
    posenc_document document;
    char repr_digest[64]; /* "sha-256=:...:" of the bytes */
};

/* An entry with room for r's tensors and a copy of what it needs of r; not yet in the cache. NULL: no memory. */
pe_entry *pe_entry_new(pe_cache *c, const posenc_request *r);
void pe_entry_ref(pe_entry *e);
void pe_entry_unref(void *e); /* NULL is fine; signature of a destructor for responses and slices */
/* The container of a selection. Whole selections are kept with the entry; a slice by rows is made for the caller
 * alone, in *own (zeroed by the caller, freed with pe_representation_free). */
posenc_status pe_entry_write(pe_entry *e, posenc_format f, const posenc_selection *sel, const pe_representation **out,
                             pe_representation **own, posenc_error *err);
void pe_representation_free(pe_representation *r);

/* Who waits for a computation. Embedded by the service in its calls. */
typedef struct pe_waiter {
    struct pe_waiter *next, *prev;
    struct pe_flight *flight; /* NULL when not waiting; guarded by the shard's lock */
    void *shard;              /* set by begin */
} pe_waiter;

/* A computation under way. */
typedef struct pe_flight {
    char digest[65];
    pe_waiter *waiters;
    int nwaiters;
    atomic_int stop; /* posenc_status: set when nobody waits any more */
    bool indexed;    /* later askers find it */
    struct pe_flight *next;
    void *user; /* the service's */
} pe_flight;

typedef enum pe_cache_answer { PE_CACHE_HAVE, PE_CACHE_WAIT, PE_CACHE_COMPUTE, PE_CACHE_NO_MEMORY } pe_cache_answer;

pe_cache *pe_cache_new(uint64_t budget, void (*evicted)(void *user, uint64_t bytes), void *user);
void pe_cache_free(pe_cache *c); /* all entries and flights must have been returned */

/* HAVE: *have is a counted entry. WAIT: w waits on a flight. COMPUTE: *flight is new, w waits on it, the caller computes and
 * publishes. */
pe_cache_answer pe_cache_begin(pe_cache *c, const char *digest, pe_waiter *w, pe_entry **have, pe_flight **flight);
pe_entry *pe_cache_get(pe_cache *c, const char *digest, bool count); /* counted, or NULL; count: it is a use */
/* w no longer waits. False: it was not waiting any more (published already). The last one to leave stops the flight. */
bool pe_cache_leave(pe_cache *c, pe_waiter *w);
/* Ends the flight: later askers find `e` (NULL: a failure, they compute anew).
 * Returns the waiters, linked by next, each with flight NULL; frees the flight. The caller keeps its reference to e. */
pe_waiter *pe_cache_publish(pe_cache *c, pe_flight *f, pe_entry *e);

/* Room for a computation: evicts until resident + pinned + reserved fits the budget. False: it does not fit now. */
bool pe_cache_reserve(pe_cache *c, uint64_t bytes);
void pe_cache_release(pe_cache *c, uint64_t bytes);

typedef struct pe_cache_stats {
    uint64_t budget, resident, pinned, reserved, entries, evicted_bytes;
} pe_cache_stats;
void pe_cache_stats_get(pe_cache *c, pe_cache_stats *out);

#endif
