/* Normalisations and their gradients (formulas: ops/norm/norm.c, ops/norm/batch_norm.c). A warp takes a short row, a
 * block a longer one, a channel, or the elements of an entry of scale. A large mean costs no digits: means are computed
 * of differences from the first element, variances in a second pass. */
#include "ops/norm/batch_norm.cuh"
#include "ops/norm/launch_norm.h"
#include "ops/reduce/fold.cuh"

enum { ROW = 256, CHANNEL = 512 };

/* ---- layer, RMS, instance and group normalisation ---- */

/* The place of element i of a row: channel by channel; with `last` place by place. */
static __device__ int64_t place_of(const struct zt_launch_norm &n, int64_t row, int64_t i) {
    return n.last ? ((row / n.period * n.per_scale + i / n.per_row) * n.period + row % n.period) * n.per_row +
                        i % n.per_row
                  : row * n.length + i;
}

static __device__ int64_t scale_at(const struct zt_launch_norm &n, int64_t row, int64_t i) {
    return row % n.period * n.per_row + (n.last ? i % n.per_row : i / n.per_scale);
}

static __global__ void norm_kernel(struct zt_launch_norm n, struct zt_launch_norm_tensors t) {
    const struct zt_launch_tensor x = t.x;
    __shared__ float part[ROW];
    for (int64_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
        const float shift = n.centred && n.length > 0 ? get(x, place_of(n, row, 0)) : 0;
        float over = 0, squares = 0; /* over: the mean minus the shift, which is more exact than the mean as a float */
        for (int64_t i = threadIdx.x; n.centred && i < n.length; i += ROW)
            over += get(x, place_of(n, row, i)) - shift;
        over = add_block<ROW>(over, part) / (float)n.length;
        for (int64_t i = threadIdx.x; i < n.length; i += ROW) {
            const float d = get(x, place_of(n, row, i)) - shift - over;
            squares += d * d;
        }
        const float inv_std = 1 / sqrtf(add_block<ROW>(squares, part) / (float)n.length + n.epsilon);
        for (int64_t i = threadIdx.x; t.y.data && i < n.length; i += ROW) {
            const int64_t at = place_of(n, row, i), of = scale_at(n, row, i);
            put(t.y, at,
                (get(x, at) - shift - over) * inv_std * get(t.scale, of) + (t.bias.data ? get(t.bias, of) : 0));
        }
        if (threadIdx.x == 0) {
            put(t.mean, row, shift + over);
            put(t.inv_std, row, inv_std);
        }
    }
}

/* ---- rows that a warp holds in registers ---- */

enum { WARPS = 8, PACKS = 8 }; /* warps of a block; most packs of 16 bytes that a thread holds */

bool zt_launch_norm_is_short(const struct zt_launch_norm *n, enum zt_dtype dtype) {
    const int64_t wide = 16 / (int64_t)bytes_of(dtype);
    return n->period == 1 && n->per_scale == 1 && n->length % wide == 0 && n->length <= PACKS * WARP * wide;
}

/* The sums of norm_kernel in another order. x is read once. A warp behind the last row computes the last one again and
 * stores nothing. */
