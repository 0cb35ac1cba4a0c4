#include "tests/ops/bench.h"

#include "base/clock.h"
#include "base/rng.h"
#include "base/sort.h"
#include "base/text.h"
#include "graph/passes/grad.h"
#include "graph/passes/infer.h"
#include "graph/passes/precision/half_precision.h"
#include "ops/table.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 512, PLAIN_CHANNELS = 16 };

struct bench {
    const struct zt_case *c;
    const struct options *o;
    struct zt_case_graph made;
    struct zt_graph *convs[1 + CASE_OUTPUTS]; /* whose layouts x and the cotangents have */
    int conv_count;
    int grads[CASE_INPUTS], grad_count, cotangents[CASE_OUTPUTS], cotangent_count;
    struct machine m;
    bool *timed; /* by node */
    double sample[2][SAMPLES];
};

/* ---- the graph ---- */

/* The layout in which a convolution leaves a tensor of this shape. With few channels it is the data, which are plain.
 */
static bool conv_layout(struct bench *b, const struct zt_shape *x, const struct zt_layout **layout,
                        struct zt_err *err) {
    char text[256];
    int at = snprintf(text, sizeof text, "float[");
    *layout = NULL;
    if (x->rank < 3 || x->rank > 5 || x->dim[1] < PLAIN_CHANNELS)
        return true;
    for (int k = 0; k < x->rank; k++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%lld", k ? "," : "", (long long)x->dim[k]);
    at +=
        snprintf(text + at, sizeof text - (size_t)at, "] float[%lld,%lld", (long long)x->dim[1], (long long)x->dim[1]);
    for (int k = 2; k < x->rank; k++)
        at += snprintf(text + at, sizeof text - (size_t)at, ",1");
    snprintf(text + at, sizeof text - (size_t)at, "]");
    const struct zt_case conv = { "Conv", text };
    struct zt_case_graph made;
    struct zt_prepared *prepared = NULL;
    bool good =
        zt_case_make(&conv, false, &made, err) && zt_op_infer(made.graph, 0, err) &&
        zt_pass_assign(made.graph, &(struct zt_assign_options){ &zt_ops, b->o->backend, b->o->threads, b->o->device },
                       NULL, 0, &prepared, err);
    if (good) {
        *layout = made.graph->values[made.graph->outputs[0]]->layout;
        zt_assign_release(made.graph, prepared);
    }
    b->convs[b->conv_count++] = made.graph;
    return good;
}

static bool add_gradients(struct bench *b, struct zt_err *err) {
    struct zt_graph *g = b->made.graph;
    struct zt_cotangent from[CASE_OUTPUTS];
    int results = b->c->results ? b->c->results : g->output_count, wanted[CASE_INPUTS], count = 0;
    for (int i = 0; i < results; i++) {
        int y = g->outputs[i];
        if (!zt_dtype_in(g->values[y]->dtype, ZT_ANY_FLOAT))
            continue;
        struct zt_shape shape = g->values[y]->shape;
        int d = zt_graph_add_value(g, NULL, g->values[y]->dtype, &shape);
        g->values[d]->origin = ZT_FROM_INPUT;
        g->values[d]->producer = -1;
        from[b->cotangent_count] = (struct zt_cotangent){ .value = y, .cotangent = d };
        b->cotangents[b->cotangent_count++] = d;
    }
    for (int i = 0; i < b->made.in_count; i++)
        if (b->c->grad >> i & 1)
            wanted[count++] = b->made.in[i];
    b->grad_count = count;
    return zt_grad_build(g, &zt_ops, &(struct zt_grad_request){ from, b->cotangent_count, wanted, count }, b->grads,
                         err);
}

static bool set_layouts(struct bench *b, struct zt_err *err) {
    struct zt_graph *g = b->made.graph;
    const struct zt_layout *layout;
    if (!b->c->image || g->values[b->made.in[0]]->dtype != ZT_FLOAT)
        return true;
    if (!conv_layout(b, &g->values[b->made.in[0]]->shape, &layout, err))
        return false;
    g->values[b->made.in[0]]->layout = layout;
    for (int i = 0; i < b->cotangent_count; i++) {
        if (!conv_layout(b, &g->values[b->cotangents[i]]->shape, &layout, err))
            return false;
        g->values[b->cotangents[i]]->layout = layout;
    }
    return true;
}

/* Values others than nodes read; in image cases only gradients of parameters must be plain. */
static int list_roots(const struct bench *b, bool plain, int *to) {
    const struct zt_graph *g = b->made.graph;
    int count = 0, k = 0;
    for (int i = 0; i < g->output_count && !(plain && b->c->image); i++)
        to[count++] = g->outputs[i];
    for (int i = 0; i < b->made.in_count; i++)
        if (b->c->grad >> i & 1) {
            if (b->grads[k] >= 0 && !(plain && b->c->image && i == 0))
                to[count++] = b->grads[k];
            k++;
        }
    return count;
}

static bool build(struct bench *b, struct zt_err *err) {
    static const struct zt_train_options training = { 0 };
    int roots[CASE_INPUTS + CASE_OUTPUTS];
    if (!zt_case_make(b->c, false, &b->made, err) || !machine_infer(&b->made, err))
        return false;
    struct zt_graph *g = b->made.graph;
    if (g->nodes[0]->op->train) /* what follows x are initializers, as in models */
        for (int i = 1; i < b->made.in_count; i++)
            if (b->made.in[i] >= 0)
                g->values[b->made.in[i]]->origin = ZT_FROM_INITIALIZER;
    if (!zt_pass_train(g, &training, err) || (b->c->grad && !add_gradients(b, err)))
        return false;
    int count = list_roots(b, false, roots);
    if (!zt_graph_prune(g, roots, count, err) ||
        (b->o->bf16 && !zt_pass_half_propagation(
                           g, &zt_ops, &(struct zt_half_options){ ZT_BFLOAT16, roots, count, NULL, NULL }, err)) ||
        !set_layouts(b, err))
        return false;
    count = list_roots(b, true, roots);
    return machine_start(&b->m, g, roots, count, b->o, err);
}

/* ---- the runs ---- */

static bool is_constant(const struct zt_graph *g, int node) {
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        if (zt_in(g, node, i) && !zt_in(g, node, i)->data)
            return false;
    return !(g->nodes[node]->op->flags & ZT_OP_RANDOM) && strcmp(g->nodes[node]->name, "case") != 0;
}

/* Runs what is not timed, and finds out what is. */
static bool run_once(struct bench *b, struct zt_err *err) {
    struct zt_graph *g = b->made.graph;
    b->timed = ZT_NEW_N(g->arena, bool, g->node_count);
    for (int n = 0; n < g->node_count; n++) {
        bool constant = is_constant(g, n);
        if (!machine_is_view(&b->m, n) && !machine_run_node(&b->m, n, err))
            return false;
        for (int i = 0; constant && i < g->nodes[n]->out_count; i++)
            if (zt_out(g, n, i))
                zt_out(g, n, i)->data = b->m.buffer[g->nodes[n]->out[i]];
        b->timed[n] = !constant && !machine_is_view(&b->m, n);
    }
    return b->m.device->api->synchronize(b->m.device, err);
}

static bool fill(struct bench *b, struct zt_err *err) {
    struct zt_graph *g = b->made.graph;
    for (int i = 0; i < b->made.in_count; i++)
        if (b->made.in[i] >= 0 && !machine_feed(&b->m, b->made.in[i], &b->made.feed[i], err))
            return false;
    for (int i = 0; i < b->cotangent_count; i++) {
        const struct zt_value *v = g->values[b->cotangents[i]];
        int64_t count = zt_shape_count(&v->shape);
        void *data = zt_arena_alloc(g->arena, (size_t)count * zt_dtype_bytes(v->dtype));
        struct zt_rng rng = zt_rng_start(99, (uint64_t)i);
        for (int64_t e = 0; e < count; e++)
            zt_store_double(v->dtype, data, e, (double)zt_rng_uniform(&rng) - 0.5);
        if (!machine_feed(&b->m, b->cotangents[i], &(struct zt_tensor){ v->dtype, v->shape, data }, err))
            return false;
    }
    return true;
}

struct bench *bench_open(const struct zt_case *c, const struct options *o, struct zt_err *err) {
    struct bench *b = zt_calloc(1, sizeof *b);
    b->c = c;
    b->o = o;
    if (build(b, err) && (!machine_runs_here(&b->m) || (fill(b, err) && run_once(b, err))))
        return b;
    bench_close(b);
    return NULL;
}

void bench_close(struct bench *b) {
    machine_finish(&b->m);
    for (int i = 0; i < b->conv_count; i++)
        zt_graph_destroy(b->convs[i]);
    zt_graph_destroy(b->made.graph);
    free(b);
}

static bool run_phase(const struct bench *b, enum zt_phase phase, double *took, struct zt_err *err) {
    double start = zt_now();
    for (int n = 0; n < b->m.g->node_count; n++)
        if (b->timed[n] && b->m.g->nodes[n]->phase == phase && !machine_run_node(&b->m, n, err))
            return false;
    bool good = b->m.device->api->synchronize(b->m.device, err);
    *took = zt_now() - start;
    return good;
}

/* ---- results ---- */

void bench_print_case(const struct zt_case *c, int number) {
    printf(
        "\"case\": %d, \"op\": \"%s\", \"domain\": \"%s\", \"inputs\": \"%s\", \"attrs\": \"%s\", \"outs\": %d, "
        "\"image\": %s, \"grad\": %u",
        number, c->op, c->domain ? c->domain : "", c->in ? c->in : "", c->attrs ? c->attrs : "", c->outs ? c->outs : 1,
        c->image ? "true" : "false", c->grad);
}

/* Ops that ran on reference kernels though another back end was asked for. */
static void add_references(const struct bench *b, struct zt_text *to) {
    const struct zt_graph *g = b->m.g;
    for (int n = 0; n < g->node_count; n++)
        if (b->timed[n] && g->nodes[n]->backend == ZT_REF && b->o->backend != ZT_REF)
            zt_text_add(to, "%s%s", to->at ? "," : "", g->nodes[n]->op->name);
}

static void print(const struct bench *b, int number, const double median[2]) {
    struct zt_text slow = { 0 };
    double bytes = 0;
    add_references(b, &slow);
    for (int i = 0; i < b->made.in_count; i++)
        bytes += b->made.in[i] >= 0 ? (double)zt_value_bytes(b->m.g->values[b->made.in[i]]) : 0;
    for (int i = 0; i < b->m.g->output_count; i++)
        bytes += (double)zt_value_bytes(b->m.g->values[b->m.g->outputs[i]]);
    if (b->o->json) {
        printf("{");
        bench_print_case(b->c, number);
        printf(", \"threads\": %d, \"forward_ms\": %.5f, \"backward_ms\": %.5f, \"reference\": \"%s\"}\n",
               b->o->threads, median[0] * 1e3, median[1] * 1e3, slow.at ? slow.at : "");
    } else {
        printf("%-18s %-52s %9.4f ms %8.2f GB/s", b->c->op, b->c->in ? b->c->in : "", median[0] * 1e3,
               bytes / median[0] * 1e-9);
        if (b->c->grad)
            printf(" backward %9.4f ms", median[1] * 1e3);
        printf("%s%s\n", slow.at ? "  reference: " : "", slow.at ? slow.at : "");
    }
    fflush(stdout);
    zt_text_finish(&slow);
}

bool bench_print(struct bench *b, int number, double budget, struct zt_err *err) {
    double end = zt_now() + budget, median[2];
    int count = 0;
    if (!machine_runs_here(&b->m))
        return true;
    while (count == 0 || (count < SAMPLES && zt_now() < end)) {
        for (int phase = ZT_FORWARD; phase <= ZT_BACKWARD; phase++)
            if (!run_phase(b, (enum zt_phase)phase, &b->sample[phase][count], err))
                return false;
        count++;
    }
    for (int phase = 0; phase < 2; phase++) {
        zt_sort_doubles(b->sample[phase], count);
        median[phase] = b->sample[phase][count / 2];
    }
    print(b, number, median);
    return true;
}
