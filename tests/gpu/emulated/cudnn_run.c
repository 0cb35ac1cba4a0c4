/* Execution of the operations of a graph: convolutions, pools, products, normalisations and elementwise operations are
 * plain loops over the dims, strides and paddings of the descriptors, in double, so that tests compare the descriptions
 * with the reference kernels. */
#include "tests/gpu/emulated/cudnn_descriptor.h"

#include <math.h>
#include <string.h>

enum { RANK = 8, TENSORS = 64 };

/* Locations of the tensors; inner ones have fp32 memory of their own. */
struct places {
    const struct cudnnBackendDescriptor *pack;
    void *inner[TENSORS];
};

static int64_t span_of(const struct tensor *t) {
    int64_t last = 0;
    for (int k = 0; k < t->rank; k++)
        last += (t->dim[k] - 1) * t->stride[k];
    return last + 1;
}

static void *place(struct places *p, const struct tensor *t) {
    const struct attribute *ids = find(p->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct attribute *pointers = find(p->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    if (t->inner && !p->inner[t->id])
        p->inner[t->id] = calloc((size_t)span_of(t), sizeof(float));
    if (t->inner)
        return p->inner[t->id];
    for (int64_t i = 0; i < ids->count; i++)
        if (((const int64_t *)ids->values)[i] == t->id)
            return ((void *const *)pointers->values)[i];
    return NULL;
}

static double get(const struct tensor *t, const void *data, int64_t at) {
    return zt_load_double(t->dtype, data, at);
}
static void put(const struct tensor *t, void *data, int64_t at, double value) {
    zt_store_double(t->dtype, data, at, value);
}

/* Splits a row-major index over dim[0..rank). */
static void split(int64_t flat, const int64_t *dim, int rank, int64_t *to) {
    for (int k = rank - 1; k >= 0; k--) {
        to[k] = flat % dim[k];
        flat /= dim[k];
    }
}
static int64_t count_of(const int64_t *dim, int rank) {
    int64_t count = 1;
    for (int k = 0; k < rank; k++)
        count *= dim[k];
    return count;
}
static int64_t offset(const struct tensor *t, const int64_t *at) {
    int64_t sum = 0;
    for (int k = 0; k < t->rank; k++)
        sum += at[k] * t->stride[k];
    return sum;
}

/* Every product of a convolution: of the three tensors the one that is computed gets the other two's. */
static void convolve(const struct cudnnBackendDescriptor *d, const struct names *n, struct places *p) {
    const struct tensor t[3] = { tensor_of(child(d, n->x)), tensor_of(child(d, n->w)), tensor_of(child(d, n->y)) };
    const int result = n == &convolutions[0] ? 2 : n == &convolutions[1] ? 0 : 1;
    const int left = result == 0 ? 1 : 0, right = result == 2 ? 1 : 2;
    struct window v = window_of(child(d, n->window));
    void *data[3] = { place(p, &t[0]), place(p, &t[1]), place(p, &t[2]) };
    double *sum = calloc((size_t)span_of(&t[result]), sizeof *sum);
    int64_t filters = t[1].dim[0] / (t[0].dim[1] / t[1].dim[1]), y[RANK], w[RANK], x[RANK], at[3];
    for (int64_t i = 0; i < count_of(t[2].dim, t[2].rank); i++) {
        split(i, t[2].dim, t[2].rank, y);
        for (int64_t j = 0; j < count_of(t[1].dim + 1, t[1].rank - 1); j++) {
            w[0] = y[1];
            split(j, t[1].dim + 1, t[1].rank - 1, w + 1);
            x[0] = y[0];
            x[1] = y[1] / filters * t[1].dim[1] + w[1];
            bool inside = true;
            for (int a = 0; a < v.axes; a++) {
                x[a + 2] = y[a + 2] * v.stride[a] - v.before[a] + w[a + 2] * v.dilation[a];
                inside &= x[a + 2] >= 0 && x[a + 2] < t[0].dim[a + 2];
            }
            if (!inside)
                continue;
            at[0] = offset(&t[0], x), at[1] = offset(&t[1], w), at[2] = offset(&t[2], y);
            sum[at[result]] += get(&t[left], data[left], at[left]) * get(&t[right], data[right], at[right]);
        }
    }
    for (int64_t i = 0; i < count_of(t[result].dim, t[result].rank); i++) {
        int64_t index[RANK];
        split(i, t[result].dim, t[result].rank, index);
        put(&t[result], data[result], offset(&t[result], index), sum[offset(&t[result], index)]);
    }
    free(sum);
}

/* Element `k` of the window of result y: where in x, false in the padding. */
static bool in_window(const struct pool_window *v, const struct tensor *x, const int64_t *y, int64_t k, int64_t *to) {
    int64_t in[RANK];
    bool inside = true;
    split(k, v->kernel, v->axes, in);
    to[0] = y[0];
    to[1] = y[1];
    for (int a = 0; a < v->axes; a++) {
        to[a + 2] = y[a + 2] * v->stride[a] - v->before[a] + in[a];
        inside &= to[a + 2] >= 0 && to[a + 2] < x->dim[a + 2];
    }
    return inside;
}

/* y of x, or of a mean dx of dy. */
static void pool(const struct cudnnBackendDescriptor *d, const struct pool *n, struct places *p) {
    const struct tensor x = tensor_of(child(d, n->x)), y = tensor_of(child(d, n->y));
    const struct pool_window v = pool_window_of(child(d, n->window));
    const bool grad = n == &pools[1], largest = v.mode == CUDNN_RESAMPLE_MAXPOOL;
    void *x_at = place(p, &x), *y_at = place(p, &y);
    double *dx = calloc((size_t)span_of(&x), sizeof *dx);
    const int64_t all = count_of(v.kernel, v.axes);
    for (int64_t i = 0; i < count_of(y.dim, y.rank); i++) {
        int64_t at[RANK], from[RANK], inside = 0;
        double result = largest ? -INFINITY : 0;
        split(i, y.dim, y.rank, at);
        for (int64_t k = 0; k < all; k++) {
            if (!in_window(&v, &x, at, k, from))
                continue;
            const double value = grad ? 0 : get(&x, x_at, offset(&x, from));
            result = !largest ? result + value : value > result || value != value ? value : result;
            inside++;
        }
        const double over = largest ? 1 : (double)(v.mode == CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING ? all : inside);
        if (!grad)
            put(&y, y_at, offset(&y, at), result / over);
        for (int64_t k = 0; grad && k < all; k++)
            if (in_window(&v, &x, at, k, from))
                dx[offset(&x, from)] += get(&y, y_at, offset(&y, at)) / over;
    }
    for (int64_t i = 0; grad && i < count_of(x.dim, x.rank); i++) {
        int64_t at[RANK];
        split(i, x.dim, x.rank, at);
        put(&x, x_at, offset(&x, at), dx[offset(&x, at)]);
    }
    free(dx);
}

/* Returns the offset of the operand of a result's element, with broadcast along shorter axes. */
static int64_t offset_of_shorter(const struct tensor *t, const int64_t *dim, const int64_t *at) {
    int64_t sum = 0;
    for (int k = 0; k < t->rank; k++)
        sum += at[k] * t->dim[k] / dim[k] * t->stride[k];
    return sum;
}

static double of_elements(cudnnPointwiseMode_t mode, const double *x, const int64_t *at, int64_t axis) {
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
        return x[0] + x[1];
    case CUDNN_POINTWISE_SUB:
        return x[0] - x[1];
    case CUDNN_POINTWISE_MUL:
        return x[0] * x[1];
    case CUDNN_POINTWISE_DIV:
        return x[0] / x[1];
    case CUDNN_POINTWISE_CMP_GE:
        return x[0] >= x[1];
    case CUDNN_POINTWISE_EXP:
        return exp(x[0]);
    case CUDNN_POINTWISE_LOG:
        return log(x[0]);
    case CUDNN_POINTWISE_GEN_INDEX:
        return (double)at[axis];
    case CUDNN_POINTWISE_BINARY_SELECT:
        return x[2] != 0 ? x[0] : x[1];
    default:
        abort();
    }
}

static void pointwise(const struct cudnnBackendDescriptor *d, struct places *p) {
    static const cudnnBackendAttributeName_t operands[] = { CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                            CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                            CUDNN_ATTR_OPERATION_POINTWISE_TDESC };
    const struct cudnnBackendDescriptor *what = child(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const cudnnPointwiseMode_t mode = *(const cudnnPointwiseMode_t *)find(what, CUDNN_ATTR_POINTWISE_MODE)->values;
    const int64_t *axis = ints(what, CUDNN_ATTR_POINTWISE_AXIS);
    struct tensor x[3], y = tensor_of(child(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    const void *from[3];
    void *to = place(p, &y);
    int count = 0;
    for (int k = 0; k < 3 && find(d, operands[k]); k++, count++) {
        x[k] = tensor_of(child(d, operands[k]));
        from[k] = place(p, &x[k]);
    }
    for (int64_t i = 0; i < count_of(y.dim, y.rank); i++) {
        int64_t at[RANK];
        double value[3];
        split(i, y.dim, y.rank, at);
        for (int k = 0; k < count; k++)
            value[k] = get(&x[k], from[k], offset_of_shorter(&x[k], y.dim, at));
        put(&y, to, offset(&y, at), of_elements(mode, value, at, axis ? *axis : 0));
    }
}

/* c = a b over the last two axes */
static void multiply(const struct cudnnBackendDescriptor *d, struct places *p) {
    struct tensor a = tensor_of(child(d, CUDNN_ATTR_OPERATION_MATMUL_ADESC));
    struct tensor b = tensor_of(child(d, CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    struct tensor c = tensor_of(child(d, CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    const void *left = place(p, &a), *right = place(p, &b);
    void *to = place(p, &c);
    const int row = c.rank - 2, column = c.rank - 1;
    for (int64_t i = 0; i < count_of(c.dim, c.rank); i++) {
        int64_t at[RANK], matrix[RANK];
        double sum = 0;
        split(i, c.dim, c.rank, at);
        memcpy(matrix, at, sizeof matrix);
        matrix[row] = matrix[column] = 0;
        int64_t in_a = offset_of_shorter(&a, c.dim, matrix) + at[row] * a.stride[row];
        int64_t in_b = offset_of_shorter(&b, c.dim, matrix) + at[column] * b.stride[column];
        for (int64_t k = 0; k < a.dim[column]; k++)
            sum += get(&a, left, in_a + k * a.stride[column]) * get(&b, right, in_b + k * b.stride[row]);
        put(&c, to, offset(&c, at), sum);
    }
}

static void reduce(const struct cudnnBackendDescriptor *d, struct places *p) {
    const struct cudnnBackendDescriptor *what = child(d, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    const cudnnReduceTensorOp_t which =
        *(const cudnnReduceTensorOp_t *)find(what, CUDNN_ATTR_REDUCTION_OPERATOR)->values;
    struct tensor x = tensor_of(child(d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    struct tensor y = tensor_of(child(d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
    const bool sums = which == CUDNN_REDUCE_TENSOR_ADD;
    const void *from = place(p, &x);
    void *to = place(p, &y);
    double *result = malloc((size_t)span_of(&y) * sizeof *result);
    for (int64_t i = 0; i < span_of(&y); i++)
        result[i] = sums ? 0 : -INFINITY;
    for (int64_t i = 0; i < count_of(x.dim, x.rank); i++) {
        int64_t at[RANK];
        split(i, x.dim, x.rank, at);
        double value = get(&x, from, offset(&x, at)), *y_at = &result[offset_of_shorter(&y, x.dim, at)];
        *y_at = sums ? *y_at + value : value > *y_at || value != value ? value : *y_at;
    }
    for (int64_t i = 0; i < count_of(y.dim, y.rank); i++) {
        int64_t at[RANK];
        split(i, y.dim, y.rank, at);
        put(&y, to, offset(&y, at), result[offset(&y, at)]);
    }
    free(result);
}

/* The same memory, looked at otherwise. */
static void reshape(const struct cudnnBackendDescriptor *d, struct places *p) {
    struct tensor x = tensor_of(child(d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
    struct tensor y = tensor_of(child(d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
    const void *from = place(p, &x);
    void *to = place(p, &y);
    for (int64_t i = 0; i < count_of(y.dim, y.rank); i++) {
        int64_t at[RANK];
        split(i, y.dim, y.rank, at);
        put(&y, to, offset(&y, at), get(&x, from, offset(&y, at)));
    }
}

/* Tensors of a normalisation and their places; rank 0 for one that is not there. */
struct normalised {
    struct tensor t[NORM_TENSORS];
    void *data[NORM_TENSORS];
};

static double value(const struct normalised *n, int which, const int64_t *at) {
    const struct tensor *t = &n->t[which];
    return t->rank ? get(t, n->data[which], offset_of_shorter(t, n->t[NORM_X].dim, at)) : 0;
}
static void put_value(const struct normalised *n, int which, const int64_t *at, double v) {
    const struct tensor *t = &n->t[which];
    if (t->rank)
        put(t, n->data[which], offset_of_shorter(t, n->t[NORM_X].dim, at), v);
}

/* The summand of an element, summed over the elements that share an element of `which`. */
typedef double summand(const struct normalised *n, const int64_t *at);
static double *sum_up(const struct normalised *n, int which, summand *f) {
    const struct tensor *x = &n->t[NORM_X], *t = &n->t[which];
    double *sum = calloc((size_t)span_of(t), sizeof *sum);
    for (int64_t i = 0; i < count_of(x->dim, x->rank); i++) {
        int64_t at[RANK];
        split(i, x->dim, x->rank, at);
        sum[offset_of_shorter(t, x->dim, at)] += f(n, at);
    }
    return sum;
}

static double of_x(const struct normalised *n, const int64_t *at) {
    return value(n, NORM_X, at);
}
static double of_square(const struct normalised *n, const int64_t *at) {
    const double d = value(n, NORM_X, at) - value(n, NORM_MEAN, at);
    return d * d;
}
static double of_dy(const struct normalised *n, const int64_t *at) {
    return value(n, NORM_EPSILON, at);
}
static double of_xh(const struct normalised *n, const int64_t *at) {
    return (value(n, NORM_X, at) - value(n, NORM_MEAN, at)) * value(n, NORM_INV_STD, at);
}
static double of_dscale(const struct normalised *n, const int64_t *at) {
    return of_dy(n, at) * of_xh(n, at);
}
static double of_g(const struct normalised *n, const int64_t *at) {
    return of_dy(n, at) * value(n, NORM_SCALE, at);
}
static double of_slope(const struct normalised *n, const int64_t *at) {
    return of_g(n, at) * of_xh(n, at);
}

/* Every sum, a share of `over`, to where it belongs. */
static void store(const struct normalised *n, int which, const double *sum, double over) {
    const struct tensor *t = &n->t[which];
    for (int64_t i = 0; i < count_of(t->dim, t->rank); i++) {
        int64_t at[RANK];
        split(i, t->dim, t->rank, at);
        put(t, n->data[which], offset(t, at), sum[offset(t, at)] / over);
    }
}
static void sum_to(const struct normalised *n, int which, summand *f, double over) {
    double *sum = n->t[which].rank ? sum_up(n, which, f) : NULL;
    if (sum)
        store(n, which, sum, over);
    free(sum);
}

static void norm_forward(const struct normalised *n, double over) {
    const struct tensor *x = &n->t[NORM_X], *s = &n->t[NORM_INV_STD];
    const double epsilon = get(&n->t[NORM_EPSILON], n->data[NORM_EPSILON], 0);
    sum_to(n, NORM_MEAN, of_x, over);
    double *squares = sum_up(n, NORM_INV_STD, of_square);
    for (int64_t i = 0; i < span_of(s); i++)
        squares[i] = 1 / sqrt(squares[i] / over + epsilon);
    store(n, NORM_INV_STD, squares, 1);
    free(squares);
    for (int64_t i = 0; i < count_of(x->dim, x->rank); i++) {
        int64_t at[RANK];
        split(i, x->dim, x->rank, at);
        put_value(n, NORM_Y, at, of_xh(n, at) * value(n, NORM_SCALE, at) + value(n, NORM_BIAS, at));
    }
}

static void norm_backward(const struct normalised *n, double over) {
    const struct tensor *x = &n->t[NORM_X], *s = &n->t[NORM_INV_STD];
    double *shift = sum_up(n, NORM_INV_STD, of_g), *slope = sum_up(n, NORM_INV_STD, of_slope);
    sum_to(n, NORM_DSCALE, of_dscale, 1);
    sum_to(n, NORM_BIAS, of_dy, 1);
    for (int64_t i = 0; i < count_of(x->dim, x->rank); i++) {
        int64_t at[RANK];
        split(i, x->dim, x->rank, at);
        const int64_t row = offset_of_shorter(s, x->dim, at);
        const double centre = n->t[NORM_MEAN].rank ? shift[row] / over : 0;
        put_value(n, NORM_Y, at,
                  value(n, NORM_INV_STD, at) * (of_g(n, at) - centre - of_xh(n, at) * slope[row] / over));
    }
    free(shift);
    free(slope);
}

static void normalise(const struct cudnnBackendDescriptor *d, struct places *p) {
    const struct norm *of = norm_of(d);
    struct normalised n = { 0 };
    for (int i = 0; i < NORM_TENSORS; i++)
        if (of->tensor[i] && find(d, of->tensor[i])) {
            n.t[i] = tensor_of(child(d, of->tensor[i]));
            n.data[i] = place(p, &n.t[i]);
        }
    const struct tensor *x = &n.t[NORM_X], *s = &n.t[NORM_INV_STD];
    const double over = (double)(count_of(x->dim, x->rank) / count_of(s->dim, s->rank));
    if (of == &norms[0])
        norm_forward(&n, over);
    else
        norm_backward(&n, over);
}

static void run_operation(const struct cudnnBackendDescriptor *d, struct places *p) {
    if (names_of(d))
        convolve(d, names_of(d), p);
    else if (pool_of(d))
        pool(d, pool_of(d), p);
    else if (norm_of(d))
        normalise(d, p);
    else if (d->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
        pointwise(d, p);
    else if (d->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
        multiply(d, p);
    else if (d->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
        reduce(d, p);
    else
        reshape(d, p);
}

/* Whether every tensor in memory has a place, and that of the device at a multiple of 16. */
static bool is_placed(struct cudnnBackendDescriptor *const *list, int64_t count, struct places *p) {
    struct tensor t[ATTRIBUTES];
    bool placed = true;
    for (int64_t i = 0; i < count; i++)
        for (int k = tensors_of(list[i], t) - 1; k >= 0; k--)
            placed &= t[k].inner || (place(p, &t[k]) && (t[k].number || (uintptr_t)place(p, &t[k]) % 16 == 0));
    return placed;
}

bool emulated_dnn_run(struct cudnnBackendDescriptor *const *list, int64_t count,
                      const struct cudnnBackendDescriptor *pack) {
    struct places p = { .pack = pack };
    const bool placed = is_placed(list, count, &p);
    for (int64_t i = 0; placed && i < count; i++)
        run_operation(list[i], &p);
    for (int i = 0; i < TENSORS; i++)
        free(p.inner[i]);
    return placed;
}
