/* LinearAttention and its gradient (formulas: ops/linear_attention/linear_attention.c). fp32.
 *
 * A block works on one head of keys of a sample and COLUMNS columns of its state at a time: warp w keeps rows w, w +
 * WARPS, .. of the state in registers, lane c column c. Numbers of a row (k, e) are in shared memory. A sum over rows
 * goes through shared memory, one over columns through the lanes of a warp. */
#include "ops/linear_attention/launch_linear_attention.h"
#include "ops/cuda/tensor.cuh"

enum { COLUMNS = ZT_LINEAR_COLUMNS, WARPS = 8, THREADS = COLUMNS * WARPS };

/* The shared memory of a block: k and e of a step, and a number of every thread. */
struct shared {
    float k[ZT_LINEAR_MOST_ROWS], e[ZT_LINEAR_MOST_ROWS], part[WARPS][COLUMNS];
};

/* The head and the columns that a block works on. */
struct place {
    int64_t b, h, column; /* column: of this thread */
    bool used;            /* whether there is such a column */
    int group;
};

static __device__ struct place place_of(const struct zt_launch_linear &l, int64_t head, int64_t strip) {
    struct place p;
    p.b = head / l.kv_heads;
    p.h = head % l.kv_heads;
    p.column = strip * COLUMNS + threadIdx.x;
    p.used = p.column < l.v_size;
    p.group = (int)(l.heads / l.kv_heads);
    return p;
}

static __device__ int64_t row_of(const struct zt_launch_linear &l, const struct place &p, int64_t t, int64_t size) {
    return ((p.b * l.steps + t) * l.kv_heads + p.h) * size;
}

static __device__ int64_t query_row(const struct zt_launch_linear &l, const struct place &p, int64_t t, int j,
                                    int64_t size) {
    return ((p.b * l.steps + t) * l.heads + p.h * p.group + j) * size;
}

/* First element of row i of the state in a tensor of states. */
static __device__ int64_t state_row(const struct zt_launch_linear &l, const struct place &p, int64_t i) {
    return ((p.b * l.kv_heads + p.h) * l.size + i) * l.v_size;
}

/* Sum over the warps, for all threads. */
static __device__ float over_rows(float mine, struct shared *s) {
    float sum = 0;
    s->part[threadIdx.y][threadIdx.x] = mine;
    __syncthreads();
    for (int w = 0; w < WARPS; w++)
        sum += s->part[w][threadIdx.x];
    __syncthreads();
    return sum;
}

/* k and e of step t in shared memory. */
template <class Tensors>
static __device__ void load_step(const struct zt_launch_linear &l, const Tensors &x, const struct place &p, int64_t t,
                                 struct shared *s) {
    const int64_t k = row_of(l, p, t, l.size), decay = l.by_key ? k : row_of(l, p, t, 1);
    __syncthreads();
    for (int64_t i = threadIdx.y * COLUMNS + threadIdx.x; i < l.size; i += THREADS) {
        s->k[i] = get(x.k, k + i);
        s->e[i] = l.gated ? expf(get(x.decay, decay + (l.by_key ? i : 0))) : 1;
    }
    __syncthreads();
}

template <class Tensors>
static __device__ float beta_of(const struct zt_launch_linear &l, const Tensors &x, const struct place &p, int64_t t) {
    return l.delta ? get(x.beta, l.one_beta ? p.b * l.steps + t : row_of(l, p, t, 1)) : 1;
}

/* A state stays in registers where the loops over it are unrolled. */
#ifdef __NVCC__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif
/* The rows of this thread: EACH_ROW(r, i) for row i, register r. */
#define EACH_ROW(r, i) UNROLL for (int r = 0; r < ROWS; r++) if (const int64_t i = threadIdx.y + r * WARPS; i < l.size)

/* A column of u and of v - A^T k. */
struct column {
    float u, rest;
};

/* Moves the state on by step t, whose k and e are in shared memory. */
template <int ROWS, class Tensors>
static __device__ struct column advance(const struct zt_launch_linear &l, const Tensors &x, const struct place &p,
                                        int64_t t, struct shared *s, float *state) {
    struct column c = { 0, p.used ? get(x.v, row_of(l, p, t, l.v_size) + p.column) : 0 };
    float read = 0;
    EACH_ROW(r, i) {
        state[r] *= s->e[i];
        read += state[r] * s->k[i];
    }
    if (l.delta)
        c.rest -= over_rows(read, s);
    c.u = beta_of(l, x, p, t) * c.rest;
    EACH_ROW(r, i) {
        state[r] += s->k[i] * c.u;
    }
    return c;
}

