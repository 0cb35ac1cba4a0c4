#include "ops/cuda/cuda.h"

#include "device/module.h"
#include "ops/attention/attention.h"
#include "ops/conv/conv.h"
#include "ops/kernel/layout.h"
#include "ops/matmul/matmul.h"
#include "ops/kernel/strided_copies.h"
#include "ops/elementwise/pointwise.h"
#include "ops/pool/pool.h"
#include "ops/recurrent/recurrent.h"
#include "ops/reduce/reduce.h"
#include "ops/resample/resize.h"

#include <stdlib.h>
#include <string.h>

/* ---- which nodes ---- */

static const unsigned floats = ZT_BIT(ZT_FLOAT) | ZT_ANY_HALF;

bool zt_cuda_has(const char *domain, const char *name) {
#define ROW(domain, name, id) { domain, name },
    static const struct { const char *domain, *name; } rows[] = { ZT_CUDA_OPS(ROW) };
#undef ROW
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0 && strcmp(rows[i].domain, domain) == 0)
            return true;
    return false;
}

static bool is_listed(const struct zt_node *n) {
    return zt_cuda_has(n->domain, n->op_type);
}

static bool same_floats(const struct zt_graph *g, int node) {
    enum zt_dtype dtype = zt_in(g, node, 0) ? zt_in(g, node, 0)->dtype : ZT_UNDEFINED;
    bool same = zt_dtype_in(dtype, floats);
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        same &= !zt_in(g, node, i) || zt_in(g, node, i)->dtype == dtype;
    for (int i = 0; i < g->nodes[node]->out_count; i++)
        same &= !zt_out(g, node, i) || zt_out(g, node, i)->dtype == dtype;
    return same;
}

bool zt_cuda_floats(const struct zt_graph *g, int node) {
    return is_listed(g->nodes[node]) && same_floats(g, node);
}

static bool fits(int64_t dim) {
    return dim >= 1 && dim <= INT32_MAX;
}

/* cuBLAS knows neither empty matrices nor sides beyond 2^31. */
static bool has_product(const struct zt_graph *g, int node) {
    struct zt_matmul m;
    struct zt_err err = { 0 };
    return zt_matmul_read_node(g, node, &m, &err) && fits(m.m) && fits(m.n) && fits(m.k) &&
           zt_shape_count(&m.batch) > 0;
}
bool zt_cuda_matmul(const struct zt_graph *g, int node) {
    return zt_cuda_floats(g, node) && has_product(g, node);
}
bool zt_cuda_matmul_float(const struct zt_graph *g, int node) {
    return zt_cuda_any_floats(g, node) && has_product(g, node);
}

bool zt_cuda_matmul_bits(const struct zt_graph *g, int node) {
    return zt_cuda_float_data(g, node) && has_product(g, node);
}

bool zt_cuda_listed(const struct zt_graph *g, int node) {
    return is_listed(g->nodes[node]);
}

bool zt_cuda_any_floats(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    bool good = is_listed(n);
    for (int i = 0; i < n->in_count; i++)
        good &= !zt_in(g, node, i) || zt_dtype_in(zt_in(g, node, i)->dtype, floats);
    for (int i = 0; i < n->out_count; i++)
        good &= !zt_out(g, node, i) || zt_dtype_in(zt_out(g, node, i)->dtype, floats);
    return good;
}

bool zt_cuda_float_data(const struct zt_graph *g, int node) {
    const enum zt_dtype dtype = zt_in(g, node, 0)->dtype;
    const struct zt_value *y = zt_out(g, node, 0);
    return is_listed(g->nodes[node]) && zt_dtype_in(dtype, floats) && (!y || y->dtype == dtype);
}

bool zt_cuda_numbers(const struct zt_graph *g, int node) {
    return is_listed(g->nodes[node]) &&
           zt_dtype_in(zt_in(g, node, 0)->dtype, floats | ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64));
}

bool zt_cuda_pointwise(const struct zt_graph *g, int node) {
    struct zt_pointwise what;
    return is_listed(g->nodes[node]) && zt_pointwise_find(g, node, &what);
}

