/* The geometry of a convolution with ReLU and max pool, read from the fused node (conv_pool.h). */
#include "ops/fusion/conv_pool.h"

#include <string.h>

static bool read_pair(const struct zt_graph *g, int node, const char *name, int64_t *to, struct zt_err *err) {
    int count;
    const int64_t *list = zt_attr_ints(g->nodes[node], name, &count);
    if (count != 2)
        return zt_node_fail(g, node, err, "attribute \"%s\" has %d entries, wants 2", name, count);
    memcpy(to, list, 2 * sizeof *to);
    return true;
}

bool zt_conv_pool_read(const struct zt_graph *g, int node, struct zt_conv_pool *to, struct zt_err *err) {
    struct zt_window *w = &to->pool;
    *w = (struct zt_window){ .axes = 2, .dilation = { 1, 1 }, .in_elems = 1, .out_elems = 1, .kernel_elems = 1 };
    if (!zt_conv_read(g, node, &to->conv, err) || !read_pair(g, node, "pool_kernel", w->kernel, err) ||
        !read_pair(g, node, "pool_strides", w->stride, err) || !read_pair(g, node, "pool_pads", w->pad, err) ||
        !read_pair(g, node, "pool_out", w->out, err))
        return false;
    if (to->conv.window.axes != 2)
        return zt_node_fail(g, node, err, "planes have %d axes, wants 2", to->conv.window.axes);
    for (int a = 0; a < 2; a++) {
        w->in[a] = to->conv.window.out[a];
        w->in_elems *= w->in[a];
        w->out_elems *= w->out[a];
        w->kernel_elems *= w->kernel[a];
    }
    return true;
}

bool zt_conv_pool_pairs(const struct zt_window *pool) {
    for (int a = 0; a < 2; a++)
        if (pool->kernel[a] != 2 || pool->stride[a] != 2 || pool->pad[a] != 0 || 2 * pool->out[a] > pool->in[a])
            return false;
    return true;
}
