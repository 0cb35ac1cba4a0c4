/* As much of NCCL as the CUDA module calls, between threads of one process: libnccl.so.2 where the emulated device is
 * tested. A call is done when it returns, but for the meeting, which is in progress until all ranks came. Calls of a
 * group are put off to its end. What NCCL forbids or leaves undefined ends the program. */
#include "base/half.h"

#include <nccl.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 16, GROUPED = 64 };

enum kind { SCATTER, GATHER, REDUCE, BROADCAST, SEND, RECEIVE };

struct call {
    enum kind kind;
    const void *from;
    void *to;
    size_t bytes; /* of a slice */
    int root;
    ncclComm_t comm;
    ncclDataType_t type;
};

/* State shared by the ranks of a communicator. */
struct meeting {
    struct meeting *next;
    ncclUniqueId id;
    int size, arrived;
    pthread_barrier_t together;
    struct call calls[RANKS];
    const void *sent[RANKS][RANKS]; /* [from][to], of the group that is run */
};

struct ncclComm {
    struct meeting *meeting;
    int rank;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct meeting *meetings;
static int ids;
static _Thread_local struct call grouped[GROUPED];
static _Thread_local int group_depth, group_count;

static void insist(int ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "emulated NCCL: %s\n", what);
    abort();
}

const char *ncclGetErrorString(ncclResult_t result) {
    return result == ncclSuccess ? "no error" : "an emulated error";
}
ncclResult_t ncclGetVersion(int *version) {
    *version = getenv("ZT_EMULATED_NCCL") ? atoi(getenv("ZT_EMULATED_NCCL")) : NCCL_VERSION_CODE;
    return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    pthread_mutex_lock(&lock);
    snprintf(id->internal, sizeof id->internal, "emulated %d", ++ids);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *to, int size, ncclUniqueId id, int rank, ncclConfig_t *config) {
    insist(config->blocking == 0 && size <= RANKS && rank >= 0 && rank < size, "not a meeting of this kind");
    pthread_mutex_lock(&lock);
    struct meeting *m = meetings;
    while (m && memcmp(&m->id, &id, sizeof id) != 0)
        m = m->next;
    if (!m) {
        m = calloc(1, sizeof *m);
        *m = (struct meeting){ .next = meetings, .id = id, .size = size };
        pthread_barrier_init(&m->together, NULL, (unsigned)size);
        meetings = m;
    }
    m->arrived++;
    pthread_mutex_unlock(&lock);
    *to = calloc(1, sizeof **to);
    **to = (struct ncclComm){ m, rank };
    return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result) {
    pthread_mutex_lock(&lock);
    *result = comm->meeting->arrived < comm->meeting->size ? ncclInProgress : ncclSuccess;
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    (void)comm;
    return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    free(comm);
    return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    return ncclCommDestroy(comm);
}

/* The sum over ranks of slice `at` (bytes) of what each gave, or a copy of a rank's. */
static void sum_floats(const struct meeting *m, float *to, size_t at, size_t bytes) {
    size_t count = bytes / sizeof *to;
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (int r = 0; r < m->size; r++)
            sum += ((const float *)(const void *)((const char *)m->calls[r].from + at))[i];
        to[i] = sum;
    }
}

static uint16_t add_halves(uint16_t a, uint16_t b, int fp16) {
    return fp16 ? zt_float_to_half(zt_half_to_float(a) + zt_half_to_float(b))
                : zt_float_to_bfloat(zt_bfloat_to_float(a) + zt_bfloat_to_float(b));
}

static void take_sum(const struct call *c, void *to, size_t at) {
    const struct meeting *m = c->comm->meeting;
    if (c->type == ncclFloat) {
        sum_floats(m, to, at, c->bytes);
        return;
    }
    for (size_t i = 0; i < c->bytes / 2; i++) {
        uint16_t sum = 0;
        for (int r = 0; r < m->size; r++)
            sum = add_halves(sum, ((const uint16_t *)(const void *)((const char *)m->calls[r].from + at))[i],
                             c->type == ncclFloat16);
        ((uint16_t *)to)[i] = sum;
    }
}

