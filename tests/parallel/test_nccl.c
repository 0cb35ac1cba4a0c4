/* The NCCL communicator over an emulated NCCL and emulated devices, ranks as threads.
 *
 *     test_nccl            with the library
 *     test_nccl without    where it cannot be loaded: the reason, on every rank */
#include "device/cuda.h"
#include "parallel/comm/nccl.h"
#include "comm_compressed_cases.h"
#include "tests/suite.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4, COUNT = 40 };

typedef void rank_work(struct zt_comm *c, struct zt_device *device);

struct rank {
    pthread_t thread;
    struct zt_comm *host;
    int device;
    rank_work *work; /* NULL: a communicator is not to be had */
    struct zt_err err;
    bool made;
};

static void *run_rank(void *arg) {
    struct rank *r = arg;
    struct zt_err err = { 0 };
    struct zt_device *device = zt_cuda_create(r->device, &err);
    ck_assert_msg(device != NULL, "%s", err.text[0]);
    struct zt_comm *staged = zt_comm_staged_create(r->host, device, false);
    struct zt_comm *c = zt_comm_nccl_create(device, staged, r->host, &r->err);
    r->made = c != NULL;
    if (c && r->work)
        r->work(c, device);
    if (c)
        c->api->destroy(c);
    staged->api->destroy(staged);
    r->host->api->destroy(r->host);
    device->api->destroy(device);
    return NULL;
}

