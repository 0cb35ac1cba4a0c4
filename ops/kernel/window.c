#include "ops/kernel/window.h"

#include "ops/kernel/tile.h"

#include <string.h>

/* Larger strides, kernels and pads are refused: products of them then fit 64 bits. */
static const int64_t largest = INT64_C(1) << 30;

/* An attribute that is a list of integers; absent and empty lists are the same. */
struct int_attr {
    const char *name;
    int count;
    int64_t least;
};

/* *present: whether the node has the attribute; `to` keeps its values otherwise. */
static bool read_list(const struct zt_graph *g, int node, struct int_attr attr, int64_t *to, bool *present,
                      struct zt_err *err) {
    int count;
    const int64_t *list = zt_attr_ints(g->nodes[node], attr.name, &count);
    *present = list && count > 0;
    if (!*present)
        return true;
    if (count != attr.count)
        return zt_node_fail(g, node, err, "attribute \"%s\" has %d entries, wants %d for an input of %d axes",
                            attr.name, count, attr.count, zt_in(g, node, 0)->shape.rank);
    for (int i = 0; i < count; i++) {
        if (list[i] < attr.least || list[i] > largest)
            return zt_node_fail(g, node, err, "attribute \"%s\" holds %lld, allowed %lld..%lld", attr.name,
                                (long long)list[i], (long long)attr.least, (long long)largest);
        to[i] = list[i];
    }
    return true;
}

static bool read_kernel(const struct zt_graph *g, int node, const int64_t *kernel, struct zt_window *w,
                        struct zt_err *err) {
    int64_t named[ZT_WINDOW_AXES];
    bool present;
    if (!read_list(g, node, (struct int_attr){ "kernel_shape", w->axes, 1 }, named, &present, err))
        return false;
    if (!present && !kernel)
        return zt_node_fail(g, node, err, "attribute \"kernel_shape\" is missing");
    for (int a = 0; a < w->axes; a++) {
        w->kernel[a] = kernel ? kernel[a] : named[a];
        if (kernel && present && kernel[a] != named[a])
            return zt_node_fail(g, node, err, "kernel_shape[%d] = %lld, but the weight has %lld there", a,
                                (long long)named[a], (long long)kernel[a]);
        if (w->kernel[a] < 1 || w->kernel[a] > largest)
            return zt_node_fail(g, node, err, "the kernel has size %lld along spatial axis %d", (long long)w->kernel[a],
                                a);
    }
    return true;
}

/* Everything but auto_pad and the shapes. */
static bool read_common(const struct zt_graph *g, int node, const struct zt_window_plane *plane, struct zt_window *w,
                        bool *explicit_pads, struct zt_err *err) {
    bool present;
    for (int a = 0; a < w->axes; a++)
        if (plane->dims[a] < 0 || plane->dims[a] > INT64_C(1) << 32)
            return zt_node_fail(g, node, err, "spatial axis %d has size %lld, at most 2^32 are taken", a,
                                (long long)plane->dims[a]);
    int64_t pads[2 * ZT_WINDOW_AXES] = { 0 };
    for (int a = 0; a < w->axes; a++)
        w->stride[a] = w->dilation[a] = 1;
    if (!read_kernel(g, node, plane->kernel, w, err) ||
        !read_list(g, node, (struct int_attr){ "strides", w->axes, 1 }, w->stride, &present, err) ||
        !read_list(g, node, (struct int_attr){ "dilations", w->axes, 1 }, w->dilation, &present, err) ||
        !read_list(g, node, (struct int_attr){ "pads", 2 * w->axes, 0 }, pads, explicit_pads, err))
        return false;
    for (int a = 0; a < w->axes; a++) {
        w->pad[a] = pads[a];
        w->pad_end[a] = pads[w->axes + a];
        if ((w->kernel[a] - 1) * w->dilation[a] > largest)
            return zt_node_fail(g, node, err, "the dilated kernel has size %lld along spatial axis %d",
                                (long long)((w->kernel[a] - 1) * w->dilation[a] + 1), a);
    }
    return true;
}

static int64_t span(const struct zt_window *w, int a) {
    return (w->kernel[a] - 1) * w->dilation[a] + 1;
}

