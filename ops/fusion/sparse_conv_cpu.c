/* A unit of work is a piece of the batch, which it walks in bands: some samples, or some rows of the pool's results of
 * one sample. A band of x is copied with its padding, in groups of channels whose pixels are `pixel` floats wide,
 *
 *     [group][sample][row][column][pixel]
 *
 * and a band of dx is made in the same order and added to dx. pixel is a vector, or all channels where they are fewer,
 * or where their kernel rows have fewer vectors than those of groups: 17 channels leave most of a second group empty.
 * The sums of a unit, and the weights, are
 *
 *     [group][output channel][kernel row][kernel column][pixel], kernel rows filled up to whole vectors
 *
 * and, for db, [output channel]. The pieces are added in order. Of a band, the places of some output channels are
 * listed first: by channel for dw, whose sums stay in registers, and by pixel for dx, which stays there. Then these
 * channels take one group after another, whose x, or whose weights, stay in the first cache.
 *
 * workspace: [ sums of each piece | weights | of bfloat16: dp and p in float | of each thread: band of x | band of dx |
 * places ] */
#include "ops/fusion/sparse_conv_cpu.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/conv/conv_cpu.h"
#include "ops/cpu/block_sum.h"
#include "ops/cpu/fetch.h"
#include "ops/elementwise/simd_elementwise.h"
#include "ops/fusion/simd_sparse_conv.h"
#include "ops/kernel/tile.h"

#include <string.h>

/* A band holds at least so many windows, where there are as many, and so many bytes of x: less would load and store
 * sums too often, more would leave the second cache. The output channels that are listed at once are a vector, or so
 * many that their places take LIST_BYTES and their weights in one group GROUP_VECTORS vectors, which the first cache
 * holds. */
enum { FEWEST_WINDOWS = 96, BAND_BYTES = 1 << 18, LIST_BYTES = 1 << 17, GROUP_VECTORS = 640, MOST_POSITIONS = 256 };

struct zt_sparse_conv {
    const struct zt_sparse_kernels *kernels;
    struct zt_conv_pool c;
    enum zt_dtype dtype;            /* of x, w, dp, p and dx: float, bfloat16 */
    int64_t pixel, groups, vectors; /* of a pixel; of channels; of a kernel row */
    int64_t columns, row;           /* of a padded row: pixels, floats */
    int64_t samples, pool_rows;     /* of a whole band: one of them is all or one */
    int64_t rows;                   /* of x in a whole band and sample */
    int64_t listed;                 /* output channels, whole vectors of them, whose places are listed at once */
    int64_t pieces, weight_elems;   /* of the batch; of the weights in the order above */
};

/* ---- geometry ---- */

/* Rows of the padded x that `pool_rows` rows of the pool's results read. */
static int64_t rows_of(const struct zt_conv_pool *c, int64_t pool_rows) {
    const struct zt_window *w = &c->conv.window, *pool = &c->pool;
    int64_t results = zt_min_int((pool_rows - 1) * pool->stride[0] + pool->kernel[0], pool->in[0]);
    return (results - 1) * w->stride[0] + (w->kernel[0] - 1) * w->dilation[0] + 1;
}

static int64_t band_elems(const struct zt_sparse_conv *s) {
    return s->groups * s->samples * s->rows * s->row;
}

/* Floats of a copy, with those that the last vector reads beyond it. */
static int64_t copy_elems(const struct zt_sparse_conv *s) {
    return zt_align_floats(band_elems(s) + s->vectors * s->kernels->vector);
}

static void set_band(struct zt_sparse_conv *s) {
    const int64_t most = BAND_BYTES / (s->groups * s->row * (int64_t)sizeof(float));
    s->pool_rows = s->c.pool.out[0];
    while (s->pool_rows > 1 && rows_of(&s->c, s->pool_rows) > most &&
           (s->pool_rows - 1) * s->c.pool.out[1] >= FEWEST_WINDOWS)
        s->pool_rows--;
    s->rows = rows_of(&s->c, s->pool_rows);
    s->samples = 1;
    while (s->pool_rows == s->c.pool.out[0] && (s->samples + 1) * s->rows <= most &&
           s->samples * s->c.pool.out_elems < FEWEST_WINDOWS)
        s->samples++;
}

