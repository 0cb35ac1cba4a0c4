/* The geometry of pooling nodes, read from the node (pool.h). It needs no table of rows, because the CUDA module has it
 * too. */
#include "ops/pool/pool.h"

#include "ops/kernel/tile.h"

static bool read_window(const struct zt_graph *g, int node, const struct zt_shape *x, struct zt_pool *to,
                        struct zt_err *err) {
    to->planes = x->dim[0] * x->dim[1];
    to->count_include_pad = zt_attr_int(g->nodes[node], "count_include_pad", 0);
    return zt_window_read(g, node, &(struct zt_window_plane){ x->rank - 2, x->dim + 2, NULL }, &to->window, err);
}

bool zt_pool_read(const struct zt_graph *g, int node, struct zt_pool *to, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    return zt_window_planes(g, node, x, err) && read_window(g, node, &x->shape, to, err);
}

bool zt_pool_read_global(const struct zt_graph *g, int node, struct zt_pool *to, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0);
    if (!zt_window_planes(g, node, x, err))
        return false;
    *to = (struct zt_pool){ .planes = x->shape.dim[0] * x->shape.dim[1] };
    zt_window_global(x->shape.dim + 2, x->shape.rank - 2, &to->window);
    return true;
}

bool zt_pool_read_grad(const struct zt_graph *g, int node, struct zt_pool *to, struct zt_err *err) {
    const struct zt_shape *dy = &zt_in(g, node, 0)->shape;
    struct zt_shape x = { 0 };
    const int64_t *dims = zt_attr_ints(g->nodes[node], "input_shape", &x.rank);
    if (!dims || x.rank < 3 || x.rank > ZT_MAX_RANK)
        return zt_node_fail(g, node, err, "attribute \"input_shape\" has %d entries, allowed 3..%d", x.rank,
                            ZT_MAX_RANK);
    for (int k = 0; k < x.rank; k++)
        x.dim[k] = dims[k];
    if (!read_window(g, node, &x, to, err))
        return false;
    bool fits = dy->rank == x.rank && dy->dim[0] == x.dim[0] && dy->dim[1] == x.dim[1];
    for (int a = 0; fits && a < to->window.axes; a++)
        fits = dy->dim[a + 2] == to->window.out[a];
    char text[ZT_SHAPE_TEXT];
    return fits || zt_node_fail(g, node, err, "gradient %s is not that of its pool", zt_shape_text(dy, text));
}

int64_t zt_pool_count(const struct zt_pool *p, int a, int64_t o) {
    const struct zt_window *w = &p->window;
    int64_t start = o * w->stride[a] - w->pad[a];
    int64_t low = p->count_include_pad ? -w->pad[a] : 0, high = w->in[a] + (p->count_include_pad ? w->pad_end[a] : 0);
    int64_t first = zt_max_int(0, zt_ceil_div(low - start, w->dilation[a]));
    int64_t end = zt_min_int(w->kernel[a], zt_ceil_div(high - start, w->dilation[a]));
    return zt_max_int(end - first, 0);
}
