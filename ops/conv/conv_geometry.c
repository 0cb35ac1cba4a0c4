/* The geometry of convolution nodes, read from the node (conv.h). Needs no table of rows: the CUDA module has it too.
 */
#include "ops/conv/conv.h"

#include "ops/kernel/shape.h"

#include <string.h>

static bool fail_channels(const struct zt_graph *g, int node, int64_t channels, int64_t weight, int64_t groups,
                          struct zt_err *err) {
    return zt_node_fail(g, node, err, "%lld channels in %lld groups do not fit a weight for %lld channels a group",
                        (long long)channels, (long long)groups, (long long)weight);
}

static bool check_ranks(const struct zt_graph *g, int node, const struct zt_shape *x, const struct zt_shape *w,
                        struct zt_err *err) {
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    if (x->rank >= 3 && w->rank == x->rank)
        return true;
    return zt_node_fail(g, node, err, "input %s and weight %s want the same rank, 3 or more", zt_shape_text(x, s),
                        zt_shape_text(w, t));
}

static bool read_groups(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err) {
    to->groups = zt_attr_int(g->nodes[node], "group", 1);
    if (to->groups < 1 || to->groups > INT32_MAX)
        return zt_node_fail(g, node, err, "group = %lld, allowed 1..%d", (long long)to->groups, INT32_MAX);
    return true;
}

bool zt_conv_read_shapes(const struct zt_graph *g, int node, const struct zt_shape *x, const struct zt_shape *w,
                         struct zt_conv *to, struct zt_err *err) {
    if (!check_ranks(g, node, x, w, err) || !read_groups(g, node, to, err))
        return false;
    to->n = x->dim[0];
    to->c = x->dim[1];
    to->m = w->dim[0];
    if (to->c % to->groups || to->c / to->groups != w->dim[1] || to->m % to->groups)
        return fail_channels(g, node, to->c, w->dim[1], to->groups, err);
    return zt_window_read(g, node, &(struct zt_window_plane){ x->rank - 2, x->dim + 2, w->dim + 2 }, &to->window, err);
}

/* y and w -> x */
static bool read_transposed(const struct zt_graph *g, int node, const struct zt_shape *y, const struct zt_shape *w,
                            struct zt_conv *to, struct zt_err *err) {
    if (!check_ranks(g, node, y, w, err) || !read_groups(g, node, to, err))
        return false;
    to->n = y->dim[0];
    to->m = y->dim[1];
    if (w->dim[0] != to->m || to->m % to->groups || w->dim[1] > INT32_MAX)
        return fail_channels(g, node, to->m, w->dim[0], to->groups, err);
    to->c = w->dim[1] * to->groups;
    return zt_window_read_transposed(g, node, &(struct zt_window_plane){ y->rank - 2, y->dim + 2, w->dim + 2 },
                                     &to->window, err);
}

/* A shape given as an attribute of a gradient node. */
static bool attr_shape(const struct zt_graph *g, int node, const char *name, struct zt_shape *to, struct zt_err *err) {
    const int64_t *dims = zt_attr_ints(g->nodes[node], name, &to->rank);
    if (!dims || to->rank > ZT_MAX_RANK)
        return zt_node_fail(g, node, err, "attribute \"%s\" has %d entries, allowed 1..%d", name, to->rank,
                            ZT_MAX_RANK);
    for (int k = 0; k < to->rank; k++)
        to->dim[k] = dims[k];
    return true;
}

/* The weight of a weight gradient: [first, other / groups, kernel_shape]. */
static bool weight_shape(const struct zt_graph *g, int node, int64_t first, int64_t other, struct zt_shape *to,
                         struct zt_err *err) {
    struct zt_shape kernel;
    if (!attr_shape(g, node, "kernel_shape", &kernel, err))
        return false;
    int64_t groups = zt_attr_int(g->nodes[node], "group", 1);
    *to = (struct zt_shape){ kernel.rank + 2, { first, groups > 0 ? other / groups : other } };
    for (int k = 0; k < kernel.rank && k + 2 < ZT_MAX_RANK; k++)
        to->dim[k + 2] = kernel.dim[k];
    return true;
}

static bool fail_gradient(const struct zt_graph *g, int node, const struct zt_shape *dy, struct zt_err *err) {
    char text[ZT_SHAPE_TEXT];
    return zt_node_fail(g, node, err, "gradient %s is not that of its convolution", zt_shape_text(dy, text));
}

