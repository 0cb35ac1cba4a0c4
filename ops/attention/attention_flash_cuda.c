/* AttentionTrain saves two numbers of every query: m and f with p = exp(x - m) f. cuDNN has one, lse =
 * log(sum(exp(x))): it is saved as m = lse with f = 1, and cuDNN's gradient gets m - log f. So cuDNN or our own
 * kernels can compute either direction. */
#include "ops/attention/attention_flash_cuda.h"

#include "ops/attention/attention_dnn.h"
#include "ops/cuda/describe.h"
#include "ops/cuda/dnn_places_cuda.h"
#include "ops/attention/launch_attention.h"

#include "base/arena.h"
#include "device/cuda.h"
#include "device/cuda_code.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

/* cuDNN before 9.16 computes wrong gradients where the number of keys is no multiple of 128; 9.10 computes wrong
 * results there too. */
enum { OLDEST = 91600 };
/* From compute capability 10 on, the engine that gives the same bits every time must be selected by its knobs. */
enum { NEWEST_GRAD = 99 };

enum { PLACES = 8 };

struct zt_flash_plan {
    const struct zt_dnn *dnn;
    bool grad;
    struct zt_launch_softmax_rows rows;
    float scale, hidden, one;
    struct zt_dnn_place place[PLACES];
    int places;
    size_t k_at, v_at;                 /* bytes from queries to keys and values in one tensor, else 0 */
    size_t lse_at, dot_at, scratch_at; /* workspace [ lse | dot | copies | cuDNN's ] */
};

/* Places of the tensors in the node. */
static const struct zt_dnn_place forward[] = { ZT_DNN_IN(ZT_FLASH_Q, ZT_Q), ZT_DNN_IN(ZT_FLASH_K, ZT_K),
                                               ZT_DNN_IN(ZT_FLASH_V, ZT_V), ZT_DNN_OUT(ZT_FLASH_Y, ZT_Y) };
static const struct zt_dnn_place backward[PLACES] = {
    ZT_DNN_IN(ZT_FLASH_Q, ZT_Q),
    ZT_DNN_IN(ZT_FLASH_K, ZT_K),
    ZT_DNN_IN(ZT_FLASH_V, ZT_V),
    ZT_DNN_IN(ZT_FLASH_Y, ZT_SAVED_Y),
    ZT_DNN_IN(ZT_FLASH_DY, ZT_ATTENTION_INS + ZT_Y),
    ZT_DNN_GRAD(ZT_FLASH_DQ, ZT_DQ, ZT_Q),
    ZT_DNN_GRAD(ZT_FLASH_DK, ZT_DK, ZT_K),
    ZT_DNN_GRAD(ZT_FLASH_DV, ZT_DV, ZT_V),
};

/* ---- preparing ---- */

/* NULL where the inputs and outputs of a gradient are those of cuDNN's graph, else the difference. */
static const char *grad_refusal(const struct zt_prepare *p, const struct zt_attention *a) {
    const struct zt_graph *g = p->graph;
    struct zt_err ignored = { 0 };
    int capability;
    if (!zt_in(g, p->node, ZT_SAVED_Y) || !zt_in(g, p->node, ZT_SAVED_STATISTICS))
        return "result and statistics of the forward node were not saved";
    for (int i = ZT_DQ; i < ZT_ATTENTION_GRADS; i++)
        if ((zt_out(g, p->node, i) != NULL) != (i <= a->v.tensor))
            return "the gradients asked for are not those of queries, keys and values";
    return zt_cuda_capability(p->device, &capability, &ignored) && capability <= NEWEST_GRAD
               ? NULL
               : "from compute capability 10 on no deterministic engine is known";
}

static const char *refusal(const struct zt_prepare *p, const struct zt_attention *a, bool grad) {
    const char *why = zt_flash_refusal(p->graph, p->node, a);
    if (!why && grad)
        why = grad_refusal(p, a);
    return why || zt_dnn_version() >= OLDEST ? why : "cuDNN before 9.16 computes it wrong";
}

/* Whether a tensor is part of the packed tensor. */
static bool is_part(const struct zt_flash_plan *f, int tensor) {
    return f->k_at && (tensor == ZT_FLASH_K || tensor == ZT_FLASH_V || tensor == ZT_FLASH_DK || tensor == ZT_FLASH_DV);
}

