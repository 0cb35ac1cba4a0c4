#include "plan/host_need.h"

#include "base/text.h"
#include "session/session.h"

/* Memory of a process besides its blocks, for a small network, and the part of the page cache in use while files are
 * read and written sequentially: rounded up from runs of the sample models. */
enum { PROCESS_BYTES = 64 << 20, CACHE_BYTES = 64 << 20 };

int64_t zt_host_need_total(const struct zt_host_need *n) {
    return n->blocks + n->export + n->process + n->cache;
}

void zt_host_need_add(struct zt_host_need *sum, const struct zt_host_need *one) {
    sum->blocks += one->blocks;
    sum->export += one->export;
    sum->process += one->process;
    sum->cache += one->cache;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Elements of all tensors of the model, or of those of one stage. */
static int64_t elements(const struct zt_rank_plan *p, bool all) {
    int64_t sum = 0;
    for (int i = 0; i < p->tensors.model_count; i++)
        if (all || p->tensors.model[i].stage == p->grid.stage)
            sum += zt_shape_count(&p->tensors.model[i].shape);
    return sum;
}

/* Whether the weights are written from where they lie (run/collect.c): in host memory, and whole. */
static bool exports_in_place(const struct zt_rank_plan *p) {
    return !p->device_memory && p->offload.parameters == ZT_HOME_DEVICE && !zt_sharding_gathers_for_use(p->sharding);
}

struct zt_host_need zt_rank_plan_need(const struct zt_rank_plan *p, int data_rank) {
    const struct zt_rank_bytes bytes = zt_rank_plan_bytes(p, data_rank);
    const bool first = p->grid.stage == 0 && data_rank == 0, stages = p->grid.stages > 1;
    const bool joins = zt_session_threaded(p->job->config) && !first; /* a thread of rank 0's process */
    const int64_t model = elements(p, true) * (int64_t)sizeof(float);
    const int64_t copy = exports_in_place(p) ? 0 : elements(p, false) * (int64_t)sizeof(float);
    struct zt_host_need need = { .blocks = p->device_memory ? bytes.host : zt_rank_bytes_total(&bytes),
                                 .export = copy + (first && stages ? model : 0),
                                 .process = joins ? 0 : PROCESS_BYTES,
                                 .cache = first ? least(model, CACHE_BYTES) : 0 };
    return need;
}

bool zt_host_need_fits(const struct zt_host_need *n, const struct zt_host_memory *memory, const char *of,
                       struct zt_err *err) {
    char t[6][32];
    if (!memory->bytes || zt_host_need_total(n) <= memory->bytes)
        return true;
    zt_fail(err, ZT_EXIT_CONFIG,
            "%s needs %s of host memory, but there are %s (%s): memory blocks %s, the weights while the model is "
            "written %s, processes %s, page cache %s",
            of, zt_format_bytes(t[0], (double)zt_host_need_total(n)), zt_format_bytes(t[1], (double)memory->bytes),
            memory->source, zt_format_bytes(t[2], (double)n->blocks), zt_format_bytes(t[3], (double)n->export),
            zt_format_bytes(t[4], (double)n->process), zt_format_bytes(t[5], (double)n->cache));
    return zt_hint(err,
                   "try a smaller micro-batch, fewer ranks on this host, or zero_optimization.stage 3 with "
                   "offload_optimizer and offload_param to NVMe (docs/offload.md)");
}