template <class T, class S, int P>
static __global__ void short_rows_kernel(struct zt_launch_norm n, struct zt_launch_norm_tensors t) {
    constexpr int wide = 16 / sizeof(T);
    for (int64_t first = (int64_t)blockIdx.x * WARPS; first < n.rows; first += (int64_t)gridDim.x * WARPS) {
        const int64_t mine = first + threadIdx.y, row = mine < n.rows ? mine : n.rows - 1;
        const T *x = (const T *)t.x.data + row * n.length;
        const float shift = n.centred ? to_float(x[0]) : 0;
        float v[P][wide], over = 0, squares = 0;
        for (int p = 0; p < P; p++) {
            const int at = (p * WARP + (int)threadIdx.x) * wide;
            if (at < n.length)
                load_floats<wide>(x + at, v[p]);
            for (int e = 0; e < wide; e++) {
                v[p][e] = at < n.length ? v[p][e] - shift : 0;
                over += v[p][e];
            }
        }
        over = n.centred ? add_warp(over) / (float)n.length : 0;
        for (int p = 0; p < P; p++)
            for (int e = 0; e < wide; e++) {
                v[p][e] -= over;
                squares += (p * WARP + (int)threadIdx.x) * wide < n.length ? v[p][e] * v[p][e] : 0;
            }
        const float inv_std = 1 / sqrtf(add_warp(squares) / (float)n.length + n.epsilon);
        for (int p = 0; p < P; p++) {
            const int at = (p * WARP + (int)threadIdx.x) * wide;
            if (at >= n.length || mine >= n.rows)
                continue;
            float scale[wide], bias[wide] = { 0 };
            load_floats<wide>((const S *)t.scale.data + at, scale);
            if (t.bias.data)
                load_floats<wide>((const S *)t.bias.data + at, bias);
            for (int e = 0; e < wide; e++)
                v[p][e] = v[p][e] * inv_std * scale[e] + bias[e];
            store_floats<wide>(v[p], (T *)t.y.data + row * n.length + at);
        }
        if (threadIdx.x == 0 && mine < n.rows) {
            put(t.mean, row, shift + over);
            put(t.inv_std, row, inv_std);
        }
    }
}

template <class T, class S>
static void launch_short_rows(cudaStream_t stream, const struct zt_launch_norm &n,
                              const struct zt_launch_norm_tensors &t) {
    const int64_t packs = (n.length * (int64_t)sizeof(T) / 16 + WARP - 1) / WARP;
    const unsigned blocks = job_blocks((n.rows + WARPS - 1) / WARPS);
    const dim3 threads(WARP, WARPS);
    if (packs <= 1)
        short_rows_kernel<T, S, 1><<<blocks, threads, 0, stream>>>(n, t);
    else if (packs <= 2)
        short_rows_kernel<T, S, 2><<<blocks, threads, 0, stream>>>(n, t);
    else if (packs <= 4)
        short_rows_kernel<T, S, 4><<<blocks, threads, 0, stream>>>(n, t);
    else
        short_rows_kernel<T, S, PACKS><<<blocks, threads, 0, stream>>>(n, t);
}

/* Whether the tensors allow it: y, of x's type, a bias of the scale's, and all from multiples of 16. */
static bool are_short(const struct zt_launch_norm *n, const struct zt_launch_norm_tensors *t) {
    const uintptr_t bits =
        (uintptr_t)t->x.data | (uintptr_t)t->y.data | (uintptr_t)t->scale.data | (uintptr_t)t->bias.data;
    return zt_launch_norm_is_short(n, t->x.dtype) && t->y.data && t->y.dtype == t->x.dtype && bits % 16 == 0 &&
           (t->scale.dtype == ZT_FLOAT || t->scale.dtype == t->x.dtype) &&
           (!t->bias.data || t->bias.dtype == t->scale.dtype);
}

int zt_launch_norm(cudaStream_t stream, const struct zt_launch_norm *n, const struct zt_launch_norm_tensors *t) {
    if (are_short(n, t) && t->scale.dtype == ZT_FLOAT)
        WITH_TYPE(t->x.dtype, n->rows, (launch_short_rows<T, float>(stream, *n, *t)));
    if (are_short(n, t))
        WITH_TYPE(t->x.dtype, n->rows, (launch_short_rows<T, T>(stream, *n, *t)));
    if (n->rows > 0)
        norm_kernel<<<job_blocks(n->rows), ROW, 0, stream>>>(*n, *t);
    return cudaGetLastError();
}

static __device__ float mean_of(const struct zt_launch_norm_grad &g, int64_t row) {
    return g.mean.data ? get(g.mean, row) : 0;
}

