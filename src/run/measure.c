#include "run/measure.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/sort.h"
#include "device/device.h"
#include "graph/passes/assign/assign.h"
#include "ops/table.h"

#include <stdlib.h>
#include <string.h>

enum { REPEATS = 4 };

/* The probes run forward only. Gradients reach a lower rate; over a step, about this share. */
static const double BACKWARD_SHARE = 0.8;

/* A node with inputs of the given shapes. */
struct probe {
    struct zt_graph *graph;
    struct zt_prepared *prepared;
    void **data; /* by value */
    size_t workspace;
    int node;
};

/* The workload of a probe: `times` runs of an operator on inputs of these shapes. */
struct workload {
    enum zt_backend backend;
    const char *op;
    const struct zt_shape *shapes;
    int count, times;
};

static bool open_probe(struct probe *p, const struct workload *w, int threads, struct zt_device *device,
                       struct zt_err *err) {
    struct zt_graph *g = zt_graph_create("probe");
    int in[4], out;
    *p = (struct probe){ .graph = g };
    for (int i = 0; i < w->count; i++) {
        in[i] = zt_graph_add_value(g, NULL, ZT_FLOAT, &w->shapes[i]);
        g->values[in[i]]->origin = ZT_FROM_INPUT;
    }
    out = zt_graph_add_value(g, "out", ZT_UNDEFINED, NULL);
    p->node = zt_graph_add_node(g, &(struct zt_node_spec){ "probe", w->op, "", ZT_OPSET, in, w->count, &out, 1 });
    if (!zt_op_resolve(&zt_ops, g, p->node, err) || !zt_op_infer(g, p->node, err) || !zt_graph_sort(g, err) ||
        !zt_pass_assign(g, &(struct zt_assign_options){ &zt_ops, w->backend, threads, device }, NULL, 0, &p->prepared,
                        err))
        return false;
    for (int n = 0; n < g->node_count; n++) {
        p->node = strcmp(g->nodes[n]->name, "probe") == 0 ? n : p->node;
        if (p->prepared[n].workspace_bytes > p->workspace)
            p->workspace = p->prepared[n].workspace_bytes;
    }
    p->data = ZT_NEW_N(g->arena, void *, g->value_count + 1);
    for (int i = 0; i < g->value_count; i++)
        p->data[i] = zt_arena_alloc(g->arena, (size_t)zt_value_bytes(g->values[i]) + 64);
    return true;
}

static void close_probe(struct probe *p) {
    zt_assign_release(p->graph, p->prepared);
    zt_graph_destroy(p->graph);
}

static bool run(struct probe *p, int times, int threads, double *seconds, struct zt_err *err) {
    struct zt_node *n = p->graph->nodes[p->node];
    struct zt_view views[8] = { { 0 } };
    for (int i = 0; i < n->in_count + n->out_count; i++) {
        int v = i < n->in_count ? n->in[i] : n->out[i - n->in_count];
        const struct zt_value *value = p->graph->values[v];
        views[i] = (struct zt_view){ value->dtype, value->shape, p->data[v], value->layout };
    }
    struct zt_call call = { .graph = p->graph,
                            .node = n,
                            .in = views,
                            .out = views + n->in_count,
                            .in_count = n->in_count,
                            .out_count = n->out_count,
                            .state = p->prepared[p->node].state,
                            .workspace = zt_arena_alloc(p->graph->arena, p->workspace + 64),
                            .threads = threads };
    *seconds = 1e30;
    for (int r = 0; r < REPEATS; r++) { /* the fastest run; the first one warms up */
        double before = zt_now();
        for (int i = 0; i < times; i++)
            if (!n->op->kernel[n->backend].run(&call, err))
                return false;
        double took = (zt_now() - before) / times;
        *seconds = took < *seconds ? took : *seconds;
    }
    return true;
}

/* Seconds and work (zt_op_work) of one run of the workload. */
struct speed {
    double seconds, work;
};

static bool measure_node(const struct workload *w, int threads, struct zt_device *device, struct speed *to,
                         struct zt_err *err) {
    struct probe p;
    bool ok = open_probe(&p, w, threads, device, err) && run(&p, w->times, threads, &to->seconds, err);
    if (ok)
        to->work = zt_op_work(p.graph, p.node);
    close_probe(&p);
    return ok;
}

#define SHAPE(n, ...)                                                                                                  \
    {                                                                                                                  \
        .rank = (n), .dim = { __VA_ARGS__ }                                                                            \
    }

static bool measure_kernels(int threads, struct zt_device *device, struct zt_machine *m, struct zt_err *err) {
    static const struct zt_shape product[2] = { SHAPE(2, 256, 192), SHAPE(2, 192, 256) },
                                 conv[2] = { SHAPE(4, 8, 32, 12, 12), SHAPE(4, 32, 32, 5, 5) },
                                 norm[2] = { SHAPE(2, 256, 128), SHAPE(1, 128) },
                                 wide[2] = { SHAPE(1, 1 << 19), SHAPE(1, 1 << 19) }, tiny[1] = { SHAPE(1, 16) },
                                 few[2] = { SHAPE(1, 1 << 13), SHAPE(1, 1 << 13) };
    enum { PRODUCT, CONV, WIDE, TINY, NORM, FEW, WORKLOADS };
    /* the convolution has a kernel without shortcuts, which zt_kernel.share stands for; the norm represents functions
     * with several operations per element: softmax, GELU, pools and others */
    static const struct workload workloads[WORKLOADS] = {
        [PRODUCT] = { ZT_CPU, "MatMul", product, 2, 2 },
        [CONV] = { ZT_CPU, "Conv", conv, 2, 1 },
        [WIDE] = { ZT_CPU, "Add", wide, 2, 1 },
        [TINY] = { ZT_CPU, "Relu", tiny, 1, 64 },
        [NORM] = { ZT_CPU, "LayerNormalization", norm, 2, 2 },
        [FEW] = { ZT_REF, "Add", few, 2, 1 },
    };
    struct speed s[WORKLOADS];
    for (int i = 0; i < WORKLOADS; i++)
        if (!measure_node(&workloads[i], threads, device, &s[i], err))
            return false;
    m->product_flops = m->half_flops = s[PRODUCT].work / s[PRODUCT].seconds;
    m->conv_flops = s[CONV].work / s[CONV].seconds;
    m->memory_rate = 3.0 * sizeof(float) * s[WIDE].work / s[WIDE].seconds;
    m->node_seconds = s[TINY].seconds;
    m->element_flops = s[NORM].work / s[NORM].seconds;
    m->plain_flops = s[FEW].work / s[FEW].seconds;
    return true;
}

