/* Batch normalisation of rows of channels (channels last), with the sum and the ReLU behind it. One pass over x
 * computes the statistics, a second one y; one pass over dy, x and y computes the sums of the gradient, a second one
 * dx (formulas: ops/norm/batch_norm.c, ops/norm/fuse_batch_norm_relu.c).
 *
 * A block takes a tile of channels, 128 bytes of each row, and a part of the rows: thread (c, k) has N channels of
 * rows k, k + ROWS, ... The last block of a tile combines the results of all its blocks, in the order of the parts,
 * into the numbers of each channel that the second pass uses. The second pass goes through each part backward, since
 * the cache still holds the rows that the first one read last.
 *
 * Workspace: float found[2][parts][channels], number[4][channels]. */
#include "ops/norm/batch_norm.cuh"

#include "device/cuda.h"

enum {
    THREADS = 256,
    AHEAD = 4,         /* rows that a thread reads before it computes with the first of them */
    GRAD_AHEAD = 2,    /* of three tensors */
    MOMENTS_AHEAD = 8, /* of statistics, which combine so many at a time */
    PARTS = 2 * 132,   /* blocks that occupy a large GPU */
    WORTH = 128,       /* rows that occupy a block */
    TILE = 64,         /* channels of a tile where they have 2 bytes each */
    LEAST = 32         /* and where an element is largest */
};

/* N channels of a row, of storage type T; and of the tensor's own type. */
struct some_type {};
template <class T, int N> struct vector {
    pack<T, N> raw;
    __device__ void load(const struct zt_launch_tensor &t, int64_t at) {
        raw = *(const pack<T, N> *)((const T *)t.data + at);
    }
    __device__ float get(int k) const {
        return to_float(raw.at[k]);
    }
    __device__ void set(int k, float value) {
        raw.at[k] = from_float<T>(value);
    }
    __device__ void store(const struct zt_launch_tensor &t, int64_t at) const {
        *(pack<T, N> *)((T *)t.data + at) = raw;
    }
};
template <> struct vector<some_type, 1> {
    float raw;
    __device__ void load(const struct zt_launch_tensor &t, int64_t at) {
        raw = float_at(t.dtype, t.data, at);
    }
    __device__ float get(int) const {
        return raw;
    }
    __device__ void set(int, float value) {
        raw = value;
    }
    __device__ void store(const struct zt_launch_tensor &t, int64_t at) const {
        set_float(t.dtype, t.data, at, raw);
    }
};

/* The position of a thread in a block of LANES x ROWS threads. */
template <int N, int LANES> struct seat {
    enum { ROWS = THREADS / LANES };
    int64_t channel;
    bool inside;
    struct span rows;
    __device__ seat(const struct zt_launch_batch_norm &n)
        : channel(((int64_t)blockIdx.y * LANES + threadIdx.x) * N), inside(channel < n.channels),
          rows(part_of(n.n, n.parts, blockIdx.x)) {
    }
};

/* Combines the values of the rows of threads, N channels each, in a fixed tree. The first row gets the result. */
template <int N, int LANES, class V, class Join> static __device__ void fold_rows(V *mine, V *part, Join join) {
    const int x = (int)threadIdx.x, y = (int)threadIdx.y;
    for (int half = THREADS / LANES / 2; half > 0; half /= 2) {
        for (int k = 0; k < N; k++)
            if (y >= half && y < 2 * half)
                part[((y - half) * N + k) * LANES + x] = mine[k];
        __syncthreads();
        for (int k = 0; k < N; k++)
            if (y < half)
                mine[k] = join(mine[k], part[(y * N + k) * LANES + x]);
        __syncthreads();
    }
}

/* ---- statistics ---- */

/* Mean and sum of squared deviations of `count` elements; combined as in Chan, Golub, LeVeque, "Updating Formulae and
 * a Pairwise Algorithm for Computing Sample Variances", 1979. */
struct moments {
    float count, mean, squares;
};
static __device__ struct moments join(const struct moments &a, const struct moments &b) {
    const float count = a.count + b.count, d = b.mean - a.mean;
    if (a.count == 0 || b.count == 0)
        return a.count == 0 ? b : a;
    return { count, a.mean + d * (b.count / count), a.squares + b.squares + d * d * (a.count * (b.count / count)) };
}