static __global__ void norm_grad_kernel(struct zt_launch_norm n, struct zt_launch_norm_grad g) {
    __shared__ float part[ROW];
    for (int64_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
        const float mean = mean_of(g, row), inv_std = get(g.inv_std, row);
        float sum = 0, product = 0;
        for (int64_t i = threadIdx.x; i < n.length; i += ROW) {
            const int64_t at = place_of(n, row, i);
            const float d = get(g.dy, at) * get(g.scale, scale_at(n, row, i));
            sum += d;
            product += d * ((get(g.x, at) - mean) * inv_std);
        }
        sum = add_block<ROW>(sum, part);
        product = add_block<ROW>(product, part);
        float shift = n.centred ? -inv_std * sum : 0, slope = -inv_std * product;
        shift += g.dmean.data ? get(g.dmean, row) : 0;
        slope -= g.dinv_std.data ? get(g.dinv_std, row) * inv_std * inv_std : 0;
        for (int64_t i = threadIdx.x; i < n.length; i += ROW) {
            const int64_t at = place_of(n, row, i);
            const float d = get(g.dy, at) * get(g.scale, scale_at(n, row, i));
            const float xh = (get(g.x, at) - mean) * inv_std;
            put(g.dx, at, inv_std * d + (shift + slope * xh) / (float)n.length);
        }
    }
}

struct scale_sums {
    float scale, bias;
    static __device__ struct scale_sums start() {
        return { 0, 0 };
    }
    static __device__ struct scale_sums join(const struct scale_sums &a, const struct scale_sums &b) {
        return { a.scale + b.scale, a.bias + b.bias };
    }
};

/* Entries of scale are neighbours in every row, or channels are last. A block takes ACROSS of them and a part of the
 * elements: thread (c, k) takes elements k, k + ALONG, ... */
static __global__ void scale_columns_kernel(struct zt_launch_norm n, struct zt_launch_norm_grad g,
                                            struct scale_sums *found) {
    __shared__ struct scale_sums shared[ALONG][ACROSS];
    const int64_t entries = n.period * n.per_row, wide = (entries + ACROSS - 1) / ACROSS;
    for (int64_t job = blockIdx.x; job < wide * g.parts; job += gridDim.x) {
        const int64_t at = job % wide * ACROSS + threadIdx.x;
        const struct column c = { at, entries, job / wide, g.parts, &g.arrived[job % wide] };
        const struct span mine = part_of(n.rows / n.period * n.per_scale, g.parts, c.part);
        struct scale_sums sums = scale_sums::start();
        for (int64_t k = mine.first + threadIdx.y; at < entries && k < mine.end; k += ALONG) {
            const int64_t row = (n.per_scale == 1 ? k : k / n.per_scale) * n.period + at / n.per_row;
            const float d = get(g.dy, k * entries + at);
            sums.scale += d * (get(g.x, k * entries + at) - mean_of(g, row)) * get(g.inv_std, row);
            sums.bias += d;
        }
        sums = fold_columns<ALONG>(sums, shared, scale_sums::join);
        if (join_parts<scale_sums>(c, found, shared, &sums) && threadIdx.y == 0 && at < entries) {
            put(g.dscale, at, sums.scale);
            put(g.dbias, at, sums.bias);
        }
    }
}

/* An entry of scale has consecutive elements in each of its rows: a block takes the entry. */
static __global__ void scale_runs_kernel(struct zt_launch_norm n, struct zt_launch_norm_grad g) {
    __shared__ float part[ROW];
    for (int64_t entry = blockIdx.x; entry < n.period * n.per_row; entry += gridDim.x) {
        const int64_t which = entry / n.per_row, first = entry % n.per_row * n.per_scale, rows = n.rows / n.period;
        float scales = 0, biases = 0;
        for (int64_t i = threadIdx.x; i < rows * n.per_scale; i += ROW) {
            const int64_t row = which + i / n.per_scale * n.period, at = row * n.length + first + i % n.per_scale;
            const float d = get(g.dy, at);
            scales += d * (get(g.x, at) - mean_of(g, row)) * get(g.inv_std, row);
            biases += d;
        }
        scales = add_block<ROW>(scales, part);
        biases = add_block<ROW>(biases, part);
        if (threadIdx.x == 0) {
            put(g.dscale, entry, scales);
            put(g.dbias, entry, biases);
        }
    }
}

static bool has_columns(const struct zt_launch_norm *n) {
    return n->last || n->per_scale == 1;
}

int64_t zt_launch_norm_grad_parts(const struct zt_launch_norm *n) {
    const int64_t wide = (n->period * n->per_row + ACROSS - 1) / ACROSS;
    if (!has_columns(n) || wide == 0)
        return 1;
    int64_t parts = n->rows / n->period * n->per_scale / (32 * ALONG); /* elements that occupy a block */
    parts = parts < 256 / wide ? parts : 256 / wide;
    return parts < 1 ? 1 : parts;
}

