/* The work between the matrix products of RNN, LSTM and GRU (formulas: ops/recurrent/rnn.c, lstm.c, gru.c): a thread
 * takes a hidden unit of a row. Vectors of all steps have the order of X. A row whose sequence has ended keeps its
 * state and gets zeros. fp32. */
#include "ops/recurrent/launch_recurrent.h"
#include "ops/cuda/types.cuh"

#include <math_constants.h>

/* ---- functions at gates ---- */

static __device__ float function(int kind, float x) {
    switch (kind) {
    case ZT_LAUNCH_SIGMOID:
        return 1 / (1 + expf(-x));
    case ZT_LAUNCH_TANH:
        return tanhf(x);
    default:
        return x <= 0 ? 0 : x;
    }
}

/* f' from f's value. */
static __device__ float slope(int kind, float y) {
    switch (kind) {
    case ZT_LAUNCH_SIGMOID:
        return y * (1 - y);
    case ZT_LAUNCH_TANH:
        return 1 - y * y;
    default:
        return y <= 0 ? 0 : 1;
    }
}

/* A gate: its argument is clipped at -clip and clip; a clipped argument has no gradient. */
static __device__ float gate(const struct zt_launch_direction &t, int which, float x) {
    return function(t.function[which], fabsf(x) > t.clip ? copysignf(t.clip, x) : x);
}
static __device__ float gate_slope(const struct zt_launch_direction &t, int which, float y) {
    const int kind = t.function[which];
    bool cut = t.clip != CUDART_INF_F && (y <= function(kind, -t.clip) || y >= function(kind, t.clip));
    return cut ? 0 : slope(kind, y);
}

/* ---- one unit of a row at a step ---- */

struct unit {
    int64_t row, i, place, state; /* place: of (time, row); state: of the unit in [rows, hidden] */
    bool runs;
};

static __device__ int64_t place_of(const struct zt_launch_direction &t, int64_t time, int64_t row) {
    return time * t.place_step + row * t.place_row;
}
static __device__ bool runs(const struct zt_launch_direction &t, int64_t time, int64_t row) {
    return !t.lengths || time < t.lengths[row];
}

static __device__ struct unit unit_of(const struct zt_launch_direction &t, int64_t at) {
    struct unit u;
    u.row = at / t.hidden;
    u.i = at % t.hidden;
    u.place = place_of(t, t.time, u.row);
    u.state = at;
    u.runs = runs(t, t.time, u.row);
    return u;
}

/* The time of the step before `time` in the direction; -1: `time` is the row's first step. */
static __device__ int64_t time_before(const struct zt_launch_direction &t, int64_t time, int64_t row) {
    int64_t last = (t.lengths && t.lengths[row] < t.steps ? t.lengths[row] : t.steps) - 1;
    if (!t.back_in_time)
        return time - 1;
    return time < last ? time + 1 : -1;
}

static __device__ float *gates_of(const struct zt_launch_direction &t, float *of, const struct unit &u) {
    return of + u.place * t.gates * t.hidden + u.i;
}

/* Zeros for a row whose sequence has ended: its gates, saved values and Y. */
static __device__ void rest(const struct zt_launch_direction &t, const struct unit &u) {
    for (int g = 0; g < t.gates; g++)
        gates_of(t, t.gate, u)[g * t.hidden] = 0;
    if (t.saved)
        t.saved[u.place * t.hidden + u.i] = 0;
    if (t.y)
        t.y[t.time * t.y_step + u.row * t.y_row + u.i] = 0;
}

static __device__ void set_state(const struct zt_launch_direction &t, const struct unit &u, float h) {
    t.h[u.state] = h;
    if (t.y)
        t.y[t.time * t.y_step + u.row * t.y_row + u.i] = h;
}

/* ---- forward ---- */

static __device__ void rnn(const struct zt_launch_direction &t, const struct unit &u) {
    float *a = gates_of(t, t.gate, u);
    a[0] = gate(t, 0, a[0]);
    set_state(t, u, a[0]);
}

enum { I, O, F, G }; /* LSTM */

