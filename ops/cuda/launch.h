/* Launchers of our own CUDA kernels: what the *.cu files give the *_cuda.c files. Plain arguments, no graph; C and C++
 * read this.
 *
 * Every launcher queues on `stream` and returns the cudaError_t of doing so. Pointers are into device memory; `dtype`
 * is ZT_FLOAT or ZT_BFLOAT16 where nothing else is said. Sums are taken in an order that depends on the sizes alone:
 * the same bits every time. */
#ifndef ZT_OPS_CUDA_LAUNCH_H
#define ZT_OPS_CUDA_LAUNCH_H

#include "graph/ir/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* ---- broadcast.cu ---- */

/* Where elements of two inputs lie for each element of the output, row-major over `dim`: a step of 0 repeats. */
struct zt_launch_walk {
    int rank; /* 1 at least */
    int64_t dim[ZT_MAX_RANK], a[ZT_MAX_RANK], b[ZT_MAX_RANK];
};
/* y = a + b */
int zt_launch_add(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_walk *walk, const void *a,
                  const void *b, void *y);
/* y = max(y, 0) of `count` elements, NaN where it is */
int zt_launch_relu(struct CUstream_st *stream, enum zt_dtype dtype, int64_t count, void *y);
/* A bit for each element of [rows, columns]: bit c % 8 of byte c / 8 of a row of row_bytes. */
struct zt_launch_bits {
    int64_t rows, columns, row_bytes;
};
/* The same, and the bits of what is not <= 0; zeros behind the last column. */
int zt_launch_relu_keep(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_bits *b, void *y,
                        void *bits);
/* y = 0 where the bit is not set */
int zt_launch_relu_masked(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_bits *b, void *y,
                          const void *bits);
/* y = factor * b; b is spread by walk->b. */
int zt_launch_broadcast(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_walk *walk,
                        float factor, const void *b, void *y);

/* ---- reduce.cu (launch_reduce.h has the rest) ---- */

/* y[outer, inner] = (accumulate ? y : 0) + sum over k of x[outer, k, inner], in fp32. */
struct zt_launch_sum {
    int64_t outer, length, inner;
};
int zt_launch_sum(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_sum *shape, const void *x,
                  void *y, bool accumulate);

/* ---- loss.cu ---- */

/* Cross entropy as ops/loss/class_loss.c defines it, over x[outer, room, inner]; line l is (l / inner, l % inner). A
 * target that is no class makes loss and gradient NaN: a kernel cannot report its row. */
struct zt_launch_loss {
    enum zt_dtype dtype, loss_dtype;        /* of x, dx and log p; of the loss or its gradient */
    enum zt_dtype target_dtype;             /* ZT_INT32, ZT_INT64 */
    enum zt_dtype row_dtype, class_dtype;   /* of the weights */
    int64_t outer, classes, inner, samples; /* lines of row weight n begin at n * lines / samples */
    int64_t room;                           /* of x from line to line, classes at least; dx is 0 behind them */
    int64_t ignore;
    float smoothing;
    bool mean, none;                                    /* reduction; neither: sum */
    bool logs;                                          /* x is log p */
    bool own;                                           /* a row of ours: the input behind the target weighs rows,
                                                           and a mean of nothing is 0, not 0 / 0 */
    const void *x, *target, *row_weight, *class_weight; /* weights NULL: 1 */
};
/* Bytes of workspace of both launchers. */
static inline size_t zt_launch_loss_bytes(const struct zt_launch_loss *l) {
    return (size_t)(2 * l->outer * l->inner + 2) * sizeof(double);
}
/* lse (fp32, a value a line) and log_p (as x) may be NULL. */
int zt_launch_cross_entropy(struct CUstream_st *stream, const struct zt_launch_loss *l, void *loss, float *lse,
                            void *log_p, void *workspace);
/* lse is not read where x is log p. dx may be x. */
int zt_launch_cross_entropy_grad(struct CUstream_st *stream, const struct zt_launch_loss *l, const void *dloss,
                                 const float *lse, void *dx, void *workspace);
/* Both, of rows of ours; dx may be x. */
int zt_launch_cross_entropy_train(struct CUstream_st *stream, const struct zt_launch_loss *l, const void *dloss,
                                  void *loss, void *dx, void *workspace);

/* ---- element_loss.cu ---- */

/* Losses element by element as ops/loss/element_loss.c defines them; x and target [rows, width], a weight a row. */
enum zt_launch_term { ZT_TERM_SQUARED, ZT_TERM_ABSOLUTE, ZT_TERM_SMOOTH, ZT_TERM_HUBER, ZT_TERM_BINARY };
struct zt_launch_element_loss {
    enum zt_launch_term term;
    enum zt_dtype dtype, target_dtype, weight_dtype, dloss_dtype; /* target: any; the others float or half */
    int64_t rows, width;
    float bend;                      /* beta or delta */
    const void *x, *target, *weight; /* weight NULL: 1 */
};
enum { ZT_ELEMENT_LOSS_PARTS = 128 };
enum { ZT_ELEMENT_LOSS_BYTES = (2 * ZT_ELEMENT_LOSS_PARTS + 2) * sizeof(double) }; /* of workspace */
int zt_launch_element_loss(struct CUstream_st *stream, const struct zt_launch_element_loss *l, void *loss,
                           void *workspace);
