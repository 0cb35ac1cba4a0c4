#include "optim/muon.h"

#include "optim/step.cuh"

/* ---- elements ---- */

static __global__ void muon_adam_kernel(struct zt_step_call s) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    if (p->matrix)
        return;
    const struct zt_muon c = coefficients_of<struct zt_muon>(s, p->group);
    each_of<3>(part, { p->param, p->state[0], p->state[1], p->grad },
               [&](float *x) { zt_muon_adam(&c, &x[0], x[3], &x[1], &x[2]); });
}

static __global__ void muon_direct_kernel(struct zt_step_call s, float *direction) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_muon c = coefficients_of<struct zt_muon>(s, p->group);
    each_of<2>(part, { p->state[0], direction + p->at, p->grad },
               [&](float *x) { x[1] = zt_muon_direction(&c, x[2], &x[0]); });
}

static __global__ void muon_apply_kernel(struct zt_step_call s, const float *direction) {
    const struct part part = find_part(s);
    const struct zt_step_piece *p = part.piece;
    const struct zt_muon c = coefficients_of<struct zt_muon>(s, p->group);
    each_of<1>(part, { p->param, direction + p->at }, [&](float *x) { zt_muon_apply(&c, &x[0], x[1]); });
}

/* ---- matrices: a step that is not finite computes nothing ---- */

/* A block of 16 x 16 threads computes a tile of y, each thread SPAN x SPAN elements of it, 16 apart. */
enum { SIDE = 16, SPAN = 4, TILE = SIDE * SPAN, STRIP = 16 };

/* A strip of TILE rows (columns) by STRIP products: to[k][i] = from[i step + k next], 0 outside. Neighbouring threads
 * read neighbouring elements. */
static __device__ void load_strip(float (*to)[TILE + 1], const float *from, int64_t step, int64_t next, int64_t count,
                                  int64_t depth) {
    for (int e = (int)threadIdx.x; e < TILE * STRIP; e += BLOCK) {
        const int i = next == 1 ? e / STRIP : e % TILE, k = next == 1 ? e % STRIP : e / TILE;
        to[k][i] = i < count && k < depth ? from[i * step + k * next] : 0;
    }
}

/* y = alpha sum, at first plus beta c, later plus y */
static __device__ void add_sums(const struct zt_matrix_product &p, float (&y)[SPAN][SPAN], float (&sum)[SPAN][SPAN],
                                int64_t row, int64_t column, bool first) {
    for (int i = 0; i < SPAN; i++)
        for (int j = 0; j < SPAN; j++) {
            const int64_t r = row + i * SIDE, c = column + j * SIDE;
            float x = p.alpha * sum[i][j];
            if (!first)
                x += y[i][j];
            else if (p.c && r < p.m && c < p.n)
                x += p.beta * p.c[r * p.n + c];
            y[i][j] = x;
            sum[i][j] = 0;
        }
}

static __global__ void product_kernel(const struct zt_step_state *state, struct zt_matrix_product p) {
    __shared__ float a[STRIP][TILE + 1], b[STRIP][TILE + 1];
    if (!state->finite)
        return;
    const int64_t row = (int64_t)blockIdx.y * TILE, column = (int64_t)blockIdx.x * TILE;
    const int down = (int)threadIdx.x / SIDE, across = (int)threadIdx.x % SIDE;
    float y[SPAN][SPAN] = { { 0 } }, sum[SPAN][SPAN] = { { 0 } };
    for (int64_t k = 0; k < p.k; k += STRIP) {
        load_strip(a, p.a + row * p.a_row + k * p.a_col, p.a_row, p.a_col, p.m - row, p.k - k);
        load_strip(b, p.b + k * p.b_row + column * p.b_col, p.b_col, p.b_row, p.n - column, p.k - k);
        __syncthreads();
        const int depth = p.k - k < STRIP ? (int)(p.k - k) : (int)STRIP;
        for (int d = 0; d < depth; d++)
            for (int i = 0; i < SPAN; i++)
                for (int j = 0; j < SPAN; j++)
                    sum[i][j] = fmaf(a[d][down + i * SIDE], b[d][across + j * SIDE], sum[i][j]);
        __syncthreads();
        if ((k + STRIP) % ZT_MATRIX_DEPTH == 0 || k + STRIP >= p.k)
            add_sums(p, y, sum, row + down, column + across, k < ZT_MATRIX_DEPTH);
    }
    for (int i = 0; i < SPAN; i++)
        for (int j = 0; j < SPAN; j++)
            if (row + down + i * SIDE < p.m && column + across + j * SIDE < p.n)
                p.y[(row + down + i * SIDE) * p.n + column + across + j * SIDE] = y[i][j];
}