static __device__ void lstm(const struct zt_launch_direction &t, const struct unit &u) {
    const int64_t h = t.hidden;
    const float *p = t.peephole ? t.peephole + u.i : NULL;
    float *a = gates_of(t, t.gate, u), c = t.c[u.state];
    float in = gate(t, 0, a[I * h] + (p ? p[0] * c : 0));
    float forget = t.on ? 1 - in : gate(t, 0, a[F * h] + (p ? p[2 * h] * c : 0));
    float g = gate(t, 1, a[G * h]);
    c = forget * c + in * g;
    float out = gate(t, 0, a[O * h] + (p ? p[h] * c : 0));
    a[I * h] = in;
    a[O * h] = out;
    a[F * h] = forget;
    a[G * h] = g;
    t.c[u.state] = c;
    if (t.saved)
        t.saved[u.place * h + u.i] = c;
    set_state(t, u, out * function(t.function[2], c));
}

enum { Z, R, N }; /* GRU, the last one being g */

static __device__ void gru_close(const struct zt_launch_direction &t, const struct unit &u) {
    float *a = gates_of(t, t.gate, u), z = a[Z * t.hidden];
    a[N * t.hidden] = gate(t, 1, a[N * t.hidden]);
    set_state(t, u, (1 - z) * a[N * t.hidden] + z * t.h[u.state]);
}
static __device__ void gru_open(const struct zt_launch_direction &t, const struct unit &u) {
    float *a = gates_of(t, t.gate, u);
    a[Z * t.hidden] = gate(t, 0, a[Z * t.hidden]);
    a[R * t.hidden] = gate(t, 0, a[R * t.hidden]);
}
static __device__ void gru_linear(const struct zt_launch_direction &t, const struct unit &u) {
    float *a = gates_of(t, t.gate, u), saved = t.product[u.state] + (t.bias ? t.bias[u.i] : 0);
    gru_open(t, u);
    t.saved[u.place * t.hidden + u.i] = saved;
    a[N * t.hidden] += a[R * t.hidden] * saved;
    gru_close(t, u);
}
static __device__ void gru_reset(const struct zt_launch_direction &t, const struct unit &u) {
    gru_open(t, u);
    t.saved[u.place * t.hidden + u.i] = gates_of(t, t.gate, u)[R * t.hidden] * t.h[u.state];
}

static __global__ void forward_kernel(struct zt_launch_direction t, enum zt_launch_cell cell) {
    EACH(at, t.rows * t.hidden) {
        struct unit u = unit_of(t, at);
        if (!u.runs)
            rest(t, u);
        else if (cell == ZT_LAUNCH_RNN)
            rnn(t, u);
        else if (cell == ZT_LAUNCH_LSTM)
            lstm(t, u);
        else if (cell == ZT_LAUNCH_GRU_LINEAR)
            gru_linear(t, u);
        else if (cell == ZT_LAUNCH_GRU_RESET)
            gru_reset(t, u);
        else
            gru_close(t, u);
    }
}

/* ---- backward: da from the gates' values. h and c hold dh and dc: from after the step to before it, without the
 * matrix product, which is added later ---- */

/* dh, with the gradient of Y added. */
static __device__ float dh_of(const struct zt_launch_direction &t, const struct unit &u) {
    return t.h[u.state] + (t.dy ? t.dy[t.time * t.y_step + u.row * t.y_row + u.i] : 0);
}

static __device__ float c_before(const struct zt_launch_direction &t, int64_t time, int64_t row, int64_t i) {
    int64_t before = time_before(t, time, row);
    if (before >= 0)
        return t.saved[place_of(t, before, row) * t.hidden + i];
    return t.start_c ? t.start_c[row * t.h_row + i] : 0;
}

static __device__ void rnn_back(const struct zt_launch_direction &t, const struct unit &u) {
    *gates_of(t, t.da, u) = dh_of(t, u) * gate_slope(t, 0, *gates_of(t, t.gate, u));
    t.h[u.state] = 0;
}

