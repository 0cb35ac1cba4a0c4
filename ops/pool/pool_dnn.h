/* A pool, or its gradient, as a graph for cuDNN. Includes no header of cuDNN, so that tests need no GPU. */
#ifndef ZT_OPS_POOL_POOL_DNN_H
#define ZT_OPS_POOL_POOL_DNN_H

#include "ops/cuda/dnn_cuda.h"
#include "ops/pool/pool.h"

/* Numbers of the tensors of the graph; of a gradient dx and dy. */
enum { ZT_POOL_X, ZT_POOL_Y, ZT_POOL_TENSORS };

/* Pools of planes [n, c], plain or channels last. Max pooling (largest) has no gradient here. */
struct zt_pool_dnn {
    bool largest, grad, last;
    enum zt_dtype dtype;
    int64_t n, c;
};

/* NULL where cuDNN can be asked, else the reason. It needs non-empty tensors and a window of up to three axes without
 * dilation that always covers an element of x; an average that counts padding must count nothing else behind x; a
 * gradient needs channels last, as cuDNN's of planes reads x and y (CUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC). */
const char *zt_pool_dnn_refusal(const struct zt_pool *pool, const struct zt_pool_dnn *form);
/* Writes the graph to `to`. */
void zt_pool_dnn(const struct zt_pool *pool, const struct zt_pool_dnn *form, struct zt_dnn_graph *to);

#endif
