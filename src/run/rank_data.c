#include "run/rank_data.h"

#include "device/threads.h"
#include "run/rank/device_memory.h"
#include "run/rank/stored_data.h"

/* Returns the number of reading threads. With a device, the compute threads of the host are idle except for nodes
 * without a kernel on the device. */
static int readers(const struct zt_rank *r) {
    const int cores = zt_parallel_cores();
    return zt_loader_readers(cores, r->device->module ? cores / 2 : r->device->threads);
}

bool zt_rank_loader(struct zt_rank *r, bool training, int64_t first, int64_t steps, struct zt_loader **to,
                    struct zt_err *err) {
    const struct zt_rank_plan *p = r->plan;
    const struct zt_config *c = p->job->config;
    int64_t rows = training ? c->micro_batch : p->steps.eval_rows, together = rows * p->grid.data;
    struct zt_loader_options options = { .source = training ? p->source : p->eval_source,
                                         .train_batch = training ? c->train_batch : together,
                                         .micro_batch = p->replicas ? together : rows,
                                         .rank = p->replicas ? 0 : p->grid.data_rank,
                                         .ranks = p->replicas ? 1 : p->grid.data,
                                         .shuffle = training && c->data.shuffle,
                                         .drop_last = training && c->data.drop_last,
                                         .seed = (uint64_t)c->seed,
                                         .stream = training ? p->steps.epochs : (struct zt_epochs){ 0 },
                                         .first_step = training ? first : 0,
                                         .steps = training ? steps - first
                                                           : (p->steps.eval_samples + together - 1) / together,
                                         .readers = readers(r) };
    options.depth = zt_loader_depth(options.source, options.micro_batch);
    if (r->device_memory)
        zt_rank_device_loads(r, &options);
    *to = NULL;
    return (p->replicas && p->grid.rank != 0) || (*to = zt_loader_create(&options, err)) != NULL;
}

void zt_rank_say_data(const struct zt_rank *r, const struct zt_log *log) {
    const int count = readers(r);
    const int64_t fed_bytes[2] = { zt_rank_fed_bytes(r, true), zt_rank_fed_bytes(r, false) };
    if (r->stored)
        zt_rank_stored_say(r, count, fed_bytes, log);
    else
        zt_say(log, ZT_LOG_DEBUG, "micro-batches are read by %d thread%s", count, count > 1 ? "s" : "");
}

void zt_rank_say_waited(const struct zt_loader *loader, double seconds, const struct zt_log *log) {
    if (loader && seconds > 0)
        zt_say(log, ZT_LOG_DEBUG, "data: the steps waited %.3f %% of their %.3f s for input",
               100 * zt_loader_waited(loader) / seconds, seconds);
}
