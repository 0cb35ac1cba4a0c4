#include "plan/resolve.h"

#include "ops/loss/loss.h"

static void resolve_zero(const struct zt_rank_plan *p, struct zt_zero_config *to) {
    if (to->reduce_bucket_size <= 0)
        to->reduce_bucket_size = p->tensors.flat->bucket_elems;
    if (to->allgather_bucket_size == 0)
        to->allgather_bucket_size =
            p->traffic.largest_bucket + p->traffic.largest_bucket % 2; /* the key wants an even number */
    if (!zt_sharding_gathers_for_use(p->sharding))
        return;
    if (to->prefetch_bucket_size < 0)
        to->prefetch_bucket_size = p->traffic.limits.prefetch;
    if (to->param_persistence_threshold < 0) {
        to->param_persistence_threshold = p->traffic.persistent_each;
        to->model_persistence_threshold = p->traffic.persistent_together;
    }
}

struct zt_config zt_rank_plan_resolve(const struct zt_rank_plan *p) {
    const struct zt_job *job = p->job;
    struct zt_config resolved = *job->config;
    if (job->loss) {
        resolved.loss.type = job->loss->type;
        resolved.loss.logits = job->logits;
        resolved.loss.target = job->target;
    }
    if (p->grid.stages == 1 && !p->tensors.frozen)
        resolve_zero(p, &resolved.zero);
    return resolved;
}