static void lay_out(struct zt_prepare *p, struct zt_flash_plan *f) {
    const size_t row_bytes = (size_t)(f->rows.rows * f->rows.queries) * sizeof(float);
    const struct zt_dnn_place *all = f->grad ? backward : forward;
    size_t at = 0;
    for (int i = 0; i < (f->grad ? PLACES : (int)(sizeof forward / sizeof *forward)); i++)
        if (!is_part(f, all[i].tensor))
            f->place[f->places++] = all[i];
    f->lse_at = zt_dnn_room(&at, row_bytes);
    f->dot_at = zt_dnn_room(&at, f->grad ? row_bytes : 0);
    zt_dnn_rooms(p, f->place, f->places, &at);
    f->scratch_at = at;
    p->workspace_bytes = at + zt_dnn_workspace_bytes(f->dnn);
}

struct zt_flash_plan *zt_flash_create(struct zt_prepare *p, const struct zt_attention *a, bool grad) {
    const enum zt_dtype dtype = zt_in(p->graph, p->node, ZT_Q)->dtype;
    struct zt_dnn_graph graph;
    p->path = zt_path_own(refusal(p, a, grad));
    if (p->path.note)
        return NULL;
    zt_flash_graph(a, dtype, grad, &graph);
    const struct zt_dnn *dnn = zt_path_dnn(p, &graph);
    if (!dnn)
        return NULL;
    struct zt_flash_plan *f = zt_calloc(1, sizeof *f);
    *f = (struct zt_flash_plan){ .dnn = dnn,
                                 .grad = grad,
                                 .rows = { a->batch * a->heads, a->queries },
                                 .scale = (float)a->scale,
                                 .hidden = -FLT_MAX,
                                 .one = 1,
                                 .k_at = (size_t)a->k.first * zt_dtype_bytes(dtype),
                                 .v_at = (size_t)a->v.first * zt_dtype_bytes(dtype) };
    lay_out(p, f);
    return f;
}

/* ---- running ---- */

/* Addresses of keys and values, or of their gradients, inside the packed tensor. */
static void find_parts(const struct zt_flash_plan *f, void **data) {
    for (int grad = 0; f->k_at && grad <= f->grad; grad++) {
        char *first = data[grad ? ZT_FLASH_DQ : ZT_FLASH_Q];
        data[grad ? ZT_FLASH_DK : ZT_FLASH_K] = first + f->k_at;
        data[grad ? ZT_FLASH_DV : ZT_FLASH_V] = first + f->v_at;
    }
}

bool zt_flash_run(const struct zt_flash_plan *f, const struct zt_call *call, struct zt_err *err) {
    struct CUstream_st *stream = zt_stream_of(call);
    const bool keeps = !f->grad && call->out_count > 1; /* AttentionTrain */
    char *workspace = call->workspace;
    float *lse = (float *)(workspace + f->lse_at);
    /* read when it is queued; cuDNN's types lack const */
    void *data[ZT_DNN_TENSORS] = { [ZT_FLASH_LSE] = lse,
                                   [ZT_FLASH_DOT] = f->grad ? workspace + f->dot_at : NULL,
                                   [ZT_FLASH_SCALE] = (void *)&f->scale,
                                   [ZT_FLASH_HIDDEN] = (void *)&f->hidden,
                                   [ZT_FLASH_ONE] = (void *)&f->one };
    if (!zt_dnn_gather(call, f->place, f->places, data, err))
        return false;
    find_parts(f, data);
    int code = f->grad ? zt_launch_lse_of_statistics(stream, &f->rows, call->in[ZT_SAVED_STATISTICS].data, lse) : 0;
    if (!zt_launched(call, code, err) || !zt_dnn_run(f->dnn, data, workspace + f->scratch_at, call->node->name, err) ||
        !zt_dnn_scatter(call, f->place, f->places, data, err))
        return false;
    code = keeps ? zt_launch_statistics_of_lse(stream, &f->rows, lse, call->out[1].data) : 0;
    return zt_launched(call, code, err);
}