/* Places of a channel, with the vector that is written beyond them, in whole cache lines. */
static int64_t list_elems(const struct zt_sparse_conv *s) {
    return (s->samples * s->pool_rows * s->c.pool.out[1] + 2 * s->kernels->vector - 1) / 16 * 16 + 16;
}

/* Floats of the weights of an output channel and a group. */
static int64_t kernel_elems(const struct zt_sparse_conv *s) {
    return s->c.conv.window.kernel[0] * s->vectors * s->kernels->vector;
}

static int64_t listed_at_once(const struct zt_sparse_conv *s) {
    const int64_t vector = s->kernels->vector;
    const int64_t lists = LIST_BYTES / (list_elems(s) * (int64_t)(sizeof(float) + sizeof(int32_t)));
    const int64_t most = zt_min_int(lists, GROUP_VECTORS * vector / kernel_elems(s));
    return zt_min_int(zt_max_int(most / vector, 1), zt_ceil_div(s->c.conv.m, vector)) * vector;
}

/* Vectors of a kernel row of so many channels. */
static int64_t row_vectors(const struct zt_sparse_kernels *kernels, const struct zt_conv *c, int64_t channels) {
    return zt_ceil_div(c->window.kernel[1] * channels, kernels->vector);
}

static int64_t pixel_of(const struct zt_sparse_kernels *kernels, const struct zt_conv *c) {
    const int64_t vector = kernels->vector, all = row_vectors(kernels, c, c->c);
    const bool fewer = all < zt_ceil_div(c->c, vector) * row_vectors(kernels, c, vector);
    return c->c <= vector || (all <= ZT_SPARSE_VECTORS && fewer) ? c->c : vector;
}

static bool takes(const struct zt_sparse_kernels *kernels, const struct zt_conv_pool *c) {
    const struct zt_window *w = &c->conv.window;
    return kernels && w->axes == 2 && c->conv.groups == 1 && w->dilation[1] == 1 && w->kernel[1] <= ZT_SPARSE_VECTORS &&
           c->pool.kernel_elems <= MOST_POSITIONS && 2 * c->pool.out_elems <= w->out_elems;
}

double zt_sparse_conv_share(const struct zt_conv_pool *c) {
    return takes(zt_sparse_kernels(), c) ? (double)c->pool.out_elems / (double)c->pool.in_elems : 1;
}

const struct zt_sparse_conv *zt_sparse_conv_make(struct zt_arena *arena, const struct zt_conv_pool *c,
                                                 enum zt_dtype dtype) {
    const struct zt_sparse_kernels *kernels = zt_sparse_kernels();
    if (!takes(kernels, c))
        return NULL;
    const struct zt_window *w = &c->conv.window;
    struct zt_sparse_conv *s = ZT_NEW(arena, struct zt_sparse_conv);
    *s = (struct zt_sparse_conv){ .kernels = kernels, .c = *c, .dtype = dtype };
    s->pixel = pixel_of(kernels, &c->conv);
    s->groups = zt_ceil_div(c->conv.c, s->pixel);
    s->vectors = row_vectors(kernels, &c->conv, s->pixel);
    s->columns = (w->out[1] - 1) * w->stride[1] + w->kernel[1];
    s->row = s->columns * s->pixel;
    set_band(s);
    s->listed = listed_at_once(s);
    s->weight_elems = c->conv.m * s->groups * kernel_elems(s);
    s->pieces = zt_min_int(c->conv.n, zt_min_int(zt_conv_pieces(&c->conv), ZT_BATCH_BLOCKS));
    const int64_t longest = zt_max_int(s->listed * list_elems(s), s->listed * kernel_elems(s));
    return zt_max_int(copy_elems(s), longest) > INT32_MAX ? NULL : s; /* places and entries are 32-bit */
}

int zt_sparse_conv_vector(const struct zt_sparse_conv *s) {
    return s->kernels->vector;
}

static int64_t sum_elems(const struct zt_sparse_conv *s) {
    return zt_align_floats(s->weight_elems + zt_ceil_div(s->c.conv.m, s->kernels->vector) * s->kernels->vector);
}

/* Elements of all lists, and of their pixels: a window has an entry of each channel at most. */
static int64_t all_lists(const struct zt_sparse_conv *s) {
    return s->listed * list_elems(s);
}

static size_t thread_bytes(const struct zt_sparse_conv *s) {
    const int64_t words = 2 * copy_elems(s) + list_elems(s) + 6 * all_lists(s);
    return (size_t)words * sizeof(float) + (size_t)zt_align_64(s->listed * (int64_t)(2 * sizeof(int64_t)));
}

