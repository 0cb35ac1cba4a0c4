/* Convolutions: the geometry of a node, read from its shapes and attributes. The rows of conv.c and the kernels of all
 * back ends use it. */
#ifndef ZT_OPS_CONV_CONV_H
#define ZT_OPS_CONV_CONV_H

#include "ops/kernel/window.h"

/* Shapes: x [n, c, window.in], w [m, c/groups, kernel], y [n, m, window.out]. ConvTranspose maps y to x: m counts its
 * input channels. */
struct zt_conv {
    struct zt_window window;
    int64_t n, c, m, groups;
};

/* Input x and weight w of any convolution forward -> y; its attributes are those of Conv. */
bool zt_conv_read_shapes(const struct zt_graph *g, int node, const struct zt_shape *x, const struct zt_shape *w,
                         struct zt_conv *to, struct zt_err *err);
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

/* The direction of a convolution: forward (y from x and w), data gradient (x from y and w), weight gradient (w from x
 * and y). `of` says which tensor of the node is x, w and y: an input's index, or ZT_CONV_OUT for output 0. */
enum zt_conv_direction { ZT_CONV_TO_Y, ZT_CONV_TO_X, ZT_CONV_TO_W };
enum { ZT_CONV_OUT = -1 };
struct zt_conv_directions {
    bool (*read)(const struct zt_graph *g, int node, struct zt_conv *to, struct zt_err *err);
    enum zt_conv_direction direction;
    int of[3]; /* x, w, y */
};
/* The input of ztrain.ConvAdd and ConvGradInputAdd that is added to the result; 2 is a bias. */
enum { ZT_CONV_ADDED = 3 };
/* The directions of the rows above and of those that fusions make of them; NULL for other nodes. */
const struct zt_conv_directions *zt_conv_directions(const struct zt_node *n);

/* The reference kernels (conv_ref.c). bias and db may be NULL. */
struct zt_conv_job {
    struct zt_conv conv;
    enum zt_dtype dtype;
    const void *from, *weight, *bias; /* from: the tensor that the kernel reads beside the weight; weight gradient: x */
    const void *dy;                   /* weight gradient only, as is to_dtype: the type of dw and db */
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
