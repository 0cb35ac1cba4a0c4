/* Communicator of GPUs over NCCL. Collectives run on a side stream, beside the kernels of the compute stream:
 *
 *     compute   ... backward of bucket 2 | backward of bucket 1 |      wait | update
 *     side                     wait | sum of bucket 2 | sum of bucket 1 |
 *
 * start makes the side stream wait for all work queued so far and queues the collective. wait makes the compute stream
 * wait for the collective. The host waits in neither. Slices of equal length use NCCL's reduce-scatter and all-gather;
 * slices of different lengths use a group of reductions to each owner, or of broadcasts from each owner.
 *
 * The NCCL communicator is non-blocking: every call is polled until it is no longer in progress, and poll asks for
 * asynchronous errors. After an error, or after an abort of the host communicator, the NCCL communicator is aborted, so
 * that none of its kernels waits for a lost peer. Scalars, barriers and messages use the staged communicator: pipelines
 * need buffered messages, which NCCL does not have.
 *
 * NCCL computes the sums: they have the same bits in every run, but not the bits of the other communicators. */
#include "parallel/comm/nccl.h"

#include "base/arena.h"
#include "base/clock.h"
#include "device/cuda.h"

#include <nccl.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OLDEST = NCCL_VERSION(2, 18, 0), EVENTS = 64, MOST_SECONDS = 60, LAST_SECONDS = 3 };

/* The functions in use. The library stays open until the process ends. */
#define FUNCTIONS(F)                                                                                                   \
    F(ncclGetVersion)                                                                                                  \
    F(ncclGetUniqueId)                                                                                                 \
    F(ncclGetErrorString)                                                                                              \
    F(ncclCommInitRankConfig)                                                                                          \
    F(ncclCommGetAsyncError)                                                                                           \
    F(ncclCommFinalize)                                                                                                \
    F(ncclCommDestroy)                                                                                                 \
    F(ncclCommAbort)                                                                                                   \
    F(ncclReduceScatter)                                                                                               \
    F(ncclAllGather)                                                                                                   \
    F(ncclReduce)                                                                                                      \
    F(ncclBroadcast)                                                                                                   \
    F(ncclSend)                                                                                                        \
    F(ncclRecv)                                                                                                        \
    F(ncclGroupStart)                                                                                                  \
    F(ncclGroupEnd)

struct library {
#define FIELD(name) __typeof__(name) *name;
    FUNCTIONS(FIELD)
#undef FIELD
};

struct nccl_comm {
    struct zt_comm base;
    struct zt_comm *staged, *host; /* borrowed */
    struct zt_device *device;
    struct CUstream_st *compute, *side;
    struct library lib;
    ncclComm_t nccl; /* NULL: aborted or not created */
    struct zt_event
        *event[EVENTS]; /* the ends of the last EVENTS collectives; a reused event is later than the end it replaces */
    int64_t started;
};

static struct nccl_comm *down(struct zt_comm *c) {
    return (struct nccl_comm *)c;
}

/* ---- the library ---- */

static bool find_functions(struct library *lib, struct zt_err *err) {
    void *handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        zt_fail(err, ZT_EXIT_RUN, "communicator nccl: the library cannot be loaded: %s", dlerror());
        return zt_hint(err, "install NCCL 2 for CUDA 13, or put its folder into LD_LIBRARY_PATH");
    }