bool zt_cuda_describe_pointwise(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    struct zt_fused_elementwise *chain = to;
    struct zt_fused_elementwise_step *only = &chain->step[0];
    if (!zt_pointwise_find(g, node, &only->what))
        return zt_node_fail(g, node, err, "there is no expression for it");
    chain->inputs = only->what.inputs;
    chain->steps = 1;
    only->dtype = zt_out(g, node, 0)->dtype;
    for (int i = 0; i < chain->inputs; i++)
        only->from[i] = i;
    return true;
}

bool zt_cuda_tile(const struct zt_graph *g, int node) {
    struct zt_strided_copy_list list;
    struct zt_err err = { 0 };
    const struct zt_kernel *k = &g->nodes[node]->op->kernel[ZT_CUDA];
    return is_listed(g->nodes[node]) && k->describe(g, node, &list, &err);
}

bool zt_cuda_reduce(const struct zt_graph *g, int node) {
    bool marked[ZT_MAX_RANK];
    struct zt_err err = { 0 };
    return is_listed(g->nodes[node]) && zt_dtype_in(zt_in(g, node, 0)->dtype, floats) &&
           zt_reduce_axes(g, node, marked, &err);
}

bool zt_cuda_class_loss(const struct zt_graph *g, int node) {
    const unsigned whole = ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64);
    bool takes = is_listed(g->nodes[node]);
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        takes &= !zt_in(g, node, i) || zt_dtype_in(zt_in(g, node, i)->dtype, floats | whole);
    return takes;
}

bool zt_cuda_element_loss(const struct zt_graph *g, int node) {
    const unsigned targets =
        floats | ZT_BIT(ZT_DOUBLE) | ZT_BIT(ZT_BOOL) | ZT_BIT(ZT_UINT8) | ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64);
    const int target = g->nodes[node]->op->max_in - 2; /* behind x: the gradient has one input more */
    bool takes = is_listed(g->nodes[node]);
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        takes &= !zt_in(g, node, i) || zt_dtype_in(zt_in(g, node, i)->dtype, i == target ? targets : floats);
    return takes;
}

/* cuDNN counts in 32 bits here and there; the reference kernels do the rest. */
static bool conv_fits(const struct zt_conv *c) {
    const struct zt_window *w = &c->window;
    const int64_t sizes[] = { c->n, c->c, c->m, w->in_elems, w->out_elems, w->kernel_elems };
    bool fit = w->axes <= 3;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        fit &= fits(sizes[i]);
    for (int a = 0; fit && a < w->axes; a++)
        fit = w->pad[a] >= 0;
    return fit;
}

bool zt_cuda_conv(const struct zt_graph *g, int node) {
    const struct zt_conv_directions *roles = zt_conv_directions(g->nodes[node]);
    struct zt_conv c;
    struct zt_err err = { 0 };
    return roles && (roles->way == ZT_CONV_TO_W ? zt_cuda_any_floats(g, node) : zt_cuda_floats(g, node)) &&
           roles->read(g, node, &c, &err) && conv_fits(&c);
}

static bool is_float(const struct zt_value *v) {
    return v && zt_dtype_in(v->dtype, floats);
}

/* Windows have kernel_shape, the global pools none. */
bool zt_cuda_pool(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    struct zt_pool p;
    struct zt_err err = { 0 };
    const struct zt_value *position = zt_in(g, node, 1);
    bool grad = zt_node_attr(n, "input_shape") != NULL, window = zt_node_attr(n, "kernel_shape") != NULL;
    if (position && !zt_dtype_in(position->dtype, ZT_BIT(ZT_UINT8) | ZT_BIT(ZT_INT32)))
        return false;
    return is_listed(n) && is_float(zt_in(g, node, 0)) &&
           (grad     ? zt_pool_read_grad(g, node, &p, &err)
            : window ? zt_pool_read(g, node, &p, &err)
                     : zt_pool_read_global(g, node, &p, &err)) &&
           p.window.axes <= 3 && p.window.in_elems > 0 && p.planes > 0;
}

/* The maps of its axes count in 32 bits. */
bool zt_cuda_resize(const struct zt_graph *g, int node) {
    struct zt_resize r;
    struct zt_err err = { 0 };
    if (!is_listed(g->nodes[node]) || !is_float(zt_in(g, node, 0)) || !zt_resize_read(g, node, &r, &err))
        return false;
    int64_t from = zt_shape_count(&r.x), to = zt_shape_count(&r.y);
    return from > 0 && to > 0 && from <= INT32_MAX / 64 && to <= INT32_MAX / 64;
}

