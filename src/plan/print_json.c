/* The plan as one JSON object: what scripts read of it. */
#include "plan/print.h"

static void print_ranks(const struct zt_plan *plan, FILE *to) {
    for (int rank = 0; rank < plan->grid.world; rank++) {
        const int stage = rank / plan->grid.data;
        const struct zt_rank_bytes b = zt_plan_bytes(plan, stage, rank % plan->grid.data);
        fprintf(to,
                "%s\n  {\"rank\": %d, \"stage\": %d, \"parameters\": %lld, \"gradients\": %lld, \"optimizer\": %lld, "
                "\"activations\": %lld, \"workspace\": %lld, \"host\": %lld, \"nvme\": %lld}",
                rank ? "," : "", rank, stage, (long long)b.parameters, (long long)b.gradients, (long long)b.optimizer,
                (long long)b.activations, (long long)b.workspace, (long long)b.host, (long long)b.nvme);
    }
}

/* Bytes that a rank of each stage sends in a step. */
static void print_traffic(const struct zt_plan *plan, FILE *to) {
    for (int s = 0; plan->cost && s < plan->grid.stages; s++)
        fprintf(to, "%s\n  {\"stage\": %d, \"gather\": %lld, \"reduce\": %lld, \"send\": %lld}", s ? "," : "", s,
                (long long)plan->cost[s].gather_bytes, (long long)plan->cost[s].reduce_bytes,
                (long long)plan->cost[s].send_bytes);
}

void zt_plan_print_json(const struct zt_plan *plan, FILE *to) {
    const struct zt_config *c = plan->job->config;
    fprintf(to,
            "{\"plan\": \"%016llx\", \"mode\": \"%s\", \"ranks\": %d, \"stages\": %d, \"data_parallel\": %d,\n"
            " \"train_batch_size\": %lld, \"train_micro_batch_size_per_gpu\": %lld, \"gradient_accumulation_steps\": "
            "%lld,\n \"bytes_per_rank\": [",
            (unsigned long long)plan->hash, zt_sharding_name(plan->stage[0]->sharding), plan->grid.world,
            plan->grid.stages, plan->grid.data, (long long)c->train_batch, (long long)c->micro_batch,
            (long long)c->accumulation);
    print_ranks(plan, to);
    fputs("],\n \"bytes_sent_per_step\": [", to);
    print_traffic(plan, to);
    fputs("]", to);
    if (plan->timeline.count)
        fprintf(to, ",\n \"step_seconds\": %.9g, \"bubble\": %.6g, \"samples_per_second\": %.9g",
                plan->timeline.seconds, plan->timeline.bubble,
                (double)plan->stage[0]->steps.full.samples / plan->timeline.seconds);
    fputs("}\n", to);
}
