/* The reference kernels of DeformConv, a sample at a time in double:
 *
 *     columns [c, kernel, out]    what every tap reads, times its mask; or, backwards, the gradient of that
 *
 * The workspace holds the columns of one sample and the sums of one result. */
#include "ops/detection/deform_conv.h"

#include "device/threads.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

#include <string.h>

struct job {
    const struct zt_call *call;
    struct zt_deform_conv d;
    const struct zt_view *x, *w, *offset, *mask, *bias, *dy; /* NULL: none */
    const struct zt_view *out;
    int64_t n;             /* the sample */
    double *columns, *sum; /* sum: y [m, out], dx [c, in] or dw */
};

/* ---- sizes ---- */

static int64_t depth_of(const struct zt_deform_conv *d) { /* rows of the columns that a result sums */
    return d->conv.c / d->conv.groups * d->conv.window.kernel_elems;
}

/* Elements of the columns and of the sums. */
static int64_t column_elems(const struct zt_deform_conv *d) {
    return d->conv.c * d->conv.window.kernel_elems * d->conv.window.out_elems;
}
static int64_t sum_elems(const struct zt_deform_conv *d, const struct zt_deform_inputs *in) {
    return in->dy < 0  ? d->conv.m * d->conv.window.out_elems
           : in->w < 0 ? d->conv.m * depth_of(d)
                       : d->conv.c * d->conv.window.in_elems;
}

bool zt_deform_conv_ref_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_node *n = p->graph->nodes[p->node];
    const struct zt_deform_inputs *in = zt_deform_inputs(n);
    struct zt_deform_conv d;
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = NULL;
    for (int i = 0; i < n->out_count; i++)
        p->out_layout[i] = NULL;
    if (!in->read(p->graph, p->node, &d, err))
        return false;
    p->workspace_bytes = (size_t)(column_elems(&d) + sum_elems(&d, in)) * sizeof(double);
    return true;
}

static const struct zt_view *view_of(const struct zt_call *call, int i) {
    return i >= 0 && i < call->in_count && call->in[i].data ? &call->in[i] : NULL;
}

static bool start(const struct zt_call *call, struct job *job, struct zt_err *err) {
    const struct zt_deform_inputs *in = zt_deform_inputs(call->node);
    *job = (struct job){ .call = call,
                         .x = view_of(call, in->x),
                         .w = view_of(call, in->w),
                         .offset = view_of(call, in->offset),
                         .mask = view_of(call, in->mask),
                         .bias = view_of(call, in->bias),
                         .dy = view_of(call, in->dy),
                         .out = call->out,
                         .columns = call->workspace };
    if (!in->read(call->graph, zt_call_node(call), &job->d, err))
        return false;
    job->sum = job->columns + column_elems(&job->d);
    return true;
}

static void each(struct job *job, int64_t count, void (*body)(void *, int64_t)) {
    const double work = (double)column_elems(&job->d) * 64;
    zt_parallel_for(zt_threads_worth(job->call->threads, work), count, body, job);
}

/* ---- samples ---- */

static double load(const struct zt_view *v, int64_t i) {
    return zt_load_double(v->dtype, v->data, i);
}

/* Tap `tap` of channel c: the offset group's own. */
static int64_t tap_of(const struct zt_deform_conv *d, int64_t c, int64_t k) {
    return c / (d->conv.c / d->offset_groups) * d->conv.window.kernel_elems + k;
}

static double mask_at(const struct job *j, int64_t tap, int64_t place) {
    const struct zt_window *w = &j->d.conv.window;
    const int64_t taps = j->d.offset_groups * w->kernel_elems;
    return j->mask ? load(j->mask, (j->n * taps + tap) * w->out_elems + place) : 1;
}

