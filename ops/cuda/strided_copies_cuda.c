/* Ops that only copy elements, on CUDA: one launch for each copy that the row lists (strided_copies.h). */
#include "ops/cuda/describe.h"
#include "ops/cuda/layout_cuda.h"
#include "ops/kernel/strided_copies.h"
#include "ops/kernel/shape.h"
#include "ops/cuda/broadcast_cuda.h"

#include <stdlib.h>
#include <string.h>

struct plan {
    bool clears;
    int count;
    struct one {
        int in, out;
        int64_t from, to;
        struct zt_launch_strided_copy launch;
    } * at;
};

/* ---- channels last ---- */

enum { ANY = 3 }; /* an axis without a stride */

/* Converts the start and the strides of a walk through a plain tensor to channels last. axis[k]: the axis of the
 * tensor that axis k of the walk follows: samples, channels or places. False where it follows several and so has no
 * single stride. */
static bool convert(const struct zt_shape *shape, const struct zt_shape *walk, int64_t *start, int64_t *step,
                    int *axis) {
    const int64_t channels = shape->dim[1], places = zt_dims(shape, 2, shape->rank), sample = channels * places;
    const int64_t size[] = { shape->dim[0], channels, places }, plain[] = { sample, places, 1 },
                  last[] = { sample, 1, channels };
    const int64_t at[] = { *start / sample, *start / places % channels, *start % places };
    for (int k = 0; k < walk->rank; k++) {
        const bool stays = walk->dim[k] == 1 || step[k] == 0;
        for (axis[k] = stays ? ANY : 0; axis[k] < ANY; axis[k]++) {
            const int64_t end = at[axis[k]] + step[k] / plain[axis[k]] * (walk->dim[k] - 1);
            if (step[k] % plain[axis[k]] == 0 && end >= 0 && end < size[axis[k]])
                break;
        }
        if (axis[k] == ANY && !stays)
            return false;
        step[k] = stays ? 0 : step[k] / plain[axis[k]] * last[axis[k]];
    }
    *start = at[0] * last[0] + at[1] * last[1] + at[2] * last[2];
    return true;
}

/* False too where channels would become places: readers of a transposed tensor need it plain. */
static bool convert_copy(const struct zt_prepare *q, struct zt_strided_copy *m) {
    const struct zt_value *x = zt_in(q->graph, q->node, m->in), *y = zt_out(q->graph, q->node, m->out);
    const bool reads = q->in_layout[m->in], writes = q->out_layout[m->out];
    int from[ZT_MAX_RANK], to[ZT_MAX_RANK];
    if ((reads && !convert(&x->shape, &m->shape, &m->from, m->from_step, from)) ||
        (writes && !convert(&y->shape, &m->shape, &m->to, m->to_step, to)))
        return false;
    for (int k = 0; reads && writes && k < m->shape.rank; k++)
        if (from[k] != to[k] && from[k] != ANY && to[k] != ANY)
            return false;
    return true;
}

/* Converts the copies of `list` to the layouts of the inputs; false where a copy cannot be converted. */
static bool convert_all(struct zt_prepare *q, struct zt_strided_copy_list *list, bool outputs) {
    bool converted = true;
    if ((!q->settled && !zt_layout_alike(q, ~0U, outputs ? ~0U : 0)) || list->count == 0)
        return true;
    const size_t bytes = (size_t)list->count * sizeof *list->copy;
    struct zt_strided_copy *at = zt_malloc(bytes);
    memcpy(at, list->copy, bytes);
    for (int i = 0; converted && i < list->count; i++)
        converted = zt_shape_count(&at[i].shape) == 0 || convert_copy(q, &at[i]);
    if (converted)
        memcpy(list->copy, at, bytes);
    free(at);
    return converted;
}

static bool writes_plain(const struct zt_prepare *q) {
    int i = 0;
    while (i < q->graph->nodes[q->node]->out_count && !q->out_layout[i])
        i++;
    return i == q->graph->nodes[q->node]->out_count;
}

/* Uses the layouts of the inputs, for the outputs too where possible; else all are plain. An input whose outputs are
 * plain may have either layout. */
static void lay(struct zt_prepare *q, struct zt_strided_copy_list *list) {
    const struct zt_node *n = q->graph->nodes[q->node];
    if (convert_all(q, list, true) || convert_all(q, list, false)) {
        for (int i = 0; writes_plain(q) && i < n->in_count && i < 32; i++)
            q->free_in |= q->in_layout[i] ? 1U << i : 0;
        return;
    }
    for (int i = 0; i < n->in_count; i++)
        q->in_layout[i] = NULL;
    for (int i = 0; i < n->out_count; i++)
        q->out_layout[i] = NULL;
}

/* ---- launches ---- */

static bool prepare(struct zt_prepare *q, struct zt_err *err) {
    struct zt_strided_copy_list list;
    if (!zt_describe_to_cuda(q, &list, err))
        return false;
    lay(q, &list);
    struct plan *p = zt_malloc(sizeof *p + (size_t)list.count * sizeof *p->at);
    *p = (struct plan){ .clears = list.clears, .at = (struct one *)(p + 1) };
    for (int i = 0; i < list.count; i++) {
        const struct zt_strided_copy *m = &list.copy[i];
        if (zt_shape_count(&m->shape) > 0)
            p->at[p->count++] =
                (struct one){ m->in, m->out, m->from, m->to,
                              zt_strided_copy_cuda(m->shape.rank, m->shape.dim, m->from_step, m->to_step) };
    }
    q->state = p;
    return true;
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    const struct plan *p = call->state;
    const struct zt_view *first = &call->out[0];
    const int64_t bytes = (int64_t)zt_dtype_bytes(call->in[0].dtype);
    if (p->clears &&
        !call->device->api->zero(call->device, first->data, (size_t)(zt_shape_count(&first->shape) * bytes), err))
        return false;
    for (int i = 0; i < p->count; i++) {
        const struct one *m = &p->at[i];
        char *to = call->out[m->out].data;
        int code = to ? zt_launch_strided_copy(zt_stream_of(call), (size_t)bytes, &m->launch,
                                               (const char *)call->in[m->in].data + m->from * bytes, to + m->to * bytes)
                      : 0;
        if (!zt_launched(call, code, err))
            return false;
    }
    return true;
}

const struct zt_kernel zt_kernel_strided_copies_cuda = {
    .prepare = prepare, .layouts = true, .run = run, .release = free
};
