#include "ops/cuda.h"

#include "device/module.h"
#include "ops/matmul.h"
#include "ops/reduce.h"

#include <stdlib.h>
#include <string.h>

/* ---- which nodes ---- */

static const unsigned floats = ZT_BIT(ZT_FLOAT) | ZT_BIT(ZT_BFLOAT16);

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
    for (int i = 0; i < g->nodes[node].in_count; i++)
        same &= !zt_in(g, node, i) || zt_in(g, node, i)->dtype == dtype;
    for (int i = 0; i < g->nodes[node].out_count; i++)
        same &= !zt_out(g, node, i) || zt_out(g, node, i)->dtype == dtype;
    return same;
}

bool zt_cuda_floats(const struct zt_graph *g, int node) {
    return is_listed(&g->nodes[node]) && same_floats(g, node);
}

static bool fits(int64_t dim) {
    return dim >= 1 && dim <= INT32_MAX;
}

/* cuBLAS knows neither empty matrices nor sides beyond 2^31. */
bool zt_cuda_matmul(const struct zt_graph *g, int node) {
    const struct zt_node *n = &g->nodes[node];
    struct zt_matmul m;
    struct zt_err err = { 0 };
    return zt_cuda_floats(g, node) &&
           zt_matmul_read(g, node, &zt_in(g, node, 0)->shape, &zt_in(g, node, 1)->shape, zt_attr_int(n, "transA", 0),
                          zt_attr_int(n, "transB", 0), &m, &err) &&
           fits(m.m) && fits(m.n) && fits(m.k) && zt_shape_count(&m.batch) > 0;
}

bool zt_cuda_cast(const struct zt_graph *g, int node) {
    return is_listed(&g->nodes[node]) && zt_dtype_in(zt_in(g, node, 0)->dtype, ZT_ANY_TYPE) &&
           zt_dtype_in(zt_out(g, node, 0)->dtype, ZT_ANY_TYPE);
}

bool zt_cuda_reduce(const struct zt_graph *g, int node) {
    const struct zt_value *x = zt_in(g, node, 0);
    bool marked[ZT_MAX_RANK];
    struct zt_err err = { 0 };
    int runs = 0;
    if (!is_listed(&g->nodes[node]) || !zt_dtype_in(x->dtype, floats) || !zt_reduce_axes(g, node, marked, &err))
        return false;
    for (int k = 0; k < x->shape.rank; k++)
        runs += marked[k] && (k == 0 || !marked[k - 1]);
    return runs == 1;
}

bool zt_cuda_cross_entropy(const struct zt_graph *g, int node) {
    const unsigned whole = ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64);
    bool takes = is_listed(&g->nodes[node]);
    for (int i = 0; i < g->nodes[node].in_count; i++)
        takes &= !zt_in(g, node, i) || zt_dtype_in(zt_in(g, node, i)->dtype, floats | whole);
    return takes;
}

bool zt_cuda_cross_entropy_grad(const struct zt_graph *g, int node) {
    return zt_cuda_cross_entropy(g, node) && zt_in(g, node, 5) != NULL;
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
    const struct zt_node *n = &p->graph->nodes[p->node];
    const struct zt_kernel *kernel = find(p->device ? p->device->module : NULL, n);
    if (!kernel) {
        zt_node_fail(p->graph, p->node, err, "the device has no kernel of %s for CUDA", n->op_type);
        err->code = err->count == 1 ? ZT_EXIT_RUN : err->code;
        return false;
    }
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