/* Whether a tensor is [n, channels, plane]. */
static bool is_plane(const struct zt_shape *s, int64_t n, int64_t channels, const int64_t *plane, int axes) {
    bool same = s->rank == axes + 2 && s->dim[0] == n && s->dim[1] == channels;
    for (int a = 0; same && a < axes; a++)
        same = s->dim[a + 2] == plane[a];
    return same;
}

bool zt_conv_read(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err) {
    return zt_conv_read_shapes(g, node, &zt_in(g, node, 0)->shape, &zt_in(g, node, 1)->shape, to, err);
}

bool zt_conv_grad_input_read(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err) {
    const struct zt_shape *w = &zt_in(g, node, 0)->shape, *dy = &zt_in(g, node, 1)->shape;
    struct zt_shape x;
    return attr_shape(g, node, "input_shape", &x, err) && zt_conv_read_shapes(g, node, &x, w, to, err) &&
           (is_plane(dy, to->n, to->m, to->window.out, to->window.axes) || fail_gradient(g, node, dy, err));
}

bool zt_conv_grad_weight_read(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape, *dy = &zt_in(g, node, 1)->shape;
    struct zt_shape w;
    return weight_shape(g, node, dy->dim[1], x->dim[1], &w, err) && zt_conv_read_shapes(g, node, x, &w, to, err) &&
           (is_plane(dy, to->n, to->m, to->window.out, to->window.axes) || fail_gradient(g, node, dy, err));
}

bool zt_conv_transpose_read(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err) {
    return read_transposed(g, node, &zt_in(g, node, 0)->shape, &zt_in(g, node, 1)->shape, to, err);
}

bool zt_conv_transpose_grad_input_read(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err) {
    const struct zt_shape *w = &zt_in(g, node, 0)->shape, *dy = &zt_in(g, node, 1)->shape;
    struct zt_shape x;
    return attr_shape(g, node, "input_shape", &x, err) && read_transposed(g, node, &x, w, to, err) &&
           (is_plane(dy, to->n, to->c, to->window.in, to->window.axes) || fail_gradient(g, node, dy, err));
}

bool zt_conv_transpose_grad_weight_read(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape, *dy = &zt_in(g, node, 1)->shape;
    struct zt_shape w;
    return weight_shape(g, node, x->dim[1], dy->dim[1], &w, err) && read_transposed(g, node, x, &w, to, err) &&
           (is_plane(dy, to->n, to->c, to->window.in, to->window.axes) || fail_gradient(g, node, dy, err));
}

/* ---- which tensor is which ---- */

static const struct {
    const char *op;
    struct zt_conv_directions directions;
} ops[] = {
    { "Conv", { zt_conv_read, ZT_CONV_TO_Y, { 0, 1, ZT_CONV_OUT } } },
    { "ConvActivation", { zt_conv_read, ZT_CONV_TO_Y, { 0, 1, ZT_CONV_OUT } } },
    { "ConvAdd", { zt_conv_read, ZT_CONV_TO_Y, { 0, 1, ZT_CONV_OUT } } },
    { "ConvGradInput", { zt_conv_grad_input_read, ZT_CONV_TO_X, { ZT_CONV_OUT, 0, 1 } } },
    { "ConvGradInputAdd", { zt_conv_grad_input_read, ZT_CONV_TO_X, { ZT_CONV_OUT, 0, 1 } } },
    { "ConvGradWeight", { zt_conv_grad_weight_read, ZT_CONV_TO_W, { 0, ZT_CONV_OUT, 1 } } },
    { "ConvRelu", { zt_conv_read, ZT_CONV_TO_Y, { 0, 1, ZT_CONV_OUT } } },
    { "ConvTranspose", { zt_conv_transpose_read, ZT_CONV_TO_X, { ZT_CONV_OUT, 1, 0 } } },
    { "ConvTransposeGradInput", { zt_conv_transpose_grad_input_read, ZT_CONV_TO_Y, { 1, 0, ZT_CONV_OUT } } },
    { "ConvTransposeGradWeight", { zt_conv_transpose_grad_weight_read, ZT_CONV_TO_W, { 1, ZT_CONV_OUT, 0 } } },
};

const struct zt_conv_directions *zt_conv_directions(const struct zt_node *n) {
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(ops[i].op, n->op_type) == 0)
            return &ops[i].directions;
    return NULL;
}