/* The moments of a thread's rows relative to `shift`, so that a large mean costs no digits. */
template <class T, int N, int LANES>
static __device__ void moments_of(const struct zt_launch_batch_norm &n, const struct zt_launch_tensor &x,
                                  const struct seat<N, LANES> &at, struct moments *m) {
    enum { ROWS = THREADS / LANES };
    struct vector<T, N> first, ahead[MOMENTS_AHEAD];
    float count = 0;
    for (int k = 0; k < N; k++)
        m[k] = { 0, 0, 0 };
    if (!at.inside)
        return;
    first.load(x, at.channel);
    for (int64_t row = at.rows.first + threadIdx.y; row < at.rows.end; row += MOMENTS_AHEAD * ROWS) {
        int many = 0;
        for (int u = 0; u < MOMENTS_AHEAD; u++)
            if (row + u * ROWS < at.rows.end) {
                ahead[u].load(x, (row + u * ROWS) * n.channels + at.channel);
                many++;
            }
        const float share = (float)many / (count + (float)many), over = 1 / (float)many;
        for (int k = 0; k < N; k++) {
            const float shift = first.get(k);
            float mean = 0, squares = 0;
            for (int u = 0; u < MOMENTS_AHEAD; u++)
                mean += u < many ? ahead[u].get(k) - shift : 0;
            mean *= over;
            for (int u = 0; u < MOMENTS_AHEAD; u++) {
                const float d = u < many ? ahead[u].get(k) - shift - mean : 0;
                squares += d * d;
            }
            const float d = mean - m[k].mean;
            m[k].mean += d * share;
            m[k].squares += squares + d * d * (count * share);
        }
        count += (float)many;
    }
    for (int k = 0; k < N; k++)
        m[k].count = count;
}

/* number: the subtrahend of x, the factor, and the summand. */
static __device__ void put_numbers(const struct zt_launch_batch_norm &n, const struct zt_launch_batch_norm_tensors &t,
                                   int64_t c, const struct moments &m, float *number) {
    const float shift = get(t.x, c), var = m.squares / (float)n.n, inv_std = 1 / sqrtf(var + n.epsilon);
    const float factor = get(t.scale, c) * inv_std;
    number[c] = shift;
    number[n.channels + c] = factor;
    number[2 * n.channels + c] = get(t.b, c) - m.mean * factor;
    put_statistics(n, t, c, shift + m.mean, var, inv_std);
}

template <class T, int N, int LANES>
static __global__ void __launch_bounds__(THREADS, 2)
    rows_moments_kernel(struct zt_launch_batch_norm n, struct zt_launch_batch_norm_tensors t, float *found,
                        float *number) {
    enum { ROWS = THREADS / LANES };
    __shared__ struct moments part[ROWS / 2 * N * LANES];
    const struct seat<N, LANES> at(n);
    struct moments m[N];
    moments_of<T, N, LANES>(n, t.x, at, m);
    fold_rows<N, LANES>(m, part, join);
    if (n.parts > 1) {
        for (int k = 0; k < N; k++) {
            if (threadIdx.y != 0 || !at.inside)
                continue;
            found[blockIdx.x * n.channels + at.channel + k] = m[k].mean;
            found[(n.parts + blockIdx.x) * n.channels + at.channel + k] = m[k].squares;
        }
        if (!is_last_of(&t.arrived[blockIdx.y], gridDim.x))
            return;
        for (int k = 0; k < N; k++)
            m[k] = { 0, 0, 0 };
        for (int64_t p = threadIdx.y; at.inside && p < n.parts; p += ROWS) {
            const struct span rows = part_of(n.n, n.parts, p);
            for (int k = 0; k < N; k++)
                m[k] = join(m[k], { (float)(rows.end - rows.first), found[p * n.channels + at.channel + k],
                                    found[(n.parts + p) * n.channels + at.channel + k] });
        }
        fold_rows<N, LANES>(m, part, join);
    }
    for (int k = 0; k < N; k++)
        if (threadIdx.y == 0 && at.inside)
            put_numbers(n, t, at.channel + k, m[k], number);
}

