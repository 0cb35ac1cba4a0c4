/* workspace: [ columns | results | that of the product ]; of a whole plane the last alone. */
#include "ops/conv/im2col_cpu.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/cpu/simd_gemm.h"
#include "ops/kernel/tile.h"

#include <string.h>

struct zt_im2col {
    enum zt_conv_direction direction;
    struct zt_window window;
    int64_t places, row; /* rows of both matrices; c * kernel */
    int64_t channels, results;
    bool whole;
    struct zt_simd_gemm product;
};

static bool is_whole(const struct zt_window *w) {
    for (int a = 0; a < w->axes; a++)
        if (w->out[a] != 1 || w->pad[a] != 0 || w->dilation[a] != 1 || w->in[a] != w->kernel[a])
            return false;
    return true;
}

/* How many windows are few: up to `most`, and one for so many elements of the weight. */
struct few {
    int64_t most, weights;
};

/* By what the other kernels cost, measured from 16 to 1,568 windows with weights of 8 Ki to 6 Mi elements: Winograd's
 * filtering saves about half of the products, but for 3 x 3 kernels with stride 2, and oneDNN leaves out taps in the
 * padding; oneDNN reorders each weight, and adds up gradients of it. */
static struct few few_of(const struct zt_conv *c, enum zt_conv_direction direction) {
    const struct zt_window *w = &c->window;
    const bool to_w = direction == ZT_CONV_TO_W, is_dense = w->stride[0] == 1;
    const bool is_winograd = zt_conv_share(c, ZT_FLOAT, direction) < 1 && (is_dense || w->kernel[0] > 3);
    if (w->kernel_elems == 1)
        return to_w ? (struct few){ 400, 128 } : (struct few){ 256, 2048 };
    if (is_winograd || (is_dense && !to_w))
        return (struct few){ 112, to_w ? 1024 : 2304 };
    return (struct few){ 400, to_w ? 512 : 1024 };
}

static bool is_few(const struct zt_conv *c, enum zt_conv_direction direction) {
    const int64_t windows = c->n * c->window.out_elems, weights = c->m * c->c * c->window.kernel_elems;
    const struct few few = few_of(c, direction);
    return windows <= few.most && windows <= weights / few.weights;
}

static struct zt_simd_gemm product_of(const struct zt_im2col *i) {
    const int64_t places = i->places, row = i->row, m = i->results;
    struct zt_simd_gemm g = { .count = 1, .alpha = 1, .beta = 1, .bias_col = 1 };
    if (i->direction == ZT_CONV_TO_Y) {
        g.m = places, g.n = m, g.k = row;
        g.a_row = row, g.a_col = 1, g.b_row = 1, g.b_col = row;
    } else if (i->direction == ZT_CONV_TO_X) {
        g.m = places, g.n = row, g.k = m;
        g.a_row = m, g.a_col = 1, g.b_row = row, g.b_col = 1;
    } else {
        g.m = m, g.n = row, g.k = places;
        g.a_row = 1, g.a_col = m, g.b_row = row, g.b_col = 1;
    }
    g.y_row = g.n;
    return g;
}

const struct zt_im2col *zt_im2col_make(struct zt_arena *arena, const struct zt_conv *c,
                                       enum zt_conv_direction direction) {
    const bool whole = is_whole(&c->window);
    if (c->groups != 1 || !zt_simd_gemm_best() || !(whole || is_few(c, direction)))
        return NULL;
    struct zt_im2col *i = ZT_NEW(arena, struct zt_im2col);
    *i = (struct zt_im2col){ .direction = direction,
                             .window = c->window,
                             .places = c->n * c->window.out_elems,
                             .row = c->c * c->window.kernel_elems,
                             .channels = c->c,
                             .results = c->m,
                             .whole = whole };
    i->product = product_of(i);
    return i;
}

bool zt_im2col_is_whole(const struct zt_im2col *i) {
    return i->whole;
}

static int64_t column_elems(const struct zt_im2col *i) {
    return i->whole ? 0 : zt_align_floats(i->places * i->row);
}

