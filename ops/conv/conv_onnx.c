/* The gradients of Conv and ConvTranspose as convolutions of the standard (formulas in conv.c).
 *
 * An input plane is padded, or cropped where the last windows do not reach its end, so that its length is that of the
 * windows: (out - 1) stride + (kernel - 1) dilation + 1. An output plane is computed with that length and cropped, or
 * padded. Negative pads crop. */
#include "ops/conv/kernels.h"
#include "ops/conv/conv.h"

/* The padding behind axis a of the plane `in` that makes it as long as the windows. */
static int64_t behind(const struct zt_window *w, int a) {
    return (w->out[a] - 1) * w->stride[a] + (w->kernel[a] - 1) * w->dilation[a] + 1 - w->in[a] - w->pad[a];
}

/* "[0, 0, pad ..., 0, 0, behind ...]" times sign */
static const char *pads(struct zt_function_body *b, const struct zt_window *w, int sign) {
    int64_t list[2 * ZT_MAX_RANK] = { 0 };
    for (int a = 0; a < w->axes; a++) {
        list[2 + a] = sign * w->pad[a];
        list[4 + w->axes + a] = sign * behind(w, a);
    }
    return zt_function_body_list(b, list, 2 * (w->axes + 2));
}

/* strides, dilations and group of a Conv or ConvTranspose with the window's geometry */
static const char *geometry(struct zt_function_body *b, const struct zt_window *w, int64_t groups) {
    return zt_function_body_text(b, "strides=%s, dilations=%s, group=%lld",
                                 zt_function_body_list(b, w->stride, w->axes),
                                 zt_function_body_list(b, w->dilation, w->axes), (long long)groups);
}

/* dx: the transposed convolution of dy with w */
bool zt_conv_grad_input_function_body(struct zt_function_body *b, const struct zt_graph *g, int node,
                                      struct zt_err *err) {
    struct zt_conv c;
    if (!zt_conv_grad_input_read(g, node, &c, err))
        return false;
    zt_function_body_names(b, "w, dy -> dx");
    zt_function_body_add(b, "dx = Pad(ConvTranspose<%s>(dy, w), %s)", geometry(b, &c.window, c.groups),
                         pads(b, &c.window, -1));
    return true;
}

bool zt_conv_transpose_grad_input_function_body(struct zt_function_body *b, const struct zt_graph *g, int node,
                                                struct zt_err *err) {
    struct zt_conv c;
    if (!zt_conv_transpose_grad_input_read(g, node, &c, err))
        return false;
    zt_function_body_names(b, "w, dy -> dx");
    zt_function_body_add(b, "dx = Conv<%s>(Pad(dy, %s), w)", geometry(b, &c.window, c.groups), pads(b, &c.window, 1));
    return true;
}

/* Shape [n, groups, channels / groups, plane] and the order of axes that leaves `perm` in front. */
static const char *split_channels(struct zt_function_body *b, const struct zt_conv *c, int64_t channels,
                                  const int64_t *plane) {
    struct zt_shape shape = { 3, { c->n, c->groups, channels / c->groups } };
    for (int a = 0; a < c->window.axes; a++)
        shape.dim[shape.rank++] = plane[a];
    return zt_function_body_dims(b, &shape);
}

static const char *order(struct zt_function_body *b, const struct zt_conv *c, const int64_t first[3]) {
    int64_t perm[ZT_MAX_RANK] = { first[0], first[1], first[2] };
    for (int a = 0; a < c->window.axes; a++)
        perm[3 + a] = 3 + a;
    return zt_function_body_list(b, perm, 3 + c->window.axes);
}

static const char *plane_behind(struct zt_function_body *b, const struct zt_conv *c, int64_t first, int64_t second,
                                const int64_t *plane) {
    struct zt_shape shape = { 2, { first, second } };
    for (int a = 0; a < c->window.axes; a++)
        shape.dim[shape.rank++] = plane[a];
    return zt_function_body_dims(b, &shape);
}

/* dw = Conv(x, dy) with samples as channels, channels as samples, and strides and dilations exchanged; all groups at
 * once. */
