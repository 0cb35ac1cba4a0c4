/* Launchers of recurrent.cu: the elementwise work of RNN, LSTM and GRU beside the products, in fp32 alone. Names and
 * layouts as in ops/recurrent/recurrent_cpu.h. Conventions: ops/cuda/launch.h. */
#ifndef ZT_OPS_RECURRENT_LAUNCH_RECURRENT_H
#define ZT_OPS_RECURRENT_LAUNCH_RECURRENT_H

#include "ops/cuda/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ZT_LAUNCH_SIGMOID, ZT_LAUNCH_TANH, ZT_LAUNCH_RELU };
/* The work of a time step on every unit of every row. A GRU whose reset comes before the product has two parts: up to
 * r h, and from its product on; its gradient up to da_g, and from its product on. */
enum zt_launch_cell { ZT_LAUNCH_RNN, ZT_LAUNCH_LSTM, ZT_LAUNCH_GRU_LINEAR, ZT_LAUNCH_GRU_RESET, ZT_LAUNCH_GRU_UPDATE };

/* One direction of a node. A place is a pair (time step, row). */
struct zt_launch_direction {
    int64_t rows, steps, hidden;
    int gates;
    int64_t place_step, place_row; /* strides of places of X, in places */
    int64_t y_step, y_row, h_row;  /* strides of Y and of states outside, in elements */
    bool back_in_time;
    bool on; /* input_forget, linear_before_reset */
    int function[3];
    float clip;             /* INFINITY: none */
    const int32_t *lengths; /* 0..steps of each row; NULL: all rows have all steps */
    int64_t time;           /* of the step */
    float *gate;            /* [places, gates * hidden] */
    float *saved;           /* [places, hidden] */
    float *h, *c;           /* states [rows, hidden]; in the gradient their gradients */
    float *y;               /* [rows, hidden]; NULL: not wanted */
    const float *product;   /* [rows, hidden] */
    const float *bias, *peephole;
    const float *dy, *start_c; /* of the gradient; NULL: zeros */
    float *da;                 /* [places, gates * hidden] */
    float *u, *before_h;       /* [places, hidden]; u: with linear_before_reset */
};
int zt_launch_direction_step(struct CUstream_st *stream, const struct zt_launch_direction *d, enum zt_launch_cell cell);
int zt_launch_direction_step_back(struct CUstream_st *stream, const struct zt_launch_direction *d,
                                  enum zt_launch_cell cell);
/* Copies a state from outside (NULL: zeros) to [rows, hidden]. last: rows without steps become 0. */
int zt_launch_direction_load(struct CUstream_st *stream, const struct zt_launch_direction *d, const float *from,
                             bool last, float *to);
/* The copy in the other direction. */
int zt_launch_direction_store(struct CUstream_st *stream, const struct zt_launch_direction *d, const float *from,
                              bool last, float *to);
/* to[i] = both[i], plus both[count + i] for i < summed; zeros where `both` is NULL. */
int zt_launch_direction_bias(struct CUstream_st *stream, const float *both, int64_t count, int64_t summed, float *to);
/* before_h from Y and the first state (NULL: zeros). */
int zt_launch_direction_before(struct CUstream_st *stream, const struct zt_launch_direction *d, const float *y,
                               const float *start);
/* x [places, input], with zeros for rows whose sequence has ended. */
int zt_launch_direction_masked(struct CUstream_st *stream, const struct zt_launch_direction *d, int64_t input,
                               const float *x, float *to);
/* to[3 * hidden] from da and saved. */
int zt_launch_direction_peephole_grad(struct CUstream_st *stream, const struct zt_launch_direction *d, float *to);

#ifdef __cplusplus
}
#endif

#endif
