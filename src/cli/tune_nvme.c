/* ztrain tune-nvme: measures how fast a folder's device reads and writes with different values of the keys of aio. The
 * values that are tried are those of DeepSpeed's ds_nvme_tune. */
#include "cli/commands.h"

#include "base/arena.h"
#include "base/clock.h"
#include "parallel/offload/aio.h"
#include "parallel/offload/swap_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PART_BYTES = 64 << 20, PARTS = 4 }; /* of the file */
static const double LEAST_S = 0.1;         /* of a measurement */

struct tuning {
    const struct zt_log *log;
    struct zt_swap_file file;
    void *block;
    size_t block_bytes;
    char *part;    /* contents of a part of the file */
    char name[96]; /* of the engine, with the reason for it */
};

/* Bytes a second. */
struct speed {
    double read, write;
};

/* Without O_DIRECT, writing ends on the disk, and reading begins there. */
static bool settle(const struct tuning *t, struct zt_err *err) {
    if (t->file.direct)
        return true;
    if (fdatasync(t->file.file) != 0)
        return zt_fail(err, ZT_EXIT_DATA, "%s: cannot flush to disk: %s", t->file.path, strerror(errno));
    posix_fadvise(t->file.file, 0, 0, POSIX_FADV_DONTNEED);
    return true;
}

/* Moves parts of the file, one after the other, at least one and for at least LEAST_S. */
static bool measure(const struct tuning *t, struct zt_aio *aio, bool writes, double *speed, struct zt_err *err) {
    const double began = zt_now();
    double bytes = 0, took = 0;
    for (int i = 0; took < LEAST_S; i++, bytes += PART_BYTES, took = zt_now() - began) {
        struct zt_aio_transfer transfer = { .path = t->file.path,
                                            .file = t->file.file,
                                            .writes = writes,
                                            .at = t->part,
                                            .offset = (int64_t)(i % PARTS) * PART_BYTES,
                                            .bytes = PART_BYTES };
        zt_aio_start(aio, &transfer);
        if (!zt_aio_wait(aio, &transfer, err) || !settle(t, err))
            return false;
    }
    *speed = bytes / took;
    return true;
}

static bool try_options(struct tuning *t, const struct zt_aio_options *o, struct speed *speed, struct zt_err *err) {
    struct zt_aio *aio = zt_aio_create(o, NULL, err);
    bool ok = aio && measure(t, aio, true, &speed->write, err) && measure(t, aio, false, &speed->read, err);
    if (aio)
        snprintf(t->name, sizeof t->name, "%s", zt_aio_name(aio));
    zt_aio_destroy(aio);
    if (ok)
        zt_say(t->log, ZT_LOG_INFO, "%10lld %11d %20d %13s %14s %8.2f %8.2f", (long long)o->block_size, o->queue_depth,
               o->threads, o->single_submit ? "true" : "false", o->overlap_events ? "true" : "false", speed->read / 1e9,
               speed->write / 1e9);
    return ok;
}

/* Threads submit nothing: the last two keys do not concern them. */
static bool concerns(const struct tuning *t, int single, int overlap) {
    return strncmp(t->name, zt_aio_threads.name, strlen(zt_aio_threads.name)) != 0 || (!single && overlap);
}

/* The best options take the least time to read and write the same bytes. */
static bool sweep(struct tuning *t, struct zt_aio_options *best, struct speed *fastest, struct zt_err *err) {
    static const int64_t blocks[] = { 1 << 20, 8 << 20 };
    static const int depths[] = { 8, 32, 128 }, threads[] = { 1, 2, 4, 8 };
    double least = 0;
    zt_say(t->log, ZT_LOG_INFO, "%10s %11s %20s %13s %14s %8s %8s", "block_size", "queue_depth", "intra_op_parallelism",
           "single_submit", "overlap_events", "read", "write");
    for (int i = 0; i < 2 * 3 * 4 * 2 * 2; i++) {
        const int single = i / 24 % 2, overlap = 1 - i / 48;
        const struct zt_aio_options o = { blocks[i % 2], depths[i / 2 % 3], threads[i / 6 % 4], single, overlap };
        struct speed speed;
        if (!concerns(t, single, overlap))
            continue;
        if (!try_options(t, &o, &speed, err))
            return false;
        const double seconds = 1 / speed.read + 1 / speed.write;
        if (least == 0 || seconds < least) {
            least = seconds;
            *best = o;
            *fastest = speed;
        }
    }
    return true;
}

/* The file keeps its space when it loses its name at once, so that nothing is left however the command ends. */
static bool open_file(struct tuning *t, const char *path, struct zt_err *err) {
    char run[32];
    snprintf(run, sizeof run, "tune-%ld", (long)getpid());
    struct zt_swap_folder *folder = zt_swap_folder_open(&(struct zt_swap_place){ path, run, 0 }, err);
    bool ok = folder && zt_swap_file_init(&t->file, folder, "tune.swp", (int64_t)PARTS * PART_BYTES, err);
    zt_swap_folder_close(folder);
    return ok;
}

static bool open_part(struct tuning *t, struct zt_err *err) {
    t->block_bytes = PART_BYTES + ZT_AIO_ALIGN;
    if (!(t->block = zt_block_create(t->block_bytes, "the contents of the file", err)))
        return false;
    t->part = (char *)(((uintptr_t)t->block + ZT_AIO_ALIGN - 1) / ZT_AIO_ALIGN * ZT_AIO_ALIGN);
    for (uint32_t i = 0, x = 1; i < PART_BYTES / sizeof x; i++, x = x * 1664525 + 1013904223) /* not compressible */
        memcpy(t->part + i * sizeof x, &x, sizeof x);
    return true;
}

static void print_best(const struct zt_log *log, const struct zt_aio_options *o, const struct speed *speed) {
    zt_say(log, ZT_LOG_INFO, "Best performance (GB/sec): read = %5.2f, write = %5.2f", speed->read / 1e9,
           speed->write / 1e9);
    printf(
        "{\"aio\": {\"block_size\": %lld, \"queue_depth\": %d, \"intra_op_parallelism\": %d, \"single_submit\": %s, "
        "\"overlap_events\": %s}}\n",
        (long long)o->block_size, o->queue_depth, o->threads, o->single_submit ? "true" : "false",
        o->overlap_events ? "true" : "false");
}

bool zt_cli_tune_nvme(const struct zt_options *options, struct zt_err *err) {
    struct tuning t = { .log = &options->log, .file = { .file = -1 } };
    struct zt_aio_options best = { 0 };
    struct speed fastest = { 0 };
    const char *path = options->operands[0];
    bool ok = open_file(&t, path, err) && open_part(&t, err);
    if (ok)
        zt_say(t.log, ZT_LOG_INFO, "%s: parts of %d MiB of a file, %s; GB/s", path, PART_BYTES >> 20,
               t.file.direct ? "O_DIRECT" : "which has no O_DIRECT, to and from the disk");
    ok = ok && sweep(&t, &best, &fastest, err);
    if (ok) {
        zt_say(t.log, ZT_LOG_INFO, "measured with %s", t.name);
        print_best(t.log, &best, &fastest);
    }
    zt_swap_file_finish(&t.file);
    zt_block_destroy(t.block, t.block_bytes);
    return ok;
}