/* False where a plane or the window has more elements than any machine could hold. */
static bool count_elems(struct zt_window *w) {
    int64_t *count[3] = { &w->in_elems, &w->out_elems, &w->kernel_elems };
    const int64_t *dims[3] = { w->in, w->out, w->kernel };
    for (int i = 0; i < 3; i++) {
        *count[i] = 1;
        for (int a = 0; a < w->axes; a++)
            if (__builtin_mul_overflow(*count[i], dims[i][a], count[i]) || *count[i] > INT64_C(1) << 40)
                return false;
    }
    return true;
}

static bool finish(const struct zt_graph *g, int node, struct zt_window *w, struct zt_err *err) {
    return count_elems(w) || zt_node_fail(g, node, err, "a plane or its window has more than 2^40 elements");
}

/* Splits `total` into both sides; the odd one goes last with SAME_UPPER. */
static void split_pads(struct zt_window *w, int a, int64_t total, bool upper) {
    w->pad[a] = upper ? total / 2 : total - total / 2;
    w->pad_end[a] = total - w->pad[a];
}

static bool fail_auto_pad(const struct zt_graph *g, int node, const char *value, struct zt_err *err) {
    return zt_node_fail(g, node, err, "auto_pad = \"%s\", allowed NOTSET, VALID, SAME_UPPER, SAME_LOWER", value);
}

/* With ceil_mode, as in PyTorch, also a window that is larger than the axis by less than a stride. */
static int64_t results(const struct zt_window *w, int a, bool ceil_mode) {
    const int64_t room = w->in[a] + w->pad[a] + w->pad_end[a] - span(w, a), more = ceil_mode ? w->stride[a] - 1 : 0;
    if (room + more < 0)
        return 0;
    int64_t out = (room + more) / w->stride[a] + 1;
    return ceil_mode && (out - 1) * w->stride[a] >= w->in[a] + w->pad[a] ? out - 1 : out;
}

bool zt_window_read(const struct zt_graph *g, int node, const struct zt_window_plane *in, struct zt_window *to,
                    struct zt_err *err) {
    const int axes = in->axes;
    *to = (struct zt_window){ .axes = axes };
    bool explicit_pads;
    memcpy(to->in, in->dims, sizeof *to->in * (size_t)axes);
    if (!read_common(g, node, in, to, &explicit_pads, err))
        return false;
    const char *mode = zt_attr_text(g->nodes[node], "auto_pad", "NOTSET");
    bool same = strcmp(mode, "SAME_UPPER") == 0 || strcmp(mode, "SAME_LOWER") == 0, valid = strcmp(mode, "VALID") == 0;
    if (!same && !valid && mode[0] && strcmp(mode, "NOTSET") != 0)
        return fail_auto_pad(g, node, mode, err);
    bool ceil_mode = zt_attr_int(g->nodes[node], "ceil_mode", 0);
    for (int a = 0; a < axes; a++) {
        if (valid)
            to->pad[a] = to->pad_end[a] = 0;
        if (same) {
            to->out[a] = zt_ceil_div(to->in[a], to->stride[a]);
            int64_t total = (to->out[a] - 1) * to->stride[a] + span(to, a) - to->in[a];
            split_pads(to, a, zt_max_int(total, 0), mode[5] == 'U');
        } else {
            to->out[a] = results(to, a, ceil_mode);
        }
        if (to->out[a] < 1 && to->in[a] > 0)
            return zt_node_fail(g, node, err,
                                "a window of %lld does not fit into spatial axis %d of size %lld, padding included",
                                (long long)span(to, a), a, (long long)(to->in[a] + to->pad[a] + to->pad_end[a]));
    }
    return finish(g, node, to, err);
}

/* Opset 1 on: total padding = stride (x - 1) + output_padding + span - output; SAME_* give output = x * stride, and an
 * output_shape without explicit pads has its total split as auto_pad says. */