/* Floats of a copy of dp or p. */
static int64_t pooled_elems(const struct zt_sparse_conv *s, const struct zt_planes *p) {
    return s->dtype == ZT_FLOAT ? 0 : zt_align_floats(p->samples * p->sample);
}

size_t zt_sparse_conv_bytes(const struct zt_sparse_conv *s, const struct zt_planes *p_planes, int threads) {
    const int64_t shared = sum_elems(s) * (s->pieces + 1) + 2 * pooled_elems(s, p_planes);
    return (size_t)shared * sizeof(float) + thread_bytes(s) * (size_t)threads;
}

/* ---- elements of x, w and dx ---- */

static float element(const struct zt_sparse_conv *s, const void *data, int64_t at) {
    return s->dtype == ZT_FLOAT ? ((const float *)data)[at] : zt_bfloat_to_float(((const uint16_t *)data)[at]);
}

static void set_element(const struct zt_sparse_conv *s, void *data, int64_t at, float value) {
    if (s->dtype == ZT_FLOAT)
        ((float *)data)[at] = value;
    else
        ((uint16_t *)data)[at] = zt_float_to_bfloat(value);
}

static void *at_element(const struct zt_sparse_conv *s, const void *data, int64_t at) {
    return (char *)data + at * (int64_t)zt_dtype_bytes(s->dtype);
}

/* ---- weights ---- */

struct job {
    const struct zt_sparse_conv *s;
    const struct zt_sparse_conv_data *d;
    const float *dp, *p; /* in float */
    float *sums, *weights;
    char *threads;
};

/* The element of the order above that is input channel c of kernel row k at its column 0, of output channel m. */
static int64_t weight_at(const struct zt_sparse_conv *s, int64_t m, int64_t c, int64_t k) {
    return (c / s->pixel * s->c.conv.m + m) * kernel_elems(s) + k * s->vectors * s->kernels->vector + c % s->pixel;
}

static void order_weight(void *arg, int64_t m) {
    const struct job *job = arg;
    const struct zt_sparse_conv *s = job->s;
    const int64_t *kernel = s->c.conv.window.kernel;
    int64_t from = m * s->c.conv.c * s->c.conv.window.kernel_elems;
    for (int64_t g = 0; g < s->groups; g++)
        memset(job->weights + weight_at(s, m, g * s->pixel, 0), 0, (size_t)kernel_elems(s) * sizeof(float));
    for (int64_t c = 0; c < s->c.conv.c; c++)
        for (int64_t i = 0; i < kernel[0]; i++)
            for (int64_t j = 0; j < kernel[1]; j++)
                job->weights[weight_at(s, m, c, i) + j * s->pixel] = element(s, job->d->w, from++);
}

static void finish_weight(void *arg, int64_t m) {
    const struct job *job = arg;
    const struct zt_sparse_conv *s = job->s;
    const int64_t *kernel = s->c.conv.window.kernel;
    float *to = job->d->dw + m * s->c.conv.c * s->c.conv.window.kernel_elems;
    for (int64_t c = 0; c < s->c.conv.c; c++)
        for (int64_t i = 0; i < kernel[0]; i++)
            for (int64_t j = 0; j < kernel[1]; j++, to++) {
                const float sum = job->sums[weight_at(s, m, c, i) + j * s->pixel];
                *to = job->d->accumulate ? *to + sum : sum;
            }
}

/* ---- bands ---- */

struct band {
    int64_t sample, samples, pool_row, pool_rows; /* the first, and how many */
    int64_t top;                                  /* first row of the padded x */
    int64_t written;                              /* rows of dx, of these samples */
    float *x, *dx;
    int32_t *first;
    struct zt_sparse_lists lists; /* of the output channels that are listed, whole vectors of them */
    struct zt_sparse_sorted sorted;
    int64_t *offset; /* of each vector of these channels, from the first one's results */
};

/* A row of the copy and its counterpart in x or dx. */
struct row {
    float *copy;                   /* its first pixel that is not padding */
    int64_t channel, sample, from; /* first channel; of the batch; pixel of the plane */
    int64_t channels, count;       /* of the group; pixels */
};

