/* All-reduce (reduce_scatter + all_gather) of a communicator against MPI_Allreduce on the same ranks, alternately:
 *
 *     mpirun -n 2 allreduce_bench PAIRS BYTES ...
 *
 * Rank 0 prints a line a size: bytes, median milliseconds of ours and of MPI's, median of the pairs' ratios (MPI's time
 * by ours), least and greatest ratio, least milliseconds of ours and of MPI's. The time of a call is that of its
 * slowest rank, in the mean over some calls. */
#include "base/arena.h"
#include "base/sort.h"
#include "parallel/comm/comm.h"

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench {
    struct zt_comm *comm;
    float *data;
    int64_t count, *bound;
};

static bool ours(const struct bench *b, struct zt_err *err) {
    return b->comm->api->reduce_scatter(b->comm, b->data, b->bound, err) &&
           b->comm->api->all_gather(b->comm, b->data, b->bound, sizeof *b->data, err);
}

static bool theirs(const struct bench *b, struct zt_err *err) {
    (void)err;
    return MPI_Allreduce(MPI_IN_PLACE, b->data, (int)b->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS;
}

/* Milliseconds a call; negative: it failed. Zeros stay zeros: no call sees numbers that others would not. */
static double time_of(const struct bench *b, bool (*call)(const struct bench *b, struct zt_err *err), int calls,
                      struct zt_err *err) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), slowest;
    for (int i = 0; i < calls; i++)
        if (!call(b, err))
            return -1;
    double own = (MPI_Wtime() - start) / calls * 1e3;
    MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static double median(double *values, int count) {
    zt_sort_doubles(values, count);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static bool compare(struct zt_comm *c, int64_t bytes, int pairs, struct zt_err *err) {
    struct bench b = { .comm = c, .count = bytes / (int64_t)sizeof(float) };
    b.data = zt_block_create((size_t)b.count * sizeof(float), "bench", err);
    b.bound = zt_calloc((size_t)c->size + 1, sizeof *b.bound);
    for (int r = 0; r <= c->size; r++)
        b.bound[r] = b.count * r / c->size;
    double *own = zt_calloc((size_t)pairs, sizeof *own), *other = zt_calloc((size_t)pairs, sizeof *own),
           *ratio = zt_calloc((size_t)pairs, sizeof *own);
    int calls = bytes < 4000000 ? (int)(8000000 / bytes) : 1; /* short enough to fall between other programs' turns */
    bool ok = b.data && c->api->share(c, b.data, (size_t)b.count * sizeof(float), err) &&
              time_of(&b, ours, 1, err) >= 0 && time_of(&b, theirs, 1, err) >= 0; /* pages, connections */
    for (int i = 0; i < pairs && ok; i++) {
        own[i] = time_of(&b, ours, calls, err);
        other[i] = time_of(&b, theirs, calls, err);
        ratio[i] = other[i] / own[i];
        ok = own[i] >= 0 && other[i] >= 0;
    }
    double middle[3] = { median(own, pairs), median(other, pairs), median(ratio, pairs) }; /* and all three ascend */
    if (ok && c->rank == 0)
        printf("%lld\t%.4f\t%.4f\t%.2f\t%.2f\t%.2f\t%.4f\t%.4f\n", (long long)bytes, middle[0], middle[1], middle[2],
               ratio[0], ratio[pairs - 1], own[0], other[0]);
    free(own);
    free(other);
    free(ratio);
    free(b.bound);
    if (b.data)
        c->api->unshare(c, b.data);
    if (b.data)
        zt_block_destroy(b.data, (size_t)b.count * sizeof(float));
    return ok;
}

int main(int argc, char **argv) {
    struct zt_err err = { 0 };
    struct zt_comm *c = zt_comm_mpi_create(ZT_MPI_WINDOW_AND_MESSAGES, &err);
    bool ok = c && argc > 2;
    for (int i = 2; i < argc && ok; i++)
        ok = compare(c, atoll(argv[i]), atoi(argv[1]), &err);
    if (!ok) {
        zt_err_print(&err, stderr);
        fprintf(stderr, "usage: mpirun -n N %s PAIRS BYTES ...\n", argv[0]);
    }
    if (c)
        c->api->destroy(c);
    zt_comm_mpi_finalize(ok ? EXIT_SUCCESS : EXIT_FAILURE);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