/* Returns the interpolated value of channel c at a position; with an axis `moved` its derivative along that axis. */
static double sample(const struct job *j, const struct zt_deform_position *p, int64_t c, int moved) {
    const struct zt_window *w = &j->d.conv.window;
    const int64_t plane = (j->n * j->d.conv.c + c) * w->in_elems;
    double value = 0;
    for (int i = 0; i < 1 << w->axes; i++) {
        const int64_t pixel = zt_deform_pixel(&j->d, p, i);
        if (pixel >= 0)
            value += zt_deform_weight(w->axes, p, i, moved) * load(j->x, plane + pixel);
    }
    return value;
}

/* Row c, k of the columns. */
static void read_row(void *arg, int64_t row) {
    const struct job *j = arg;
    const struct zt_window *w = &j->d.conv.window;
    const int64_t c = row / w->kernel_elems, tap = tap_of(&j->d, c, row % w->kernel_elems);
    struct zt_deform_position p;
    for (int64_t place = 0; place < w->out_elems; place++) {
        zt_deform_position(&j->d, j->offset, (const int64_t[]){ j->n, tap, place }, &p);
        j->columns[row * w->out_elems + place] = sample(j, &p, c, -1) * mask_at(j, tap, place);
    }
}

/* to[i] += factor * from[i] */
static void add_scaled(double *to, const double *from, double factor, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        to[i] += factor * from[i];
}

/* ---- forward ---- */

static void sum_row(void *arg, int64_t m) {
    const struct job *j = arg;
    const int64_t out = j->d.conv.window.out_elems, depth = depth_of(&j->d);
    const int64_t first = m / (j->d.conv.m / j->d.conv.groups) * depth;
    double *sum = j->sum + m * out;
    for (int64_t i = 0; i < out; i++)
        sum[i] = j->bias ? load(j->bias, m) : 0;
    for (int64_t r = 0; r < depth; r++)
        add_scaled(sum, j->columns + (first + r) * out, load(j->w, m * depth + r), out);
    zt_store_block(j->out->dtype, j->out->data, (j->n * j->d.conv.m + m) * out, 1, out, sum);
}

bool zt_deform_conv_ref(const struct zt_call *call, struct zt_err *err) {
    struct job j;
    if (!start(call, &j, err))
        return false;
    for (j.n = 0; j.n < j.d.conv.n; j.n++) {
        each(&j, j.d.conv.c * j.d.conv.window.kernel_elems, read_row);
        each(&j, j.d.conv.m, sum_row);
    }
    return true;
}

/* ---- gradients ---- */

/* The gradient of row c, k of the columns: the products of dy with the weights. */
static void grad_row(void *arg, int64_t row) {
    const struct job *j = arg;
    const int64_t out = j->d.conv.window.out_elems, depth = depth_of(&j->d), width = j->d.conv.m / j->d.conv.groups;
    double *to = j->columns + row * out;
    memset(to, 0, (size_t)out * sizeof *to);
    for (int64_t m = row / depth * width; m < (row / depth + 1) * width; m++) {
        const double factor = load(j->w, m * depth + row % depth);
        for (int64_t i = 0; i < out; i++)
            to[i] += factor * load(j->dy, (j->n * j->d.conv.m + m) * out + i);
    }
}

static void grad_plane(void *arg, int64_t c) {
    const struct job *j = arg;
    const struct zt_window *w = &j->d.conv.window;
    double *sum = j->sum + c * w->in_elems;
    struct zt_deform_position p;
    memset(sum, 0, (size_t)w->in_elems * sizeof *sum);
    for (int64_t k = 0; k < w->kernel_elems; k++)
        for (int64_t place = 0; place < w->out_elems; place++) {
            const int64_t tap = tap_of(&j->d, c, k);
            const double d = j->columns[(c * w->kernel_elems + k) * w->out_elems + place] * mask_at(j, tap, place);
            zt_deform_position(&j->d, j->offset, (const int64_t[]){ j->n, tap, place }, &p);
            for (int i = 0; i < 1 << w->axes; i++) {
                const int64_t pixel = zt_deform_pixel(&j->d, &p, i);
                if (pixel >= 0)
                    sum[pixel] += d * zt_deform_weight(w->axes, &p, i, -1);
            }
        }
    zt_store_block(j->out[0].dtype, j->out[0].data, (j->n * j->d.conv.c + c) * w->in_elems, 1, w->in_elems, sum);
}