static void launch_scale(cudaStream_t stream, const struct zt_launch_norm *n, const struct zt_launch_norm_grad *g,
                         float *workspace) {
    const int64_t entries = n->period * n->per_row, wide = (entries + ACROSS - 1) / ACROSS;
    if (has_columns(n))
        scale_columns_kernel<<<job_blocks(wide * g->parts), dim3(ACROSS, ALONG), 0, stream>>>(
            *n, *g, (struct scale_sums *)workspace);
    else
        scale_runs_kernel<<<job_blocks(entries), ROW, 0, stream>>>(*n, *g);
}

int zt_launch_norm_grad(cudaStream_t stream, const struct zt_launch_norm *n, const struct zt_launch_norm_grad *g,
                        float *workspace) {
    if (g->dx.data && n->rows > 0)
        norm_grad_kernel<<<job_blocks(n->rows), ROW, 0, stream>>>(*n, *g);
    if ((g->dscale.data || g->dbias.data) && n->period * n->per_row > 0)
        launch_scale(stream, n, g, workspace);
    return cudaGetLastError();
}

/* ---- batch normalisation: a block takes a channel ---- */

/* Element i of a channel's n * spatial. */
static __device__ int64_t element_of(const struct zt_launch_batch_norm &n, int64_t channel, int64_t i) {
    return (i / n.spatial * n.channels + channel) * n.spatial + i % n.spatial;
}

/* The grid's second axis counts the normalisations. */
static __global__ void running_kernel(struct zt_launch_running r) {
    const struct zt_launch_running_norm &n = r.norm[blockIdx.y];
    EACH(c, n.channels) {
        const float inv_std = n.inv_std[c], var = 1 / (inv_std * inv_std) - r.epsilon;
        set_float(r.mean_dtype, n.new_mean, c, running(float_at(r.mean_dtype, n.old_mean, c), n.mean[c], r.momentum));
        set_float(r.var_dtype, n.new_var, c,
                  running(float_at(r.var_dtype, n.old_var, c), var < 0 ? 0 : var, r.momentum));
    }
}

int zt_launch_batch_norm_running(cudaStream_t stream, const struct zt_launch_running *r) {
    int64_t channels = 1;
    for (int k = 0; k < r->count; k++)
        channels = r->norm[k].channels > channels ? r->norm[k].channels : channels;
    running_kernel<<<dim3(blocks_for(channels), (unsigned)r->count), BLOCK, 0, stream>>>(*r);
    return cudaGetLastError();
}

static __global__ void batch_norm_kernel(struct zt_launch_batch_norm n, struct zt_launch_batch_norm_tensors t) {
    __shared__ float part[CHANNEL];
    const int64_t count = n.n * n.spatial;
    for (int64_t c = blockIdx.x; c < n.channels; c += gridDim.x) {
        const float shift = n.fixed ? get(t.mean, c) : count > 0 ? get(t.x, element_of(n, c, 0)) : 0;
        float over = 0, var = n.fixed ? get(t.var, c) : 0; /* over: as in norm_kernel */
        for (int64_t i = threadIdx.x; !n.fixed && i < count; i += CHANNEL)
            over += get(t.x, element_of(n, c, i)) - shift;
        if (!n.fixed)
            over = add_block<CHANNEL>(over, part) / (float)count;
        for (int64_t i = threadIdx.x; !n.fixed && i < count; i += CHANNEL) {
            const float d = get(t.x, element_of(n, c, i)) - shift - over;
            var += d * d;
        }
        if (!n.fixed)
            var = add_block<CHANNEL>(var, part) / (float)count;
        const float inv_std = 1 / sqrtf(var + n.epsilon), scale = get(t.scale, c) * inv_std, b = get(t.b, c);
        for (int64_t i = threadIdx.x; i < count; i += CHANNEL) {
            const int64_t at = element_of(n, c, i);
            const float y = (get(t.x, at) - shift - over) * scale + b + (t.z.data ? get(t.z, at) : 0);
            put(t.y, at, n.relu ? relu_of(y) : y);
        }
        if (threadIdx.x == 0 && !n.fixed)
            put_statistics(n, t, c, shift + over, var, inv_std);
    }
}

