/* Half-precision passes: insertion of casts to and from float16 and bfloat16. */
#ifndef ZT_GRAPH_PASSES_PRECISION_HALF_PRECISION_H
#define ZT_GRAPH_PASSES_PRECISION_HALF_PRECISION_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

/* bf16 / fp16 propagation: runs every node whose row has ZT_OP_HALF in `dtype`. Float inputs are cast to `dtype`; one
 * Cast serves a value and all its views. Float outputs become `dtype` and are cast back where another node, a graph
 * output or a gradient needs float. Master weights stay fp32. A node with a constant that becomes 0 or infinite in
 * fp16 stays in fp32. In bfloat16 on the CPU so does a product that is faster in fp32 (zt_kernel.prefers_float), and
 * what is no product where its inputs are in fp32 (views of bfloat16 count as it where nothing else is read) or what
 * it gives is in `keep_float`; a node with ZT_OP_PASSES_HALF whose activations are in bfloat16 reads and writes it;
 * and rows with ZT_OP_BFLOAT_PRODUCTS get its attribute. `keep_float` lists the values that must exist afterwards;
 * casts that nothing reads are removed. */
struct zt_half_options {
    enum zt_dtype dtype;
    const int *keep_float;
    int keep_count;
    /* Contents of a frozen weight in another dtype, so that all graphs of a process share one copy and the fp32 weight
     * is not read while the graph runs; it may return NULL where they are not needed before the graph runs. NULL:
     * frozen weights are cast by nodes. */
    const void *(*frozen)(void *with, const struct zt_value *weight, enum zt_dtype dtype);
    void *with;
    enum zt_backend fast; /* the back end that runs the graph */
};
bool zt_pass_half_propagation(struct zt_graph *g, const struct zt_op_table *table,
                              const struct zt_half_options *options, struct zt_err *err);

/* Inserts casts around nodes with half-precision inputs for which the back end `fast` has a float kernel but no
 * half-precision kernel. Such nodes compute in float; stored values stay in half precision. */
bool zt_pass_compute_in_float(struct zt_graph *g, const struct zt_op_table *table, enum zt_backend fast,
                              struct zt_err *err);

#endif