/* ---- y ---- */

template <class T, int N, int LANES>
static __global__ void __launch_bounds__(THREADS, 2)
    rows_kernel(struct zt_launch_batch_norm n, struct zt_launch_batch_norm_tensors t, const float *number) {
    enum { ROWS = THREADS / LANES };
    const struct seat<N, LANES> at(n);
    struct vector<T, N> x[AHEAD], z[AHEAD];
    float shift[N], factor[N], b[N];
    if (!at.inside)
        return;
    for (int k = 0; k < N; k++) {
        const int64_t c = at.channel + k;
        shift[k] = n.fixed ? get(t.mean, c) : number[c];
        factor[k] = n.fixed ? get(t.scale, c) / sqrtf(get(t.var, c) + n.epsilon) : number[n.channels + c];
        b[k] = n.fixed ? get(t.b, c) : number[2 * n.channels + c];
    }
    for (int64_t row = at.rows.end - 1 - threadIdx.y; row >= at.rows.first; row -= AHEAD * ROWS) {
        const int64_t here = row * n.channels + at.channel, step = ROWS * n.channels;
        for (int u = 0; u < AHEAD; u++)
            if (row - u * ROWS >= at.rows.first)
                x[u].load(t.x, here - u * step);
        for (int u = 0; u < AHEAD; u++)
            if (t.z.data && row - u * ROWS >= at.rows.first)
                z[u].load(t.z, here - u * step);
        for (int u = 0; u < AHEAD; u++) {
            if (row - u * ROWS < at.rows.first)
                continue;
            for (int k = 0; k < N; k++) {
                const float y = (x[u].get(k) - shift[k]) * factor[k] + b[k] + (t.z.data ? z[u].get(k) : 0);
                x[u].set(k, n.relu ? relu_of(y) : y);
            }
            x[u].store(t.y, here - u * step);
        }
    }
}

/* ---- the gradient's sums ---- */

struct sums {
    float db, dscale;
};
static __device__ struct sums add(const struct sums &a, const struct sums &b) {
    return { a.db + b.db, a.dscale + b.dscale };
}

/* The sums of a thread's rows; dscale lacks the factor inv_std. Writes dz too. */
template <class T, int N, int LANES>
static __device__ void sums_of(const struct zt_launch_batch_norm &n, const struct zt_launch_batch_norm_grad &g,
                               const struct seat<N, LANES> &at, struct sums *s) {
    enum { ROWS = THREADS / LANES };
    struct vector<T, N> dy[GRAD_AHEAD], x[GRAD_AHEAD], y[GRAD_AHEAD];
    float mean[N];
    for (int k = 0; k < N; k++) {
        s[k] = { 0, 0 };
        mean[k] = at.inside ? get(g.mean, at.channel + k) : 0;
    }
    for (int64_t row = at.rows.first + threadIdx.y; at.inside && row < at.rows.end; row += GRAD_AHEAD * ROWS) {
        const int64_t here = row * n.channels + at.channel, step = ROWS * n.channels;
        for (int u = 0; u < GRAD_AHEAD; u++)
            if (row + u * ROWS < at.rows.end) {
                dy[u].load(g.dy, here + u * step);
                x[u].load(g.x, here + u * step);
            }
        for (int u = 0; u < GRAD_AHEAD; u++)
            if (n.relu && row + u * ROWS < at.rows.end)
                y[u].load(g.y, here + u * step);
        for (int u = 0; u < GRAD_AHEAD; u++) {
            if (row + u * ROWS >= at.rows.end)
                continue;
            for (int k = 0; k < N; k++) {
                const float d = n.relu ? masked_by(dy[u].get(k), y[u].get(k)) : dy[u].get(k);
                s[k].db += d;
                s[k].dscale += d * (x[u].get(k) - mean[k]);
                dy[u].set(k, d);
            }
            if (g.dz.data)
                dy[u].store(g.dz, here + u * step);
        }
    }
}

