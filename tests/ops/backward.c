#include "tests/ops/backward.h"

#include "device/device.h"
#include "graph/passes/grad.h"
#include "graph/passes/infer.h"
#include "ops/table.h"

#include <string.h>

struct training_run {
    struct zt_case_graph made;
    struct machine m;
};

/* A constant: the cotangent of output `i`. */
static int add_cotangent(struct zt_graph *g, int i) {
    const struct zt_value y = *g->values[g->outputs[i]];
    struct zt_tensor wide = zt_case_random(g->arena, &y.shape, (uint64_t)i);
    void *data = zt_arena_alloc(g->arena, (size_t)zt_value_bytes(&y));
    for (int64_t k = 0; k < zt_shape_count(&y.shape); k++)
        zt_store_double(y.dtype, data, k, ((const double *)wide.data)[k]);
    return zt_graph_add_constant(g, NULL, y.dtype, &y.shape, data);
}

/* The gradients become the graph's outputs. */
static bool differentiate(const struct zt_case *c, struct zt_case_graph *made, struct zt_err *err) {
    const struct zt_train_options training = { 0 };
    struct zt_graph *g = made->graph;
    struct zt_cotangent from[CASE_OUTPUTS];
    int wanted[CASE_INPUTS], grads[CASE_INPUTS], count = 0, from_count = 0;
    if (!zt_pass_train(g, &training, err))
        return false;
    for (int i = 0; i < zt_case_results(c, g); i++)
        if (zt_dtype_in(g->values[g->outputs[i]]->dtype, ZT_ANY_FLOAT)) {
            int d = add_cotangent(g, i);
            from[from_count++] = (struct zt_cotangent){ .value = g->outputs[i], .cotangent = d };
        }
    for (int i = 0; i < made->in_count; i++)
        if (c->grad >> i & 1)
            wanted[count++] = made->in[i];
    if (!zt_grad_build(g, &zt_ops, &(struct zt_grad_request){ from, from_count, wanted, count }, grads, err))
        return false;
    g->outputs = ZT_NEW_N(g->arena, int, count);
    g->output_count = 0;
    for (int i = 0; i < count; i++)
        if (grads[i] >= 0) /* statistics have none in the training form */
            g->outputs[g->output_count++] = grads[i];
    return zt_graph_prune(g, g->outputs, g->output_count, err);
}

static bool run(const struct zt_case *c, const struct options *o, struct training_run *j, struct zt_err *err) {
    if (!zt_case_make(c, false, &j->made, err) || !machine_infer(&j->made, err) || !differentiate(c, &j->made, err))
        return false;
    struct zt_graph *g = j->made.graph;
    bool good = machine_start(&j->m, g, g->outputs, g->output_count, o, err);
    if (good && !machine_runs_here(&j->m))
        return true;
    for (int i = 0; good && i < j->made.in_count; i++)
        if (j->made.in[i] >= 0 && !j->made.constant[i] && j->made.feed[i].data)
            good = machine_feed(&j->m, j->made.in[i], &j->made.feed[i], err);
    for (int n = 0; good && n < g->node_count; n++)
        good = machine_run_node(&j->m, n, err);
    return good;
}

static bool compare(const struct zt_case *c, const struct training_run *want, const struct training_run *got,
                    const struct training_run *alone, int threads, struct zt_err *err) {
    for (int i = 0; i < want->made.graph->output_count; i++) {
        struct zt_tensor w, g, a;
        if (!machine_fetch(&want->m, want->made.graph->outputs[i], &w, err) ||
            !machine_fetch(&got->m, got->made.graph->outputs[i], &g, err) ||
            !machine_fetch(&alone->m, alone->made.graph->outputs[i], &a, err) || !zt_case_same(c, i, &g, &w, err))
            return false;
        if (memcmp(g.data, a.data, (size_t)zt_shape_count(&g.shape) * zt_dtype_bytes(g.dtype)) != 0)
            return zt_fail(err, ZT_EXIT_RUN, "gradient %d: %d threads give other bits than one", i, threads);
    }
    return true;
}

/* Gradients that can be added to what is there, once more: twice the numbers. */
static bool check_accumulation(const struct zt_case *c, const struct training_run *want, const struct training_run *got,
                               struct zt_err *err) {
    const struct zt_graph *g = got->made.graph;
    for (int i = 0; i < g->output_count; i++) {
        const int node = g->values[g->outputs[i]]->producer;
        struct zt_tensor w, twice;
        if (node < 0 || !got->m.prepared[node].can_accumulate || g->nodes[node]->out[0] != g->outputs[i])
            continue;
        if (!machine_add_node(&got->m, node, err) || !machine_fetch(&got->m, g->outputs[i], &twice, err) ||
            !machine_fetch(&want->m, want->made.graph->outputs[i], &w, err))
            return false;
        for (int64_t k = 0; k < zt_shape_count(&twice.shape); k++)
            zt_store_double(twice.dtype, (void *)twice.data, k, zt_load_double(twice.dtype, twice.data, k) / 2);
        if (!zt_case_same(c, i, &twice, &w, err))
            return zt_err_within(err, 0, "accumulated");
    }
    return true;
}

bool backward_check(const struct zt_case *c, const struct options *o, struct zt_err *err) {
    struct options plain = *o, alone = *o;
    struct training_run runs[3] = { 0 };
    const struct options *const with[3] = { &plain, o, &alone };
    bool good = true;
    struct zt_device *host = zt_device_host_create(o->threads);
    plain.backend = ZT_REF;
    plain.device = host;
    alone.threads = 1;
    for (int i = 0; good && i < 3; i++)
        good = run(c, with[i], &runs[i], err);
    if (good && machine_runs_here(&runs[1].m))
        good =
            compare(c, &runs[0], &runs[1], &runs[2], o->threads, err) && check_accumulation(c, &runs[0], &runs[1], err);
    for (int i = 0; i < 3; i++) {
        if (runs[i].m.g)
            machine_finish(&runs[i].m);
        if (runs[i].made.graph)
            zt_graph_destroy(runs[i].made.graph);
    }
    host->api->destroy(host);
    return good;
}