static __device__ void lstm_back(const struct zt_launch_direction &t, const struct unit &u) {
    const int64_t h = t.hidden;
    const float *a = gates_of(t, t.gate, u), *p = t.peephole ? t.peephole + u.i : NULL;
    float *d = gates_of(t, t.da, u), dh = dh_of(t, u), before = c_before(t, t.time, u.row, u.i);
    float in = a[I * h], out = a[O * h], forget = a[F * h], g = a[G * h];
    float k = function(t.function[2], t.saved[u.place * h + u.i]);
    float d_out = dh * k * gate_slope(t, 0, out);
    float dc = t.c[u.state] + dh * out * slope(t.function[2], k) + (p ? p[h] * d_out : 0);
    float d_in = dc * (t.on ? g - before : g) * gate_slope(t, 0, in);
    float d_forget = t.on ? 0 : dc * before * gate_slope(t, 0, forget);
    d[I * h] = d_in;
    d[O * h] = d_out;
    d[F * h] = d_forget;
    d[G * h] = dc * in * gate_slope(t, 1, g);
    t.c[u.state] = dc * forget + (p ? p[0] * d_in + p[2 * h] * d_forget : 0);
    t.h[u.state] = 0;
}

static __device__ void gru_back(const struct zt_launch_direction &t, const struct unit &u) {
    const int64_t h = t.hidden, at = u.place * h + u.i;
    const float *a = gates_of(t, t.gate, u);
    float *d = gates_of(t, t.da, u), dh = dh_of(t, u), z = a[Z * h], g = a[N * h], reset = a[R * h];
    float dg = dh * (1 - z) * gate_slope(t, 1, g);
    d[Z * h] = dh * (t.before_h[at] - g) * gate_slope(t, 0, z);
    d[N * h] = dg;
    t.h[u.state] = dh * z;
    if (!t.on)
        return;
    d[R * h] = dg * t.saved[at] * gate_slope(t, 0, reset);
    t.u[at] = dg * reset;
}

static __device__ void gru_reset_back(const struct zt_launch_direction &t, const struct unit &u) {
    float reset = gates_of(t, t.gate, u)[R * t.hidden], back = t.product[u.state];
    gates_of(t, t.da, u)[R * t.hidden] = back * t.before_h[u.place * t.hidden + u.i] * gate_slope(t, 0, reset);
    t.h[u.state] += back * reset;
}

static __global__ void backward_kernel(struct zt_launch_direction t, enum zt_launch_cell cell) {
    EACH(at, t.rows * t.hidden) {
        struct unit u = unit_of(t, at);
        for (int g = 0; !u.runs && g < t.gates; g++)
            gates_of(t, t.da, u)[g * t.hidden] = 0;
        if (!u.runs && t.u)
            t.u[u.place * t.hidden + u.i] = 0;
        if (!u.runs)
            continue;
        if (cell == ZT_LAUNCH_RNN)
            rnn_back(t, u);
        else if (cell == ZT_LAUNCH_LSTM)
            lstm_back(t, u);
        else if (cell == ZT_LAUNCH_GRU_UPDATE)
            gru_reset_back(t, u);
        else
            gru_back(t, u);
    }
}

int zt_launch_direction_step(cudaStream_t stream, const struct zt_launch_direction *t, enum zt_launch_cell cell) {
    forward_kernel<<<blocks_for(t->rows * t->hidden), BLOCK, 0, stream>>>(*t, cell);
    return cudaGetLastError();
}
int zt_launch_direction_step_back(cudaStream_t stream, const struct zt_launch_direction *t, enum zt_launch_cell cell) {
    backward_kernel<<<blocks_for(t->rows * t->hidden), BLOCK, 0, stream>>>(*t, cell);
    return cudaGetLastError();
}

/* ---- around the steps ---- */

