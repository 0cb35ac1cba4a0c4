#include "graph/passes/assign/prepare_kernel.h"

bool zt_layout_same(const struct zt_layout *a, const struct zt_layout *b) {
    if (a == b || !a || !b)
        return a == b;
    return a->equal && a->equal == b->equal && a->equal(a, b);
}

bool zt_prepare_kernel(const struct zt_assignment *a, int node, const struct zt_layout **layouts, bool settled,
                       struct zt_prepared *to) {
    const struct zt_node *n = a->g->nodes[node];
    const struct zt_kernel *k = &n->op->kernel[n->backend];
    struct zt_prepare p = { .graph = a->g,
                            .node = node,
                            .backend = n->backend,
                            .threads = a->threads,
                            .device = a->device,
                            .in_layout = layouts,
                            .out_layout = layouts + n->in_count,
                            .settled = settled };
    if (k->prepare && !k->prepare(&p, a->err))
        return false;
    *to = (struct zt_prepared){ .state = p.state,
                                .release = k->release,
                                .workspace_bytes = p.workspace_bytes,
                                .can_accumulate = p.can_accumulate,
                                .free_in = p.free_in,
                                .free_out = p.free_out,
                                .path = p.path };
    return true;
}