int zt_launch_element_loss_grad(struct CUstream_st *stream, const struct zt_launch_element_loss *l, const void *dloss,
                                void *dx, void *workspace);

/* ---- conv.cu: for convolutions that cuDNN has no engine for ---- */

/* Sliding windows (ops/kernel/window.h) of three axes. */
enum { ZT_LAUNCH_AXES = 3 };
struct zt_launch_window {
    int64_t in[ZT_LAUNCH_AXES], out[ZT_LAUNCH_AXES], kernel[ZT_LAUNCH_AXES];
    int64_t stride[ZT_LAUNCH_AXES], dilation[ZT_LAUNCH_AXES], pad[ZT_LAUNCH_AXES], pad_end[ZT_LAUNCH_AXES];
};
/* Steps in elements of a tensor [first, second, places of a plane], in either of the two orders (layout_cuda.h). */
struct zt_launch_steps {
    int64_t first, second, place;
};
/* x [n, c, window.in], w [m, c / groups, window.kernel], y [n, m, window.out] */
struct zt_launch_conv {
    enum zt_dtype dtype;
    int64_t n, c, m, groups;
    struct zt_launch_window window;
    struct zt_launch_steps x, w, y;
};
/* y of x and w; x of w and y; w of x and y. */
int zt_launch_conv_to_y(struct CUstream_st *stream, const struct zt_launch_conv *conv, const void *x, const void *w,
                        void *y);
int zt_launch_conv_to_x(struct CUstream_st *stream, const struct zt_launch_conv *conv, void *x, const void *w,
                        const void *y);
int zt_launch_conv_to_w(struct CUstream_st *stream, const struct zt_launch_conv *conv, const void *x, void *w,
                        const void *y);

/* ---- pool.cu ---- */

/* Planes of window.in to as many of window.out: `channels` of them lie side by side, element by element, where channels
 * are last, else 1. */
struct zt_launch_pool {
    enum zt_dtype dtype;
    int64_t planes, channels;
    struct zt_launch_window window;
    bool count_include_pad; /* mean: padding counts, but not what ceil_mode adds beyond it */
    bool columns;           /* indices count planes along columns */
    int position_bytes;     /* of a position: 1 or 4 */
    float p;                /* norm */
    /* With channels > 1, which lie last: the result, and dy and y of a gradient, are plain. Only of planes that
     * zt_launch_pool_can_transpose says. */
    bool plain_result, plain_dy, plain_y;
};
bool zt_launch_pool_can_transpose(const struct zt_launch_pool *pool);
/* position: of the first maximum in its window; indices: its place in the whole input; each may be NULL. */
int zt_launch_pool_max(struct CUstream_st *stream, const struct zt_launch_pool *pool, const void *x, void *y,
                       void *position, int64_t *indices);
int zt_launch_pool_average(struct CUstream_st *stream, const struct zt_launch_pool *pool, const void *x, void *y);
int zt_launch_pool_norm(struct CUstream_st *stream, const struct zt_launch_pool *pool, const void *x, void *y);
/* y: where it is not above 0 nothing flows; NULL: everywhere. */
int zt_launch_pool_max_grad(struct CUstream_st *stream, const struct zt_launch_pool *pool, const void *dy,
                            const void *position, const void *y, void *dx);
/* Of the mean, or of a sum over windows. */
int zt_launch_pool_sum_grad(struct CUstream_st *stream, const struct zt_launch_pool *pool, const void *dy, bool mean,
                            void *dx);

/* ---- resize.cu ---- */

/* y[o] = sum over t of weight[k][t_k] ... x[index[k][t_k] ...], begin[k][o_k] <= t_k < begin[k][o_k + 1]; fill where an
 * axis has nothing to sum. The maps are in device memory. */
struct zt_launch_resize {
    int rank;
    int64_t from[ZT_MAX_RANK], to[ZT_MAX_RANK];
    const int32_t *begin[ZT_MAX_RANK], *index[ZT_MAX_RANK];
    const float *weight[ZT_MAX_RANK];
    float fill;
};
int zt_launch_resize(struct CUstream_st *stream, enum zt_dtype dtype, const struct zt_launch_resize *resize,
                     const void *x, void *y);

/* ---- attention.cu ---- */

/* Scores s [heads, queries, keys] = q k^T of one batch: of `heads` heads of keys from `first` on the query head
 * `member` of each group. Names as in ops/attention/attention.h. */