/* The last state of a row without steps is 0 and has no gradient. */
static __global__ void load_state_kernel(struct zt_launch_direction t, const float *from, bool last, float *to) {
    EACH(at, t.rows * t.hidden) {
        int64_t row = at / t.hidden;
        to[at] = !from || (last && !runs(t, 0, row)) ? 0 : from[row * t.h_row + at % t.hidden];
    }
}
static __global__ void store_state_kernel(struct zt_launch_direction t, const float *from, bool last, float *to) {
    EACH(at, t.rows * t.hidden) {
        int64_t row = at / t.hidden;
        to[row * t.h_row + at % t.hidden] = last && !runs(t, 0, row) ? 0 : from[at];
    }
}
/* to = first + second, without the last `apart` numbers of second; zeros where both are absent. */
static __global__ void sum_bias_kernel(const float *both, int64_t count, int64_t summed, float *to) {
    EACH(i, count) {
        to[i] = !both ? 0 : i < summed ? both[i] + both[count + i] : both[i];
    }
}

/* h before every step; and X, with zeros for rows whose sequence has ended. */
static __global__ void before_kernel(struct zt_launch_direction t, const float *y, const float *start) {
    EACH(at, t.rows * t.steps * t.hidden) {
        int64_t i = at % t.hidden, row = at / t.hidden % t.rows, time = at / t.hidden / t.rows;
        int64_t before = time_before(t, time, row);
        float h = before >= 0 ? y[before * t.y_step + row * t.y_row + i] : start ? start[row * t.h_row + i] : 0;
        t.before_h[place_of(t, time, row) * t.hidden + i] = runs(t, time, row) ? h : 0;
    }
}
static __global__ void masked_kernel(struct zt_launch_direction t, int64_t input, const float *x, float *to) {
    EACH(at, t.rows * t.steps * input) {
        int64_t row = at / input % t.rows, time = at / input / t.rows,
                place = place_of(t, time, row) * input + at % input;
        to[place] = runs(t, time, row) ? x[place] : 0;
    }
}

/* P_i and P_f multiply c before the step, P_o c after it. A thread a number. */
static __global__ void peephole_grad_kernel(struct zt_launch_direction t, float *to) {
    EACH(at, 3 * t.hidden) {
        int64_t i = at % t.hidden, which = at / t.hidden;
        float sum = 0;
        for (int64_t time = 0; time < t.steps; time++)
            for (int64_t row = 0; row < t.rows; row++) {
                int64_t place = place_of(t, time, row);
                if (!runs(t, time, row))
                    continue;
                float c = which == 1 ? t.saved[place * t.hidden + i] : c_before(t, time, row, i);
                sum += t.da[place * t.gates * t.hidden + at] * c;
            }
        to[at] = sum;
    }
}

int zt_launch_direction_load(cudaStream_t stream, const struct zt_launch_direction *t, const float *from, bool last,
                             float *to) {
    load_state_kernel<<<blocks_for(t->rows * t->hidden), BLOCK, 0, stream>>>(*t, from, last, to);
    return cudaGetLastError();
}
int zt_launch_direction_store(cudaStream_t stream, const struct zt_launch_direction *t, const float *from, bool last,
                              float *to) {
    store_state_kernel<<<blocks_for(t->rows * t->hidden), BLOCK, 0, stream>>>(*t, from, last, to);
    return cudaGetLastError();
}
int zt_launch_direction_bias(cudaStream_t stream, const float *both, int64_t count, int64_t summed, float *to) {
    sum_bias_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(both, count, summed, to);
    return cudaGetLastError();
}
int zt_launch_direction_before(cudaStream_t stream, const struct zt_launch_direction *t, const float *y,
                               const float *start) {
    before_kernel<<<blocks_for(t->rows * t->steps * t->hidden), BLOCK, 0, stream>>>(*t, y, start);
    return cudaGetLastError();
}
int zt_launch_direction_masked(cudaStream_t stream, const struct zt_launch_direction *t, int64_t input, const float *x,
                               float *to) {
    masked_kernel<<<blocks_for(t->rows * t->steps * input), BLOCK, 0, stream>>>(*t, input, x, to);
    return cudaGetLastError();
}
int zt_launch_direction_peephole_grad(cudaStream_t stream, const struct zt_launch_direction *t, float *to) {
    peephole_grad_kernel<<<blocks_for(3 * t->hidden), BLOCK, 0, stream>>>(*t, to);
    return cudaGetLastError();
}