static void write_weight_gradient(struct zt_function_body *b, const struct zt_conv *c, const char *x, const char *dy) {
    const struct zt_window *w = &c->window;
    struct zt_window swapped = *w;
    int64_t long_plane[ZT_WINDOW_AXES], per_group = c->c / c->groups;
    for (int a = 0; a < w->axes; a++) {
        long_plane[a] = w->in[a] + w->pad[a] + behind(w, a);
        swapped.stride[a] = w->dilation[a];
        swapped.dilation[a] = w->stride[a];
    }
    zt_function_body_add(b, "images = Reshape(Transpose<perm=%s>(Reshape(Pad(%s, %s), %s)), %s)",
                         order(b, c, (const int64_t[]){ 2, 1, 0 }), x, pads(b, w, 1),
                         split_channels(b, c, c->c, long_plane),
                         plane_behind(b, c, per_group, c->groups * c->n, long_plane));
    zt_function_body_add(b, "filters = Reshape(Transpose<perm=%s>(Reshape(%s, %s)), %s)",
                         order(b, c, (const int64_t[]){ 1, 2, 0 }), dy, split_channels(b, c, c->m, w->out),
                         plane_behind(b, c, c->m, c->n, w->out));
    int64_t swap[ZT_MAX_RANK] = { 1, 0 };
    for (int a = 2; a < w->axes + 2; a++)
        swap[a] = a;
    zt_function_body_add(b, "dw = Transpose<perm=%s>(Conv<%s>(images, filters))",
                         zt_function_body_list(b, swap, w->axes + 2), geometry(b, &swapped, c->groups));
}

bool zt_conv_grad_weight_function_body(struct zt_function_body *b, const struct zt_graph *g, int node,
                                       struct zt_err *err) {
    struct zt_conv c;
    if (!zt_conv_grad_weight_read(g, node, &c, err))
        return false;
    zt_function_body_names(b, "x, dy -> dw, db");
    write_weight_gradient(b, &c, "x", "dy");
    int64_t axes[ZT_MAX_RANK] = { 0 };
    for (int a = 0; a < c.window.axes; a++)
        axes[a + 1] = a + 2;
    if (zt_function_body_wants(b, 1))
        zt_function_body_add(b, "db = ReduceSum<keepdims=0>(dy, %s)",
                             zt_function_body_list(b, axes, c.window.axes + 1));
    return true;
}

bool zt_conv_transpose_grad_weight_function_body(struct zt_function_body *b, const struct zt_graph *g, int node,
                                                 struct zt_err *err) {
    struct zt_conv c;
    if (!zt_conv_transpose_grad_weight_read(g, node, &c, err))
        return false;
    zt_function_body_names(b, "x, dy -> dw");
    write_weight_gradient(b, &c, "dy", "x");
    return true;
}

/* Each place of a block is a filter with a single one. */
ZT_FUNCTION_BODY(zt_im2col_function_body) {
    int64_t kernel[ZT_MAX_RANK];
    int axes, count;
    if (!zt_known_ints(g, node, 2, &(struct zt_int_list){ kernel, ZT_MAX_RANK, &axes }, err))
        return false;
    struct zt_shape x = zt_in(g, node, 0)->shape, filters = { axes + 2, { 1, 1 } };
    for (int a = 0; a < axes; a++)
        filters.dim[0] *= filters.dim[a + 2] = kernel[a];
    int64_t places = filters.dim[0];
    double *ones = ZT_NEW_N(b->arena, double, places *places);
    for (int64_t k = 0; k < places; k++)
        ones[k * places + k] = 1;
    const char *attrs = "";
    static const char *const names[] = { "dilations", "pads", "strides" };
    for (int i = 0; i < 3; i++) {
        const int64_t *list = zt_attr_ints(g->nodes[node], names[i], &count);
        if (list)
            attrs = zt_function_body_text(b, "%s%s=%s, ", attrs, names[i], zt_function_body_list(b, list, count));
    }
    zt_function_body_names(b, "x, image, block -> y");
    zt_function_body_doubles(b, "filters", &filters, ones);
    x.dim[0] *= x.dim[1];
    x.dim[1] = 1;
    zt_function_body_add(b, "y = Reshape(Conv<%s group=1>(Reshape(x, %s), filters), %s)", attrs,
                         zt_function_body_dims(b, &x), zt_body_out(b, 0));
    return true;
}
