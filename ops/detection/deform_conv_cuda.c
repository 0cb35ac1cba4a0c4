/* DeformConv and its gradients on CUDA: columns of some samples at a time, and matrix products by cuBLASLt with groups
 * one after the other:
 *
 *     forward        y[n] = w columns[n]                   a product a sample, whose rows of columns are all samples'
 *     grad input     columns[n] = w^T dy[n]                then dx, doffset and dmask from them
 *     grad weight    dw = rows of dy, columns^T            one product over the places of all samples
 *
 * dx is a sum in the order of a sort, so that every run has the same bits. */
#include "ops/cuda/blas_cuda.h"
#include "ops/cuda/describe.h"
#include "ops/detection/launch_deform_conv.h"

#include <string.h>

/* Columns of the samples that run together take at most so many bytes, unless one sample takes more. */
static const int64_t most_bytes = INT64_C(256) << 20;

enum use { FORWARD, GRAD_INPUT, GRAD_WEIGHT };

struct deform {
    struct zt_launch_deform d;
    enum zt_dtype dtype;
    int64_t together;                 /* samples that run together */
    struct zt_blas *blas, *rest;      /* of `together` samples, and of fewer in the end; NULL: none */
    size_t rows_at, sort_at, blas_at; /* in the workspace, behind the columns */
};

/* ---- preparation ---- */

static int64_t column_rows(const struct zt_launch_deform *d) { /* of a group */
    return d->c / d->groups * d->kernel_elems;
}

/* The product of a group for `samples` samples. */
static struct zt_blas *make_product(struct zt_prepare *q, const struct deform *s, enum use use, int64_t samples,
                                    struct zt_err *err) {
    const struct zt_launch_deform *d = &s->d;
    const int64_t rows = d->m / d->groups, depth = column_rows(d), wide = samples * d->places;
    const struct zt_blas_matrix columns = {
        .dtype = s->dtype, .rows = depth, .columns = d->places, .row_step = wide, .batch_step = d->places
    };
    const struct zt_blas_matrix y = {
        .dtype = s->dtype, .rows = rows, .columns = d->places, .row_step = d->places, .batch_step = d->m * d->places
    };
    struct zt_blas_spec spec = { .batch = use == GRAD_WEIGHT ? 1 : (int)samples, .tf32 = q->device->tf32 };
    if (use == FORWARD) {
        spec.a = zt_blas_packed(s->dtype, rows, depth, false);
        spec.b = columns;
        spec.y = y;
    } else if (use == GRAD_INPUT) {
        spec.a = zt_blas_packed(s->dtype, depth, rows, true);
        spec.b = y;
        spec.y = columns;
    } else {
        spec.a = zt_blas_packed(s->dtype, rows, wide, false);
        spec.b = zt_blas_packed(s->dtype, wide, depth, true);
        spec.y = zt_blas_packed(s->dtype, rows, depth, false);
    }
    return zt_blas_create(q->device, &spec, err);
}

static void release(void *state) {
    struct deform *s = state;
    if (s) {
        zt_blas_destroy(s->blas);
        zt_blas_destroy(s->rest);
    }
    free(s);
}

static void lay_out(struct zt_prepare *q, struct deform *s, enum use use) {
    const struct zt_launch_deform *d = &s->d;
    const size_t elem = zt_dtype_bytes(s->dtype);
    size_t blas = zt_blas_workspace_bytes(s->blas);
    if (s->rest && zt_blas_workspace_bytes(s->rest) > blas)
        blas = zt_blas_workspace_bytes(s->rest);
    s->rows_at = zt_room_cuda((size_t)(d->c * d->kernel_elems * s->together * d->places) * elem);
    s->sort_at = s->rows_at;
    if (use == GRAD_WEIGHT)
        s->sort_at += zt_room_cuda((size_t)(d->m * s->together * d->places) * elem);
    s->blas_at = s->sort_at;
    if (use == GRAD_INPUT)
        s->blas_at += zt_room_cuda(zt_launch_deform_image_grad_bytes(d, s->together));
    q->workspace_bytes = s->blas_at + blas;
}

