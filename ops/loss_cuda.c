/* CrossEntropy and its gradient on CUDA. */
#include "ops/kernels_cuda.h"
#include "ops/launch_cuda.h"

#include "device/cuda.h"

#include <stdlib.h>
#include <string.h>

/* x at input `first`, behind it target, row weight, class weight. Shapes were checked when they were inferred. */
static bool prepare(struct zt_prepare *p, int first, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    const struct zt_node *n = &g->nodes[p->node];
    const struct zt_value *x = zt_in(g, p->node, first), *target = zt_in(g, p->node, first + 1);
    const struct zt_value *rows = zt_in(g, p->node, first + 2), *classes = zt_in(g, p->node, first + 3);
    const char *reduction = zt_attr_text(n, "reduction", "mean");
    int axis;
    if (!zt_axis(g, p->node, zt_attr_int(n, "axis", 1), x->shape.rank, &axis, err))
        return false;
    struct zt_launch_loss *l = zt_malloc(sizeof *l);
    *l = (struct zt_launch_loss){ .dtype = x->dtype,
                                  .dloss_dtype = zt_in(g, p->node, 0)->dtype, /* read by the gradient alone */
                                  .target_dtype = target->dtype,
                                  .row_dtype = rows ? rows->dtype : ZT_FLOAT,
                                  .class_dtype = classes ? classes->dtype : ZT_FLOAT,
                                  .outer = 1,
                                  .classes = x->shape.dim[axis],
                                  .inner = 1,
                                  .samples = rows ? zt_shape_count(&rows->shape) : 1,
                                  .ignore = zt_attr_int(n, "ignore_index", -100),
                                  .smoothing = zt_attr_float(n, "label_smoothing", 0),
                                  .mean = strcmp(reduction, "mean") == 0,
                                  .none = strcmp(reduction, "none") == 0 };
    for (int k = 0; k < x->shape.rank; k++)
        if (k != axis)
            *(k < axis ? &l->outer : &l->inner) *= x->shape.dim[k];
    p->state = l;
    p->workspace_bytes = zt_launch_loss_bytes(l);
    return true;
}

static bool loss_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 0, err);
}
static bool grad_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, 1, err);
}

static const void *data(const struct zt_view *views, int count, int i) {
    return i < count ? views[i].data : NULL;
}

static struct zt_launch_loss job(const struct zt_call *call, int first) {
    struct zt_launch_loss l = *(const struct zt_launch_loss *)call->state;
    l.x = data(call->in, call->in_count, first);
    l.target = data(call->in, call->in_count, first + 1);
    l.row_weight = data(call->in, call->in_count, first + 2);
    l.class_weight = data(call->in, call->in_count, first + 3);
    return l;
}

static bool loss_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_loss l = job(call, 0);
    float *lse = call->out_count > 1 ? call->out[1].data : NULL;
    int code = zt_launch_cross_entropy(zt_cuda_stream(call->device), &l, call->out[0].data, lse, call->workspace);
    return zt_cuda_good(call->device, code, err, call->node->name);
}

static bool grad_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_loss l = job(call, 1);
    int code = zt_launch_cross_entropy_grad(zt_cuda_stream(call->device), &l, call->in[0].data, call->in[5].data,
                                            call->out[0].data, call->workspace);
    return zt_cuda_good(call->device, code, err, call->node->name);
}

const struct zt_kernel zt_kernel_cross_entropy_cuda = { .prepare = loss_prepare, .run = loss_run, .release = free };
const struct zt_kernel zt_kernel_cross_entropy_grad_cuda = { .prepare = grad_prepare,
                                                             .run = grad_run,
                                                             .release = free };
