#include "plan/file_work.h"

#include "base/text.h"
#include "optim/types/types.h"
#include "parallel/offload/aio.h"
#include "plan/rank_bytes.h"

#include <stdlib.h>

/* ---- bytes ---- */

/* The buffers of slices, by the time of their last use. */
struct shelves {
    int *bucket;
    int count, room;
};

/* Returns whether the slice must be read. The latest one is in front. */
static bool misses(struct shelves *s, int bucket) {
    int at = 0;
    while (at < s->count && s->bucket[at] != bucket)
        at++;
    const bool found = at < s->count;
    if (!found && s->count < s->room)
        s->count++;
    if (at == s->count)
        at--;
    for (; at > 0; at--)
        s->bucket[at] = s->bucket[at - 1];
    s->bucket[0] = bucket;
    return !found;
}

/* Returns the bytes of slices that a list of commands reads, and those of the first one. */
static int64_t bytes_read(const struct zt_rank_plan *p, struct shelves *s, const struct zt_command *at, int count,
                          int64_t *first) {
    const struct zt_flat *f = p->tensors.flat;
    const int rank = zt_rank_plan_largest(p);
    const int64_t kept = zt_offload_kept(&p->offload, f->owned[rank]);
    int64_t elems = 0;
    for (int i = 0; i < count; i++) {
        const int b = at[i].bucket;
        if (at[i].kind != ZT_GATHER || !at[i].shard || b >= f->bucket_count) /* frozen weights are in memory */
            continue;
        const int64_t slice = zt_slice_first(f, b, rank + 1) - zt_slice_first(f, b, rank);
        if (zt_shard_offset(f, b, rank) + slice <= kept || !misses(s, b))
            continue;
        if (!elems)
            *first = slice * (int64_t)sizeof(float);
        elems += slice;
    }
    return elems * (int64_t)sizeof(float);
}

static void count_gathers(const struct zt_rank_plan *p, struct zt_file_work *to) {
    const struct zt_program *program = p->programs.train.at[0];
    struct shelves s = { .bucket = zt_calloc((size_t)p->offload.shelves + 1, sizeof *s.bucket),
                         .room = p->offload.shelves };
    to->forward_read = bytes_read(p, &s, program->forward, program->forward_count, &to->forward_first);
    to->backward_read = bytes_read(p, &s, program->backward, program->backward_count, &to->backward_first);
    to->gathers_ahead = p->offload.shelves > 1;
    free(s.bucket);
}

struct zt_file_work zt_plan_file_work(const struct zt_rank_plan *p) {
    const struct zt_config *c = p->job->config;
    const struct zt_offload *o = &p->offload;
    const int rank = zt_rank_plan_largest(p);
    const int64_t owned = p->tensors.flat->owned[rank];
    const bool states = o->optimizer == ZT_HOME_NVME, weights = o->parameters == ZT_HOME_NVME;
    struct zt_file_work work = { .reads_ahead = o->depth > 1 && c->zero.offload_optimizer.pipeline_read,
                                 .writes_behind = o->depth > 1 && c->zero.offload_optimizer.pipeline_write };
    if (!p->programs.train.count || (!states && !weights))
        return work;
    int64_t elems = states ? zt_offload_away(o, zt_rank_plan_stepped(p, rank)) * o->arrays : 0;
    elems += weights ? owned - zt_offload_kept(o, owned) : 0;
    const int passes = zt_optimizer_find(c->optimizer.type)->norms ? 2 : 1;
    work.update_read = work.update_written = passes * elems * (int64_t)sizeof(float);
    if (weights)
        count_gathers(p, &work);
    return work;
}

/* ---- text ---- */

static void print_settings(const struct zt_plan *plan, FILE *to) {
    const struct zt_config *c = plan->job->config;
    const struct zt_offload_config *optimizer = &c->zero.offload_optimizer;
    const bool states = plan->stage[0]->offload.optimizer == ZT_HOME_NVME;
    const struct zt_aio_options options = zt_offload_aio(c);
    struct zt_err ignored = { 0 };
    struct zt_aio *aio = c->cluster[0] || plan->elsewhere ? NULL : zt_aio_create(&options, NULL, &ignored);
    const char *engine = aio ? zt_aio_name(aio) : "io_uring, or threads where the kernel refuses it";
    fprintf(
        to,
        "\nNVMe: files below %s; %s\naio: block_size %lld, queue_depth %d, intra_op_parallelism %d, single_submit %s, "
        "overlap_events %s\n",
        states ? optimizer->nvme_path : c->zero.offload_param.nvme_path, engine, (long long)options.block_size,
        options.queue_depth, options.threads, options.single_submit ? "true" : "false",
        options.overlap_events ? "true" : "false");
    zt_aio_destroy(aio);
}

void zt_plan_print_files(const struct zt_plan *plan, FILE *to) {
    bool first = true;
    for (int s = 0; s < plan->grid.stages; s++) {
        const struct zt_file_work f = zt_plan_file_work(plan->stage[s]);
        char text[4][32];
        if (!f.update_read)
            continue;
        if (first)
            print_settings(plan, to);
        first = false;
        fprintf(to, "stage %d: an update reads %s%s and writes %s%s; a micro-batch reads %s forward and %s backward\n",
                s, zt_format_bytes(text[0], (double)f.update_read), f.reads_ahead ? " ahead" : "",
                zt_format_bytes(text[1], (double)f.update_written), f.writes_behind ? " behind" : "",
                zt_format_bytes(text[2], (double)f.forward_read), zt_format_bytes(text[3], (double)f.backward_read));
        if (plan->timeline.count)
            fprintf(to, "stage %d: transfers %.3f ms per step at %.4g B/s read and %.4g B/s written, %s\n", s,
                    1e3 * plan->cost[s].file_seconds, plan->machine.file_read_rate, plan->machine.file_write_rate,
                    plan->machine.files_measured ? "measured" : "nominal");
    }
}
