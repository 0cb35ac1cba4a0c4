/* AttentionTrain keeps of every query a number m and a factor f with p = exp(x - m) f. cuDNN's one number, the
 * logarithm of the sum of exp(x), is kept as m with f = 1, and m - log f is what it is given on the way back: so each
 * way may be taken by cuDNN or by our own kernels.
 *
 * cuDNN wants addresses that are multiples of 16, where the memory plan puts what nodes compute. What may be a
 * parameter, or an input of the graph, has room in the workspace for a copy; so have gradients of such. */
#include "ops/attention_flash_cuda.h"

#include "ops/attention_dnn.h"
#include "ops/describe_cuda.h"
#include "ops/launch_cuda.h"

#include "base/arena.h"
#include "device/cuda.h"
#include "device/cuda_code.h"

#include <float.h>
#include <stdlib.h>

/* cuDNN before 9.16 is wrong backwards where the keys are no multiple of 128, and 9.10 forward. */
enum { OLDEST = 91600 };
/* From compute capability 10 on an engine that gives the same bits every time must be named by its knobs. */
enum { NEWEST_GRAD = 99 };

struct room {
    size_t at, bytes; /* bytes 0: the tensor lies where cuDNN takes it */
};

struct zt_flash_plan {
    struct zt_dnn *dnn;
    bool grad;
    struct zt_launch_rows rows;
    float scale, hidden, one;
    struct room room[ZT_FLASH_TENSORS];
    size_t lse_at, dot_at, scratch_at; /* workspace [ lse | dot | copies | cuDNN's ] */
};

/* Where the tensors stand in the node: inputs, and outputs as -1 - number. */
enum { NOWHERE = 1000 };
static int place_of(const struct zt_flash_plan *f, int tensor) {
    static const int forward[] = { ZT_Q, ZT_K, ZT_V, -1 - ZT_Y };
    static const int backward[] = { ZT_Q, ZT_K, ZT_V, ZT_KEPT_Y };
    static const int more[] = { ZT_ATTENTION_INS + ZT_Y, -1 - ZT_DQ, -1 - ZT_DK, -1 - ZT_DV };
    if (tensor <= ZT_FLASH_Y)
        return f->grad ? backward[tensor] : forward[tensor];
    return f->grad && tensor >= ZT_FLASH_DY && tensor <= ZT_FLASH_DV ? more[tensor - ZT_FLASH_DY] : NOWHERE;
}

static const struct zt_view *view_of(const struct zt_flash_plan *f, const struct zt_call *call, int tensor) {
    int place = place_of(f, tensor);
    return place == NOWHERE ? NULL : place < 0 ? &call->out[-1 - place] : &call->in[place];
}

/* ---- preparing ---- */

/* Whether a node computed what is in the value's memory. */
static bool is_computed(const struct zt_graph *g, int value) {
    const struct zt_value *v = &g->values[value];
    while (v->origin == ZT_FROM_NODE && v->producer >= 0 && g->nodes[v->producer].op->flags & ZT_OP_VIEW)
        v = &g->values[g->nodes[v->producer].in[0]];
    return v->origin == ZT_FROM_NODE;
}

/* Whether a gradient has what cuDNN needs and asks for what it gives. */
static bool grad_fits(const struct zt_prepare *p) {
    const struct zt_graph *g = p->graph;
    struct zt_err ignored = { 0 };
    int capability;
    bool fits = zt_in(g, p->node, ZT_KEPT_Y) && zt_in(g, p->node, ZT_KEPT_STATISTICS) &&
                zt_cuda_capability(p->device, &capability, &ignored) && capability <= NEWEST_GRAD;
    for (int i = ZT_DQ; i < ZT_ATTENTION_GRADS; i++)
        fits &= (zt_out(g, p->node, i) != NULL) == (i <= ZT_DV);
    return fits;
}

static size_t take(size_t *at, size_t bytes) {
    size_t taken = *at;
    *at += zt_room_cuda(bytes);
    return taken;
}

static void lay_out(struct zt_prepare *p, struct zt_flash_plan *f) {
    const struct zt_graph *g = p->graph;
    const struct zt_node *n = &g->nodes[p->node];
    const size_t row_bytes = (size_t)(f->rows.lines * f->rows.queries) * sizeof(float);
    size_t at = 0;
    f->lse_at = take(&at, row_bytes);
    f->dot_at = take(&at, f->grad ? row_bytes : 0);
    for (int i = 0; i < ZT_FLASH_TENSORS; i++) {
        int place = place_of(f, i);
        bool result = place < 0, of_input = result && f->grad; /* dq lies as q does, and so on */
        if (place == NOWHERE || (result && !f->grad) || is_computed(g, n->in[of_input ? -1 - place : place]))
            continue;
        f->room[i].bytes = (size_t)zt_value_bytes(&g->values[result ? n->out[-1 - place] : n->in[place]]);
        f->room[i].at = take(&at, f->room[i].bytes);
    }
    f->scratch_at = at;
    p->workspace_bytes = at + zt_dnn_workspace_bytes(f->dnn);
}

