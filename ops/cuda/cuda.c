#include "ops/cuda/cuda.h"

#include "device/module.h"
#include "ops/kernel/layout.h"

#include <stdlib.h>

/* ---- which nodes ---- */

bool zt_cuda_is_float(const struct zt_value *v) {
    return v && zt_dtype_in(v->dtype, ZT_CUDA_FLOATS);
}

bool zt_cuda_size(int64_t size) {
    return size >= 1 && size <= INT32_MAX;
}

bool zt_cuda_any(const struct zt_graph *g, int node) {
    (void)g, (void)node;
    return true;
}

bool zt_cuda_floats(const struct zt_graph *g, int node) {
    enum zt_dtype dtype = zt_in(g, node, 0) ? zt_in(g, node, 0)->dtype : ZT_UNDEFINED;
    bool same = zt_dtype_in(dtype, ZT_CUDA_FLOATS);
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        same &= !zt_in(g, node, i) || zt_in(g, node, i)->dtype == dtype;
    for (int i = 0; i < g->nodes[node]->out_count; i++)
        same &= !zt_out(g, node, i) || zt_out(g, node, i)->dtype == dtype;
    return same;
}

bool zt_cuda_any_floats(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    bool good = true;
    for (int i = 0; i < n->in_count; i++)
        good &= !zt_in(g, node, i) || zt_cuda_is_float(zt_in(g, node, i));
    for (int i = 0; i < n->out_count; i++)
        good &= !zt_out(g, node, i) || zt_cuda_is_float(zt_out(g, node, i));
    return good;
}

bool zt_cuda_float_data(const struct zt_graph *g, int node) {
    const struct zt_value *x = zt_in(g, node, 0), *y = zt_out(g, node, 0);
    return zt_cuda_is_float(x) && (!y || y->dtype == x->dtype);
}

bool zt_cuda_numbers(const struct zt_graph *g, int node) {
    return zt_dtype_in(zt_in(g, node, 0)->dtype, ZT_CUDA_FLOATS | ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64));
}

/* ---- calling ---- */

struct proxy {
    const struct zt_kernel *kernel;
    void *state; /* the kernel's own */
};

bool zt_cuda_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_node *n = p->graph->nodes[p->node];
    const struct zt_module *module = p->device ? p->device->module : NULL;
    if (!module) {
        zt_node_fail(p->graph, p->node, err, "the device has no kernel of %s for CUDA", n->op_type);
        err->code = err->count == 1 ? ZT_EXIT_RUN : err->code;
        return false;
    }
    const struct zt_kernel *kernel = module->kernels[*n->op->kernel[ZT_CUDA].module_kernel];
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