template <int ROWS>
static __device__ void load_state(const struct zt_launch_linear &l, const struct zt_launch_tensor &from,
                                  const struct place &p, float *state) {
    EACH_ROW(r, i) {
        state[r] = from.data && p.used ? get(from, state_row(l, p, i) + p.column) : 0;
    }
}

template <int ROWS>
static __device__ void store_state(const struct zt_launch_linear &l, const struct zt_launch_tensor &to,
                                   const struct place &p, const float *state) {
    EACH_ROW(r, i) {
        if (p.used)
            put(to, state_row(l, p, i) + p.column, state[r]);
    }
}

/* ---- forward: a block takes a strip of columns ---- */

template <int ROWS>
static __global__ void forward_kernel(struct zt_launch_linear l, struct zt_launch_linear_tensors x) {
    __shared__ struct shared s;
    const int64_t strips = (l.v_size + COLUMNS - 1) / COLUMNS;
    for (int64_t job = blockIdx.x; job < l.batch * l.kv_heads * strips; job += gridDim.x) {
        const struct place p = place_of(l, job / strips, job % strips);
        float state[ROWS];
        load_state<ROWS>(l, x.past, p, state);
        for (int64_t t = 0; t < l.steps; t++) {
            load_step(l, x, p, t, &s);
            advance<ROWS>(l, x, p, t, &s, state);
            for (int j = 0; j < p.group; j++) {
                const int64_t q = query_row(l, p, t, j, l.size);
                float read = 0;
                EACH_ROW(r, i) {
                    read += state[r] * get(x.q, q + i);
                }
                read = over_rows(read, &s);
                if (threadIdx.y == 0 && p.used)
                    put(x.y, query_row(l, p, t, j, l.v_size) + p.column, (float)l.scale * read);
            }
        }
        store_state<ROWS>(l, x.present, p, state);
    }
}

/* ---- backward: a block takes all strips of a head, one after the other ---- */

/* The workspace of a block (zt_linear_attention_kept of linear.h, then sums over the strips). */
struct kept {
    float *start, *before, *u, *rest; /* [chunks] and [chunk] states, [steps][COLUMNS] */
    float *dq, *dk, *dg, *dbeta;      /* [steps][group][size], [steps][size] twice, [steps] */
};

static int64_t __host__ __device__ state_floats(const struct zt_launch_linear &l) {
    return l.size * COLUMNS;
}
static int64_t __host__ __device__ sum_floats(const struct zt_launch_linear &l) {
    return l.steps * (l.heads / l.kv_heads * l.size + 2 * l.size + 1);
}
static int64_t __host__ __device__ block_floats(const struct zt_launch_linear &l) {
    return (l.steps / l.chunk + 1 + l.chunk) * state_floats(l) + 2 * l.steps * COLUMNS + sum_floats(l);
}

static __device__ struct kept kept_of(const struct zt_launch_linear &l, float *base) {
    struct kept k;
    k.start = base;
    k.before = k.start + (l.steps / l.chunk + 1) * state_floats(l);
    k.u = k.before + l.chunk * state_floats(l);
    k.rest = k.u + l.steps * COLUMNS;
    k.dq = k.rest + l.steps * COLUMNS;
    k.dk = k.dq + l.steps * (l.heads / l.kv_heads) * l.size;
    k.dg = k.dk + l.steps * l.size;
    k.dbeta = k.dg + l.steps * l.size;
    return k;
}

template <int ROWS> static __device__ void keep(const struct zt_launch_linear &l, const float *state, float *to) {
    EACH_ROW(r, i) {
        to[i * COLUMNS + threadIdx.x] = state[r];
    }
}
template <int ROWS> static __device__ void recall(const struct zt_launch_linear &l, const float *from, float *state) {
    EACH_ROW(r, i) {
        state[r] = from[i * COLUMNS + threadIdx.x];
    }
}

static __device__ float dy_of(const struct zt_launch_linear &l, const struct zt_launch_linear_grad &g,
                              const struct place &p, int64_t t, int j) {
    return g.dy.data && p.used ? get(g.dy, query_row(l, p, t, j, l.v_size) + p.column) : 0;
}

/* Loops whose every thread calls add_warp() run over all registers, with zeros in those without a row. */
#define EVERY_ROW(r, i)                                                                                                \
    UNROLL for (int r = 0; r < ROWS; r++) if (const int64_t i = threadIdx.y + r * WARPS; r * WARPS < l.size)