static bool prepare(struct zt_prepare *q, enum use use, struct zt_err *err) {
    struct deform *s = zt_calloc(1, sizeof *s);
    const struct zt_node *n = q->graph->nodes[q->node];
    if (!zt_describe_to_cuda(q, &s->d, err)) {
        free(s);
        return false;
    }
    s->dtype = zt_in(q->graph, q->node, 0)->dtype;
    const int64_t sample = s->d.c * s->d.kernel_elems * s->d.places * (int64_t)zt_dtype_bytes(s->dtype);
    s->together = most_bytes / sample < 1 ? 1 : most_bytes / sample < s->d.n ? most_bytes / sample : s->d.n;
    const int64_t rest = s->d.n % s->together;
    s->blas = make_product(q, s, use, s->together, err);
    s->rest = s->blas && rest ? make_product(q, s, use, rest, err) : NULL;
    if (!s->blas || (rest && !s->rest)) {
        release(s);
        return zt_err_within(err, 0, "%s (%s)", n->name, n->op_type);
    }
    lay_out(q, s, use);
    q->state = s;
    q->path.name = "cuBLASLt";
    return true;
}

/* ---- running ---- */

static char *moved(const struct zt_launch_tensor *t, int64_t elems) {
    return (char *)t->data + elems * (int64_t)zt_dtype_bytes(t->dtype);
}

/* The matrices of group 0 with the elements from one group's to the next one's. */
struct product {
    struct zt_launch_tensor a, b, y;
    int64_t a_step, b_step, y_step;
    float beta;
};

static bool multiply(const struct zt_call *call, int64_t samples, const struct product *p, struct zt_err *err) {
    const struct deform *s = call->state;
    bool good = true;
    for (int64_t group = 0; good && group < s->d.groups; group++) {
        const struct zt_blas_data data = { .a = moved(&p->a, group * p->a_step),
                                           .b = moved(&p->b, group * p->b_step),
                                           .y = moved(&p->y, group * p->y_step),
                                           .alpha = 1,
                                           .beta = p->beta };
        good = zt_blas_run(samples == s->together ? s->blas : s->rest, &data, (char *)call->workspace + s->blas_at,
                           call->node->name, err);
    }
    return good;
}

static struct zt_launch_samples samples_from(const struct deform *s, int64_t first) {
    return (struct zt_launch_samples){ first, s->d.n - first < s->together ? s->d.n - first : s->together };
}

static struct zt_launch_tensor at_sample(struct zt_launch_tensor t, int64_t elems) {
    t.data = moved(&t, elems);
    return t;
}

/* Returns the tensors that the kernels of all directions read; `mask`: number of that input. */
static struct zt_launch_deform_tensors tensors_of(const struct zt_call *call, int mask) {
    const struct deform *s = call->state;
    return (struct zt_launch_deform_tensors){ .x = zt_in_cuda(call, 0),
                                              .offset = zt_in_cuda(call, 2),
                                              .mask = zt_in_cuda(call, mask),
                                              .columns = { s->dtype, call->workspace } };
}

static bool forward_prepare(struct zt_prepare *q, struct zt_err *err) {
    return prepare(q, FORWARD, err);
}

static bool forward_run(const struct zt_call *call, struct zt_err *err) {
    const struct deform *s = call->state;
    const struct zt_launch_deform *d = &s->d;
    const int64_t depth = column_rows(d), rows = d->m / d->groups;
    const struct zt_launch_deform_tensors t = tensors_of(call, 4);
    const struct zt_launch_tensor y = zt_out_cuda(call, 0), bias = zt_in_cuda(call, 3);
    bool good = !bias.data || zt_launched(call, zt_launch_deform_bias(zt_stream_of(call), d, bias, y), err);
    for (int64_t first = 0; good && first < d->n; first += s->together) {
        const struct zt_launch_samples samples = samples_from(s, first);
        const struct product p = { .a = zt_in_cuda(call, 1),
                                   .a_step = rows * depth,
                                   .b = t.columns,
                                   .b_step = depth * samples.count * d->places,
                                   .y = at_sample(y, first * d->m * d->places),
                                   .y_step = rows * d->places,
                                   .beta = bias.data ? 1 : 0 };
        good = zt_launched(call, zt_launch_deform_columns(zt_stream_of(call), d, samples, &t), err) &&
               multiply(call, samples.count, &p, err);
    }
    return good;
}
const struct zt_kernel zt_kernel_deform_conv_cuda = { .prepare = forward_prepare,
                                                      .run = forward_run,
                                                      .release = release };