struct zt_launch_attention {
    enum zt_dtype dtype, mask_dtype; /* of p, ds and dmask; of the mask: also ZT_BOOL */
    int64_t batch, first, member, group, heads, all_heads, queries, keys;
    int64_t mask_step[4], mask_length, left, right;
    bool causal;
    float scale, softcap;
    const void *mask;      /* NULL: none */
    const int64_t *nonpad; /* a number a batch; NULL: none */
    float *kept;           /* [batches, all_heads, 2, queries]: m and f (below); NULL: there are none */
};
/* p = softmax of the scores, and `kept`, a row's maximum and 1 / sum; float p may lie where they do. */
int zt_launch_attention(struct CUstream_st *stream, const struct zt_launch_attention *attention, const float *scores,
                        void *p);
/* p again, from `kept` where that is there; ds = scale times the gradient of the scores, and dmask [batches, all_heads,
 * queries, mask_length] (NULL: not wanted); float p and ds may lie where scores and dp do. */
int zt_launch_attention_grad(struct CUstream_st *stream, const struct zt_launch_attention *attention,
                             const float *scores, const float *dp, void *p, void *ds, void *dmask);

/* What is kept [lines, 2, queries] of a query, a number m and a factor f with p = exp(score - m) f, from the logarithm
 * of the sum of exp(score) [lines, queries], and back; lines: batches * all_heads. */
struct zt_launch_softmax_rows {
    int64_t lines, queries;
};
int zt_launch_kept_of_lse(struct CUstream_st *stream, const struct zt_launch_softmax_rows *rows, const float *lse,
                          float *kept);
int zt_launch_lse_of_kept(struct CUstream_st *stream, const struct zt_launch_softmax_rows *rows, const float *kept,
                          float *lse);

/* ---- recurrent.cu: names and layouts as in ops/recurrent/recurrent_cpu.h; float alone ---- */

enum { ZT_LAUNCH_SIGMOID, ZT_LAUNCH_TANH, ZT_LAUNCH_RELU };
/* What a step does to every unit of every row. A GRU whose reset comes before the product has two parts: up to r h, and
 * from its product on; backwards up to da_g, and from its product on. */
enum zt_launch_cell { ZT_LAUNCH_RNN, ZT_LAUNCH_LSTM, ZT_LAUNCH_GRU_LINEAR, ZT_LAUNCH_GRU_RESET, ZT_LAUNCH_GRU_UPDATE };

/* One direction of a node at a time. */
struct zt_launch_direction {
    int64_t rows, steps, hidden;
    int gates;
    int64_t place_step, place_row, y_step, y_row, h_row; /* of X's places; of Y; of states outside, in elements */
    bool back_in_time, on;                               /* on: input_forget, linear_before_reset */
    int function[3];
    float clip;             /* INFINITY: none */
    const int32_t *lengths; /* 0..steps a row; NULL: all run at all steps */
    int64_t time;
    float *gate, *kept;   /* [places, gates hidden], [places, hidden] */
    float *h, *c, *y;     /* [rows, hidden]: state, backwards its gradient; y NULL: not wanted */
    const float *product; /* [rows, hidden] */
    const float *bias, *peephole;
    const float *dy, *start_c; /* backwards; NULL: zeros */
    float *da, *u, *before_h;  /* [places, gates hidden], [places, hidden] twice; u: with linear_before_reset */
};
int zt_launch_direction_step(struct CUstream_st *stream, const struct zt_launch_direction *turn,
                             enum zt_launch_cell cell);
int zt_launch_direction_step_back(struct CUstream_st *stream, const struct zt_launch_direction *turn,
                                  enum zt_launch_cell cell);
/* A state from outside (NULL: zeros) to [rows, hidden], and back. last: 0 for rows without steps. */
int zt_launch_direction_load(struct CUstream_st *stream, const struct zt_launch_direction *turn, const float *from,
                             bool last, float *to);
int zt_launch_direction_store(struct CUstream_st *stream, const struct zt_launch_direction *turn, const float *from,
                              bool last, float *to);
/* to[i] = both[i], + both[count + i] for i < summed; zeros where both is NULL. */
int zt_launch_direction_bias(struct CUstream_st *stream, const float *both, int64_t count, int64_t summed, float *to);
/* before_h from Y and the first state (NULL: zeros); x [places, input] with zeros for rows that are over. */
int zt_launch_direction_before(struct CUstream_st *stream, const struct zt_launch_direction *turn, const float *y,
                               const float *start);
int zt_launch_direction_masked(struct CUstream_st *stream, const struct zt_launch_direction *turn, int64_t input,
                               const float *x, float *to);
/* to[3 hidden] from da and kept. */
int zt_launch_direction_peephole_grad(struct CUstream_st *stream, const struct zt_launch_direction *turn, float *to);

#ifdef __cplusplus
}
#endif

#endif