/* dx = number[0] dz + number[1] + number[2] (x - number[3]) */
static __device__ void put_grad_numbers(const struct zt_launch_batch_norm &n, const struct zt_launch_batch_norm_grad &g,
                                        int64_t c, const struct sums &s, float *number) {
    const float inv_std = inv_std_of(n, g, c), dscale = s.dscale * inv_std, m = (float)n.n;
    const float a = get(g.scale, c) * inv_std;
    float b = n.fixed ? 0 : -a * s.db / m, d = n.fixed ? 0 : -a * dscale / m;
    b += g.dmean.data ? get(g.dmean, c) / m : 0;
    d += g.dvar.data ? 2 * get(g.dvar, c) / (m * inv_std) : 0;
    put(g.dscale, c, dscale);
    put(g.db, c, s.db);
    number[c] = a;
    number[n.channels + c] = b;
    number[2 * n.channels + c] = d * inv_std;
    number[3 * n.channels + c] = get(g.mean, c);
}

template <class T, int N, int LANES>
static __global__ void __launch_bounds__(THREADS, 2)
    rows_sums_kernel(struct zt_launch_batch_norm n, struct zt_launch_batch_norm_grad g, float *found, float *number) {
    enum { ROWS = THREADS / LANES };
    __shared__ struct sums part[ROWS / 2 * N * LANES];
    const struct seat<N, LANES> at(n);
    struct sums s[N];
    sums_of<T, N, LANES>(n, g, at, s);
    fold_rows<N, LANES>(s, part, add);
    if (n.parts > 1) {
        for (int k = 0; k < N; k++) {
            if (threadIdx.y != 0 || !at.inside)
                continue;
            found[blockIdx.x * n.channels + at.channel + k] = s[k].db;
            found[(n.parts + blockIdx.x) * n.channels + at.channel + k] = s[k].dscale;
        }
        if (!is_last_of(&g.arrived[blockIdx.y], gridDim.x))
            return;
        for (int k = 0; k < N; k++)
            s[k] = { 0, 0 };
        for (int64_t p = threadIdx.y; at.inside && p < n.parts; p += ROWS)
            for (int k = 0; k < N; k++)
                s[k] = add(s[k], { found[p * n.channels + at.channel + k],
                                   found[(n.parts + p) * n.channels + at.channel + k] });
        fold_rows<N, LANES>(s, part, add);
    }
    for (int k = 0; k < N; k++)
        if (threadIdx.y == 0 && at.inside)
            put_grad_numbers(n, g, at.channel + k, s[k], number);
}

/* ---- dx ---- */

template <class T, int N, int LANES>
static __global__ void __launch_bounds__(THREADS, 2)
    rows_grad_kernel(struct zt_launch_batch_norm n, struct zt_launch_batch_norm_grad g, const float *number) {
    enum { ROWS = THREADS / LANES };
    const struct seat<N, LANES> at(n);
    const bool masks = n.relu && !g.dz.data; /* else dz is there */
    struct vector<T, N> dz[GRAD_AHEAD], x[GRAD_AHEAD], y[GRAD_AHEAD];
    float a[N], b[N], d[N], mean[N];
    if (!at.inside)
        return;
    for (int k = 0; k < N; k++) {
        a[k] = number[at.channel + k];
        b[k] = number[n.channels + at.channel + k];
        d[k] = number[2 * n.channels + at.channel + k];
        mean[k] = number[3 * n.channels + at.channel + k];
    }
    for (int64_t row = at.rows.end - 1 - threadIdx.y; row >= at.rows.first; row -= GRAD_AHEAD * ROWS) {
        const int64_t here = row * n.channels + at.channel, step = ROWS * n.channels;
        for (int u = 0; u < GRAD_AHEAD; u++)
            if (row - u * ROWS >= at.rows.first) {
                dz[u].load(g.dz.data ? g.dz : g.dy, here - u * step);
                x[u].load(g.x, here - u * step);
            }
        for (int u = 0; u < GRAD_AHEAD; u++)
            if (masks && row - u * ROWS >= at.rows.first)
                y[u].load(g.y, here - u * step);
        for (int u = 0; u < GRAD_AHEAD; u++) {
            if (row - u * ROWS < at.rows.first)
                continue;
            for (int k = 0; k < N; k++) {
                const float z = masks ? masked_by(dz[u].get(k), y[u].get(k)) : dz[u].get(k);
                x[u].set(k, a[k] * z + b[k] + d[k] * (x[u].get(k) - mean[k]));
            }
            x[u].store(g.dx, here - u * step);
        }
    }
}