/* The sum over the channels of an offset group of the columns' gradient times what they read, or how that moves. */
static double sum_channels(const struct job *j, const struct zt_deform_position *p, const int64_t at[2], int moved) {
    const struct zt_window *w = &j->d.conv.window;
    const int64_t width = j->d.conv.c / j->d.offset_groups, group = at[0] / w->kernel_elems;
    double sum = 0;
    for (int64_t c = group * width; c < (group + 1) * width; c++)
        sum +=
            j->columns[(c * w->kernel_elems + at[0] % w->kernel_elems) * w->out_elems + at[1]] * sample(j, p, c, moved);
    return sum;
}

static void grad_tap(void *arg, int64_t tap) {
    const struct job *j = arg;
    const struct zt_window *w = &j->d.conv.window;
    const int64_t base = j->n * j->d.offset_groups * w->kernel_elems + tap;
    const struct zt_view *doffset = &j->out[1], *dmask = j->call->out_count > 2 ? &j->out[2] : NULL;
    struct zt_deform_position p;
    for (int64_t place = 0; place < w->out_elems; place++) {
        const int64_t at[2] = { tap, place };
        zt_deform_position(&j->d, j->offset, (const int64_t[]){ j->n, tap, place }, &p);
        for (int a = 0; doffset->data && a < w->axes; a++)
            zt_store_double(doffset->dtype, doffset->data, (base * w->axes + a) * w->out_elems + place,
                            sum_channels(j, &p, at, a) * mask_at(j, tap, place));
        if (dmask && dmask->data)
            zt_store_double(dmask->dtype, dmask->data, base * w->out_elems + place, sum_channels(j, &p, at, -1));
    }
}

bool zt_deform_conv_grad_input_ref(const struct zt_call *call, struct zt_err *err) {
    struct job j;
    if (!start(call, &j, err))
        return false;
    for (j.n = 0; j.n < j.d.conv.n; j.n++) {
        each(&j, j.d.conv.c * j.d.conv.window.kernel_elems, grad_row);
        if (j.out[0].data)
            each(&j, j.d.conv.c, grad_plane);
        if (call->out_count > 1)
            each(&j, j.d.offset_groups * j.d.conv.window.kernel_elems, grad_tap);
    }
    return true;
}

/* dw of result channel m, summed up over the samples. */
static void grad_weight(void *arg, int64_t m) {
    const struct job *j = arg;
    const int64_t out = j->d.conv.window.out_elems, depth = depth_of(&j->d);
    const int64_t first = m / (j->d.conv.m / j->d.conv.groups) * depth;
    for (int64_t r = 0; r < depth; r++) {
        double sum = 0;
        for (int64_t i = 0; i < out; i++)
            sum += load(j->dy, (j->n * j->d.conv.m + m) * out + i) * j->columns[(first + r) * out + i];
        j->sum[m * depth + r] += sum;
    }
}

bool zt_deform_conv_grad_weight_ref(const struct zt_call *call, struct zt_err *err) {
    struct job j;
    if (!start(call, &j, err))
        return false;
    const int64_t elems = j.d.conv.m * depth_of(&j.d);
    memset(j.sum, 0, (size_t)elems * sizeof *j.sum);
    for (j.n = 0; j.n < j.d.conv.n; j.n++) {
        each(&j, j.d.conv.c * j.d.conv.window.kernel_elems, read_row);
        each(&j, j.d.conv.m, grad_weight);
    }
    zt_store_block(j.out->dtype, j.out->data, 0, 1, elems, j.sum);
    return true;
}
