/* The geometry of GridSample, read from the node, and the taps of a place (grid_sample.h). */
#include "ops/resample/grid_sample.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include <string.h>

/* The index in `names`, which ends with NULL, of what the attribute names; the first without it. */
static bool choose(const struct zt_graph *g, int node, const char *attr, const char *const *names, int *to,
                   struct zt_err *err) {
    const char *name = zt_attr_text(g->nodes[node], attr, names[0]);
    for (*to = 0; names[*to]; ++*to)
        if (strcmp(name, names[*to]) == 0)
            return true;
    return zt_node_fail(g, node, err, "%s = \"%s\" is not known", attr, name);
}

bool zt_sampler_read(const struct zt_graph *g, int node, int first, struct zt_sampler *to, struct zt_err *err) {
    static const char *const modes[] = { "linear", "bilinear", "nearest", "cubic", "bicubic", NULL };
    static const enum zt_sample_mode mode_of[] = { ZT_SAMPLE_LINEAR, ZT_SAMPLE_LINEAR, ZT_SAMPLE_NEAREST,
                                                   ZT_SAMPLE_CUBIC, ZT_SAMPLE_CUBIC };
    static const char *const paddings[] = { "zeros", "border", "reflection", NULL };
    const struct zt_node *n = g->nodes[node];
    const struct zt_shape *x = &zt_in(g, node, first)->shape, *grid = &zt_in(g, node, first + 1)->shape;
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    int mode, padding;
    if (!choose(g, node, "mode", modes, &mode, err) || !choose(g, node, "padding_mode", paddings, &padding, err))
        return false;
    bool plane_only = !n->domain[0] && n->opset < 20;
    if (x->rank < 3 || (plane_only && x->rank != 4) || grid->rank != x->rank || grid->dim[0] != x->dim[0] ||
        grid->dim[grid->rank - 1] != x->rank - 2)
        return zt_node_fail(g, node, err, "a grid of shape %s does not fit an input of shape %s",
                            zt_shape_text(grid, s), zt_shape_text(x, t));
    *to = (struct zt_sampler){ .mode = mode_of[mode],
                               .padding = (enum zt_sample_padding)padding,
                               .align = zt_attr_int(n, "align_corners", 0),
                               .axes = x->rank - 2,
                               .n = x->dim[0],
                               .channels = x->dim[1],
                               .pixels = zt_dims(x, 2, x->rank),
                               .places = zt_dims(grid, 1, grid->rank - 1) };
    int64_t stride = 1;
    for (int k = to->axes - 1; k >= 0; k--) {
        to->size[k] = x->dim[k + 2];
        to->stride[k] = stride;
        stride *= to->size[k];
    }
    if (to->pixels == 0 && to->places > 0)
        return zt_node_fail(g, node, err, "an input of shape %s has no pixels to read", zt_shape_text(x, s));
    return true;
}

/* The taps of all axes at place `at` of sample n; grid names the last axis first. */
void zt_sampler_taps(const struct zt_sampler *s, const struct zt_view *grid, int64_t at, struct zt_sample_taps *to) {
    for (int k = 0; k < s->axes; k++)
        zt_sample_axis_taps(s, k, zt_load_double(grid->dtype, grid->data, (at + 1) * s->axes - 1 - k), &to[k]);
}