/* Row y of x in the copy of a group and a sample of the band; no pixels where the band has none of it. */
static struct row find_row(const struct zt_sparse_conv *s, const struct band *b, int64_t group, int64_t n, int64_t y,
                           float *copy) {
    const struct zt_window *w = &s->c.conv.window;
    const int64_t i = y + w->pad[0] - b->top, left = zt_min_int(w->pad[1], s->columns);
    const bool within = i >= 0 && i < s->rows;
    return (struct row){ .copy =
                             within ? copy + ((group * s->samples + n) * s->rows + i) * s->row + left * s->pixel : NULL,
                         .channel = group * s->pixel,
                         .sample = b->sample + n,
                         .from = y * w->in[1],
                         .channels = zt_min_int(s->pixel, s->c.conv.c - group * s->pixel),
                         .count = within ? zt_min_int(w->in[1], s->columns - left) : 0 };
}

/* Whether the pixels of a row lie as in the copy. */
static bool is_alike(const struct zt_planes *p, const struct row *r, int64_t pixel) {
    return r->channel % p->vector + r->channels <= p->vector && r->channels == pixel && p->pixel == pixel;
}

/* The element of x or dx at the row's first pixel. */
static int64_t start_of(const struct zt_planes *p, const struct row *r) {
    return r->sample * p->sample + r->from * p->pixel;
}

static void read_row(const struct job *job, const struct row *r) {
    const struct zt_sparse_conv *s = job->s;
    const struct zt_planes *p = &job->d->x_planes;
    const int64_t start = start_of(p, r), elems = r->count * s->pixel;
    if (is_alike(p, r, s->pixel)) {
        const void *x = at_element(s, job->d->x, start + zt_planes_channel(p, r->channel));
        if (s->dtype != ZT_FLOAT) {
            zt_simd_load(s->dtype, x, elems, r->copy);
            return;
        }
        zt_fetch_ahead(x, elems);
        memcpy(r->copy, x, (size_t)elems * sizeof *r->copy);
        return;
    }
    for (int64_t c = 0; c < r->channels; c++) {
        const int64_t from = start + zt_planes_channel(p, r->channel + c);
        for (int64_t i = 0; i < r->count; i++)
            r->copy[i * s->pixel + c] = element(s, job->d->x, from + i * p->pixel);
    }
}

/* Uses up the copy of a row of bfloat16. */
static void add_row(const struct job *job, const struct row *r) {
    const struct zt_sparse_conv *s = job->s;
    const struct zt_planes *p = &job->d->x_planes;
    const int64_t start = start_of(p, r), elems = r->count * s->pixel;
    if (is_alike(p, r, s->pixel) && s->dtype == ZT_FLOAT) {
        zt_conv_add(r->copy, elems, (float *)job->d->dx + start + zt_planes_channel(p, r->channel));
        return;
    }
    if (is_alike(p, r, s->pixel)) {
        uint16_t *dx = at_element(s, job->d->dx, start + zt_planes_channel(p, r->channel));
        for (int64_t i = 0; i < elems; i++)
            r->copy[i] += zt_bfloat_to_float(dx[i]);
        zt_simd_store(s->dtype, r->copy, elems, dx);
        return;
    }
    for (int64_t c = 0; c < r->channels; c++) {
        const int64_t to = start + zt_planes_channel(p, r->channel + c);
        for (int64_t i = 0; i < r->count; i++)
            set_element(s, job->d->dx, to + i * p->pixel,
                        element(s, job->d->dx, to + i * p->pixel) + r->copy[i * s->pixel + c]);
    }
}

/* A row of dx; pixels that the band has not are 0. */
static void write_row(const struct job *job, const struct row *r) {
    const struct zt_sparse_conv *s = job->s;
    const struct zt_planes *p = &job->d->x_planes;
    const int64_t start = start_of(p, r), width = s->c.conv.window.in[1], elems = r->count * s->pixel;
    if (is_alike(p, r, s->pixel)) {
        const int64_t to = start + zt_planes_channel(p, r->channel);
        if (elems > 0 && s->dtype == ZT_FLOAT)
            memcpy(at_element(s, job->d->dx, to), r->copy, (size_t)elems * sizeof(float));
        else if (elems > 0)
            zt_simd_store(s->dtype, r->copy, elems, at_element(s, job->d->dx, to));
        memset(at_element(s, job->d->dx, to + elems), 0, (size_t)(width * s->pixel - elems) * zt_dtype_bytes(s->dtype));
        return;
    }
    for (int64_t c = 0; c < r->channels; c++) {
        const int64_t to = start + zt_planes_channel(p, r->channel + c);
        for (int64_t i = 0; i < width; i++)
            set_element(s, job->d->dx, to + i * p->pixel, i < r->count ? r->copy[i * s->pixel + c] : 0);
    }
}