static int64_t copied_elems(const struct zt_im2col *i) {
    return i->whole ? 0 : column_elems(i) + zt_align_floats(i->places * i->results);
}

size_t zt_im2col_bytes(const struct zt_im2col *i, int threads) {
    return (size_t)copied_elems(i) * sizeof(float) + zt_simd_gemm_bytes(zt_simd_gemm_best(), &i->product, threads);
}

struct job {
    const struct zt_im2col *i;
    float *x, *y; /* only the result is written */
    const struct zt_planes *x_planes, *y_planes;
    const float *added;
    bool relu;
    float *columns, *results; /* matrices */
};

/* The pixel of x below element `tap` of a window, -1 in the padding. */
static int64_t pixel_of(const struct zt_window *w, int64_t window, int64_t tap) {
    int64_t at[ZT_WINDOW_AXES], k[ZT_WINDOW_AXES], pixel = 0;
    zt_window_split(window, w->out, w->axes, at);
    zt_window_split(tap, w->kernel, w->axes, k);
    for (int a = 0; a < w->axes; a++) {
        const int64_t s = at[a] * w->stride[a] - w->pad[a] + k[a] * w->dilation[a];
        if (s < 0 || s >= w->in[a])
            return -1;
        pixel = pixel * w->in[a] + s;
    }
    return pixel;
}

/* Channels of a group. */
static int64_t width_of(const struct zt_planes *p, int64_t group) {
    return zt_min_int(p->vector, p->channels - group * p->vector);
}

/* A row of the columns. */
static void gather_columns(void *arg, int64_t place) {
    const struct job *job = arg;
    const struct zt_window *w = &job->i->window;
    const struct zt_planes *p = job->x_planes;
    const int64_t kernel = w->kernel_elems;
    for (int64_t tap = 0; tap < kernel; tap++) {
        const int64_t pixel = pixel_of(w, place % w->out_elems, tap);
        const float *from = job->x + place / w->out_elems * p->sample + zt_max_int(pixel, 0) * p->pixel;
        float *to = job->columns + place * job->i->row + tap;
        for (int64_t g = 0; g < p->groups; g++, from += p->group, to += p->vector * kernel)
            for (int64_t c = 0; c < width_of(p, g); c++)
                to[c * kernel] = pixel < 0 ? 0 : from[c];
    }
}

/* The sums of the columns' elements that are one of x, of a sample. */
static void scatter_columns(void *arg, int64_t sample) {
    const struct job *job = arg;
    const struct zt_window *w = &job->i->window;
    const struct zt_planes *p = job->x_planes;
    const int64_t kernel = w->kernel_elems;
    float *x = job->x + sample * p->sample;
    if (job->added)
        memcpy(x, job->added + sample * p->sample, (size_t)p->sample * sizeof *x);
    else
        memset(x, 0, (size_t)p->sample * sizeof *x);
    for (int64_t window = 0; window < w->out_elems; window++)
        for (int64_t tap = 0; tap < kernel; tap++) {
            const int64_t pixel = pixel_of(w, window, tap);
            const float *from = job->columns + (sample * w->out_elems + window) * job->i->row + tap;
            if (pixel < 0)
                continue;
            float *to = x + pixel * p->pixel;
            for (int64_t g = 0; g < p->groups; g++, to += p->group, from += p->vector * kernel)
                for (int64_t c = 0; c < width_of(p, g); c++)
                    to[c] += from[c * kernel];
        }
}

static float *result_at(const struct job *job, int64_t place) {
    const struct zt_planes *p = job->y_planes;
    return job->y + place / p->pixels * p->sample + place % p->pixels * p->pixel;
}

static void gather_results(void *arg, int64_t place) {
    const struct job *job = arg;
    const struct zt_planes *p = job->y_planes;
    const float *from = result_at(job, place);
    float *to = job->results + place * job->i->results;
    for (int64_t g = 0; g < p->groups; g++)
        memcpy(to + g * p->vector, from + g * p->group, (size_t)width_of(p, g) * sizeof *to);
}

