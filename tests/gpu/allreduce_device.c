/* All-reduce (reduce_scatter + all_gather) of data on GPUs between ranks that are threads: a tool, no test, since it is
 * about time.
 *
 *     allreduce_device FOLDER [RANKS [BYTES ...]]
 *
 * FOLDER holds ztrain-cuda.so; 2 ranks take the GPUs of this host in turn, and share one where there is only one. A
 * line for each size and communicator: {"communicator": "nccl", "ranks": 2, "bytes": N, "ms": median of the slowest
 * rank, "gb_per_s": N over that}. NCCL is left out, with the reason on stderr, where it cannot be had. Sums are
 * checked. */
#include "base/clock.h"
#include "base/sort.h"
#include "base/thread.h"
#include "device/module.h"
#include "parallel/comm/comm.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 16, ROUNDS = 9, MOST_SIZES = 16 };

struct bench {
    const char *folder;
    int64_t bytes[MOST_SIZES];
    int sizes, ranks;
};

struct rank {
    const struct bench *bench;
    pthread_t thread;
    struct zt_comm *host;
    int number;
    struct zt_err err;
    bool ok;
};

/* A tensor on the device, and how it is divided. */
struct buffer {
    struct zt_device *device;
    float *data;
    int64_t count, bound[MOST + 1];
};

static bool all_reduce(struct zt_comm *c, struct buffer *b, struct zt_err *err) {
    return c->api->reduce_scatter(c, b->data, b->bound, err) &&
           c->api->all_gather(c, b->data, b->bound, sizeof *b->data, err) &&
           b->device->api->synchronize(b->device, err);
}

/* Seconds of the slowest rank. */
static bool time_round(struct zt_comm *c, struct zt_comm *host, struct buffer *b, double *to, struct zt_err *err) {
    double own[MOST] = { 0 };
    if (!host->api->barrier(host, err))
        return false;
    double began = zt_now();
    if (!all_reduce(c, b, err))
        return false;
    own[host->rank] = zt_now() - began;
    if (!host->api->sum(host, own, host->size, err))
        return false;
    zt_sort_doubles(own, host->size);
    *to = own[host->size - 1];
    return true;
}

/* Every rank gives 1 + its number at both ends of the tensor. */
static bool sums(struct zt_comm *c, struct buffer *b, struct zt_err *err) {
    const struct zt_device_api *api = b->device->api;
    float own = (float)(c->rank + 1), wanted = (float)(c->size * (c->size + 1)) / 2, ends[2] = { 0 };
    bool ok = api->to_device(b->device, b->data, &own, sizeof own, err) &&
              api->to_device(b->device, b->data + b->count - 1, &own, sizeof own, err) && all_reduce(c, b, err) &&
              api->to_host(b->device, &ends[0], b->data, sizeof own, err) &&
              api->to_host(b->device, &ends[1], b->data + b->count - 1, sizeof own, err) &&
              api->zero(b->device, b->data, (size_t)b->count * sizeof own, err) && api->synchronize(b->device, err);
    if (ok && (ends[0] != wanted || ends[1] != wanted))
        return zt_fail(err, ZT_EXIT_RUN, "%s: the sum of all ranks is %g and %g, wants %g", c->api->name, ends[0],
                       ends[1], wanted);
    return ok;
}

static bool measure(struct zt_comm *c, struct zt_comm *host, struct buffer *b, struct zt_err *err) {
    double rounds[ROUNDS];
    if (!sums(c, b, err))
        return false;
    for (int i = 0; i < ROUNDS; i++)
        if (!time_round(c, host, b, &rounds[i], err))
            return false;
    zt_sort_doubles(rounds, ROUNDS);
    double seconds = rounds[ROUNDS / 2], bytes = (double)b->count * sizeof *b->data;
    if (c->rank == 0)
        printf("{\"communicator\": \"%s\", \"ranks\": %d, \"bytes\": %.0f, \"ms\": %.4f, \"gb_per_s\": %.2f}\n",
               c->api->name, c->size, bytes, seconds * 1e3, bytes / seconds * 1e-9);
    fflush(stdout);
    return true;
}

