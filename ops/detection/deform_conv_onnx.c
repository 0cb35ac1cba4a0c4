/* The gradients of DeformConv in standard operators (formulas in deform_conv.c). Taps of all channels of an offset
 * group lie on one axis, [n, offset group, channel, kernel * place], and corner by corner they are gathered and
 * scattered. */
#include "ops/detection/deform_conv.h"
#include "ops/detection/kernels.h"

struct deform {
    struct zt_function_body *b;
    struct zt_deform_conv d;
    long long n, c, m, groups, offset_groups, kernel, places; /* of d */
};

static bool start(struct deform *s, struct zt_function_body *b, struct zt_err *err) {
    *s = (struct deform){ .b = b };
    if (!zt_deform_inputs(b->g->nodes[b->node])->read(b->g, b->node, &s->d, err))
        return false;
    s->n = s->d.conv.n;
    s->c = s->d.conv.c;
    s->m = s->d.conv.m;
    s->groups = s->d.conv.groups;
    s->offset_groups = s->d.offset_groups;
    s->kernel = s->d.conv.window.kernel_elems;
    s->places = s->d.conv.window.out_elems;
    return true;
}

/* base: the positions along axis a before the offset, [kernel, place] */
static void say_base(struct deform *s, int a) {
    const struct zt_window *w = &s->d.conv.window;
    const struct zt_shape shape = { 2, { w->kernel_elems, w->out_elems } };
    double *base = ZT_NEW_N(s->b->arena, double, w->kernel_elems * w->out_elems + 1);
    int64_t k[ZT_WINDOW_AXES], o[ZT_WINDOW_AXES];
    for (int64_t i = 0; i < w->kernel_elems * w->out_elems; i++) {
        zt_window_split(i / w->out_elems, w->kernel, w->axes, k);
        zt_window_split(i % w->out_elems, w->out, w->axes, o);
        base[i] = (double)(o[a] * w->stride[a] - w->pad[a] + k[a] * w->dilation[a]);
    }
    zt_function_body_doubles(s->b, "base", &shape, base);
}

/* low_A and part_A: cells of all taps, [n, offset group, kernel, place] */
static void say_cells(struct deform *s) {
    struct zt_function_body *b = s->b;
    zt_function_body_add(b, "offset = Reshape(offset, [%lld, %lld, %lld, %d, %lld])", s->n, s->offset_groups, s->kernel,
                         s->d.conv.window.axes, s->places);
    for (int a = 0; a < s->d.conv.window.axes; a++) {
        say_base(s, a);
        zt_function_body_add(b, "move = Gather<axis=3>(offset, %di); whole = Floor(move)", a);
        zt_function_body_add(b, "part_%d = move - whole; low_%d = base + whole", a, a);
    }
}

/* "[n, offset group, 1, kernel * place]" */
static const char *tap_dims(struct deform *s) {
    return zt_function_body_text(s->b, "[%lld, %lld, 1, %lld]", s->n, s->offset_groups, s->kernel * s->places);
}

/* at: the pixel of corner i; there: whether it is inside */
static void say_pixel(struct deform *s, int i) {
    struct zt_function_body *b = s->b;
    const struct zt_window *w = &s->d.conv.window;
    for (int a = 0; a < w->axes; a++) {
        const long long last = (long long)w->in[a] - 1;
        zt_function_body_add(b, "i = low_%d + %d; in = And(GreaterOrEqual(i, 0), LessOrEqual(i, %lld))", a, i >> a & 1,
                             last);
        zt_function_body_add(b, "pixel = Cast<to=int64>(Clip(i, 0, %lld))", last);
        zt_function_body_add(b, a ? "there = And(there, in); flat = flat * %lldi + pixel" : "there = in; flat = pixel",
                             last + 1);
    }
    zt_function_body_add(b, "at_%d = Expand(Reshape(flat, %s), [%lld, %lld, %lld, %lld])", i, tap_dims(s), s->n,
                         s->offset_groups, s->c / s->offset_groups, s->kernel * s->places);
    zt_function_body_add(b, "value_%d = GatherElements<axis=3>(image, at_%d)", i, i);
}

/* The weight of corner i, its derivative along axis `moved`, 0 outside, as [n, offset group, 1, kernel * place]. */
static const char *weight(struct deform *s, int i, int moved) {
    const char *text = "1 + 0 * part_0";
    for (int a = 0; a < s->d.conv.window.axes; a++) {
        const bool upper = i >> a & 1;
        text = a == moved ? zt_function_body_text(s->b, "(%s) * %s", text, upper ? "1" : "(-1)")
                          : zt_function_body_text(s->b, upper ? "(%s) * part_%d" : "(%s) * (1 - part_%d)", text, a);
    }
    return zt_function_body_text(s->b, "Reshape(Where(there, %s, 0), %s)", text, tap_dims(s));
}

static void say_image(struct deform *s) {
    zt_function_body_add(s->b, "image = Reshape(image, [%lld, %lld, %lld, %lld])", s->n, s->offset_groups,
                         s->c / s->offset_groups, (long long)s->d.conv.window.in_elems);
}