#define FIND(name)                                                                                                     \
    if (!(*(void **)&lib->name = dlsym(handle, #name)))                                                                \
        return zt_fail(err, ZT_EXIT_RUN, "communicator nccl: the library has no function " #name);
    FUNCTIONS(FIND)
#undef FIND
    return true;
}

static bool open_library(struct library *lib, struct zt_err *err) {
    int version = 0;
    if (!find_functions(lib, err))
        return false;
    ncclResult_t result = lib->ncclGetVersion(&version);
    if (result != ncclSuccess)
        return zt_fail(err, ZT_EXIT_RUN, "communicator nccl: %s", lib->ncclGetErrorString(result));
    return version >= OLDEST || zt_fail(err, ZT_EXIT_RUN, "communicator nccl: version %d.%d, wants 2.18 or newer",
                                        version / 10000, version / 100 % 100);
}

/* ---- polling calls ---- */

static void drop(struct nccl_comm *c) {
    if (c->nccl)
        c->lib.ncclCommAbort(c->nccl);
    c->nccl = NULL;
}

static bool failed(struct nccl_comm *c, ncclResult_t result, const char *doing, struct zt_err *err) {
    drop(c);
    return zt_fail(err, ZT_EXIT_RANK, "rank %d: NCCL: %s: %s", c->base.rank, doing, c->lib.ncclGetErrorString(result));
}

static void pause_shortly(void) {
    nanosleep(&(struct timespec){ 0, 100000 }, NULL);
}

enum { POLLS = 1000 }; /* without a sleep in between */

/* Waits for the end of a call in progress. The host communicator reports lost ranks meanwhile. */
static bool settle_within(struct nccl_comm *c, ncclResult_t result, int seconds, const char *doing,
                          struct zt_err *err) {
    double began = zt_now();
    for (int polled = 0; result == ncclInProgress; polled++) {
        if (!c->host->api->poll(c->host, err)) {
            drop(c);
            return false;
        }
        if (zt_now() - began > seconds) {
            drop(c);
            return zt_fail(err, ZT_EXIT_RANK, "rank %d: NCCL: %s: no answer within %d seconds", c->base.rank, doing,
                           seconds);
        }
        if (polled < POLLS)
            zt_comm_pause();
        else
            pause_shortly();
        if (c->lib.ncclCommGetAsyncError(c->nccl, &result) != ncclSuccess)
            result = ncclInternalError;
    }
    return result == ncclSuccess || failed(c, result, doing, err);
}

static bool settle(struct nccl_comm *c, ncclResult_t result, const char *doing, struct zt_err *err) {
    return settle_within(c, result, MOST_SECONDS, doing, err);
}

static bool alive(struct nccl_comm *c, struct zt_err *err) {
    return c->nccl || zt_fail(err, ZT_EXIT_RANK, "rank %d: NCCL was aborted", c->base.rank);
}

/* ---- collectives ---- */

static int64_t length(const struct zt_transfer *t, int rank) {
    return t->bound[rank + 1] - t->bound[rank];
}

static bool even(const struct zt_transfer *t, int size) {
    int r = 1;
    while (r < size && length(t, r) == length(t, 0))
        r++;
    return r == size;
}

static char *slice(const struct zt_transfer *t, int rank) {
    return (char *)t->data + (size_t)t->bound[rank] * t->bytes_per_element;
}

static ncclDataType_t type_of_sum(const struct zt_transfer *t) {
    return t->dtype == ZT_FLOAT16 ? ncclFloat16 : t->dtype == ZT_BFLOAT16 ? ncclBfloat16 : ncclFloat;
}

static ncclResult_t scatter(struct nccl_comm *c, const struct zt_transfer *t) {
    const ncclDataType_t type = type_of_sum(t);
    if (even(t, c->base.size))
        return c->lib.ncclReduceScatter(t->data, slice(t, c->base.rank), (size_t)length(t, 0), type, ncclSum, c->nccl,
                                        c->side);
    ncclResult_t result = c->lib.ncclGroupStart();
    for (int r = 0; r < c->base.size && (result == ncclSuccess || result == ncclInProgress); r++)
        if (length(t, r) > 0)
            result =
                c->lib.ncclReduce(slice(t, r), slice(t, r), (size_t)length(t, r), type, ncclSum, r, c->nccl, c->side);
    ncclResult_t end = c->lib.ncclGroupEnd();
    return result == ncclSuccess || result == ncclInProgress ? end : result;
}

static ncclResult_t gather(struct nccl_comm *c, const struct zt_transfer *t) {
    size_t width = t->bytes_per_element;
    if (even(t, c->base.size))
        return c->lib.ncclAllGather(slice(t, c->base.rank), t->data, (size_t)length(t, 0) * width, ncclUint8, c->nccl,
                                    c->side);
    ncclResult_t result = c->lib.ncclGroupStart();
    for (int r = 0; r < c->base.size && (result == ncclSuccess || result == ncclInProgress); r++)
        if (length(t, r) > 0)
            result = c->lib.ncclBroadcast(slice(t, r), slice(t, r), (size_t)length(t, r) * width, ncclUint8, r, c->nccl,
                                          c->side);
    ncclResult_t end = c->lib.ncclGroupEnd();
    return result == ncclSuccess || result == ncclInProgress ? end : result;
}

static bool nccl_start(struct zt_comm *base, struct zt_transfer *t, struct zt_err *err) {
    struct nccl_comm *c = down(base);
    bool sums = t->kind == ZT_REDUCE_SCATTER;
    t->done = false;
    if (!alive(c, err) || !zt_cuda_order(c->device, c->compute, c->side, err))
        return false;
    if (!settle(c, sums ? scatter(c, t) : gather(c, t), sums ? "reduce_scatter" : "all_gather", err))
        return false;
    t->row.round = c->started++ % EVENTS;
    return zt_cuda_mark(c->device, c->side, c->event[t->row.round], err);
}

static bool nccl_poll(struct zt_comm *base, struct zt_err *err) {
    struct nccl_comm *c = down(base);
    ncclResult_t result = ncclSuccess;
    if (!c->host->api->poll(c->host, err)) {
        drop(c);
        return false;
    }
    if (!alive(c, err))
        return false;
    if (c->lib.ncclCommGetAsyncError(c->nccl, &result) != ncclSuccess)
        result = ncclInternalError;
    return result == ncclSuccess || result == ncclInProgress || failed(c, result, "a collective", err);
}

/* Work queued after this call sees the result. The host does not wait. */
static bool nccl_wait(struct zt_comm *base, struct zt_transfer *t, struct zt_err *err) {
    struct nccl_comm *c = down(base);
    if (!nccl_poll(base, err) || (!t->done && !zt_cuda_await(c->device, c->compute, c->event[t->row.round], err)))
        return false;
    return t->done = true;
}

static bool nccl_broadcast(struct zt_comm *base, void *data, size_t bytes, int root, struct zt_err *err) {
    struct nccl_comm *c = down(base);
    return zt_comm_check_root(base, root, err) && alive(c, err) && zt_cuda_order(c->device, c->compute, c->side, err) &&
           settle(c, c->lib.ncclBroadcast(data, data, bytes, ncclUint8, root, c->nccl, c->side), "broadcast", err) &&
           zt_cuda_order(c->device, c->side, c->compute, err);
}

/* One group: NCCL waits for no message before another of it. */
static ncclResult_t exchange(struct nccl_comm *c, const char *from, char *to, size_t bytes) {
    ncclResult_t result = c->lib.ncclGroupStart();
    for (int r = 0; r < c->base.size && (result == ncclSuccess || result == ncclInProgress); r++) {
        result = c->lib.ncclSend(from + (size_t)r * bytes, bytes, ncclUint8, r, c->nccl, c->side);
        if (result == ncclSuccess || result == ncclInProgress)
            result = c->lib.ncclRecv(to + (size_t)r * bytes, bytes, ncclUint8, r, c->nccl, c->side);
    }
    ncclResult_t end = c->lib.ncclGroupEnd();
    return result == ncclSuccess || result == ncclInProgress ? end : result;
}

static bool nccl_all_to_all(struct zt_comm *base, const void *from, void *to, size_t bytes, struct zt_err *err) {
    struct nccl_comm *c = down(base);
    return alive(c, err) && zt_cuda_order(c->device, c->compute, c->side, err) &&
           settle(c, exchange(c, from, to, bytes), "all_to_all", err) &&
           zt_cuda_order(c->device, c->side, c->compute, err);
}

/* ---- calls of the host and staged communicators ---- */

static bool or_drop(struct nccl_comm *c, bool well) {
    if (!well)
        drop(c);
    return well;
}

static bool nccl_sum(struct zt_comm *c, double *values, int count, struct zt_err *err) {
    return or_drop(down(c), down(c)->host->api->sum(down(c)->host, values, count, err));
}

static bool nccl_barrier(struct zt_comm *c, struct zt_err *err) {
    return or_drop(down(c), down(c)->host->api->barrier(down(c)->host, err));
}

static bool nccl_send(struct zt_comm *c, const void *data, size_t bytes, int to, struct zt_err *err) {
    return or_drop(down(c), down(c)->staged->api->send(down(c)->staged, data, bytes, to, err));
}

static bool nccl_recv(struct zt_comm *c, void *data, size_t bytes, int from, struct zt_err *err) {
    return or_drop(down(c), down(c)->staged->api->recv(down(c)->staged, data, bytes, from, err));
}

static struct zt_comm *nccl_split(struct zt_comm *c, int color, struct zt_err *err) {
    (void)c, (void)color;
    zt_fail(err, ZT_EXIT_RUN, "communicator nccl: it is made of a part, not split");
    return NULL;
}

static void nccl_abort(struct zt_comm *c, const char *why) {
    drop(down(c));
    down(c)->staged->api->abort(down(c)->staged, why);
}

static void nccl_destroy(struct zt_comm *base) {
    struct nccl_comm *c = down(base);
    struct zt_err ignored = { 0 };
    if (!c)
        return;
    if (c->nccl && settle_within(c, c->lib.ncclCommFinalize(c->nccl), LAST_SECONDS, "ending", &ignored))
        c->lib.ncclCommDestroy(c->nccl);
    for (int i = 0; i < EVENTS; i++)
        if (c->event[i])
            c->device->api->event_destroy(c->device, c->event[i]);
    free(c);
}

static const struct zt_comm_api nccl_api = {
    .name = "nccl",
    .reduce_scatter = zt_comm_reduce_scatter,
    .all_gather = zt_comm_all_gather,
    .start = nccl_start,
    .poll = nccl_poll,
    .wait = nccl_wait,
    .share = zt_comm_share_nothing,
    .unshare = zt_comm_unshare_nothing,
    .broadcast = nccl_broadcast,
    .sum = nccl_sum,
    .barrier = nccl_barrier,
    .send = nccl_send,
    .recv = nccl_recv,
    .all_to_all = nccl_all_to_all,
    .split = nccl_split,
    .abort = nccl_abort,
    .destroy = nccl_destroy,
};

/* ---- creation ---- */

/* Each rank's GPU and state, exchanged before and after the communicator is created. */
struct card {
    unsigned char gpu[16];
    int32_t well;
};

/* Whether NCCL accepts several ranks on one GPU: from 2.30 on, if the environment variable asks for it. */
static bool shares_gpus(const struct nccl_comm *c) {
    const char *asked = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    int version = 0;
    return asked && strcmp(asked, "1") == 0 && c->lib.ncclGetVersion &&
           c->lib.ncclGetVersion(&version) == ncclSuccess && version >= NCCL_VERSION(2, 30, 0);
}

/* Whether every rank is `well` and has a separate GPU; the error names the first rank for which this is false. */
static bool agree(struct nccl_comm *c, bool well, struct zt_err *err) {
    int size = c->base.size;
    struct card *cards = zt_calloc((size_t)size, sizeof *cards), *mine = &cards[c->base.rank];
    zt_cuda_identity(c->device, mine->gpu);
    mine->well = well;
    bool shared = shares_gpus(c), ok = zt_comm_exchange(c->host, cards, sizeof *cards, err);
    for (int r = 0; ok && r < size; r++) {
        if (!cards[r].well && well)
            ok = zt_fail(err, ZT_EXIT_RUN, "communicator nccl: rank %d has none", r);
        for (int k = 0; ok && !shared && k < r; k++)
            if (memcmp(cards[k].gpu, cards[r].gpu, sizeof cards[r].gpu) == 0)
                ok = zt_fail(err, ZT_EXIT_RUN, "communicator nccl: ranks %d and %d have the same GPU", k, r);
    }
    free(cards);
    return ok && well;
}

/* Creates the NCCL communicator on all ranks or fails on all: a rank that failed alone would leave the others waiting.
 */
static bool meet(struct nccl_comm *c, bool well, struct zt_err *err) {
    ncclUniqueId id = { { 0 } };
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    well = well && open_library(&c->lib, err);
    ncclResult_t result = well && c->base.rank == 0 ? c->lib.ncclGetUniqueId(&id) : ncclSuccess;
    if (result != ncclSuccess)
        well = zt_fail(err, ZT_EXIT_RUN, "communicator nccl: %s", c->lib.ncclGetErrorString(result));
    if (!agree(c, well, err) || !c->host->api->broadcast(c->host, &id, sizeof id, 0, err))
        return false;
    config.blocking = 0;
    result = c->lib.ncclCommInitRankConfig(&c->nccl, c->base.size, id, c->base.rank, &config);
    return agree(c, settle(c, result, "meeting", err), err);
}

struct zt_comm *zt_comm_nccl_create(struct zt_device *device, struct zt_comm *staged, struct zt_comm *host,
                                    struct zt_err *err) {
    struct nccl_comm *c = zt_calloc(1, sizeof *c);
    c->base = (struct zt_comm){ .api = &nccl_api, .rank = host->rank, .size = host->size, .status = host->status };
    c->staged = staged;
    c->host = host;
    c->device = device;
    c->compute = zt_cuda_stream(device);
    bool ok = (c->side = zt_cuda_side_stream(device, err)) != NULL;
    for (int i = 0; ok && i < EVENTS; i++)
        ok = (c->event[i] = device->api->event_create(device, err)) != NULL;
    if (meet(c, ok, err))
        return &c->base;
    nccl_destroy(&c->base);
    return NULL;
}
