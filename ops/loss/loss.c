/* The losses of the config by type, and ztrain.CountCorrect, the count behind the metric accuracy. */
#include "ops/loss/loss.h"

#include "ops/loss/launch_count_correct.h"
#include "ops/loss/kernels.h"
#include "ops/kernel/axis_slices.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/tile.h"

#include <string.h>

bool zt_loss_takes_cuda(const struct zt_graph *g, int node) {
    const unsigned whole = ZT_BIT(ZT_INT32) | ZT_BIT(ZT_INT64);
    bool takes = true;
    for (int i = 0; i < g->nodes[node]->in_count; i++)
        takes &= !zt_in(g, node, i) || zt_dtype_in(zt_in(g, node, i)->dtype, ZT_CUDA_FLOATS | whole);
    return takes;
}

const struct zt_loss_row zt_losses[] = {
    { "cross_entropy", "CrossEntropy", true, "SoftCrossEntropy", { "label_smoothing" } },
    { "nll", "NegativeLogLikelihood", true, NULL, { 0 } },
    { "bce_with_logits", "BinaryCrossEntropy", false, NULL, { 0 } },
    { "mse", "SquaredError", false, NULL, { 0 } },
    { "l1", "AbsoluteError", false, NULL, { 0 } },
    { "smooth_l1", "SmoothAbsoluteError", false, NULL, { "beta" } },
    { "huber", "Huber", false, NULL, { "delta" } },
    { 0 },
};

const struct zt_loss_row *zt_loss_find(const char *type) {
    for (const struct zt_loss_row *row = zt_losses; row->type; row++)
        if (strcmp(row->type, type) == 0)
            return row;
    return NULL;
}

bool zt_loss_weight_fits(const struct zt_graph *g, int node, const struct zt_value *weight,
                         const struct zt_shape *target, struct zt_err *err) {
    char have[ZT_SHAPE_TEXT], of[ZT_SHAPE_TEXT];
    bool fits = !weight || weight->shape.rank <= target->rank;
    for (int k = 0; fits && weight && k < weight->shape.rank; k++)
        fits = weight->shape.dim[k] == target->dim[k];
    return fits || zt_node_fail(g, node, err, "weight \"%s\" has shape %s, wants the first axes of the targets' %s",
                                weight->name, zt_shape_text(&weight->shape, have), zt_shape_text(target, of));
}

/* ---- CountCorrect(logits, target[, row_weight]) -> number of targets that are their row's maximum, number of targets
 * ---- Targets that are ignore_index and those of rows with weight 0 are in neither. */

static const struct zt_attr_spec count_attrs[] = { { "axis", ZT_ATTR_INT }, { "ignore_index", ZT_ATTR_INT }, { 0 } };

static bool count_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *x = zt_in(g, node, 0), *target = zt_in(g, node, 1);
    int axis;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 1), x->shape.rank, &axis, err))
        return false;
    struct zt_axis_slices rows = zt_axis_slices_along(&x->shape, axis);
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    if (zt_shape_count(&target->shape) != rows.outer * rows.inner)
        return zt_node_fail(g, node, err, "target %s does not fit logits %s with classes on axis %d",
                            zt_shape_text(&target->shape, s), zt_shape_text(&x->shape, t), axis);
    if (!zt_loss_weight_fits(g, node, zt_in(g, node, 2), &target->shape, err))
        return false;
    zt_set_out(g, node, 0, ZT_FLOAT, &(struct zt_shape){ 0 });
    zt_set_out(g, node, 1, ZT_FLOAT, &(struct zt_shape){ 0 });
    return true;
}

static bool count_ref(const struct zt_call *call, struct zt_err *err) {
    const struct zt_view *x = &call->in[0], *target = &call->in[1], *weight = call->in_count > 2 ? &call->in[2] : NULL;
    int axis;
    if (!zt_axis(call->graph, zt_call_node(call), zt_attr_int(call->node, "axis", 1), x->shape.rank, &axis, err))
        return false;
    struct zt_axis_slices rows = zt_axis_slices_along(&x->shape, axis);
    int64_t ignore = zt_attr_int(call->node, "ignore_index", -100), count = rows.outer * rows.inner;
    int64_t correct = 0, counted = 0, samples = weight && weight->data ? zt_shape_count(&weight->shape) : 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t wanted = zt_load_int(target->dtype, target->data, i), place;
        int64_t sample = samples ? i / zt_max_int(count / samples, 1) : 0;
        if (wanted == ignore || (samples && zt_load_double(weight->dtype, weight->data, sample) == 0))
            continue;
        zt_row_max(&(struct zt_axis_slice){ x, zt_axis_slices_start(&rows, i), rows.inner, rows.length }, &place);
        counted++;
        correct += place == wanted;
    }
    zt_store_double(ZT_FLOAT, call->out[0].data, 0, (double)correct);
    if (call->out_count > 1 && call->out[1].data)
        zt_store_double(ZT_FLOAT, call->out[1].data, 0, (double)counted);
    return true;
}

/* A struct zt_launch_count for other back ends. */
static bool count_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    const struct zt_shape *x = &zt_in(g, node, 0)->shape;
    const struct zt_value *weight = zt_in(g, node, 2);
    int axis;
    if (!zt_axis(g, node, zt_attr_int(g->nodes[node], "axis", 1), x->rank, &axis, err))
        return false;
    const struct zt_axis_slices rows = zt_axis_slices_along(x, axis);
    *(struct zt_launch_count *)to =
        (struct zt_launch_count){ .outer = rows.outer,
                                  .length = rows.length,
                                  .inner = rows.inner,
                                  .samples = weight ? zt_shape_count(&weight->shape) : 0,
                                  .ignore = zt_attr_int(g->nodes[node], "ignore_index", -100) };
    return true;
}

const struct zt_op zt_op_count_correct = {
    .name = "CountCorrect",
    .domain = "ztrain",
    .since = 1,
    .min_in = 2,
    .max_in = 3,
    .min_out = 1,
    .max_out = 2,
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_INT, ZT_ANY_FLOAT },
    .attrs = count_attrs,
    .infer = count_infer,
    .kernel = { [ZT_REF] = { .run = count_ref },
                [ZT_CUDA] = ZT_CUDA_AS(count_correct, zt_loss_takes_cuda, count_describe) },
};