static bool grad_input_prepare(struct zt_prepare *q, struct zt_err *err) {
    return prepare(q, GRAD_INPUT, err);
}

static bool grad_input_run(const struct zt_call *call, struct zt_err *err) {
    const struct deform *s = call->state;
    const struct zt_launch_deform *d = &s->d;
    const int64_t depth = column_rows(d), rows = d->m / d->groups;
    const struct zt_launch_deform_tensors t = tensors_of(call, 4);
    const struct zt_launch_tensor dx = zt_out_cuda(call, 0), doffset = zt_out_cuda(call, 1),
                                  dmask = zt_out_cuda(call, 2);
    const struct zt_launch_room room = { (char *)call->workspace + s->sort_at, zt_arrived_of(call) };
    bool good = true;
    for (int64_t first = 0; good && first < d->n; first += s->together) {
        const struct zt_launch_samples samples = samples_from(s, first);
        const struct product p = { .a = zt_in_cuda(call, 1),
                                   .a_step = rows * depth,
                                   .b = at_sample(zt_in_cuda(call, 3), first * d->m * d->places),
                                   .b_step = rows * d->places,
                                   .y = t.columns,
                                   .y_step = depth * samples.count * d->places };
        good = multiply(call, samples.count, &p, err);
        if (good && (doffset.data || dmask.data))
            good =
                zt_launched(call, zt_launch_deform_taps_grad(zt_stream_of(call), d, samples, &t, doffset, dmask), err);
        if (good && dx.data)
            good = zt_launched(call, zt_launch_deform_image_grad(zt_stream_of(call), d, samples, &t, dx, room), err);
    }
    return good;
}
const struct zt_kernel zt_kernel_deform_conv_grad_input_cuda = { .prepare = grad_input_prepare,
                                                                 .run = grad_input_run,
                                                                 .release = release };

static bool grad_weight_prepare(struct zt_prepare *q, struct zt_err *err) {
    return prepare(q, GRAD_WEIGHT, err);
}

static bool grad_weight_run(const struct zt_call *call, struct zt_err *err) {
    const struct deform *s = call->state;
    const struct zt_launch_deform *d = &s->d;
    const int64_t depth = column_rows(d), rows = d->m / d->groups;
    const struct zt_launch_deform_tensors t = tensors_of(call, 3);
    const struct zt_launch_tensor dy = { s->dtype, (char *)call->workspace + s->rows_at };
    bool good = true;
    for (int64_t first = 0; good && first < d->n; first += s->together) {
        const struct zt_launch_samples samples = samples_from(s, first);
        const int64_t wide = samples.count * d->places;
        const struct product p = { .a = dy,
                                   .a_step = rows * wide,
                                   .b = t.columns,
                                   .b_step = depth * wide,
                                   .y = zt_out_cuda(call, 0),
                                   .y_step = rows * depth,
                                   .beta = first ? 1 : 0 };
        good = zt_launched(call, zt_launch_deform_columns(zt_stream_of(call), d, samples, &t), err) &&
               zt_launched(call, zt_launch_deform_rows(zt_stream_of(call), d, samples, zt_in_cuda(call, 1), dy), err) &&
               multiply(call, samples.count, &p, err);
    }
    return good;
}
const struct zt_kernel zt_kernel_deform_conv_grad_weight_cuda = { .prepare = grad_weight_prepare,
                                                                  .run = grad_weight_run,
                                                                  .release = release };
