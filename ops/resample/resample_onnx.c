/* Resize, Upsample, GridSample and AffineGrid, backwards. */
#include "ops/resample/kernels.h"
#include "ops/resample/resize.h"
#include "ops/kernel/shape.h"

#include <string.h>

static const char *text_of(const struct zt_node *n, const char *name, const char *otherwise) {
    return zt_attr_text(n, name, otherwise);
}

/* ---- Resize: a matrix an axis ---- */

/* The attributes that say where along axis k a result lies; those of opset 10 and before are the rules of their own. */
static const char *rules(struct zt_function_body *b, const struct zt_node *n, double scale, bool old) {
    const char *nearest = text_of(n, "nearest_mode", old ? "by_direction" : "round_prefer_floor");
    if (strcmp(nearest, "by_direction") == 0)
        nearest = scale < 1 ? "ceil" : "floor";
    return zt_function_body_text(
        b,
        "mode=\"%s\", coordinate_transformation_mode=\"%s\", nearest_mode=\"%s\", antialias=%d, "
        "exclude_outside=%d, cubic_coeff_a=%.9e",
        text_of(n, "mode", "nearest"), text_of(n, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"),
        nearest, zt_attr_int(n, "antialias", 0) != 0, zt_attr_int(n, "exclude_outside", 0) != 0,
        (double)zt_attr_float(n, "cubic_coeff_a", -0.75f));
}

/* region, scales and sizes for an image whose last axis is axis k of the node: sizes where the node has them */
static void say_lengths(struct zt_function_body *b, const struct zt_resize *r, int k, bool sizes) {
    const double region[8] = { 0, 0, 0, r->start[k], 1, 1, 1, r->end[k] }, scales[4] = { 1, 1, 1, r->scale[k] };
    zt_function_body_doubles(b, "region", &(struct zt_shape){ 1, { 8 } }, region);
    zt_function_body_doubles(b, "scales", &(struct zt_shape){ 1, { 4 } }, scales);
    zt_function_body_add(b, "region = %s; scales = Cast<to=float>(scales)", r->crops ? "Cast<to=float>(region)" : "_");
    zt_function_body_add(b, sizes ? "scales = _; sizes = [1, 1, %lld, %lld]" : "sizes = _", (long long)r->x.dim[k],
                         (long long)r->y.dim[k]);
}

/* dx along axis k = dy times a matrix; its row i is the resized unit vector of element i. Elements outside of a cropped
 * input are constant. */
ZT_FUNCTION_BODY(zt_resize_grad_function_body) {
    const struct zt_node *n = g->nodes[node];
    struct zt_resize r;
    if (!zt_resize_read(g, node, &r, err))
        return false;
    bool sizes = zt_in(g, node, 3) && zt_shape_count(&zt_in(g, node, 3)->shape) > 0;
    int rank = r.x.rank;
    zt_function_body_names(b, "dy, _, _, _ -> dx");
    zt_function_body_add(b, "dx = dy");
    for (int k = 0; k < rank; k++) {
        if (!r.resized[k])
            continue;
        int64_t size = r.x.dim[k], perm[ZT_MAX_RANK];
        double *ones = ZT_NEW_N(b->arena, double, size *size);
        for (int64_t i = 0; i < size; i++)
            ones[i * size + i] = 1;
        for (int a = 0; a < rank; a++)
            perm[a] = a;
        perm[k] = rank - 1;
        perm[rank - 1] = k;
        zt_function_body_doubles(b, "ones", &(struct zt_shape){ 4, { 1, 1, size, size } }, ones);
        say_lengths(b, &r, k, sizes);
        zt_function_body_add(b, "each = Reshape(Resize<%s>(ones, region, scales, sizes), [%lld, %lld])",
                             rules(b, n, r.scale[k], false), (long long)size, (long long)r.y.dim[k]);
        const char *order = zt_function_body_list(b, perm, rank);
        zt_function_body_add(b, "dx = Transpose<perm=%s>(MatMul(Transpose<perm=%s>(dx), Transpose(each)))", order,
                             order);
    }
    return true;
}

/* Forms before opset 11, an axis at a time: the nearest element depends on whether it grows. */
ZT_FUNCTION_BODY(zt_resize_old_function_body) {
    struct zt_resize r;
    if (!zt_resize_read(g, node, &r, err))
        return false;
    zt_function_body_names(b, "x, _ -> y");
    zt_function_body_add(b, "y = x");
    for (int k = 0; k < r.x.rank; k++) {
        double scales[ZT_MAX_RANK];
        for (int a = 0; a < r.x.rank; a++)
            scales[a] = a == k ? r.scale[a] : 1;
        if (!r.resized[k])
            continue;
        zt_function_body_doubles(b, "scales", &(struct zt_shape){ 1, { r.x.rank } }, scales);
        zt_function_body_add(b, "y = Resize<%s>(y, _, Cast<to=float>(scales))",
                             rules(b, g->nodes[node], r.scale[k], true));
    }
    return true;
}

/* ---- AffineGrid: dtheta[n, r, c] = sum over places of dgrid[n, place, r] base[place, c] ---- */

/* The base is the grid of the identity, and ones. */
ZT_FUNCTION_BODY(zt_affine_grid_grad_function_body) {
    (void)err;
    const struct zt_shape *dy = &zt_in(g, node, 0)->shape;
    int axes = dy->rank - 2;
    struct zt_shape size = { axes + 2, { 1, 1 } };
    double identity[ZT_MAX_RANK * ZT_MAX_RANK] = { 0 };
    for (int r = 0; r < axes; r++) {
        size.dim[r + 2] = dy->dim[r + 1];
        identity[r * (axes + 1) + r] = 1;
    }
    long long places = zt_dims(dy, 1, axes + 1);
    zt_function_body_names(b, "dy, _, _ -> dtheta");
    zt_function_body_doubles(b, "identity", &(struct zt_shape){ 3, { 1, axes, axes + 1 } }, identity);
    zt_function_body_add(b, "base = Reshape(AffineGrid<align_corners=%d>(identity, %s), [%lld, %d])",
                         zt_attr_int(g->nodes[node], "align_corners", 0) != 0, zt_function_body_dims(b, &size), places,
                         axes);
    zt_function_body_add(b, "base = Concat<axis=1>(base, Expand(1, [%lld, 1]))", places);
    zt_function_body_add(b, "dtheta = MatMul(Transpose<perm=[0, 2, 1]>(Reshape(dy, [%lld, %lld, %d])), base)",
                         (long long)dy->dim[0], places, axes);
    return true;
}

/* ---- GridSample: taps of every place (formulas in grid_sample.c) ---- */

struct sampler {
    struct zt_function_body *b;
    const char *mode, *padding;
    bool align;
    int axes, taps;
    int64_t n, channels, pixels, places, size[ZT_MAX_RANK];
};

static bool is(const char *a, const char *b) {
    return strcmp(a, b) == 0;
}

static struct sampler sampler_of(struct zt_function_body *b) {
    const struct zt_node *n = b->g->nodes[b->node];
    const struct zt_shape *x = &zt_in(b->g, b->node, 1)->shape, *grid = &zt_in(b->g, b->node, 2)->shape;
    struct sampler s = { .b = b,
                         .mode = text_of(n, "mode", "linear"),
                         .padding = text_of(n, "padding_mode", "zeros"),
                         .align = zt_attr_int(n, "align_corners", 0),
                         .axes = x->rank - 2,
                         .n = x->dim[0],
                         .channels = x->dim[1],
                         .pixels = zt_dims(x, 2, x->rank),
                         .places = zt_dims(grid, 1, grid->rank - 1) };
    s.taps = is(s.mode, "nearest") ? 1 : is(s.mode, "linear") || is(s.mode, "bilinear") ? 2 : 4;
    memcpy(s.size, x->dim + 2, sizeof *s.size * (size_t)s.axes);
    return s;
}

/* NAME thrown back between low and high; turn: -1 where that mirrors the direction */
static void say_reflect(struct sampler *s, const char *name, double low, double high) {
    struct zt_function_body *b = s->b;
    if (high <= low) {
        zt_function_body_add(b, "%s = 0 * %s + %.17g; turn = 1", name, name, low);
        return;
    }
    zt_function_body_number(b, "low", low);
    zt_function_body_number(b, "high", high);
    zt_function_body_add(b, "far = Abs(%s - low); times = Floor(far / (high - low)); rest = far - times * (high - low)",
                         name);
    zt_function_body_add(
        b, "odd = Equal(times - 2 * Floor(times / 2), 1); inside = And(GreaterOrEqual(%s, low), LessOrEqual(%s, high))",
        name, name);
    zt_function_body_add(b, "turn = Where(inside, 1, Where(odd, -1, 1) * Sign(%s - low))", name);
    zt_function_body_add(b, "%s = Where(inside, %s, Where(odd, high - rest, low + rest))", name, name);
}

/* Keys' convolution with a = -0.75 and its slope along t, of the tap at distance d, whose sign along t is `sign` */
static void say_cubic(struct sampler *s, int k, int j) {
    static const char *const distance[] = { "1 + t", "t", "1 - t", "2 - t" };
    zt_function_body_add(s->b, "d = %s", distance[j]);
    if (j == 1 || j == 2)
        zt_function_body_add(s->b, "w_%d_%d = (1.25 * d - 2.25) * d * d + 1; s = (3.75 * d - 4.5) * d", k, j);
    else
        zt_function_body_add(s->b, "w_%d_%d = ((-0.75 * d + 3.75) * d - 6) * d + 3; s = (-2.25 * d + 7.5) * d - 6", k,
                             j);
    zt_function_body_add(s->b, "s_%d_%d = %s * speed", k, j, j < 2 ? "s" : "-s");
}

static void say_weights(struct sampler *s, int k) {
    if (s->taps == 1)
        zt_function_body_add(s->b, "w_%d_0 = 1 + 0 * t; s_%d_0 = 0 * t", k, k);
    else if (s->taps == 2)
        zt_function_body_add(s->b, "w_%d_0 = 1 - t; s_%d_0 = -speed; w_%d_1 = t; s_%d_1 = speed", k, k, k, k);
    for (int j = 0; s->taps == 4 && j < 4; j++)
        say_cubic(s, k, j);
}

/* n_K_J: the pixel that tap J of axis K reads; one outside has no weight where outside is zero */
static void say_pixel(struct sampler *s, int k, int j, double low, double high) {
    struct zt_function_body *b = s->b;
    zt_function_body_add(b, "i = base + %d - %d", j, s->taps == 4);
    if (is(s->padding, "zeros"))
        zt_function_body_add(
            b,
            "there = And(GreaterOrEqual(i, 0), LessOrEqual(i, %lld)); w_%d_%d = Where(there, w_%d_%d, 0);"
            "s_%d_%d = Where(there, s_%d_%d, 0)",
            (long long)s->size[k] - 1, k, j, k, j, k, j, k, j);
    if (is(s->padding, "reflection"))
        say_reflect(s, "i", low, high);
    zt_function_body_add(b, "n_%d_%d = Cast<to=int64>(Clip(i, 0, %lld))", k, j, (long long)s->size[k] - 1);
}

static void say_taps(struct sampler *s, int k) {
    struct zt_function_body *b = s->b;
    double size = (double)s->size[k], low = s->align ? 0 : -0.5, high = s->align ? size - 1 : size - 0.5;
    zt_function_body_number(b, "size", size);
    zt_function_body_add(b, "u = Gather<axis=2>(grid, %di)", s->axes - 1 - k);
    zt_function_body_add(b, s->align ? "x = (u + 1) / 2 * (size - 1); speed = (size - 1) / 2"
                                     : "x = ((u + 1) * size - 1) / 2; speed = size / 2");
    zt_function_body_add(b, s->taps == 1 ? "x = Round(x); turn = 1" : "turn = 1");
    if (is(s->padding, "border") && s->taps < 4) {
        zt_function_body_number(b, "low", low);
        zt_function_body_number(b, "high", high);
        zt_function_body_add(b,
                             "out = Or(Less(x, low), Greater(x, high)); x = Where(out, Clip(x, 0, size - 1), x);"
                             "turn = Where(out, 0, 1)");
    } else if (is(s->padding, "reflection")) {
        say_reflect(s, "x", low, high);
    }
    zt_function_body_add(b, "speed = speed * turn; base = Floor(x); t = x - base");
    say_weights(s, k);
    for (int j = 0; j < s->taps; j++)
        say_pixel(s, k, j, low, high);
}

/* The product over the axes of the weights of a choice of taps, of the slope instead on axis `moved`. */
static const char *product(struct sampler *s, const int *tap, int moved) {
    const char *text = "";
    for (int k = 0; k < s->axes; k++)
        text = zt_function_body_text(s->b, "%s%s%s_%d_%d", text, k ? " * " : "", k == moved ? "s" : "w", k, tap[k]);
    return text;
}

/* at_M: the pixel of a choice of taps in its plane, for every channel; add_M: what dx gets there */
static void say_choice(struct sampler *s, const int *tap, int m, bool moves) {
    struct zt_function_body *b = s->b;
    zt_function_body_add(b, "flat = n_0_%d", tap[0]);
    for (int k = 1; k < s->axes; k++)
        zt_function_body_add(b, "flat = flat * %lldi + n_%d_%d", (long long)s->size[k], k, tap[k]);
    zt_function_body_add(b, "at_%d = Expand(Unsqueeze(flat, [1]), [%lld, %lld, %lld])", m, (long long)s->n,
                         (long long)s->channels, (long long)s->places);
    zt_function_body_add(b, "add_%d = dy * Unsqueeze(%s, [1])", m, product(s, tap, -1));
    if (moves)
        zt_function_body_add(b, "value = ReduceSum<keepdims=0>(dy * GatherElements<axis=2>(image, at_%d), [1])", m);
    for (int k = 0; moves && k < s->axes; k++)
        zt_function_body_add(b, "move_%d = move_%d + value * %s", k, k, product(s, tap, k));
}

static const char *joined(struct sampler *s, const char *name, int count) {
    const char *text = "";
    for (int i = 0; i < count; i++)
        text = zt_function_body_text(s->b, "%s%s%s_%d", text, i ? ", " : "", name, i);
    return text;
}

static void say_move(struct sampler *s) {
    const char *text = "";
    for (int k = s->axes - 1; k >= 0; k--)
        text = zt_function_body_text(s->b, "%s%sUnsqueeze(move_%d, [2])", text, k < s->axes - 1 ? ", " : "", k);
    zt_function_body_add(s->b, "dgrid = Reshape(Concat<axis=2>(%s), %s)", text,
                         zt_function_body_dims(s->b, &zt_out(s->b->g, s->b->node, 1)->shape));
}

ZT_FUNCTION_BODY(zt_grid_sample_grad_function_body) {
    (void)err;
    struct sampler s = sampler_of(b);
    int tap[ZT_MAX_RANK] = { 0 }, count = 1;
    bool moves = zt_function_body_wants(b, 1);
    zt_function_body_names(b, "dy, image, grid -> dx, dgrid");
    zt_function_body_add(
        b,
        "planes = [%lld, %lld, -1]; dy = Reshape<allowzero=0>(dy, planes); image = Reshape<allowzero=0>(image, planes)",
        (long long)s.n, (long long)s.channels);
    zt_function_body_add(b, "grid = Reshape(grid, [%lld, %lld, %d])", (long long)s.n, (long long)s.places, s.axes);
    for (int k = 0; k < s.axes; k++) {
        say_taps(&s, k);
        zt_function_body_add(b, "move_%d = 0", k);
        count *= s.taps;
    }
    for (int m = 0; m < count; m++) {
        say_choice(&s, tap, m, moves);
        for (int k = s.axes - 1; k >= 0 && ++tap[k] == s.taps; k--)
            tap[k] = 0;
    }
    zt_function_body_add(
        b,
        "dx = ScatterElements<axis=2, reduction=\"add\">(Expand(0, [%lld, %lld, %lld]), Concat<axis=2>(%s), "
        "Concat<axis=2>(%s))",
        (long long)s.n, (long long)s.channels, (long long)s.pixels, joined(&s, "at", count), joined(&s, "add", count));
    zt_function_body_add(b, "dx = Reshape(dx, %s)", zt_function_body_dims(b, &zt_out(g, node, 0)->shape));
    if (moves)
        say_move(&s);
    return true;
}
