/* The part of plan.txt about one stage: schedule, buckets, programs. */
#include "plan/rank_print.h"

#include "base/show.h"
#include "base/text.h"
#include "plan/job/fusion.h"
#include "plan/rank_bytes.h"
#include "plan/rank_plan.h"

#include <stdio.h>

enum { SHOWN = 12 }; /* operators of a fused node */

/* Prints the operators inside a fused node or a loop, and the number of iterations. */
static void print_body(FILE *to, const struct zt_node *node) {
    const long long turns = (long long)zt_attr_int(node, "turns", 0);
    for (int i = 0; i < node->attr_count; i++) {
        const struct zt_graph *body = node->attr[i].graph;
        for (int n = 0; body && n < body->node_count && n < SHOWN; n++)
            fprintf(to, "%s%s", n ? ", " : ": ", body->nodes[n]->op_type);
        if (body && body->node_count > SHOWN)
            fprintf(to, " and %d more", body->node_count - SHOWN);
    }
    if (turns)
        fprintf(to, ", %lld iterations", turns);
}

/* Prints the implementation of a node, if its back end has several, and the reason for not using a library. */
static void print_path(FILE *to, const struct zt_path *path) {
    if (path->name)
        fprintf(to, " | %s%s%s", path->name, path->note ? ": " : "", path->note ? path->note : "");
}

static bool is_frozen(const struct zt_rank_plan *plan, const struct zt_command *c) {
    return c->bucket >= plan->tensors.flat->bucket_count;
}

static void print_commands(FILE *to, const struct zt_rank_plan *plan, const struct zt_program *p,
                           const struct zt_command *at, int count, const char *segment) {
    static const char *const backend[ZT_BACKENDS] = { "ref", "cpu", "cuda" };
    const struct zt_graph *g = p->training_graph.graph;
    fprintf(to, "%s, %d commands\n", segment, count);
    for (int i = 0; i < count; i++) {
        const struct zt_command *c = &at[i];
        char tensor[ZT_ERR_TEXT], node[ZT_ERR_TEXT];
        zt_show(tensor, sizeof tensor,
                plan->tensors.flat->tensor_count ? plan->tensors.flat->tensors[c->tensor].name : "");
        switch (c->kind) {
        case ZT_RUN_NODE:
            fprintf(to, "  %-4s %-24s %s", backend[g->nodes[c->node]->backend], g->nodes[c->node]->op_type,
                    zt_show(node, sizeof node, g->nodes[c->node]->name));
            print_body(to, g->nodes[c->node]);
            print_path(to, &p->prepared[c->node].path);
            fputc('\n', to);
            break;
        case ZT_ADD_GRAD:
            fprintf(to, "  ADD gradient of %s\n", tensor);
            break;
        case ZT_ZERO_GRAD:
            fprintf(to, "  ZERO gradient of %s\n", tensor);
            break;
        case ZT_GATHER:
            fprintf(to, "  GATHER bucket %d%s\n", c->bucket, is_frozen(plan, c) ? ", frozen" : "");
            break;
        case ZT_GATHER_PERSISTENT:
            fprintf(to, "  KEEP %lld elements of small tensors whole\n", (long long)plan->tensors.flat->persistent);
            break;
        case ZT_GATHERED:
            fprintf(to, "  GATHERED bucket %d\n", c->bucket);
            break;
        case ZT_REDUCED:
            fprintf(to, "  REDUCED bucket %d%s\n", c->bucket, c->last_only ? ", last micro-batch only" : "");
            break;
        case ZT_RELEASE:
            fprintf(to, "  RELEASE bucket %d%s\n", c->bucket, is_frozen(plan, c) ? ", frozen" : "");
            break;
        case ZT_REDUCE:
            fprintf(to, "  REDUCE bucket %d%s%s\n", c->bucket,
                    c->all ? ", all ranks get the sum" : ", the owner gets its slice",
                    c->last_only ? ", last micro-batch only" : "");
            break;
        }
    }
}

static void print_recomputed(FILE *to, const struct zt_segments *again) {
    char text[32], first[ZT_ERR_TEXT], last[ZT_ERR_TEXT];
    for (int i = 0; i < again->count; i++)
        fprintf(to, " recomputed in backward: %s to %s, %d nodes, %s freed, %.3g FLOPs\n",
                zt_show(first, sizeof first, again->at[i].first), zt_show(last, sizeof last, again->at[i].last),
                again->at[i].nodes, zt_format_bytes(text, (double)again->at[i].bytes), again->at[i].flops);
}

/* Mode dp: prints the memory that only device 0 needs. */
static void print_loss(FILE *to, const struct zt_rank_plan *plan) {
    const struct zt_program *p = plan->programs.loss_train.count ? plan->programs.loss_train.at[0] : NULL;
    char text[2][32];
    double gathered = 0;
    for (int i = 0; p && i < p->recv_act.count; i++)
        gathered += (double)p->recv_act.at[i].bytes;
    if (p)
        fprintf(to,
                "device 0 only: optimizer state; the loss, %s of its activations for the outputs of all replicas (%s "
                "per micro-batch), the loss and its gradient\n",
                zt_format_bytes(text[0], (double)plan->memory.loss_activation_bytes),
                zt_format_bytes(text[1], gathered));
}

