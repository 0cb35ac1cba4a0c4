#include "ops/cpu/batch_blocks.h"

#include "device/threads.h"

#include <string.h>

int64_t zt_batch_block_of(int64_t total, int64_t pieces, int64_t grain) {
    int64_t block = (total + pieces - 1) / pieces;
    block = (block + grain - 1) / grain * grain;
    return block < total ? block : total;
}

int64_t zt_batch_block_for_cache(int64_t samples, size_t sample_bytes) {
    int64_t fit =
        sample_bytes > ZT_BATCH_BLOCK_BYTES ? 1 : (int64_t)(ZT_BATCH_BLOCK_BYTES / (sample_bytes ? sample_bytes : 1));
    int64_t block = zt_batch_block_of(samples, ZT_BATCH_BLOCKS, 1);
    return fit < block ? zt_batch_block_of(samples, (samples + fit - 1) / fit, 1) : block;
}

/* The specification of blocks of `length`. */
static struct zt_dnnl_spec block_spec(const struct zt_dnnl_spec *whole, const int *axis, int64_t length) {
    struct zt_dnnl_spec s = *whole;
    for (int i = 0; i < ZT_DNNL_SLOTS; i++)
        if (s.slot[i].rank && axis[i] >= 0) {
            s.slot[i].dim[axis[i]] = length;
            s.slot[i].part = s.slot[i].order == ZT_DESC_VENDOR;
        }
    return s;
}

/* Replaces the layouts left to oneDNN by those it chose. An activation in a layout that only oneDNN knows cannot be
 * divided: it is set to plain, and *again tells that the primitive must be created once more. */
static void settle(struct zt_dnnl_spec *spec, const int *axis, const struct zt_dnnl *d, bool *again) {
    *again = false;
    for (int i = 0; i < ZT_DNNL_SLOTS; i++) {
        if (spec->slot[i].rank == 0)
            continue;
        bool free_choice = spec->slot[i].order == ZT_DESC_ANY;
        struct zt_desc chosen = zt_dnnl_slot(d, i);
        if (free_choice && chosen.order == ZT_DESC_VENDOR && axis[i] >= 0) {
            spec->slot[i].order = ZT_DESC_PLAIN;
            *again = true;
        } else if (!*again) {
            spec->slot[i] = chosen;
        }
    }
}

static size_t step_of(const struct zt_desc *desc, int axis, int64_t block) {
    if (desc->rank == 0 || axis < 0)
        return 0;
    if (desc->order == ZT_DESC_STRIDED)
        return (size_t)(block * desc->stride[axis]) * zt_dtype_bytes(desc->dtype);
    return zt_desc_bytes(desc);
}

bool zt_batch_blocks_make(struct zt_batch_blocks *to, const struct zt_dnnl_spec *spec, const struct zt_batch_cut *cut,
                          int threads, struct zt_err *err) {
    *to = (struct zt_batch_blocks){ .count = (cut->total + cut->block - 1) / cut->block };
    struct zt_dnnl_spec open = block_spec(spec, cut->axis, cut->block), settled;
    bool again = true;
    while (again) {
        zt_dnnl_destroy(to->whole);
        to->whole = zt_dnnl_create(&open, threads, err);
        if (!to->whole)
            return false;
        settled = open;
        settle(&settled, cut->axis, to->whole, &again);
        if (again)
            for (int i = 0; i < ZT_DNNL_SLOTS; i++)
                if (settled.slot[i].order == ZT_DESC_PLAIN && open.slot[i].order == ZT_DESC_ANY)
                    open.slot[i].order = ZT_DESC_PLAIN;
    }
    for (int i = 0; i < ZT_DNNL_SLOTS; i++)
        to->step[i] = step_of(&settled.slot[i], cut->axis[i], cut->block);
    const int64_t rest = cut->total - (to->count - 1) * cut->block;
    if (rest == cut->block)
        return true;
    struct zt_dnnl_spec last = block_spec(&settled, cut->axis, rest);
    to->tail = zt_dnnl_create(&last, threads, err);
    if (!to->tail)
        zt_batch_blocks_finish(to);
    return to->tail != NULL;
}

void zt_batch_blocks_finish(struct zt_batch_blocks *blocks) {
    zt_dnnl_destroy(blocks->whole);
    zt_dnnl_destroy(blocks->tail);
    memset(blocks, 0, sizeof *blocks);
}

static size_t scratch_of_one(const struct zt_batch_blocks *c) {
    size_t whole = zt_dnnl_scratch_bytes(c->whole), tail = c->tail ? zt_dnnl_scratch_bytes(c->tail) : 0;
    return whole > tail ? whole : tail;
}

size_t zt_batch_blocks_scratch(const struct zt_batch_blocks *blocks, int threads) {
    return scratch_of_one(blocks) * (size_t)(threads > 0 ? threads : 1);
}

bool zt_batch_blocks_run_one(const struct zt_batch_blocks *blocks, int64_t block, void *const *data, void *scratch) {
    struct zt_dnnl *d = blocks->tail && block == blocks->count - 1 ? blocks->tail : blocks->whole;
    int thread = zt_parallel_thread();
    return zt_dnnl_run(d, thread, data, (char *)scratch + (size_t)thread * scratch_of_one(blocks));
}

struct job {
    const struct zt_batch_blocks *blocks;
    const struct zt_batch_block_work *work;
    void *const *data;
    void *scratch;
    int failed; /* set by any thread, read after all are done */
};

static void run_block(void *arg, int64_t block) {
    struct job *job = arg;
    const struct zt_batch_blocks *c = job->blocks;
    const struct zt_batch_block_work *work = job->work;
    void *data[ZT_DNNL_SLOTS];
    for (int i = 0; i < ZT_DNNL_SLOTS; i++) {
        size_t offset = (size_t)block * c->step[i];
        if (work->local[i])
            offset = (size_t)zt_parallel_thread() * work->local[i];
        data[i] = offset ? (char *)job->data[i] + offset : job->data[i];
    }
    if (work->before)
        work->before(work->arg, block, data);
    if (work->instead)
        work->instead(work->arg, block, data);
    else if (!zt_batch_blocks_run_one(c, block, data, job->scratch))
        __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
    if (work->after)
        work->after(work->arg, block, data);
}

bool zt_batch_blocks_starved(const struct zt_batch_blocks *c) {
    return (c->whole && zt_dnnl_starved(c->whole)) || (c->tail && zt_dnnl_starved(c->tail));
}

bool zt_batch_blocks_failed(const struct zt_batch_blocks *c, struct zt_err *err) {
    return zt_dnnl_failed(c->tail && zt_dnnl_starved(c->tail) ? c->tail : c->whole, err);
}

bool zt_batch_blocks_run(const struct zt_batch_blocks *blocks, int threads, void *const *data, void *scratch,
                         const struct zt_batch_block_work *work, struct zt_err *err) {
    static const struct zt_batch_block_work nothing = { 0 };
    struct job job = { .blocks = blocks, .work = work ? work : &nothing, .data = data, .scratch = scratch };
    zt_parallel_for(threads, blocks->count, run_block, &job);
    return !job.failed || zt_batch_blocks_failed(blocks, err);
}