/* A strip of a head, and the memory of its block. */
struct work {
    struct place p;
    struct shared *s;
    struct kept k;
};

/* Keeps the states at the start of chunks, u and rest, and adds to dq. */
template <int ROWS>
static __device__ void again(const struct zt_launch_linear &l, const struct zt_launch_linear_grad &g,
                             const struct work &w) {
    const struct place &p = w.p;
    const struct kept &k = w.k;
    float state[ROWS];
    load_state<ROWS>(l, g.past, p, state);
    for (int64_t t = 0; t < l.steps; t++) {
        if (t % l.chunk == 0)
            keep<ROWS>(l, state, k.start + t / l.chunk * state_floats(l));
        load_step(l, g, p, t, w.s);
        const struct column c = advance<ROWS>(l, g, p, t, w.s, state);
        if (threadIdx.y == 0) {
            k.u[t * COLUMNS + threadIdx.x] = c.u;
            k.rest[t * COLUMNS + threadIdx.x] = c.rest;
        }
        for (int j = 0; j < p.group; j++) {
            const float dy = (float)l.scale * dy_of(l, g, p, t, j);
            EVERY_ROW(r, i) {
                const float sum = add_warp(i < l.size ? state[r] * dy : 0);
                if (threadIdx.x == 0 && i < l.size)
                    k.dq[(t * p.group + j) * l.size + i] += sum;
            }
        }
    }
    __syncthreads(); /* u and rest are read by all */
}

/* The states before the steps [first, end) of a chunk. */
template <int ROWS>
static __device__ void unroll(const struct zt_launch_linear &l, const struct zt_launch_linear_grad &g,
                              const struct work &w, struct span steps) {
    const struct place &p = w.p;
    const struct kept &k = w.k;
    struct shared *s = w.s;
    float state[ROWS];
    recall<ROWS>(l, k.start + steps.first / l.chunk * state_floats(l), state);
    for (int64_t t = steps.first; t < steps.end; t++) {
        const float u = k.u[t * COLUMNS + threadIdx.x];
        keep<ROWS>(l, state, k.before + (t - steps.first) * state_floats(l));
        load_step(l, g, p, t, s);
        EACH_ROW(r, i) {
            state[r] = state[r] * s->e[i] + s->k[i] * u;
        }
    }
}

/* Step t back; before: the state before it. d moves from after the step to before it. */
template <int ROWS>
static __device__ void back(const struct zt_launch_linear &l, const struct zt_launch_linear_grad &g,
                            const struct work &w, int64_t t, const float *before, float *d) {
    const struct place &p = w.p;
    const struct kept &k = w.k;
    struct shared *s = w.s;
    const struct column c = { k.u[t * COLUMNS + threadIdx.x], k.rest[t * COLUMNS + threadIdx.x] };
    float du = 0;
    load_step(l, g, p, t, s);
    for (int j = 0; j < p.group; j++) {
        const float dy = (float)l.scale * dy_of(l, g, p, t, j);
        const int64_t q = query_row(l, p, t, j, l.size);
        EACH_ROW(r, i) {
            d[r] += get(g.q, q + i) * dy;
        }
    }
    EACH_ROW(r, i) {
        du += d[r] * s->k[i];
    }
    du = over_rows(du, s);
    const float dbeta = add_warp(du * c.rest), dv = beta_of(l, g, p, t) * du;
    if (threadIdx.y == 0 && threadIdx.x == 0)
        k.dbeta[t] += dbeta;
    if (threadIdx.y == 0 && p.used)
        put(g.dv, row_of(l, p, t, l.v_size) + p.column, dv);
    EVERY_ROW(r, i) {
        const bool inside = i < l.size;
        const float a = inside ? s->e[i] * before[i * COLUMNS + threadIdx.x] : 0;
        float dk = inside ? d[r] * c.u : 0;
        if (l.delta && inside) {
            dk -= a * dv;
            d[r] -= s->k[i] * dv;
        }
        dk = add_warp(dk);
        const float dg = add_warp(inside ? d[r] * a : 0);
        if (threadIdx.x == 0 && inside) {
            k.dk[t * l.size + i] += dk;
            k.dg[t * l.size + i] += dg;
        }
        if (inside)
            d[r] *= s->e[i];
    }
}