/* With what is added, and ReLU. */
static void scatter_results(void *arg, int64_t place) {
    const struct job *job = arg;
    const struct zt_planes *p = job->y_planes;
    const float *from = job->results + place * job->i->results;
    float *to = result_at(job, place);
    const float *added = job->added ? job->added + (to - job->y) : NULL;
    for (int64_t g = 0; g < p->groups; g++)
        for (int64_t c = 0; c < width_of(p, g); c++) {
            const float sum = from[g * p->vector + c] + (added ? added[g * p->group + c] : 0);
            to[g * p->group + c] = job->relu && sum < 0 ? 0 : sum; /* NaN is not below 0 */
        }
}

static void sum_bias(const float *dy, int64_t places, int64_t m, float *db) {
    memset(db, 0, (size_t)m * sizeof *db);
    for (int64_t n = 0; n < places; n++)
        for (int64_t i = 0; i < m; i++)
            db[i] += dy[n * m + i];
}

/* The matrices that a product reads. */
static void gather(struct job *job, int threads) {
    const struct zt_im2col *i = job->i;
    if (!i->whole && i->direction != ZT_CONV_TO_X)
        zt_parallel_for(threads, i->places, gather_columns, job);
    if (!i->whole && i->direction != ZT_CONV_TO_Y)
        zt_parallel_for(threads, i->places, gather_results, job);
}

/* Sets the matrices, which are x and y themselves or lie in the workspace. */
static void set_matrices(struct job *job, void *workspace) {
    job->columns = job->i->whole ? job->x : workspace;
    job->results = job->i->whole ? job->y : job->columns + column_elems(job->i);
}

static void multiply(const struct zt_im2col *i, const struct zt_simd_gemm *g, const struct zt_simd_gemm_operands *of,
                     void *workspace, int threads) {
    zt_simd_gemm_run(zt_simd_gemm_best(), g, of, (float *)workspace + copied_elems(i), threads);
}

void zt_im2col_run(const struct zt_im2col *i, const struct zt_conv_data *data, void *workspace, int threads) {
    const bool to_y = i->direction == ZT_CONV_TO_Y;
    float *from = (float *)data->from;
    struct job job = { .i = i,
                       .x = to_y ? from : data->to,
                       .y = to_y ? data->to : from,
                       .x_planes = to_y ? &data->from_planes : &data->to_planes,
                       .y_planes = to_y ? &data->to_planes : &data->from_planes,
                       .added = data->added,
                       .relu = data->relu };
    struct zt_simd_gemm g = i->product;
    set_matrices(&job, workspace);
    gather(&job, threads);
    g.relu = i->whole && data->relu;
    const struct zt_simd_gemm_operands of = { .a = to_y ? job.columns : job.results,
                                              .b = data->w,
                                              .bias = to_y ? data->bias : NULL,
                                              .y = to_y ? job.results : job.columns };
    multiply(i, &g, &of, workspace, threads);
    if (!i->whole && to_y) {
        zt_parallel_for(threads, i->places, scatter_results, &job);
        zt_conv_clear_padding(job.y_planes, ZT_FLOAT, job.y_planes->samples, (char *)job.y);
    } else if (!i->whole)
        zt_parallel_for(threads, job.x_planes->samples, scatter_columns, &job);
    if (!to_y && data->bias)
        zt_conv_add_bias(ZT_FLOAT, job.x_planes, job.x_planes->samples, data->bias, job.x);
}

void zt_im2col_weight_gradient(const struct zt_im2col *i, const struct zt_planes_weights *data, void *workspace,
                               int threads) {
    struct job job = {
        .i = i, .x = (float *)data->x, .y = (float *)data->dy, .x_planes = &data->x_planes, .y_planes = &data->dy_planes
    };
    struct zt_simd_gemm g = i->product;
    set_matrices(&job, workspace);
    gather(&job, threads);
    g.add = data->accumulate;
    const struct zt_simd_gemm_operands of = { .a = job.results, .b = job.columns, .y = data->dw };
    if (data->dw)
        multiply(i, &g, &of, workspace, threads);
    if (data->db)
        sum_bias(job.results, i->places, i->results, data->db);
}