/* dy at `at`, where the ReLU's y lets it pass. */
static __device__ float masked(const struct zt_launch_batch_norm &n, const struct zt_launch_batch_norm_grad &g,
                               int64_t at) {
    const float dy = get(g.dy, at);
    return n.relu ? masked_by(dy, get(g.y, at)) : dy;
}

static __global__ void batch_norm_grad_kernel(struct zt_launch_batch_norm n, struct zt_launch_batch_norm_grad g) {
    __shared__ float part[CHANNEL];
    const int64_t count = n.n * n.spatial;
    for (int64_t c = blockIdx.x; c < n.channels; c += gridDim.x) {
        const float mean = get(g.mean, c), inv_std = inv_std_of(n, g, c), m = (float)count;
        float db = 0, dscale = 0;
        for (int64_t i = threadIdx.x; i < count; i += CHANNEL) {
            const int64_t at = element_of(n, c, i);
            const float dy = masked(n, g, at);
            db += dy;
            dscale += dy * (get(g.x, at) - mean) * inv_std;
            put(g.dz, at, dy);
        }
        db = add_block<CHANNEL>(db, part);
        dscale = add_block<CHANNEL>(dscale, part);
        if (threadIdx.x == 0) {
            put(g.dscale, c, dscale);
            put(g.db, c, db);
        }
        const float a = get(g.scale, c) * inv_std;
        float b = n.fixed ? 0 : -a * db / m, d = n.fixed ? 0 : -a * dscale / m;
        b += g.dmean.data ? get(g.dmean, c) / m : 0;
        d += g.dvar.data ? 2 * get(g.dvar, c) / (m * inv_std) : 0;
        for (int64_t i = threadIdx.x; g.dx.data && i < count; i += CHANNEL) {
            const int64_t at = element_of(n, c, i);
            put(g.dx, at, a * masked(n, g, at) + b + d * (get(g.x, at) - mean) * inv_std);
        }
    }
}

/* ---- ReLU alone ---- */

static __global__ void relu_kernel(int64_t count, struct zt_launch_tensor y, struct zt_launch_tensor z) {
    EACH(i, count)
    put(y, i, relu_of(get(y, i) + (z.data ? get(z, i) : 0)));
}

int zt_launch_batch_norm_relu(cudaStream_t stream, int64_t count, struct zt_launch_tensor y,
                              struct zt_launch_tensor z) {
    relu_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(count, y, z);
    return cudaGetLastError();
}

static __global__ void relu_mask_kernel(int64_t count, struct zt_launch_tensor dy, struct zt_launch_tensor y,
                                        struct zt_launch_tensor dz) {
    EACH(i, count)
    put(dz, i, masked_by(get(dy, i), get(y, i)));
}

int zt_launch_batch_norm_mask(cudaStream_t stream, int64_t count, struct zt_launch_tensor dy, struct zt_launch_tensor y,
                              struct zt_launch_tensor dz) {
    relu_mask_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(count, dy, y, dz);
    return cudaGetLastError();
}

/* ---- launchers of both ---- */

int zt_launch_batch_norm(cudaStream_t stream, const struct zt_launch_batch_norm *n,
                         const struct zt_launch_batch_norm_tensors *t, float *workspace) {
    if (n->parts)
        return launch_batch_norm_rows(stream, n, t, workspace);
    if (n->channels > 0)
        batch_norm_kernel<<<job_blocks(n->channels), CHANNEL, 0, stream>>>(*n, *t);
    return cudaGetLastError();
}

int zt_launch_batch_norm_grad(cudaStream_t stream, const struct zt_launch_batch_norm *n,
                              const struct zt_launch_batch_norm_grad *g, float *workspace) {
    if (n->parts)
        return launch_batch_norm_rows_grad(stream, n, g, workspace);
    if (n->channels > 0)
        batch_norm_grad_kernel<<<job_blocks(n->channels), CHANNEL, 0, stream>>>(*n, *g);
    return cudaGetLastError();
}
