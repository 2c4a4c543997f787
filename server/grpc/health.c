/* health.c - grpc.health.v1: is the server ready, now (Check) and from now on (Watch). */
#include "grpc/call.h"

#include "grpc/health/v1/health.pb-c.h"

#include <grpc/slice.h>
#include <string.h>

#define STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name

enum { MAX_REQUEST = 4096 };

static int status_now(pe_grpc *g) { return pe_service_ready(g->s, NULL, 0) ? STATUS(SERVING) : STATUS(NOT_SERVING); }

static bool is_service(const char *name)
{
    bool known = !*name; /* the server as a whole */
    for (int i = 0; i < PE_UNKNOWN_METHOD; i++)
        known |= !strcmp(pe_methods[i].service, name);
    return known;
}

static grpc_byte_buffer *response(int status)
{
    Grpc__Health__V1__HealthCheckResponse m = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    m.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)status;
    return pe_rpc_pack(&m.base);
}

/* The service asked for; NULL, with the call answered, when the message is not one. Free it. */
static Grpc__Health__V1__HealthCheckRequest *read_request(pe_rpc *c)
{
    grpc_slice hold;
    size_t size;
    const void *bytes = pe_rpc_bytes(c->request, &hold, &size);
    Grpc__Health__V1__HealthCheckRequest *m = bytes && size <= MAX_REQUEST
                                                  ? grpc__health__v1__health_check_request__unpack(NULL, size, bytes)
                                                  : NULL;
    grpc_slice_unref(hold);
    return m;
}

static void bad_request(posenc_error *err)
{
    posenc_fail(err, PE_INVALID, "INVALID_MESSAGE", "request", "", "a serialized grpc.health.v1.HealthCheckRequest");
}

void pe_health_check(pe_rpc *c)
{
    posenc_error err = { 0 };
    Grpc__Health__V1__HealthCheckRequest *m = read_request(c);
    if (!m)
        bad_request(&err);
    else if (!is_service(m->service))
        posenc_fail(&err, PE_NOT_FOUND, "SERVICE_NOT_FOUND", "service", m->service,
                    "\"\" or a service that reflection lists");
    if (m)
        grpc__health__v1__health_check_request__free_unpacked(m, NULL);
    pe_rpc_reply(c, err.n ? NULL : response(status_now(c->g)), err.n ? &err : NULL, 0);
}

static void told(pe_rpc *c, bool ok);

/* Says the status if the client knows another one. While a message is on its way `told` looks again. The status is asked
 * for under the lock: of two threads that tell, the later one says the later status. */
static void tell(pe_rpc *c)
{
    pthread_mutex_lock(&c->g->lock);
    int status = c->known ? status_now(c->g) : STATUS(SERVICE_UNKNOWN);
    bool send = c->ready && c->told != status && pe_rpc_begin_send(c);
    if (send)
        c->told = status;
    pthread_mutex_unlock(&c->g->lock);
    if (send)
        pe_rpc_send(c, response(status), told);
}

static void told(pe_rpc *c, bool ok)
{
    pe_rpc_sent(c, ok);
    if (ok)
        tell(c);
}

void pe_health_watch(pe_rpc *c)
{
    posenc_error err = { 0 };
    Grpc__Health__V1__HealthCheckRequest *m = read_request(c);
    if (!m) {
        bad_request(&err);
        pe_rpc_end(c, &err);
        return;
    }
    bool known = is_service(m->service);
    grpc__health__v1__health_check_request__free_unpacked(m, NULL);
    pthread_mutex_lock(&c->g->lock);
    c->known = known;
    c->told = -1;
    c->ready = true; /* the call can be seen since it began: until now nobody tells it anything */
    bool quiet = c->g->quiet;
    pthread_mutex_unlock(&c->g->lock);
    tell(c);
    pe_rpc_watch(c);
    if (quiet) /* otherwise whoever makes it quiet finds this call */
        pe_rpc_end(c, NULL);
}

void pe_health_tell(pe_grpc *g)
{
    for (pe_rpc *c = pe_rpc_next(g, NULL); c; c = pe_rpc_next(g, c))
        if (c->method == PE_WATCH)
            tell(c);
}