static void say_mask(struct deform *s) {
    zt_function_body_add(s->b, s->d.masked ? "mask = Reshape(mask, %s)" : "mask = 1", tap_dims(s));
}

/* A text for each corner, joined by commas. */
static const char *joined(struct deform *s, const char *name) {
    const char *text = "";
    for (int i = 0; i < 1 << s->d.conv.window.axes; i++)
        text = zt_function_body_text(s->b, "%s%s%s_%d", text, i ? ", " : "", name, i);
    return text;
}

/* ---- gradients of x, offset and mask ---- */

static void say_columns_gradient(struct deform *s) {
    struct zt_function_body *b = s->b;
    const long long rows = s->m / s->groups, depth = s->c / s->groups * s->kernel;
    zt_function_body_add(b, "w = Reshape(w, [%lld, %lld, %lld]); dy = Reshape(dy, [%lld, %lld, %lld, %lld])", s->groups,
                         rows, depth, s->n, s->groups, rows, s->places);
    zt_function_body_add(b, "d = Reshape(MatMul(Transpose<perm=[0, 2, 1]>(w), dy), [%lld, %lld, %lld, %lld])", s->n,
                         s->offset_groups, s->c / s->offset_groups, s->kernel * s->places);
}

/* read: what the taps read; move_A: its derivatives */
static void say_corner(struct deform *s, int i, bool moves) {
    struct zt_function_body *b = s->b;
    say_pixel(s, i);
    zt_function_body_add(b, "weight = %s; add_%d = d * mask * weight; read = read + value_%d * weight",
                         weight(s, i, -1), i, i);
    for (int a = 0; moves && a < s->d.conv.window.axes; a++)
        zt_function_body_add(b, "move_%d = move_%d + value_%d * %s", a, a, i, weight(s, i, a));
}

static void say_offset_gradient(struct deform *s) {
    const char *all = "";
    for (int a = 0; a < s->d.conv.window.axes; a++)
        all = zt_function_body_text(s->b,
                                    "%s%sReshape(ReduceSum<keepdims=0>(d * mask * move_%d, [2]), [%lld, %lld, %lld, "
                                    "1, %lld])",
                                    all, a ? ", " : "", a, s->n, s->offset_groups, s->kernel, s->places);
    zt_function_body_add(s->b, "doffset = Reshape(Concat<axis=3>(%s), %s)", all, zt_body_out(s->b, 1));
}

ZT_FUNCTION_BODY(zt_deform_conv_grad_input_function_body) {
    (void)g, (void)node;
    struct deform s;
    if (!start(&s, b, err))
        return false;
    const bool moves = zt_function_body_wants(b, 1), masks = s.d.masked && zt_function_body_wants(b, 2);
    zt_function_body_names(b, "image, w, offset, dy, mask -> dx, doffset, dmask");
    say_image(&s);
    say_mask(&s);
    say_cells(&s);
    say_columns_gradient(&s);
    zt_function_body_add(b, "read = 0");
    for (int a = 0; a < s.d.conv.window.axes; a++)
        zt_function_body_add(b, "move_%d = 0", a);
    for (int i = 0; i < 1 << s.d.conv.window.axes; i++)
        say_corner(&s, i, moves);
    if (zt_function_body_wants(b, 0))
        zt_function_body_add(b,
                             "dx = Reshape(ScatterElements<axis=3, reduction=\"add\">(0 * image, Concat<axis=3>(%s), "
                             "Concat<axis=3>(%s)), %s)",
                             joined(&s, "at"), joined(&s, "add"), zt_body_out(b, 0));
    if (moves)
        say_offset_gradient(&s);
    if (masks)
        zt_function_body_add(b, "dmask = Reshape(ReduceSum<keepdims=0>(d * read, [2]), %s)", zt_body_out(b, 2));
    return true;
}

/* ---- gradient of the weight ---- */

ZT_FUNCTION_BODY(zt_deform_conv_grad_weight_function_body) {
    (void)g, (void)node;
    struct deform s;
    if (!start(&s, b, err))
        return false;
    const long long rows = s.m / s.groups, depth = s.c / s.groups * s.kernel;
    zt_function_body_names(b, "image, dy, offset, mask -> dw");
    say_image(&s);
    say_mask(&s);
    say_cells(&s);
    zt_function_body_add(b, "read = 0");
    for (int i = 0; i < 1 << s.d.conv.window.axes; i++) {
        say_pixel(&s, i);
        zt_function_body_add(b, "read = read + value_%d * %s", i, weight(&s, i, -1));
    }
    zt_function_body_add(b, "columns = Reshape(read * mask, [%lld, %lld, %lld, %lld])", s.n, s.groups, depth, s.places);
    zt_function_body_add(b, "dy = Reshape(dy, [%lld, %lld, %lld, %lld])", s.n, s.groups, rows, s.places);
    zt_function_body_add(
        b, "dw = Reshape(ReduceSum<keepdims=0>(MatMul(dy, Transpose<perm=[0, 1, 3, 2]>(columns)), [0]), %s)",
        zt_body_out(b, 0));
    return true;
}