/* ---- launchers ---- */

int64_t zt_launch_batch_norm_parts(const struct zt_launch_batch_norm *n) {
    const int64_t tiles = (n->channels + TILE - 1) / TILE, most = n->n / WORTH;
    if (n->n == 0 || n->channels == 0)
        return 0;
    const bool countable = n->channels <= (int64_t)LEAST * ZT_CUDA_ARRIVED;
    const int64_t parts = !countable ? 1 : most < PARTS / tiles ? most : PARTS / tiles;
    return parts < 1 ? 1 : parts;
}

/* Whether the present tensors have one dtype and allow loads of 16 bytes. */
static bool is_packed(const struct zt_launch_batch_norm *n, const struct zt_launch_tensor *list, int count) {
    bool packed = n->channels % (int64_t)(16 / bytes_of(list[0].dtype)) == 0;
    for (int i = 0; i < count; i++)
        packed &= !list[i].data || (list[i].dtype == list[0].dtype && (uintptr_t)list[i].data % 16 == 0);
    return packed;
}

template <int N, int LANES> static dim3 grid_of(const struct zt_launch_batch_norm *n) {
    return dim3((unsigned)n->parts, (unsigned)((n->channels + N * LANES - 1) / (N * LANES)));
}

template <class T, int N, int LANES>
static void launch(cudaStream_t stream, const struct zt_launch_batch_norm *n,
                   const struct zt_launch_batch_norm_tensors *t, float *workspace) {
    float *number = workspace + 2 * n->parts * n->channels;
    const dim3 grid = grid_of<N, LANES>(n), block(LANES, THREADS / LANES);
    if (!n->fixed)
        rows_moments_kernel<T, N, LANES><<<grid, block, 0, stream>>>(*n, *t, workspace, number);
    rows_kernel<T, N, LANES><<<grid, block, 0, stream>>>(*n, *t, number);
}

template <class T, int N, int LANES>
static void launch_grad(cudaStream_t stream, const struct zt_launch_batch_norm *n,
                        const struct zt_launch_batch_norm_grad *g, float *workspace) {
    float *number = workspace + 2 * n->parts * n->channels;
    const dim3 grid = grid_of<N, LANES>(n), block(LANES, THREADS / LANES);
    rows_sums_kernel<T, N, LANES><<<grid, block, 0, stream>>>(*n, *g, workspace, number);
    if (g->dx.data)
        rows_grad_kernel<T, N, LANES><<<grid, block, 0, stream>>>(*n, *g, number);
}

int launch_batch_norm_rows(cudaStream_t stream, const struct zt_launch_batch_norm *n,
                           const struct zt_launch_batch_norm_tensors *t, float *workspace) {
    const struct zt_launch_tensor list[] = { t->x, t->y, t->z };
    if (is_packed(n, list, sizeof list / sizeof *list))
        WITH_TYPE(t->x.dtype, n->parts, (launch<T, 16 / sizeof(T), 8>(stream, n, t, workspace)));
    launch<some_type, 1, 32>(stream, n, t, workspace);
    return cudaGetLastError();
}

int launch_batch_norm_rows_grad(cudaStream_t stream, const struct zt_launch_batch_norm *n,
                                const struct zt_launch_batch_norm_grad *g, float *workspace) {
    const struct zt_launch_tensor list[] = { g->x, g->dy, g->y, g->dx, g->dz };
    if (is_packed(n, list, sizeof list / sizeof *list))
        WITH_TYPE(g->x.dtype, n->parts, (launch_grad<T, 16 / sizeof(T), 8>(stream, n, g, workspace)));
    launch_grad<some_type, 1, 32>(stream, n, g, workspace);
    return cudaGetLastError();
}