bool zt_window_read_transposed(const struct zt_graph *g, int node, const struct zt_window_plane *out,
                               struct zt_window *to, struct zt_err *err) {
    const int axes = out->axes;
    *to = (struct zt_window){ .axes = axes };
    bool explicit_pads, given, extra;
    int64_t shape[ZT_WINDOW_AXES] = { 0 }, output_padding[ZT_WINDOW_AXES] = { 0 };
    memcpy(to->out, out->dims, sizeof *to->out * (size_t)axes);
    int count;
    const int64_t *list = zt_attr_ints(g->nodes[node], "output_shape", &count);
    bool with_batch = list && count == axes + 2; /* some exporters write N and C too */
    if (!read_common(g, node, out, to, &explicit_pads, err) ||
        !read_list(g, node, (struct int_attr){ "output_padding", axes, 0 }, output_padding, &extra, err))
        return false;
    given = with_batch;
    if (with_batch)
        memcpy(shape, list + 2, sizeof *list * (size_t)axes);
    else if (!read_list(g, node, (struct int_attr){ "output_shape", axes, 0 }, shape, &given, err))
        return false;
    const char *mode = zt_attr_text(g->nodes[node], "auto_pad", "NOTSET");
    bool upper = strcmp(mode, "SAME_UPPER") == 0, same = upper || strcmp(mode, "SAME_LOWER") == 0;
    if (!same && mode[0] && strcmp(mode, "VALID") != 0 && strcmp(mode, "NOTSET") != 0)
        return fail_auto_pad(g, node, mode, err);
    for (int a = 0; a < axes; a++) {
        int64_t full = to->stride[a] * (to->out[a] - 1) + output_padding[a] + span(to, a);
        if (given || same) {
            to->in[a] = given ? shape[a] : to->out[a] * to->stride[a];
            if (!explicit_pads || same)
                split_pads(to, a, zt_max_int(full - to->in[a], 0), upper);
        } else {
            to->in[a] = full - to->pad[a] - to->pad_end[a];
        }
        if (to->in[a] < 1 && to->out[a] > 0)
            return zt_node_fail(g, node, err, "its result would have size %lld along spatial axis %d",
                                (long long)to->in[a], a);
    }
    return finish(g, node, to, err);
}

void zt_window_global(const int64_t *in, int axes, struct zt_window *to) {
    *to = (struct zt_window){ .axes = axes };
    for (int a = 0; a < axes; a++) {
        to->in[a] = to->kernel[a] = in[a];
        to->out[a] = to->stride[a] = to->dilation[a] = 1;
    }
    count_elems(to);
}

bool zt_window_planes(const struct zt_graph *g, int node, const struct zt_value *x, struct zt_err *err) {
    if (x->shape.rank >= 3)
        return true;
    return zt_node_fail(g, node, err, "input \"%s\" has rank %d, wants 3 or more (N, C, then spatial axes)", x->name,
                        x->shape.rank);
}

/* ---- stretches ---- */

void zt_window_stretch(const struct zt_window *w, const int64_t *outer, const int64_t *k, int64_t from, int64_t length,
                       struct zt_stretch *to) {
    int last = w->axes - 1;
    *to = (struct zt_stretch){ .step = 1 };
    int64_t base = 0;
    for (int a = 0; a < last; a++) {
        int64_t s = outer[a] * w->stride[a] - w->pad[a] + k[a] * w->dilation[a];
        if (s < 0 || s >= w->in[a])
            return;
        base = base * w->in[a] + s;
    }
    int64_t shift = k[last] * w->dilation[last] - w->pad[last], stride = w->stride[last];
    int64_t first = zt_max_int(from, shift < 0 ? zt_ceil_div(-shift, stride) : 0);
    int64_t room = w->in[last] - 1 - shift;
    int64_t end = zt_min_int(from + length, room < 0 ? 0 : room / stride + 1);
    if (first >= end)
        return;
    *to = (struct zt_stretch){ first, 1, end - first, base * w->in[last] + first * stride + shift, stride };
}

void zt_window_stretch_back(const struct zt_window *w, const int64_t *outer, const int64_t *k, int64_t from,
                            int64_t length, struct zt_stretch *to) {
    int last = w->axes - 1;
    *to = (struct zt_stretch){ .step = 1 };
    int64_t base = 0;
    for (int a = 0; a < last; a++) {
        int64_t t = outer[a] + w->pad[a] - k[a] * w->dilation[a];
        if (t < 0 || t % w->stride[a] || t / w->stride[a] >= w->out[a])
            return;
        base = base * w->out[a] + t / w->stride[a];
    }
    int64_t shift = w->pad[last] - k[last] * w->dilation[last], stride = w->stride[last];
    int64_t result =
        zt_max_int(0, zt_ceil_div(from + shift, stride)); /* the first whose element is not before `from` */
    int64_t first = result * stride - shift;
    int64_t end = zt_min_int(from + length - 1, (w->out[last] - 1) * stride - shift);
    if (first > end)
        return;
    *to = (struct zt_stretch){ first, stride, (end - first) / stride + 1, base * w->out[last] + result, 1 };
}