static __global__ void diagonal_kernel(const struct zt_step_state *state, float *x, int64_t n, float value) {
    EACH(i, state->finite ? n : 0)
    x[i * n + i] += value;
}

/* The sum of the squares of each ZT_STEP_PART numbers. */
static __global__ void squares_kernel(const float *x, int64_t count, double *parts) {
    __shared__ double room[BLOCK];
    const int64_t first = (int64_t)blockIdx.x * ZT_STEP_PART, left = count - first;
    double sum = 0;
    for (int64_t i = (int64_t)threadIdx.x; i < ZT_STEP_PART && i < left; i += BLOCK)
        sum += (double)x[first + i] * (double)x[first + i];
    sum = add_block<BLOCK>(sum, room);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

/* Every block adds all parts, in the same order. */
static __global__ void normalise_kernel(const struct zt_step_state *state, float *x, int64_t count, double eps,
                                        const double *parts) {
    __shared__ double room[BLOCK];
    const int64_t first = (int64_t)blockIdx.x * ZT_STEP_PART, left = count - first;
    if (!state->finite)
        return;
    double sum = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += BLOCK)
        sum += parts[i];
    const float factor = (float)(1 / (sqrt(add_block<BLOCK>(sum, room)) + eps));
    for (int64_t i = (int64_t)threadIdx.x; i < ZT_STEP_PART && i < left; i += BLOCK)
        x[first + i] *= factor;
}

/* ---- launches ---- */

struct queue {
    cudaStream_t stream;
    const struct zt_step_state *state;
};

static const struct queue *queue_of(const struct zt_matrix_ops *ops) {
    return (const struct queue *)ops->with;
}

static void multiply(const struct zt_matrix_ops *ops, const struct zt_matrix_product *p) {
    const dim3 tiles((unsigned)((p->n + TILE - 1) / TILE), (unsigned)((p->m + TILE - 1) / TILE));
    product_kernel<<<tiles, BLOCK, 0, queue_of(ops)->stream>>>(queue_of(ops)->state, *p);
}

static void add_diagonal(const struct zt_matrix_ops *ops, float *x, int64_t n, float value) {
    diagonal_kernel<<<blocks_for(n), BLOCK, 0, queue_of(ops)->stream>>>(queue_of(ops)->state, x, n, value);
}

/* scratch: a double for each block, 16 bytes at least */
static void normalise(const struct zt_matrix_ops *ops, float *x, int64_t count, double eps, float *scratch) {
    const unsigned blocks = (unsigned)((count + ZT_STEP_PART - 1) / ZT_STEP_PART);
    double *parts = (double *)scratch;
    squares_kernel<<<blocks, BLOCK, 0, queue_of(ops)->stream>>>(x, count, parts);
    normalise_kernel<<<blocks, BLOCK, 0, queue_of(ops)->stream>>>(queue_of(ops)->state, x, count, eps, parts);
}

static struct zt_step_call call_of(const struct zt_step_call *s, const struct zt_step_matrix *m) {
    struct zt_step_call own = *s;
    own.pieces += m->first_piece;
    own.piece_count = m->piece_count;
    return own;
}

static int launch_adam(cudaStream_t stream, const struct zt_step_call *s) {
    muon_adam_kernel<<<blocks_of(s), BLOCK, 0, stream>>>(*s);
    return cudaGetLastError();
}

static int launch_direct(cudaStream_t stream, const struct zt_step_call *s, const struct zt_step_matrix *m) {
    const struct zt_step_call own = call_of(s, m);
    muon_direct_kernel<<<blocks_of(&own), BLOCK, 0, stream>>>(own, m->direction);
    return cudaGetLastError();
}

static int launch_matrix(cudaStream_t stream, const struct zt_step_call *s, const struct zt_step_matrix *m) {
    const struct zt_step_call own = call_of(s, m);
    struct queue queue = { stream, s->state };
    const struct zt_matrix_ops ops = { multiply, add_diagonal, normalise, &queue };
    const float *direction = zt_muon_orthogonalise(m->method, &m->shape, m->direction, m->room, &ops);
    muon_apply_kernel<<<blocks_of(&own), BLOCK, 0, stream>>>(own, direction);
    return cudaGetLastError();
}

const struct zt_optimizer_cuda zt_optimizer_cuda_muon = {
    .update = launch_adam, .norms = NULL, .direct = launch_direct, .matrix = launch_matrix
};
