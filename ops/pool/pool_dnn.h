/* A pool, or the gradient of one, as a graph for cuDNN. Knows no header of cuDNN: that no GPU is needed to test what is
 * described. */
#ifndef ZT_OPS_POOL_POOL_DNN_H
#define ZT_OPS_POOL_POOL_DNN_H

#include "ops/cuda/dnn_cuda.h"
#include "ops/pool/pool.h"

/* Tensors of the graph by number; of the gradient dx and dy. */
enum { ZT_POOL_X, ZT_POOL_Y, ZT_POOL_TENSORS };

/* Planes [n, c]; plain, or channels last. A largest element has no gradient here. */
struct zt_pool_dnn {
    bool largest, grad, last;
    enum zt_dtype dtype;
    int64_t n, c;
};

/* NULL where cuDNN can be asked for it, else why not: a window of up to three axes without dilation, every one of which
 * covers some of x, of something; a mean that counts padding counts nothing else behind x. */
const char *zt_pool_dnn_refusal(const struct zt_pool *pool, const struct zt_pool_dnn *form);
void zt_pool_dnn(const struct zt_pool *pool, const struct zt_pool_dnn *form, struct zt_dnn_graph *to);

#endif