/* The first row of x that the band reads, and the one behind the last. */
static int64_t first_row(const struct zt_sparse_conv *s, const struct band *b) {
    return zt_max_int(0, b->top - s->c.conv.window.pad[0]);
}
static int64_t end_row(const struct zt_sparse_conv *s, const struct band *b) {
    const struct zt_window *w = &s->c.conv.window;
    return zt_max_int(0, zt_min_int(w->in[0], b->top + s->rows - w->pad[0]));
}

static void read_band(const struct job *job, const struct band *b) {
    const struct zt_sparse_conv *s = job->s;
    memset(b->x, 0, (size_t)copy_elems(s) * sizeof *b->x);
    for (int64_t n = 0; n < b->samples; n++)
        for (int64_t g = 0; g < s->groups; g++)
            for (int64_t y = first_row(s, b); y < end_row(s, b); y++) {
                const struct row r = find_row(s, b, g, n, y, b->x);
                read_row(job, &r);
            }
}

/* Adds to the rows of dx that are written, and writes those up to the end of the band, or of x. */
static void write_band(const struct job *job, struct band *b) {
    const struct zt_sparse_conv *s = job->s;
    const int64_t rows = s->c.conv.window.in[0];
    const int64_t end = b->pool_row + b->pool_rows < s->c.pool.out[0] ? end_row(s, b) : rows;
    for (int64_t n = 0; n < b->samples; n++)
        for (int64_t g = 0; g < s->groups; g++)
            for (int64_t y = zt_min_int(b->written, first_row(s, b)); y < end; y++) {
                const struct row r = find_row(s, b, g, n, y, b->dx);
                if (y < b->written)
                    add_row(job, &r);
                else
                    write_row(job, &r);
            }
    b->written = zt_max_int(b->written, end);
}

/* ---- places ---- */

/* The place of the first position of every window of the band's sample `n`. */
static void find_first(const struct zt_sparse_conv *s, const struct band *b, int64_t n) {
    const struct zt_window *w = &s->c.conv.window, *pool = &s->c.pool;
    int32_t *to = b->first;
    for (int64_t y = b->pool_row; y < b->pool_row + b->pool_rows; y++) {
        const int64_t row = n * s->rows + (y * pool->stride[0] - pool->pad[0]) * w->stride[0] - b->top;
        for (int64_t x = 0; x < pool->out[1]; x++)
            *to++ = (int32_t)(row * s->row + (x * pool->stride[1] - pool->pad[1]) * w->stride[1] * s->pixel);
    }
}

/* The windows of the band's sample `n`; `pixel`: elements from the results of one to those of the next. */
static struct zt_sparse_windows windows_of(const struct zt_sparse_conv *s, const struct band *b, int64_t n,
                                           int64_t pixel) {
    const struct zt_window *w = &s->c.conv.window, *pool = &s->c.pool;
    find_first(s, b, n);
    return (struct zt_sparse_windows){ .first = b->first,
                                       .count = b->pool_rows * pool->out[1],
                                       .pixel = pixel,
                                       .positions = (int32_t)pool->kernel_elems,
                                       .columns = (int32_t)pool->kernel[1],
                                       .row = (int32_t)(w->stride[0] * s->row),
                                       .column = (int32_t)(w->stride[1] * s->pixel) };
}
/* The results of `channel` and those beside it. */
static struct zt_sparse_pooled results_of(const struct job *job, const struct band *b, int64_t n, int64_t channel) {
    const struct zt_planes *p = &job->d->p_planes;
    const int64_t o =
        (b->sample + n) * p->sample + zt_planes_channel(p, channel) + b->pool_row * job->s->c.pool.out[1] * p->pixel;
    return (struct zt_sparse_pooled){ job->dp + o, job->p + o, job->d->position + o };
}

