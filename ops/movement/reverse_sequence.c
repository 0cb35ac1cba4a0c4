/* ReverseSequence: the first sequence_lens[b] steps of each sample b turned round; its own gradient. */
#include "ops/movement/launch_pad.h"
#include "ops/movement/kernels.h"
#include "ops/kernel/shape.h"

#include <string.h>

static bool reverse_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_node *n = g->nodes[node];
    const struct zt_shape *x = &zt_in(g, node, 0)->shape, *lengths = &zt_in(g, node, 1)->shape;
    int64_t batch = zt_attr_int(n, "batch_axis", 1), time = zt_attr_int(n, "time_axis", 0);
    if (x->rank < 2 || !((batch == 0 && time == 1) || (batch == 1 && time == 0)))
        return zt_node_fail(g, node, err,
                            "wants axes 0 and 1 as batch_axis and time_axis, has %lld and %lld of %d axes",
                            (long long)batch, (long long)time, x->rank);
    if (lengths->rank != 1 || lengths->dim[0] != x->dim[batch])
        return zt_node_fail(g, node, err, "wants %lld sequence lengths", (long long)x->dim[batch]);
    return zt_infer_first(g, node, err);
}

static bool reverse_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *x = &call->in[0], *lengths = &call->in[1];
    int batch = (int)zt_attr_int(call->node, "batch_axis", 1);
    int64_t samples = x->shape.dim[batch], steps = x->shape.dim[1 - batch];
    int64_t sample_stride = batch == 0 ? steps : 1, step_stride = batch == 0 ? 1 : samples;
    size_t bytes = zt_dtype_bytes(x->dtype) * (size_t)zt_dims(&x->shape, 2, x->shape.rank);
    for (int64_t b = 0; b < samples; b++) {
        int64_t length = zt_load_int(lengths->dtype, lengths->data, b);
        if (length < 0 || length > steps)
            return zt_call_fail(call, err, "sequence length %lld at place %lld is outside 0..%lld", (long long)length,
                                (long long)b, (long long)steps);
        for (int64_t t = 0; t < steps && bytes; t++) {
            int64_t from = t < length ? length - 1 - t : t;
            memcpy(zt_element(call->out[0].data, bytes, b * sample_stride + t * step_stride),
                   zt_element(x->data, bytes, b * sample_stride + from * step_stride), bytes);
        }
    }
    return true;
}

/* A struct zt_launch_reverse for other back ends. */
static bool reverse_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    (void)err;
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    const bool batch_first = zt_attr_int(g->nodes[node], "batch_axis", 1) == 0;
    *(struct zt_launch_reverse *)to = (struct zt_launch_reverse){ .samples = x->dim[batch_first ? 0 : 1],
                                                                  .steps = x->dim[batch_first ? 1 : 0],
                                                                  .inner = zt_dims(x, 2, x->rank),
                                                                  .batch_first = batch_first };
    return true;
}

static bool reverse_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    int dy = zt_grad_out(b, node, 0), dx;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[2] = { dy, n->in[1] };
    zt_emit_node(b, &(struct zt_emission){ "ReverseSequence", "", in, 2, n }, &dx, 1);
    zt_grad_give(b, node, 0, dx);
    return true;
}

static const struct zt_attr_spec with_axes[] = { { "batch_axis", ZT_ATTR_INT }, { "time_axis", ZT_ATTR_INT }, { 0 } };

const struct zt_op zt_op_reverse_sequence = {
    .name = "ReverseSequence",
    .domain = "",
    .since = 10,
    ZT_ONE_OUT(2, 2),
    .in_types = { 0, ZT_BIT(ZT_INT64) },
    .attrs = with_axes,
    .infer = reverse_infer,
    .grad = reverse_grad,
    .no_grad_in = 1 << 1,
    .kernel = { [ZT_REF] = { .run = reverse_run }, [ZT_CUDA] = ZT_CUDA_AS(reverse, zt_cuda_any, reverse_describe) },
};