static void run(int size, int devices, rank_work *does, struct rank *ranks) {
    struct zt_comm *hosts[MOST];
    struct zt_err err = { 0 };
    char text[8];
    snprintf(text, sizeof text, "%d", devices);
    setenv("ZT_EMULATED_DEVICES", text, 1);
    ck_assert(zt_comm_thread_create(size, hosts, &err));
    for (int r = 0; r < size; r++) {
        ranks[r] = (struct rank){ .host = hosts[r], .device = r, .work = does };
        ck_assert_int_eq(pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < size; r++)
        pthread_join(ranks[r].thread, NULL);
}

static void expect_all_made(int size, const struct rank *ranks) {
    for (int r = 0; r < size; r++)
        ck_assert_msg(ranks[r].made, "rank %d: %s", r, ranks[r].err.text[0]);
}

static float contribution(int rank, int i) {
    return (float)(rank + 1) * (float)(i + 1);
}

/* Slices of one length, or each another one and the first empty. */
static void bounds(const struct zt_comm *c, bool even, int64_t *bound) {
    for (int r = 0; r <= c->size; r++)
        bound[r] = even ? r * (COUNT / c->size) : r == 0 ? 0 : (r - 1) * 3 + (r == c->size ? 7 : 0);
}

static void sum_and_gather(struct zt_comm *c, bool even) {
    float data[COUNT], total = 0;
    int64_t bound[MOST + 1];
    struct zt_err err = { 0 };
    bounds(c, even, bound);
    for (int i = 0; i < COUNT; i++)
        data[i] = contribution(c->rank, i);
    struct zt_transfer sum = { ZT_REDUCE_SCATTER, data, bound, sizeof *data }, all = { ZT_ALL_GATHER, data, bound, 4 };
    ck_assert_msg(c->api->start(c, &sum, &err) && c->api->start(c, &all, &err) && c->api->poll(c, &err) &&
                      c->api->wait(c, &sum, &err) && c->api->wait(c, &all, &err),
                  "%s", err.text[0]);
    for (int r = 0; r < c->size; r++)
        total += (float)(r + 1);
    for (int i = 0; i < COUNT; i++)
        ck_assert_float_eq(data[i], i < bound[c->size] ? total * (float)(i + 1) : contribution(c->rank, i));
}

/* Small integers, which 16 bits hold. */
static void sum_of_halves(struct zt_comm *c, bool even, enum zt_dtype dtype) {
    uint16_t data[COUNT];
    int64_t bound[MOST + 1];
    struct zt_err err = { 0 };
    bounds(c, even, bound);
    for (int i = 0; i < COUNT; i++)
        zt_store_double(dtype, data, i, (c->rank + 1) * (i % 16));
    struct zt_transfer sum = { ZT_REDUCE_SCATTER, data, bound, sizeof *data, dtype };
    ck_assert_msg(c->api->start(c, &sum, &err) && c->api->wait(c, &sum, &err), "%s", err.text[0]);
    for (int64_t i = bound[c->rank]; i < bound[c->rank + 1]; i++)
        ck_assert_double_eq(zt_load_double(dtype, data, i), c->size * (c->size + 1) / 2 * (double)(i % 16));
}

static void collectives(struct zt_comm *c, struct zt_device *device) {
    struct zt_err err = { 0 };
    double scalar = c->rank;
    int data = c->rank == 1 ? 77 : 0, next = -1;
    (void)device;
    sum_and_gather(c, true);
    sum_and_gather(c, false);
    for (int even = 0; even < 2; even++) {
        sum_of_halves(c, even, ZT_FLOAT16);
        sum_of_halves(c, even, ZT_BFLOAT16);
    }
    ck_assert(c->api->broadcast(c, &data, sizeof data, 1, &err) && data == 77);
    ck_assert(c->api->sum(c, &scalar, 1, &err) && scalar == c->size * (c->size - 1) / 2);
    ck_assert(c->api->send(c, &c->rank, sizeof c->rank, (c->rank + 1) % c->size, &err) &&
              c->api->recv(c, &next, sizeof next, (c->rank + c->size - 1) % c->size, &err));
    ck_assert_int_eq(next, (c->rank + c->size - 1) % c->size);
    struct rank_report report = { 0 };
    blocks_reach_the_rank_they_are_for(c, &report);
    ck_assert_str_eq(report.text, "");
    compressed_means_are_those_of_the_formulas(c, &report);
    ck_assert_str_eq(report.text, "");
}

START_TEST(collectives_go_over_nccl) {
    struct rank ranks[MOST];
    for (int size = 2; size <= MOST; size++) {
        run(size, size, collectives, ranks);
        expect_all_made(size, ranks);
    }
}
END_TEST

static void end_early(struct zt_comm *c, struct zt_device *device) {
    struct zt_err err = { 0 };
    (void)device;
    ck_assert(c->api->barrier(c, &err)); /* before it, some might still be meeting */
    if (c->rank == 0) {
        c->api->abort(c, "disk full");
        return;
    }
    while (c->api->barrier(c, &err))
        ;
    ck_assert_ptr_nonnull(strstr(err.text[0], "disk full"));
    ck_assert(!c->api->broadcast(c, &err, 1, 0, &(struct zt_err){ 0 }));
}

START_TEST(abort_reaches_every_rank) {
    struct rank ranks[MOST];
    run(3, 3, end_early, ranks);
    expect_all_made(3, ranks);
}
END_TEST

static void expect_none(int size, const struct rank *ranks, const char *words) {
    bool said = false;
    for (int r = 0; r < size; r++) {
        ck_assert(!ranks[r].made && ranks[r].err.count > 0);
        said |= strstr(ranks[r].err.text[0], words) != NULL;
    }
    ck_assert_msg(said, "\"%s\" does not say \"%s\"", ranks[0].err.text[0], words);
}

START_TEST(two_ranks_on_one_gpu_are_told_so) {
    struct rank ranks[MOST];
    run(3, 2, NULL, ranks);
    expect_none(3, ranks, "ranks 0 and 2 have the same GPU");
}
END_TEST

START_TEST(a_library_that_is_too_old_is_named) {
    struct rank ranks[MOST];
    setenv("ZT_EMULATED_NCCL", "21705", 1);
    run(2, 2, NULL, ranks);
    unsetenv("ZT_EMULATED_NCCL");
    expect_none(2, ranks, "version 2.17, wants 2.18 or newer");
}
END_TEST

START_TEST(a_library_that_is_missing_is_named) {
    struct rank ranks[MOST];
    run(2, 2, NULL, ranks);
    expect_none(2, ranks, "libnccl.so.2");
    ck_assert_str_ne(ranks[0].err.hint[0], "");
}
END_TEST

/* This program again, where the library is a file that is none. */
static int start_without(char *self) {
    char folder[] = "/tmp/ztrain-nccl-XXXXXX", path[64];
    if (!mkdtemp(folder))
        return EXIT_FAILURE;
    snprintf(path, sizeof path, "%s/libnccl.so.2", folder);
    FILE *file = fopen(path, "w");
    if (!file || fputs("none", file) < 0 || fclose(file) != 0)
        return EXIT_FAILURE;
    setenv("LD_LIBRARY_PATH", folder, 1);
    char command[256];
    snprintf(command, sizeof command, "'%s' without here; rc=$?; rm -r %s; exit $rc", self, folder);
    return system(command) != 0;
}

int main(int argc, char **argv) {
    TCase *test = tcase_create("nccl");
    if (argc == 2) /* the loader reads LD_LIBRARY_PATH when a program starts */
        return start_without(argv[0]);
    if (argc == 3) {
        tcase_add_test(test, a_library_that_is_missing_is_named);
        return run_suite("nccl", test, CK_NOFORK);
    }
    tcase_add_test(test, collectives_go_over_nccl);
    tcase_add_test(test, abort_reaches_every_rank);
    tcase_add_test(test, two_ranks_on_one_gpu_are_told_so);
    tcase_add_test(test, a_library_that_is_too_old_is_named);
    return run_suite("nccl", test, CK_NOFORK);
}