/* Measures half of a round trip between neighbours; with an odd number of ranks the last one has no neighbour.
 * Collectives use other paths. */
static bool measure_sends(struct zt_comm *world, struct zt_machine *m, void *data, const int64_t *bytes,
                          struct zt_err *err) {
    const int peer = world->rank ^ 1;
    double took[2] = { 0 };
    bool ok = true;
    for (int size = 0; ok && peer < world->size && size < 2; size++) {
        double sorted[2 * REPEATS];
        for (int i = 0; ok && i < 2 * REPEATS; i++) {
            const double before = zt_now();
            for (int pass = 0; ok && pass < 2; pass++)
                ok = (pass == 0) == (world->rank < peer)
                         ? world->api->send(world, data, (size_t)bytes[size], peer, err)
                         : world->api->recv(world, data, (size_t)bytes[size], peer, err);
            sorted[i] = (zt_now() - before) / 2;
        }
        zt_sort_doubles(sorted, 2 * REPEATS);
        took[size] = sorted[REPEATS];
    }
    /* the mean over ranks with a neighbour, on every rank */
    double both[3] = { took[0], took[1], peer < world->size };
    ok = ok && world->api->sum(world, both, 3, err);
    const double large = (both[0] - both[1]) / both[2];
    m->send_seconds = both[1] / both[2];
    m->send_rate = (double)(bytes[0] - bytes[1]) / (large > 1e-9 ? large : 1e-9);
    return ok;
}

/* Large transfers give the rate, small ones the time per message, of which half an all_reduce takes n - 1. */
static bool measure_links(struct zt_comm *world, bool sends, struct zt_machine *m, struct zt_err *err) {
    enum { LARGE = 1 << 18, SMALL = 64 };
    int64_t *bound = zt_malloc(((size_t)world->size + 1) * sizeof *bound);
    size_t room = LARGE * sizeof(float);
    float *data = zt_block_create(room, "probe", err); /* in shared memory, like gradients */
    double took[2] = { 1e30, 1e30 };
    bool ok = data && world->api->share(world, data, room, err);
    for (int size = 0; ok && size < 2; size++) {
        int64_t count = size ? SMALL : LARGE;
        for (int r = 0; r <= world->size; r++)
            bound[r] = count * r / world->size;
        for (int i = 0; ok && i < 2 * REPEATS; i++) {
            ok = world->api->barrier(world, err);
            double before = zt_now();
            ok = ok && world->api->reduce_scatter(world, data, bound, err) &&
                 world->api->all_gather(world, data, bound, sizeof *data, err);
            double now = (zt_now() - before) / 2;
            took[size] = now < took[size] ? now : took[size];
        }
    }
    if (data)
        world->api->unshare(world, data);
    const int64_t lengths[] = { (int64_t)room, SMALL * (int64_t)sizeof *data };
    ok = ok && (!sends || measure_sends(world, m, data, lengths, err));
    zt_block_destroy(data, room);
    free(bound);
    double bytes = (double)LARGE * sizeof *data * (world->size - 1) / world->size, large = took[0] - took[1];
    m->link_seconds = took[1] / (world->size - 1);
    m->link_rate = bytes / (large > 1e-9 ? large : 1e-9);
    m->net_rate = m->link_rate; /* measured between the ranks of this run, on any hosts */
    m->net_seconds = m->link_seconds;
    return ok;
}

static bool agree(struct zt_comm *world, struct zt_machine *m, struct zt_err *err) {
    double *const rates[] = { &m->product_flops, &m->conv_flops,  &m->half_flops,   &m->element_flops,
                              &m->plain_flops,   &m->memory_rate, &m->node_seconds, &m->link_seconds,
                              &m->link_rate,     &m->net_seconds, &m->net_rate };
    enum { RATES = sizeof rates / sizeof *rates };
    double values[RATES];
    for (int i = 0; i < RATES; i++)
        values[i] = *rates[i] / world->size;
    if (!world->api->sum(world, values, RATES, err))
        return false;
    for (int i = 0; i < RATES; i++)
        *rates[i] = values[i];
    return true;
}

bool zt_measure(struct zt_comm *world, int threads, bool sends, struct zt_machine *m, struct zt_err *err) {
    *m = zt_machine_nominal(threads);
    m->name = "this host, measured";
    m->efficiency = BACKWARD_SHARE;
    struct zt_device *device = zt_device_host_create(threads);
    bool ok = (world->size == 1 || world->api->barrier(world, err)) && measure_kernels(threads, device, m, err) &&
              (world->size == 1 || (measure_links(world, sends, m, err) && agree(world, m, err)));
    device->api->destroy(device);
    return ok;
}
