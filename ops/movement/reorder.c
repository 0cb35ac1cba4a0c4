/* ztrain.Reorder(x) -> y: the same tensor in another memory layout. The assign pass puts it where a producer and a
 * reader want different ones; in a graph without layouts it is a copy. */
#include "ops/movement/kernels.h"
#include "ops/kernel/shape.h"

#ifdef HAVE_DNNL
#include "ops/cpu/batch_blocks.h"

#include <stdlib.h>

bool zt_reorder_cpu_supports(const struct zt_graph *g, int node) {
    return zt_dtype_in(zt_in(g, node, 0)->dtype, ZT_BIT(ZT_FLOAT) | ZT_BIT(ZT_BFLOAT16) | ZT_BIT(ZT_UINT8));
}

void zt_reorder_cpu_release(void *state) {
    if (state)
        zt_batch_blocks_finish(state);
    free(state);
}

enum { GRAIN = 64 }; /* a multiple of the blocks in packed orders */

/* A packed tensor is cut along the axis whose blocks follow each other in memory, those of whole GRAINs; not at all
 * where no axis is like that. */
static struct zt_batch_cut cut_packed(const struct zt_desc *packed) {
    const size_t bytes = zt_desc_bytes(packed);
    for (int axis = 0; axis < packed->rank; axis++)
        for (int64_t pieces = ZT_BATCH_BLOCKS; pieces > 1; pieces /= 2) {
            struct zt_desc piece = *packed;
            piece.dim[axis] /= pieces;
            piece.part = true;
            if (packed->dim[axis] % (GRAIN * pieces) == 0 && zt_desc_bytes(&piece) * (size_t)pieces == bytes)
                return (struct zt_batch_cut){ { axis, axis, -1, -1, -1 }, packed->dim[axis], piece.dim[axis] };
        }
    return (struct zt_batch_cut){ { -1, -1, -1, -1, -1 }, 1, 1 };
}

/* Activations are cut over the batch. */
bool zt_reorder_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_value *x = zt_in(p->graph, p->node, 0);
    if (zt_dtype_bytes(x->dtype) != sizeof(float) &&
        !zt_reorder_cpu_supports(p->graph, p->node)) /* 4 bytes go as floats */
        return zt_node_fail(p->graph, p->node, err, "no kernel reorders %s", zt_dtype_name(x->dtype));
    struct zt_desc from = zt_desc_of(p->in_layout[0], x->dtype, &x->shape);
    struct zt_desc to = zt_desc_of(p->out_layout[0], x->dtype, &x->shape);
    bool packed = from.order == ZT_DESC_VENDOR || to.order == ZT_DESC_VENDOR;
    if (packed) { /* the other side takes its dims, and its plain order where it is plain */
        struct zt_desc *other = from.order == ZT_DESC_VENDOR ? &to : &from;
        if (other->order == ZT_DESC_PLAIN) {
            *other = from.order == ZT_DESC_VENDOR ? from : to;
            other->order = ZT_DESC_STRIDED;
        }
    }
    struct zt_dnnl_spec spec = { .kind = ZT_DNNL_REORDER, .slot = { from, to } };
    struct zt_batch_cut cut = { { 0, 0, -1, -1, -1 }, .total = x->shape.dim[0] };
    cut.block = zt_batch_block_of(cut.total, ZT_BATCH_BLOCKS, 1);
    if (packed)
        cut = cut_packed(from.order == ZT_DESC_VENDOR ? &from : &to);
    struct zt_batch_blocks *blocks = zt_calloc(1, sizeof *blocks);
    if (!zt_batch_blocks_make(blocks, &spec, &cut, p->threads, err)) {
        free(blocks);
        return zt_err_within(err, 0, "%s", p->graph->nodes[p->node]->name);
    }
    p->state = blocks;
    p->workspace_bytes = zt_batch_blocks_scratch(blocks, p->threads);
    return true;
}

bool zt_reorder_cpu_run(const struct zt_call *call, struct zt_err *err) {
    void *data[ZT_DNNL_SLOTS] = { call->in[0].data, call->out[0].data };
    return zt_batch_blocks_run(call->state, call->threads, data, call->workspace, NULL, err);
}
#endif

const struct zt_op zt_op_reorder = {
    .name = "Reorder",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_LIGHT | ZT_OP_REORDER,
    .infer = zt_infer_first,
    .kernel = { [ZT_REF] = { .run = zt_run_copy },
                [ZT_CPU] = ZT_IF_DNNL(zt_reorder_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(reorder, zt_cuda_any) },
};
