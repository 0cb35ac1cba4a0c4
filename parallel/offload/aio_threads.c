/* Transfers with pread and pwrite: a request in flight is a thread, so that there are queue_depth times threads
 * workers. They submit nothing, so that single_submit and overlap_events do not concern them. */
#include "parallel/offload/aio_engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64 };

static int workers(const struct zt_aio_options *o) {
    return o->threads >= MOST || o->queue_depth >= MOST / o->threads ? MOST : o->threads * o->queue_depth;
}

/* The state is the block size. */
static void *open_worker(const struct zt_aio_options *o, struct zt_err *err) {
    int64_t *block = malloc(sizeof *block);
    if (block)
        *block = o->block_size;
    else
        zt_fail(err, ZT_EXIT_RUN, "out of memory");
    return block;
}

/* Moves up to `bytes` bytes. Returns the number moved, below 0 an error of errno. */
static int64_t move(const struct zt_aio_span *s, int64_t done, int64_t bytes) {
    ssize_t n = s->writes ? pwrite(s->file, s->at + done, (size_t)bytes, s->offset + done)
                          : pread(s->file, s->at + done, (size_t)bytes, s->offset + done);
    return n < 0 ? -errno : n;
}

static bool run(void *state, const struct zt_aio_span *s, struct zt_err *err) {
    const int64_t block = *(const int64_t *)state;
    for (int64_t done = 0; done < s->bytes;) {
        const int64_t left = block - done % block, n = move(s, done, left < s->bytes - done ? left : s->bytes - done);
        if (n > 0)
            done += n;
        else if (n == 0)
            return zt_aio_ended(s, done, err);
        else if (n != -EINTR && n != -EAGAIN)
            return zt_aio_failed(s, done, (int)-n, err);
    }
    return true;
}

const struct zt_aio_engine zt_aio_threads = { "threads", workers, open_worker, run, free };