/* Lists the places of `count` output channels, from `channel` on, in the orders that are wanted. */
static void find_places(const struct job *job, struct band *b, int64_t channel, int64_t count) {
    const struct zt_sparse_conv *s = job->s;
    const struct zt_planes *p = &job->d->p_planes;
    const struct zt_sparse_channels channels = { b->offset, count, (int32_t)kernel_elems(s) };
    const struct zt_sparse_lists *lists = &b->lists;
    memset(lists->count, 0, (size_t)s->listed * sizeof *lists->count);
    b->sorted.count = b->sorted.entries = 0;
    for (int64_t m = 0; m < count; m += s->kernels->vector)
        b->offset[m / s->kernels->vector] = zt_planes_channel(p, channel + m) - zt_planes_channel(p, channel);
    for (int64_t n = 0; n < b->samples; n++) {
        const struct zt_sparse_windows windows = windows_of(s, b, n, p->pixel);
        for (int64_t m = 0; (job->d->dw || job->d->db) && m < count; m += s->kernels->vector) {
            struct zt_sparse_lists to = { lists->at + m * lists->most, lists->value + m * lists->most, lists->most,
                                          lists->count + m, lists->sum + m };
            const struct zt_sparse_pooled from = results_of(job, b, n, channel + m);
            s->kernels->find(&windows, &from, &to);
        }
        if (job->d->dx) {
            const struct zt_sparse_pooled from = results_of(job, b, n, channel);
            s->kernels->sort(&windows, &from, &channels, &b->sorted);
        }
    }
}

/* ---- gradients ---- */

/* Rows of the kernel that a function takes at once. */
static int64_t rows_at_once(const struct zt_sparse_conv *s, int64_t from) {
    int64_t fit = s->kernels->registers / s->vectors;
    fit = fit < 1 ? 1 : zt_min_int(fit, ZT_SPARSE_ROWS);
    return zt_min_int(fit, s->c.conv.window.kernel[0] - from);
}

/* Adds the contribution of listed channel `m` to its weight gradients in one group of input channels. */
static void add_weight(const struct zt_sparse_conv *s, const struct band *b, int64_t m, const float *x, float *sums) {
    const struct zt_sparse_places places = { .at = b->lists.at + m * b->lists.most,
                                             .value = b->lists.value + m * b->lists.most,
                                             .count = b->lists.count[m],
                                             .row = s->c.conv.window.dilation[0] * s->row };
    for (int64_t k = 0, rows; k < s->c.conv.window.kernel[0]; k += rows) {
        rows = rows_at_once(s, k);
        s->kernels->weight[rows - 1][s->vectors - 1](&places, x + k * places.row,
                                                     sums + k * s->vectors * s->kernels->vector);
    }
}

/* Adds the contributions of all listed channels to dx of one group; `weights` are those of the first channel. */
static void add_data(const struct zt_sparse_conv *s, const struct band *b, const float *weights, float *dx) {
    const struct zt_sparse_pixels pixels = { .at = b->sorted.at,
                                             .end = b->sorted.end,
                                             .count = b->sorted.count,
                                             .weight = b->sorted.weight,
                                             .value = b->sorted.value,
                                             .row = s->c.conv.window.dilation[0] * s->row };
    for (int64_t k = 0, rows; k < s->c.conv.window.kernel[0]; k += rows) {
        rows = rows_at_once(s, k);
        s->kernels->data[rows - 1][s->vectors - 1](&pixels, weights + k * s->vectors * s->kernels->vector,
                                                   dx + k * pixels.row);
    }
}

/* Gradients of the listed output channels, `count` of them from `channel` on, and one group of input channels. */
static void do_group(const struct job *job, const struct band *b, int64_t channel, int64_t count, int64_t group,
                     float *sums) {
    const struct zt_sparse_conv *s = job->s;
    const int64_t plane = group * s->samples * s->rows * s->row, weight = weight_at(s, channel, group * s->pixel, 0);
    for (int64_t m = 0; job->d->dw && m < count; m++)
        add_weight(s, b, m, b->x + plane, sums + weight + m * kernel_elems(s));
    if (job->d->dx)
        add_data(s, b, job->weights + weight, b->dx + plane);
}

static void do_band(const struct job *job, struct band *b, float *sums) {
    const struct zt_sparse_conv *s = job->s;
    if (job->d->dw)
        read_band(job, b);
    if (job->d->dx)
        memset(b->dx, 0, (size_t)copy_elems(s) * sizeof *b->dx);
    for (int64_t m = 0, count; m < s->c.conv.m; m += count) {
        count = zt_min_int(s->listed, s->c.conv.m - m);
        b->lists.sum = sums + s->weight_elems + m;
        find_places(job, b, m, count);
        for (int64_t g = 0; g < s->groups; g++)
            do_group(job, b, m, count, g, sums);
    }
    if (job->d->dx)
        write_band(job, b);
}