static void print_program(FILE *to, const struct zt_rank_plan *plan, const struct zt_program *p) {
    char text[32];
    fprintf(to, "%s program for %lld samples, activations %s, workspace %s\n",
            p->training_graph.training ? "training" : "evaluation", (long long)p->training_graph.rows,
            zt_format_bytes(text, (double)p->activation_bytes),
            zt_format_bytes((char[32]){ 0 }, (double)p->workspace_bytes));
    struct zt_text fused = { 0 };
    zt_fusion_list(p->training_graph.fused, &fused);
    if (fused.at)
        fprintf(to, " fused: %s\n", fused.at);
    zt_text_finish(&fused);
    print_recomputed(to, &p->recomputed);
    print_commands(to, plan, p, p->derive, p->derive_count, " after every update");
    print_commands(to, plan, p, p->forward, p->forward_count, " forward");
    if (p->training_graph.training)
        print_commands(to, plan, p, p->backward, p->backward_count, " backward");
}

enum { SHOWN_SLICES = 8 };

/* Buckets are numbered through from `first` on. */
static void print_slices(FILE *to, const struct zt_flat *f, int first, const char *unit) {
    for (int b = 0; b < f->bucket_count; b++) {
        fprintf(to, "  bucket %d: %s %lld..%lld, slices at", first + b, unit, (long long)f->bucket[b],
                (long long)f->bucket[b + 1]);
        for (int r = 0; r <= f->ranks && r <= SHOWN_SLICES; r++)
            fprintf(to, " %lld", (long long)zt_slice_first(f, b, r));
        if (f->ranks > SHOWN_SLICES)
            fprintf(to, " ... %d more ... %lld", f->ranks - SHOWN_SLICES - 1,
                    (long long)zt_slice_first(f, b, f->ranks));
        fputc('\n', to);
    }
}

static void print_buckets(FILE *to, const struct zt_rank_plan *plan) {
    const struct zt_flat *f = plan->tensors.flat, *frozen = plan->tensors.frozen ? plan->tensors.frozen->flat : NULL;
    fprintf(to, "%d tensors, %lld elements, %d buckets\n", f->tensor_count, (long long)f->count, f->bucket_count);
    print_slices(to, f, 0, "elements");
    if (!frozen)
        return;
    fprintf(to, "%d frozen tensors, %lld units of 4 bytes, %d buckets\n", frozen->tensor_count,
            (long long)frozen->count, frozen->bucket_count);
    print_slices(to, frozen, f->bucket_count, "units");
}

static void print_ties(FILE *to, const struct zt_rank_plan *plan) {
    char name[ZT_ERR_TEXT];
    for (int t = plan->tensors.flat->own_tensors; t < plan->tensors.flat->tensor_count; t++)
        fprintf(to, "  copy of %s, which another stage owns\n",
                zt_show(name, sizeof name, plan->tensors.flat->tensors[t].name));
    for (int i = 0; i < plan->tensors.tie_count; i++)
        fprintf(to, "  %lld elements of a weight that rank %d holds too: gradient %s, weight %s\n",
                (long long)plan->tensors.ties[i].count, plan->tensors.ties[i].peer,
                plan->tensors.ties[i].home ? "received" : "sent", plan->tensors.ties[i].home ? "sent" : "received");
}

/* The free device memory is only known after all blocks are allocated. */
static void print_data(FILE *to, const struct zt_rank_plan *plan) {
    const struct zt_source *const source[] = { plan->source, plan->eval_source };
    static const char *const name[] = { "training", "evaluation" };
    char text[32];
    for (int i = 0; plan->device_memory && i < 2; i++) {
        int64_t bytes = source[i] ? zt_source_stored_bytes(source[i]) : 0;
        if (bytes > 0)
            fprintf(
                to,
                "%s data, %s in their stored format, are held on the device if they fit into half of its free memory\n",
                name[i], zt_format_bytes(text, (double)bytes));
        else if (source[i])
            fprintf(to, "%s data are copied to the device in micro-batches\n", name[i]);
    }
}

void zt_rank_plan_print(const struct zt_rank_plan *plan, FILE *to) {
    const struct zt_config *c = plan->job->config;
    struct zt_text schedule = { 0 };
    zt_schedule_print(&schedule, &plan->steps.full_schedule);
    fprintf(to, "schedule %s, %s\n", plan->replicas ? "of replicas" : c->parallel.schedule,
            schedule.at ? schedule.at : "");
    zt_text_finish(&schedule);
    print_loss(to, plan);
    print_data(to, plan);
    if (zt_sharding_gathers_for_use(plan->sharding))
        fprintf(to, "prefetch %lld elements, at most %lld gathered, reuse within %lld; persistent on each rank %lld\n",
                (long long)plan->traffic.limits.prefetch, (long long)plan->traffic.limits.max_live,
                (long long)plan->traffic.limits.reuse_distance, (long long)plan->tensors.flat->persistent);
    for (int i = 0; i < plan->offload.without_effect.count; i++)
        fprintf(to, "no effect: %s\n", plan->offload.without_effect.at[i]);
    if (plan->offload.note)
        fprintf(to, "%s\n", plan->offload.note);
    fprintf(to, "%.3g FLOPs per micro-batch\n", plan->flops);
    print_buckets(to, plan);
    print_ties(to, plan);
    const struct zt_program_set *sets[] = { &plan->programs.train, &plan->programs.loss_train,
                                            &plan->programs.evaluation, &plan->programs.loss_evaluation };
    for (int s = 0; s < 4; s++)
        for (int i = 0; i < sets[s]->count; i++)
            print_program(to, plan, sets[s]->at[i]);
}
