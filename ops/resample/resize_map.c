/* Interpolation along one axis (ONNX Resize, opset 19): place o of the result lies at coordinate x of the input; with b
 * the last element left of it (b < x <= b + 1) its value is the sum over the elements i around of f(s (i - x)) times
 * element i, elements outside being those at the edge:
 *
 *     linear  f(d) = 1 - |d|                                                        |d| <= 1
 *     cubic   f(d) = (a + 2) |d|^3 - (a + 3) |d|^2 + 1                              |d| <= 1
 *                    a |d|^3 - 5 a |d|^2 + 8 a |d| - 4 a                        1 < |d| < 2      (Keys 1981, equation
 * 4)
 *
 * s = 1, or min(1, scale) where the filter is stretched against aliasing; the weights are then divided by their sum. */
#include "ops/resample/resize.h"

#include "ops/kernel/tile.h"

#include <math.h>
#include <string.h>

static bool map_alloc(int64_t size, int64_t entries, struct zt_resize_map *to, struct zt_err *err) {
    int64_t numbers;
    *to = (struct zt_resize_map){ 0 };
    if (__builtin_mul_overflow(entries, 2, &numbers) || __builtin_add_overflow(numbers, size + 1, &numbers) ||
        numbers > INT64_MAX / (int64_t)sizeof(int64_t))
        return zt_fail(err, ZT_EXIT_MODEL, "an axis of %lld elements is too long to be resized", (long long)size);
    to->bytes = (size_t)numbers * sizeof(int64_t);
    to->block = zt_block_create(to->bytes, "the weights of a resized axis", err);
    if (!to->block)
        return false;
    to->begin = to->block;
    to->index = to->begin + size + 1;
    to->weight = (double *)(to->index + entries);
    return true;
}

void zt_resize_map_finish(struct zt_resize_map *m) {
    zt_block_destroy(m->block, m->bytes);
    *m = (struct zt_resize_map){ 0 };
}

static double filter(const struct zt_resize *r, double d) {
    double a = r->cubic_a;
    d = fabs(d);
    if (r->mode == ZT_LINEAR)
        return d < 1 ? 1 - d : 0;
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* The support of the filter: elements b + first .. b + 1 - first. */
struct span {
    double stretch;
    int64_t first, count;
};

static struct span span_of(const struct zt_resize *r, int axis) {
    struct span s = { .stretch = r->antialias ? fmin(r->scale[axis], 1) : 1 };
    s.first = (int64_t)floor(-(r->mode == ZT_CUBIC ? 2 : 1) / s.stretch) + 1;
    s.count = 2 - 2 * s.first;
    return s;
}

static int64_t clamp(double i, int64_t size) {
    return (int64_t)fmin(fmax(i, 0), (double)(size - 1));
}

/* The weights around x: writes to `index` and `weight`, returns how many. */
static int64_t weights_at(const struct zt_resize *r, const struct span *s, double x, int64_t size, int64_t *index,
                          double *weight) {
    double left = ceil(x) - 1, sum = 0;
    int64_t count = 0;
    for (int64_t k = 0; k < s->count; k++) {
        double i = left + (double)(s->first + k);
        bool outside = i < 0 || i > (double)(size - 1);
        weight[k] = outside && r->exclude_outside ? 0 : filter(r, s->stretch * (i - x));
        index[k] = clamp(i, size);
        sum += weight[k];
    }
    double scale = (r->antialias || r->exclude_outside) && sum != 0 ? 1 / sum : 1;
    for (int64_t k = 0; k < s->count; k++) {
        if (weight[k] == 0 && (k + 1 < s->count || count > 0))
            continue;
        index[count] = index[k];
        weight[count++] = weight[k] * scale;
    }
    return count;
}

bool zt_resize_map_init(const struct zt_resize *r, int axis, struct zt_resize_map *to, struct zt_err *err) {
    int64_t size = r->x.dim[axis], out = r->y.dim[axis], at = 0, entries;
    struct span span = r->mode == ZT_NEAREST ? (struct span){ .count = 1 } : span_of(r, axis);
    if (__builtin_mul_overflow(out, span.count, &entries))
        entries = INT64_MAX;
    if (!map_alloc(out, entries, to, err))
        return false;
    for (int64_t o = 0; o < out; o++) {
        double x = r->coordinate(r, axis, (double)o);
        to->begin[o] = at;
        if (r->crops && !(x >= 0 && x <= (double)(size - 1)))
            continue;
        x = fmin(fmax(x, -(double)size), 2.0 * (double)size); /* beyond, all is the edge anyway */
        if (r->mode == ZT_NEAREST) {
            to->index[at] = clamp(r->nearest(x, r->scale[axis]), size);
            to->weight[at++] = 1;
        } else {
            at += weights_at(r, &span, x, size, to->index + at, to->weight + at);
        }
    }
    to->begin[out] = at;
    return true;
}

bool zt_resize_map_transpose(const struct zt_resize_map *m, int64_t from, int64_t to_size, struct zt_resize_map *to,
                             struct zt_err *err) {
    int64_t entries = m->begin[from];
    if (!map_alloc(to_size, entries, to, err))
        return false;
    for (int64_t t = 0; t < entries; t++)
        to->begin[m->index[t] + 1]++;
    for (int64_t i = 0; i < to_size; i++)
        to->begin[i + 1] += to->begin[i];
    for (int64_t o = from - 1; o >= 0; o--) /* from the back: begin[i + 1] counts down to the first of i + 1 ... */
        for (int64_t t = m->begin[o + 1] - 1; t >= m->begin[o]; t--) {
            int64_t place = --to->begin[m->index[t] + 1];
            to->index[place] = o;
            to->weight[place] = m->weight[t];
        }
    /* ... which is where i + 1 begins, one place too far */
    memmove(to->begin, to->begin + 1, (size_t)to_size * sizeof *to->begin);
    to->begin[to_size] = entries;
    return true;
}