/* Whether nothing but y is asked of a forward node, and nothing but y's gradient given to AttentionGrad. */
static bool is_y_alone(const struct zt_graph *g, int node, bool grad) {
    bool alone = !grad || zt_in(g, node, ZT_ATTENTION_INS + ZT_Y);
    for (int i = ZT_PRESENT_K; i < ZT_ATTENTION_OUTS; i++)
        alone &= grad ? !zt_in(g, node, ZT_ATTENTION_INS + i)
                      : !zt_out(g, node, i) || zt_attention_is_train(g->nodes[node]->op);
    return alone;
}

bool zt_cuda_attention(const struct zt_graph *g, int node) {
    const struct zt_value *q = zt_in(g, node, ZT_Q), *mask = zt_in(g, node, ZT_MASK);
    const bool grad = zt_attention_is_grad(g->nodes[node]->op);
    struct zt_attention a;
    struct zt_err err = { 0 };
    for (int i = ZT_Q; i <= ZT_V; i++)
        if (zt_in(g, node, i) && (!is_float(zt_in(g, node, i)) || zt_in(g, node, i)->dtype != q->dtype))
            return false;
    if (!is_listed(g->nodes[node]) || zt_in(g, node, ZT_PAST_K) || !is_y_alone(g, node, grad) ||
        (mask && !zt_dtype_in(mask->dtype, floats | ZT_BIT(ZT_BOOL))) || !zt_attention_read(g, node, &a, &err))
        return false;
    const int64_t sizes[] = { a.batch, a.kv_heads, a.queries, a.keys, a.size, a.v_size };
    bool fit = true;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        fit &= fits(sizes[i]);
    return fit;
}

bool zt_recurrent_cuda_supports(const struct zt_cell *cell, const struct zt_graph *g, int node) {
    struct zt_recurrent r;
    struct zt_err err = { 0 };
    if (!is_listed(g->nodes[node]) || zt_in(g, node, 0)->dtype != ZT_FLOAT ||
        !zt_recurrent_read(cell, g, node, &r, &err))
        return false;
    bool plain = fits(r.steps * r.rows) && fits(r.input) && fits(r.hidden);
    for (int i = 0; plain && i < cell->functions * (int)r.directions; i++)
        plain = zt_gate_plain(&r.function[i / cell->functions][i % cell->functions]) >= 0;
    return plain;
}

/* ---- calling ---- */

struct proxy {
    const struct zt_kernel *kernel;
    void *state; /* the kernel's own */
};

static const struct zt_kernel *find(const struct zt_module *module, const struct zt_node *n) {
    for (const struct zt_module_kernel *k = module ? module->kernels : NULL; k && k->name; k++)
        if (strcmp(k->name, n->op_type) == 0 && strcmp(k->domain, n->domain) == 0)
            return k->kernel;
    return NULL;
}

bool zt_cuda_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_node *n = p->graph->nodes[p->node];
    const struct zt_kernel *kernel = find(p->device ? p->device->module : NULL, n);
    if (!kernel) {
        zt_node_fail(p->graph, p->node, err, "the device has no kernel of %s for CUDA", n->op_type);
        err->code = err->count == 1 ? ZT_EXIT_RUN : err->code;
        return false;
    }
    for (int i = 0; i < n->in_count; i++)
        if (zt_layout_is_filled(p->in_layout[i]) ? !kernel->rows : !kernel->layouts)
            p->in_layout[i] = NULL;
    if (kernel->prepare && !kernel->prepare(p, err))
        return false;
    struct proxy *proxy = zt_malloc(sizeof *proxy);
    *proxy = (struct proxy){ kernel, p->state };
    p->state = proxy;
    return true;
}

bool zt_cuda_run(const struct zt_call *call, struct zt_err *err) {
    const struct proxy *proxy = call->state;
    struct zt_call own = *call;
    own.state = proxy->state;
    return proxy->kernel->run(&own, err);
}

void zt_cuda_release(void *state) {
    struct proxy *proxy = state;
    if (!proxy)
        return;
    if (proxy->kernel->release)
        proxy->kernel->release(proxy->state);
    free(proxy);
}