static void do_piece(void *arg, int64_t piece) {
    const struct job *job = arg;
    const struct zt_sparse_conv *s = job->s;
    const struct zt_window *w = &s->c.conv.window, *pool = &s->c.pool;
    const int64_t end = s->c.conv.n * (piece + 1) / s->pieces, first = s->c.conv.n * piece / s->pieces;
    float *sums = job->sums + piece * sum_elems(s);
    char *own = job->threads + (size_t)zt_parallel_thread() * thread_bytes(s);
    struct band b = { .x = (float *)own };
    b.dx = b.x + copy_elems(s);
    b.lists = (struct zt_sparse_lists){ .value = b.dx + copy_elems(s), .most = list_elems(s) };
    b.lists.at = (int32_t *)(b.lists.value + all_lists(s));
    b.sorted = (struct zt_sparse_sorted){ .value = (float *)b.lists.at + all_lists(s) };
    b.sorted.weight = (int32_t *)(b.sorted.value + all_lists(s));
    b.sorted.at = b.sorted.weight + all_lists(s);
    b.sorted.end = b.sorted.at + all_lists(s);
    b.first = b.sorted.end + all_lists(s);
    b.lists.count = (int64_t *)(b.first + list_elems(s));
    b.offset = b.lists.count + s->listed;
    memset(sums, 0, (size_t)sum_elems(s) * sizeof *sums);
    if (job->d->dx && s->c.conv.c % job->d->x_planes.vector != 0) /* there are channels of no row */
        memset(at_element(s, job->d->dx, first * job->d->x_planes.sample), 0,
               (size_t)((end - first) * job->d->x_planes.sample) * zt_dtype_bytes(s->dtype));
    for (b.sample = first; b.sample < end; b.sample += b.samples) {
        b.samples = zt_min_int(s->samples, end - b.sample);
        b.written = 0;
        for (b.pool_row = 0; b.pool_row < pool->out[0]; b.pool_row += b.pool_rows) {
            b.pool_rows = zt_min_int(s->pool_rows, pool->out[0] - b.pool_row);
            b.top = zt_max_int(0, b.pool_row * pool->stride[0] - pool->pad[0]) * w->stride[0];
            do_band(job, &b, sums);
        }
    }
}

/* dp and p of a sample in float. */
struct widen {
    const struct job *job;
    float *dp, *p;
};
static void widen_sample(void *arg, int64_t sample) {
    const struct widen *w = arg;
    const struct zt_sparse_conv *s = w->job->s;
    const int64_t elems = w->job->d->p_planes.sample, at = sample * elems;
    zt_simd_load(s->dtype, at_element(s, w->job->d->dp, at), elems, w->dp + at);
    zt_simd_load(s->dtype, at_element(s, w->job->d->p, at), elems, w->p + at);
}

void zt_sparse_conv_run(const struct zt_sparse_conv *s, const struct zt_sparse_conv_data *d, void *workspace,
                        int threads) {
    struct job job = { .s = s, .d = d, .sums = workspace };
    const int64_t pooled = pooled_elems(s, &d->p_planes);
    float *dp = job.sums + (s->pieces + 1) * sum_elems(s), *p = dp + pooled;
    job.weights = job.sums + s->pieces * sum_elems(s);
    job.threads = (char *)(p + pooled);
    job.dp = s->dtype == ZT_FLOAT ? d->dp : dp;
    job.p = s->dtype == ZT_FLOAT ? d->p : p;
    if (s->dtype != ZT_FLOAT) {
        struct widen widen = { &job, dp, p };
        zt_parallel_for(threads, d->p_planes.samples, widen_sample, &widen);
    }
    if (d->dx)
        zt_parallel_for(threads, s->c.conv.m, order_weight, &job);
    zt_parallel_for(threads, s->pieces, do_piece, &job);
    zt_sum_blocks(job.sums, sum_elems(s), s->pieces, threads);
    if (d->dw)
        zt_parallel_for(threads, s->c.conv.m, finish_weight, &job);
    if (d->db)
        memcpy(d->db, job.sums + s->weight_elems, (size_t)s->c.conv.m * sizeof *d->db);
}