struct zt_flash_plan *zt_flash_create(struct zt_prepare *p, const struct zt_attention *a, bool grad) {
    struct zt_err why = { 0 };
    struct zt_dnn_graph graph;
    if (!zt_flash_takes(p->graph, p->node, a) || (grad && !grad_fits(p)) || zt_dnn_version() < OLDEST ||
        !zt_dnn_ready(p->device, &why))
        return NULL;
    zt_flash_graph(a, grad, &graph);
    struct zt_dnn *dnn = zt_dnn_describe(&graph, &why);
    if (!dnn || !zt_dnn_plan(dnn, p->device, &why)) {
        zt_dnn_destroy(dnn);
        return NULL;
    }
    struct zt_flash_plan *f = zt_calloc(1, sizeof *f);
    *f = (struct zt_flash_plan){ .dnn = dnn,
                                 .grad = grad,
                                 .rows = { a->batch * a->heads, a->queries },
                                 .scale = (float)a->scale,
                                 .hidden = -FLT_MAX,
                                 .one = 1 };
    lay_out(p, f);
    return f;
}

void zt_flash_destroy(struct zt_flash_plan *f) {
    if (f)
        zt_dnn_destroy(f->dnn);
    free(f);
}

/* ---- running ---- */

/* What cuDNN reads and writes, with copies of inputs that lie where it does not read. */
static bool gather(const struct zt_flash_plan *f, const struct zt_call *call, void **data, struct zt_err *err) {
    char *workspace = call->workspace;
    for (int i = 0; i < ZT_FLASH_TENSORS; i++) {
        const struct zt_view *v = view_of(f, call, i);
        if (!v)
            continue;
        data[i] = v->data;
        if (zt_dnn_is_placed(data[i]))
            continue;
        if (!f->room[i].bytes)
            return zt_fail(err, ZT_EXIT_RUN, "%s: a tensor that a node computed lies at no multiple of %d",
                           call->node->name, ZT_DNN_ALIGNMENT);
        if (place_of(f, i) < 0)
            data[i] = workspace + f->room[i].at;
        else if (!zt_dnn_bring(call->device, &data[i], workspace + f->room[i].at, f->room[i].bytes, err))
            return false;
    }
    data[ZT_FLASH_LSE] = workspace + f->lse_at;
    data[ZT_FLASH_DOT] = f->grad ? workspace + f->dot_at : NULL;
    return true;
}

/* Results that were written elsewhere to their places. */
static bool scatter(const struct zt_flash_plan *f, const struct zt_call *call, void *const *data, struct zt_err *err) {
    for (int i = 0; i < ZT_FLASH_TENSORS; i++) {
        const struct zt_view *v = view_of(f, call, i);
        if (v && place_of(f, i) < 0 && v->data != data[i] &&
            !call->device->api->copy(call->device, v->data, data[i], f->room[i].bytes, err))
            return false;
    }
    return true;
}

bool zt_flash_run(const struct zt_flash_plan *f, const struct zt_call *call, struct zt_err *err) {
    struct CUstream_st *stream = zt_stream_of(call);
    const bool keeps = !f->grad && call->out_count > 1; /* AttentionTrain */
    /* read when it is queued: cuDNN's types say nothing of const */
    void *data[ZT_DNN_TENSORS] = {
        [ZT_FLASH_SCALE] = (void *)&f->scale, [ZT_FLASH_HIDDEN] = (void *)&f->hidden, [ZT_FLASH_ONE] = (void *)&f->one
    };
    if (!gather(f, call, data, err))
        return false;
    float *lse = data[ZT_FLASH_LSE];
    int code = f->grad ? zt_launch_lse_of_kept(stream, &f->rows, call->in[ZT_KEPT_STATISTICS].data, lse) : 0;
    if (!zt_launched(call, code, err) ||
        !zt_dnn_run(f->dnn, data, (char *)call->workspace + f->scratch_at, call->node->name, err) ||
        !scatter(f, call, data, err))
        return false;
    code = keeps ? zt_launch_kept_of_lse(stream, &f->rows, lse, call->out[1].data) : 0;
    return zt_launched(call, code, err);
}