static bool measure_sizes(struct rank *r, struct zt_device *device, struct zt_comm *c) {
    for (int i = 0; i < r->bench->sizes; i++) {
        struct buffer b = { .device = device, .count = r->bench->bytes[i] / (int64_t)sizeof *b.data };
        for (int k = 0; k <= c->size; k++)
            b.bound[k] = b.count * k / c->size;
        size_t bytes = (size_t)b.count * sizeof *b.data;
        b.data = device->api->allocate(device, bytes, "tensor", &r->err);
        bool ok = b.data && measure(c, r->host, &b, &r->err);
        if (b.data)
            device->api->free(device, b.data, bytes);
        if (!ok)
            return false;
    }
    return true;
}

static bool run(struct rank *r, struct zt_device *device, struct zt_comm *staged) {
    struct zt_err why = { 0 };
    if (!measure_sizes(r, device, staged))
        return false;
    struct zt_comm *nccl = device->module->nccl(device, staged, r->host, &why);
    if (!nccl && r->number == 0)
        zt_err_print(&why, stderr);
    bool ok = !nccl || measure_sizes(r, device, nccl);
    if (nccl)
        nccl->api->destroy(nccl);
    return ok;
}

static void *run_rank(void *arg) {
    struct rank *r = arg;
    struct zt_device *device = zt_module_device(r->bench->folder, r->number, 1, &r->err);
    struct zt_comm *staged = device ? zt_comm_staged_create(r->host, device, false) : NULL;
    r->ok = staged && run(r, device, staged);
    if (!r->ok)
        r->host->api->abort(r->host, "a rank of the benchmark failed");
    if (staged)
        staged->api->destroy(staged);
    r->host->api->destroy(r->host);
    if (device)
        device->api->destroy(device);
    return NULL;
}

static bool read_arguments(int argc, char **argv, struct bench *b) {
    *b = (struct bench){ .folder = argc > 1 ? argv[1] : "", .ranks = argc > 2 ? atoi(argv[2]) : 2 };
    for (int i = 3; i < argc && b->sizes < MOST_SIZES; i++)
        b->bytes[b->sizes++] = atoll(argv[i]);
    if (argc <= 3) {
        b->bytes[0] = 1300000;
        b->bytes[1] = 2600000;
        b->bytes[2] = 500000000;
        b->sizes = 3;
    }
    for (int i = 0; i < b->sizes; i++)
        if (b->bytes[i] < (int64_t)sizeof(float) || b->bytes[i] > INT64_C(1) << 36)
            return false;
    return argc > 1 && b->ranks > 0 && b->ranks <= MOST;
}

int main(int argc, char **argv) {
    struct bench bench;
    struct rank ranks[MOST];
    struct zt_comm *hosts[MOST];
    struct zt_err err = { 0 };
    if (!read_arguments(argc, argv, &bench)) {
        fprintf(stderr, "usage: allreduce_device FOLDER [RANKS [BYTES ...]]\n");
        return 2;
    }
    if (!zt_comm_thread_create(bench.ranks, hosts, &err)) {
        zt_err_print(&err, stderr);
        return 1;
    }
    bool ok = true;
    for (int i = 0; i < bench.ranks; i++) {
        ranks[i] = (struct rank){ .bench = &bench, .host = hosts[i], .number = i };
        ok &= zt_thread_start(&ranks[i].thread, run_rank, &ranks[i]) == 0;
    }
    for (int i = 0; ok && i < bench.ranks; i++)
        pthread_join(ranks[i].thread, NULL);
    for (int i = 0; ok && i < bench.ranks; i++)
        if (!ranks[i].ok)
            zt_err_print(&ranks[i].err, stderr);
    for (int i = 0; ok && i < bench.ranks; i++)
        ok = ranks[i].ok;
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
