/* The column ZT_CUDA of a row.
 *
 * The CUDA kernels are in the CUDA module (device/module.h), which is opened at run time. The program holds what is
 * known without the module: which kernel runs the node, and which nodes the kernel takes.
 *
 *     .kernel = { [ZT_REF] = { .run = softmax_ref }, [ZT_CUDA] = ZT_CUDA_AS(rows, zt_cuda_floats, softmax_describe) },
 *
 * A row names its kernel by an id. Each family lists its kernels once, in ops/FAMILY/kernels.h; ops/cuda_ids.c makes
 * the ids of the program from these lists and ops/cuda_kernels.c the array of the module. An id that no list has is an
 * undefined symbol of the program, a listed kernel that does not exist an undefined symbol of the module: both fail to
 * link. */
#ifndef ZT_OPS_CUDA_CUDA_H
#define ZT_OPS_CUDA_CUDA_H

#include "graph/ir/op.h"

/* Declares the id of a kernel: its position in zt_module.kernels. */
#define ZT_CUDA_ID(id) extern const int zt_cuda_id_##id;

/* Runs zt_kernel_ID_cuda on the nodes that `supports_` accepts (NULL: all nodes of the row). */
#define ZT_ON_CUDA(id, supports_) ZT_CUDA_AS(id, supports_, NULL)
/* The same for kernels that read the node's description (`describe` of graph/ir/op.h) and not the node. */
#define ZT_CUDA_AS(id, supports_, describe_)                                                                           \
    {                                                                                                                  \
        .module_kernel = &zt_cuda_id_##id, .supports = supports_, .describe = describe_, .prepare = zt_cuda_prepare,   \
        .run = zt_cuda_run, .release = zt_cuda_release                                                                 \
    }

/* The types that most kernels take. */
#define ZT_CUDA_FLOATS (ZT_BIT(ZT_FLOAT) | ZT_ANY_HALF)

/* Conditions of kernels on nodes, for `supports`. */
bool zt_cuda_any(const struct zt_graph *g, int node);        /* every node, of any type */
bool zt_cuda_floats(const struct zt_graph *g, int node);     /* all inputs and outputs float, or all of one half type */
bool zt_cuda_any_floats(const struct zt_graph *g, int node); /* every input and output float or a half type */
bool zt_cuda_float_data(const struct zt_graph *g, int node); /* input 0 and output 0 as zt_cuda_floats, others any */
bool zt_cuda_numbers(const struct zt_graph *g, int node);    /* input 0 float, a half type, int32 or int64 */

/* Whether an omitted or present value has one of ZT_CUDA_FLOATS: false for NULL. */
bool zt_cuda_is_float(const struct zt_value *v);
/* Whether a size is at least 1 and fits the 32-bit counts of cuBLAS and cuDNN. */
bool zt_cuda_size(int64_t size);

/* Find the node's kernel in the module of its device and call it. */
bool zt_cuda_prepare(struct zt_prepare *p, struct zt_err *err);
bool zt_cuda_run(const struct zt_call *call, struct zt_err *err);
void zt_cuda_release(void *state);

#endif