static void work(const struct call *c, char *result) {
    const struct meeting *m = c->comm->meeting;
    int me = c->comm->rank;
    if (c->kind == SCATTER)
        take_sum(c, result, (size_t)me * c->bytes);
    if (c->kind == REDUCE && me == c->root)
        take_sum(c, result, 0);
    if (c->kind == BROADCAST)
        memcpy(result, m->calls[c->root].from, c->bytes);
    if (c->kind == RECEIVE)
        memcpy(result, m->sent[c->root][me], c->bytes);
    for (int r = 0; c->kind == GATHER && r < m->size; r++)
        memcpy(result + (size_t)r * c->bytes, m->calls[r].from, c->bytes);
}

/* Results are made aside and put in place when everybody has read: calls may be in place. */
static void run(const struct call *c) {
    struct meeting *m = c->comm->meeting;
    size_t bytes = c->bytes * (size_t)(c->kind == GATHER ? m->size : 1);
    char *result = malloc(bytes + 1);
    insist(m->arrived == m->size, "a call before the ranks have met");
    m->calls[c->comm->rank] = *c;
    if (c->kind == SEND)
        m->sent[c->comm->rank][c->root] = c->from;
    pthread_barrier_wait(&m->together);
    for (int r = 0; r < m->size; r++)
        insist(m->calls[r].kind == c->kind && m->calls[r].bytes == c->bytes && m->calls[r].root == c->root,
               "ranks differ in their calls");
    work(c, result);
    pthread_barrier_wait(&m->together);
    if (c->kind != SEND && (c->kind != REDUCE || c->comm->rank == c->root))
        memcpy(c->to, result, bytes);
    pthread_barrier_wait(&m->together);
    free(result);
}

static ncclResult_t queue(struct call c) {
    insist(!group_depth || group_count < GROUPED, "too many calls in a group");
    if (group_depth)
        grouped[group_count++] = c;
    else
        run(&c);
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void) {
    group_depth++;
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd(void) {
    if (--group_depth > 0)
        return ncclSuccess;
    for (int sends = 1; sends >= 0; sends--) /* what is received has been sent, whatever the order in the group */
        for (int i = 0; i < group_count; i++)
            if ((grouped[i].kind == SEND) == sends)
                run(&grouped[i]);
    group_count = 0;
    return ncclSuccess;
}

static size_t bytes_of(size_t count, ncclDataType_t type) {
    insist(type == ncclFloat || type == ncclUint8 || type == ncclFloat16 || type == ncclBfloat16, "another type");
    return count * (type == ncclFloat ? sizeof(float) : type == ncclUint8 ? 1 : 2);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
    (void)stream;
    insist(type != ncclUint8 && op == ncclSum, "another sum");
    return queue((struct call){ SCATTER, from, to, bytes_of(count, type), 0, comm, type });
}
ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
    (void)stream;
    return queue((struct call){ GATHER, from, to, bytes_of(count, type), 0, comm, type });
}
ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
    (void)stream;
    insist(type != ncclUint8 && op == ncclSum, "another sum");
    return queue((struct call){ REDUCE, from, to, bytes_of(count, type), root, comm, type });
}
ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
    (void)stream;
    return queue((struct call){ BROADCAST, from, to, bytes_of(count, type), root, comm, type });
}
ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    (void)stream;
    insist(group_depth > 0, "a message outside a group");
    return queue((struct call){ SEND, from, NULL, bytes_of(count, type), peer, comm });
}
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
    (void)stream;
    insist(group_depth > 0, "a message outside a group");
    return queue((struct call){ RECEIVE, NULL, to, bytes_of(count, type), peer, comm });
}
