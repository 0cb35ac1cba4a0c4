/* What the algorithms of a convolution on the CPU mean for its time and its type. */
#include "ops/conv/kernels.h"
#include "ops/conv/winograd/gradient_cpu.h"
#include "ops/conv/winograd/winograd_cpu.h"

static double forward_share(const struct zt_conv *c) {
    return zt_winograd_share(&(struct zt_winograd_wish){ c, ZT_CONV_TO_Y, c->window.out[0], c->window.out[1] });
}

static double share_of(const struct zt_conv *c, enum zt_conv_direction direction) {
    if (direction == ZT_CONV_TO_Y)
        return forward_share(c);
    if (direction == ZT_CONV_TO_W)
        return zt_winograd_gradient_share(c);
    return zt_winograd_share(&(struct zt_winograd_wish){ c, ZT_CONV_TO_X, c->window.in[0], c->window.in[1] });
}

double zt_conv_cpu_share(const struct zt_graph *g, int node) {
    const struct zt_conv_directions *d = zt_conv_directions(g->nodes[node]);
    struct zt_conv c;
    struct zt_err err = { 0 };
    return zt_in(g, node, 0)->dtype == ZT_FLOAT && d->read(g, node, &c, &err) ? share_of(&c, d->direction) : 1;
}

/* One answer for all directions of a convolution, so that their tensors have one type. bfloat16 halves the time of
 * products and costs casts of x and y, some fifty FLOPs an element each. */
bool zt_conv_cpu_prefers_float(const struct zt_graph *g, int node) {
    enum { CAST_FLOPS = 50 };
    struct zt_conv c;
    struct zt_err err = { 0 };
    if (!zt_conv_directions(g->nodes[node])->read(g, node, &c, &err))
        return false;
    const struct zt_window *w = &c.window;
    const double elements = (double)c.n * (double)(c.c * w->in_elems + c.m * w->out_elems);
    const double flops = 2 * (double)(c.n * c.m) * (double)w->out_elems * (double)(c.c / c.groups * w->kernel_elems);
    return forward_share(&c) < 1 || flops / 2 < CAST_FLOPS * elements;
}