/* Writes the sums over the strips. */
static __device__ void store_sums(const struct zt_launch_linear &l, const struct zt_launch_linear_grad &g,
                                  const struct place &p, const struct kept &k) {
    const int64_t wide = (p.group + 1) * l.size, mine = threadIdx.y * COLUMNS + threadIdx.x;
    __syncthreads();
    for (int64_t n = mine; n < l.steps * wide; n += THREADS) {
        const int64_t t = n / wide, j = n % wide / l.size, i = n % l.size;
        if (j < p.group) {
            put(g.dq, query_row(l, p, t, (int)j, l.size) + i, k.dq[(t * p.group + j) * l.size + i]);
            continue;
        }
        put(g.dk, row_of(l, p, t, l.size) + i, k.dk[t * l.size + i]);
        if (l.by_key)
            put(g.ddecay, row_of(l, p, t, l.size) + i, k.dg[t * l.size + i]);
    }
    for (int64_t t = mine; t < l.steps; t += THREADS) {
        float all = 0;
        for (int64_t i = 0; i < l.size; i++)
            all += k.dg[t * l.size + i];
        if (l.gated && !l.by_key)
            put(g.ddecay, row_of(l, p, t, 1), all);
        if (l.delta)
            put(g.dbeta, row_of(l, p, t, 1), k.dbeta[t]);
    }
}

template <int ROWS>
static __device__ void backward_strip(const struct zt_launch_linear &l, const struct zt_launch_linear_grad &g,
                                      const struct work &w) {
    float d[ROWS];
    again<ROWS>(l, g, w);
    load_state<ROWS>(l, g.dpresent, w.p, d);
    for (int64_t end = l.steps; end > 0;) {
        const struct span steps = { (end - 1) / l.chunk * l.chunk, end };
        if (l.gated || l.delta)
            unroll<ROWS>(l, g, w, steps);
        for (int64_t t = end - 1; t >= steps.first; t--)
            back<ROWS>(l, g, w, t, w.k.before + (t - steps.first) * state_floats(l), d);
        end = steps.first;
    }
    store_state<ROWS>(l, g.dpast, w.p, d);
}

template <int ROWS> static __global__ void backward_kernel(struct zt_launch_linear l, struct zt_launch_linear_grad g) {
    __shared__ struct shared s;
    for (int64_t head = blockIdx.x; head < l.batch * l.kv_heads; head += gridDim.x) {
        const struct kept k = kept_of(l, g.workspace + blockIdx.x * block_floats(l));
        for (int64_t i = threadIdx.y * COLUMNS + threadIdx.x; i < sum_floats(l); i += THREADS)
            k.dq[i] = 0;
        __syncthreads();
        for (int64_t strip = 0; strip * COLUMNS < l.v_size; strip++)
            backward_strip<ROWS>(l, g, { place_of(l, head, strip), &s, k });
        store_sums(l, g, place_of(l, head, 0), k);
        __syncthreads();
    }
}

/* ---- launchers ---- */

enum { MOST_BLOCKS = 1024 }; /* of the backward kernel, each of which has its part of the workspace */

static unsigned backward_blocks(const struct zt_launch_linear *l) {
    const int64_t heads = l->batch * l->kv_heads, most_blocks = MOST_BLOCKS;
    return (unsigned)(heads < most_blocks ? heads : most_blocks);
}

int64_t zt_launch_linear_attention_floats(const struct zt_launch_linear *l) {
    return backward_blocks(l) * block_floats(*l);
}

/* Calls the kernel with enough registers for the rows of a state. */
#define LAUNCH(kernel, blocks, argument)                                                                               \
    do {                                                                                                               \
        const dim3 threads(COLUMNS, WARPS);                                                                            \
        if (l->size <= 4 * WARPS)                                                                                      \
            kernel<4><<<blocks, threads, 0, stream>>>(*l, *argument);                                                  \
        else if (l->size <= 16 * WARPS)                                                                                \
            kernel<16><<<blocks, threads, 0, stream>>>(*l, *argument);                                                 \
        else                                                                                                           \
            kernel<64><<<blocks, threads, 0, stream>>>(*l, *argument);                                                 \
    } while (0)

int zt_launch_linear_attention(cudaStream_t stream, const struct zt_launch_linear *l,
                               const struct zt_launch_linear_tensors *t) {
    const int64_t jobs = l->batch * l->kv_heads * ((l->v_size + COLUMNS - 1) / COLUMNS);
    if (jobs > 0)
        LAUNCH(forward_kernel, job_blocks(jobs), t);
    return cudaGetLastError();
}

int zt_launch_linear_attention_grad(cudaStream_t stream, const struct zt_launch_linear *l,
                                    const struct zt_launch_linear_grad *g) {
    if (backward_blocks(l) > 0)
        LAUNCH(backward_kernel, backward_blocks(l), g);
    return cudaGetLastError();
}
