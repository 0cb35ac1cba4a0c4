/* The tables of DeepSpeed's memory estimators (deepspeed.runtime.zero.stage_1_and_2 and stage3), with their columns:
 * fp16 or bf16 with Adam whatever the config says, so that users can compare the figures. Below them, the memory that
 * this program needs for each ZeRO stage, and the activations of the plan's largest stage. */
#include "plan/deepspeed_estimates.h"

static const double GB = 1 << 30, HOST = 1.5; /* DeepSpeed adds half for host buffers */

struct setup {
    double params, largest; /* elements of the model, and of its largest layer */
    double gpus, nodes, total;
};

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* A layer is the set of parameters that one node reads (weight and bias), as in the split into stages. */
static double largest_layer(const struct zt_rank_plan *p) {
    const struct zt_graph *g = p->programs.train.count ? p->programs.train.at[0]->training_graph.graph : NULL;
    double largest = 0;
    for (int n = 0; g && n < g->node_count; n++) {
        double layer = 0;
        for (int i = 0; i < g->nodes[n]->in_count; i++) {
            const struct zt_value *v = zt_in(g, n, i);
            layer += v && v->trainable ? (double)zt_shape_count(&v->shape) : 0;
        }
        largest = larger(largest, layer);
    }
    return largest;
}

static struct setup find_setup(const struct zt_plan *plan) {
    int per_host = plan->grid.world < plan->machine.per_host ? plan->grid.world : plan->machine.per_host;
    struct setup s = { .gpus = per_host, .nodes = (plan->grid.world + per_host - 1) / per_host };
    for (int i = 0; i < plan->grid.stages; i++) {
        s.params += (double)zt_flat_stepped(plan->stage[i]->tensors.flat);
        s.largest = larger(s.largest, largest_layer(plan->stage[i]));
    }
    s.total = s.gpus * s.nodes;
    return s;
}

static void row(FILE *to, double host, double gpu, const char *options) {
    fprintf(to, "  %7.2fGB | %6.2fGB | %s\n", host / GB, gpu / GB, options);
}

static void head(FILE *to, const struct setup *s, const char *stage, bool layers) {
    fprintf(to, "Estimated memory needed for params, optim states and gradients for a:\n");
    fprintf(to, "HW: Setup with %.0f node%s, %.0f GPU%s per node.\n", s->nodes, s->nodes > 1 ? "s" : "", s->gpus,
            s->gpus > 1 ? "s" : "");
    fprintf(to, "SW: Model with %.0fM total params", s->params / 1e6);
    if (layers)
        fprintf(to, ", %.0fM largest layer params", s->largest / 1e6);
    fprintf(to, ".  (%s)\n  per CPU  |  per GPU |   Options\n", stage);
}

static void print_stage_2(FILE *to, const struct setup *s) {
    head(to, s, "ZeRO 2", false);
    row(to, s->params * larger(4 * s->total, 16) * HOST, 2 * s->params, "offload_optimizer=cpu ");
    row(to, 4 * s->params * s->gpus * HOST, 2 * s->params + 18 * s->params / s->total, "offload_optimizer=none");
}

static void print_stage_3(FILE *to, const struct setup *s) {
    double p = s->params, layer = 4 * s->largest, shared = layer + 2 * p / s->total, all = layer + 18 * p / s->total;
    head(to, s, "ZeRO 3", true);
    row(to, 18 * p / s->nodes * HOST, layer, "offload_param=cpu , offload_optimizer=cpu , zero_init=1");
    row(to, p * larger(4 * s->gpus, 18 / s->nodes) * HOST, layer,
        "offload_param=cpu , offload_optimizer=cpu , zero_init=0");
    row(to, p * 16 / s->nodes * HOST, shared, "offload_param=none, offload_optimizer=cpu , zero_init=1");
    row(to, p * larger(4 * s->gpus, 16 / s->nodes) * HOST, shared,
        "offload_param=none, offload_optimizer=cpu , zero_init=0");
    row(to, s->largest * 4 * s->gpus * HOST, all, "offload_param=none, offload_optimizer=none, zero_init=1");
    row(to, p * 4 * s->gpus * HOST, all, "offload_param=none, offload_optimizer=none, zero_init=0");
}

void zt_plan_print_estimate(const struct zt_plan *plan, FILE *to) {
    struct setup s = find_setup(plan);
    int64_t activations = 0;
    for (int i = 0; i < plan->grid.stages; i++)
        if (plan->stage[i]->memory.activation_bytes > activations)
            activations = plan->stage[i]->memory.activation_bytes;
    double weights = 4 * s.params, states = 4.0 * plan->stage[0]->memory.optimizer_states * s.params,
           n = plan->grid.data;
    const double bytes[4] = { 2 * weights + states, 2 * weights + states / n, weights + (weights + states) / n,
                              (2 * weights + states) / n };
    fputc('\n', to);
    print_stage_2(to, &s);
    print_stage_3(to, &s);
    fprintf(to, "ztrain, fp32 and the config's optimizer on %d data-parallel rank%s, the whole model on one stage:\n",
            plan->grid.data, zt_plural(plan->grid.data));
    for (int stage = 0; stage < 4; stage++)
        fprintf(to, "  ZeRO %d: %.0f bytes per rank for weights, gradients, states\n", stage, bytes[stage]);
    fprintf(to, "plus %lld bytes per rank for activations%s\n", (long long)activations,
            plan->grid.stages > 1 ? " of the largest stage" : "");
}
