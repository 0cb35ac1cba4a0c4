/* What a convolution node computes, read from the node: shared by the rows of conv.c and the kernels of all back ends.
 */
#ifndef ZT_OPS_CONV_CONV_H
#define ZT_OPS_CONV_CONV_H

#include "ops/kernel/window.h"

/* x [n, c, window.in], w [m, c/groups, kernel], y [n, m, window.out]. For ConvTranspose x and y change places: it maps
 * y to x, and its weight [m, c/groups, kernel] has its own input channels first. */
struct zt_conv {
    struct zt_window window;
    int64_t n, c, m, groups;
};

/* Conv(x, w[, b]) -> y */
bool zt_conv_read(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err);
/* ztrain.ConvGradInput(w, dy) -> dx; Conv's attributes and input_shape: the dims of x */
bool zt_conv_grad_input_read(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err);
/* ztrain.ConvGradWeight(x, dy) -> dw, db; Conv's attributes, kernel_shape always set; output 1 may be omitted */
bool zt_conv_grad_weight_read(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err);
/* ConvTranspose(y, w[, b]) -> x */
bool zt_conv_transpose_read(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err);
/* ztrain.ConvTransposeGradInput(w, dx) -> dy and ztrain.ConvTransposeGradWeight(y, dx) -> dw; its attributes and the
 * shapes as above */
bool zt_conv_transpose_grad_input_read(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err);
bool zt_conv_transpose_grad_weight_read(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err);

/* Which of the three tensors of a convolution is computed from the other two, and which of the node's tensors they are:
 * an index of an input, or output 0. */
enum zt_conv_direction { ZT_CONV_TO_Y, ZT_CONV_TO_X, ZT_CONV_TO_W };
enum { ZT_CONV_OUT = -1 };
struct zt_conv_directions {
    bool (*read)(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err);
    enum zt_conv_direction way;
    int of[3]; /* x, w, y */
};
/* Of the rows above, and of a Conv with an activation behind it; NULL for any other. */
const struct zt_conv_directions *zt_conv_directions(const struct zt_node *n);

/* The reference kernels (ops/conv/conv_ref.c): to y, to x, to w. bias and db may be NULL. */
struct zt_conv_job {
    struct zt_conv conv;
    enum zt_dtype dtype;
    const void *from, *weight, *bias; /* `from`: the plane that is read; for the weight product x */
    const void *dy;                   /* weight product only, as is the type of what it gives */
    enum zt_dtype to_dtype;
    void *to, *db;
    int threads;
};
void zt_conv_forward(const struct zt_conv_job *job);  /* x, w, bias -> y */
void zt_conv_backward(const struct zt_conv_job *job); /* y, w, bias -> x: the gradient of x, and ConvTranspose */
void zt_conv_weight(const struct zt_conv_job *job);   /* x, dy -> w, db */

/* Whether the CUDA kernel takes the node: float or half types, up to three spatial axes, no empty tensor, sizes within
 * 32 bits, no negative padding. */
bool zt_conv_takes_cuda(const struct zt_graph *g, int node);

#endif
