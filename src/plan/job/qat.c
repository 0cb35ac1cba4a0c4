#include "plan/job/qat.h"

#include "base/text.h"
#include "graph/passes/fake_quantize.h"
#include "ops/kernel/shape.h"
#include "ops/quantize/launch_range.h"
#include "plan/job/lora.h"

#include <string.h>

/* ---- what a pair is ---- */

/* ztrain.lora's list of parameters that train besides the adapters is no list of scales. */
static bool is_frozen(const struct zt_config *c, const char *name) {
    return zt_glob_any(c->freeze.at, c->freeze.count, name) ||
           (!c->lora.match.count && !zt_glob_any(c->trainable.at, c->trainable.count, name));
}

bool zt_qat_learns(const struct zt_job *job, const struct zt_qat_pair *p) {
    return zt_qat_may_learn(job, p) && !is_frozen(job->config, p->store);
}

bool zt_qat_may_learn(const struct zt_job *job, const struct zt_qat_pair *p) {
    return p->initializer && job->config->qat.learn_scales;
}

enum zt_dtype zt_qat_type(const struct zt_job *job, const struct zt_qat_pair *p, bool *symmetric) {
    static const enum zt_dtype types[] = {
        [ZT_QAT_INT8] = ZT_INT8,   [ZT_QAT_UINT8] = ZT_UINT8, [ZT_QAT_INT4] = ZT_INT4,
        [ZT_QAT_UINT4] = ZT_UINT4, [ZT_QAT_INT16] = ZT_INT16, [ZT_QAT_UINT16] = ZT_UINT16
    };
    const struct zt_qat_config *c = &job->config->qat;
    *symmetric = p->initializer ? c->weights_symmetric : c->activations_symmetric;
    return types[p->initializer ? c->weights : c->activations];
}

struct zt_shape zt_qat_store_shape(const struct zt_qat_pair *p) {
    if (!p->initializer)
        return (struct zt_shape){ 1, { 3 } };
    return p->axis < 0 ? (struct zt_shape){ 0 } : (struct zt_shape){ 1, { p->scales } };
}

/* ---- numbers ---- */

static struct zt_range_scale rule_of(const struct zt_job *job, const struct zt_qat_pair *p) {
    bool symmetric;
    const enum zt_dtype type = zt_qat_type(job, p, &symmetric);
    return zt_range_scale_for(type, symmetric);
}

static float lower(float a, float b) {
    return b < a || b != b ? b : a; /* NaN stays */
}

static float higher(float a, float b) {
    return b > a || b != b ? b : a;
}

/* Scale and zero point of each index of an axis. */
static void numbers_along(const struct zt_range_scale *rule, const struct zt_shape *shape, int axis,
                          const float *weight, struct zt_qat_numbers *to) {
    const int64_t length = axis < 0 ? 1 : shape->dim[axis];
    const int64_t inner = axis < 0 ? zt_shape_count(shape) : zt_dims(shape, axis + 1, shape->rank);
    const int64_t outer = axis < 0 ? 1 : zt_dims(shape, 0, axis);
    to->count = length;
    for (int64_t k = 0; k < length; k++) {
        float low = weight[k * inner], high = low;
        for (int64_t o = 0; o < outer; o++)
            for (int64_t i = 0; i < inner; i++) {
                const float w = weight[(o * length + k) * inner + i];
                low = lower(low, w);
                high = higher(high, w);
            }
        to->scales[k] = zt_range_scale_of(rule, low, high, &to->zeros[k]);
    }
}

void zt_qat_numbers_of_weight(const struct zt_job *job, const struct zt_qat_pair *p, const struct zt_shape *shape,
                              const float *weight, struct zt_qat_numbers *to) {
    const struct zt_range_scale rule = rule_of(job, p);
    numbers_along(&rule, shape, p->initializer_axis, weight, to);
}

bool zt_qat_numbers_of_state(const struct zt_job *job, const struct zt_qat_pair *p, const float *state,
                             struct zt_qat_numbers *to) {
    const struct zt_range_scale rule = rule_of(job, p);
    to->count = 1;
    to->scales[0] =
        zt_range_scale_of(&rule, zt_moving_range_end(state, 0), zt_moving_range_end(state, 1), &to->zeros[0]);
    return state[2] > 0;
}

float zt_qat_learned_zero(const struct zt_job *job, const struct zt_qat_pair *p) {
    const struct zt_range_scale rule = rule_of(job, p);
    float zero;
    zt_range_scale_of(&rule, -1, 1, &zero);
    return zero;
}

/* ---- training graphs ---- */

struct inserter {
    const struct zt_job *job;
    struct zt_graph *g;
    int *node_of; /* by file_index; -1: none */
    int most;
    bool training;
    int row_weight; /* -1: all rows count */
    struct zt_err *err;
};

static const struct zt_node *file_node(const struct zt_job *job, int file_index) {
    const struct zt_graph *g = job->model->graph;
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i]->file_index == file_index)
            return g->nodes[i];
    return NULL;
}

static void find_nodes(struct inserter *s) {
    for (int i = 0; i < s->job->pair_count; i++)
        for (int k = 0; k < s->job->pairs[i].reader_count; k++)
            s->most = s->job->pairs[i].readers[k].node > s->most ? s->job->pairs[i].readers[k].node : s->most;
    s->node_of = ZT_NEW_N(s->g->arena, int, s->most + 1);
    memset(s->node_of, -1, ((size_t)s->most + 1) * sizeof *s->node_of);
    for (int n = 0; n < s->g->node_count; n++)
        if (!s->g->nodes[n]->dead && s->g->nodes[n]->file_index >= 0 && s->g->nodes[n]->file_index <= s->most)
            s->node_of[s->g->nodes[n]->file_index] = n;
}

static bool is_zero(const float *x, int64_t count) {
    int64_t i = 0;
    while (i < count && x[i] == 0)
        i++;
    return i == count;
}

/* The contents of a weight before training, with its adapter. B is zero but where it was loaded. */
static const float *first_contents(const struct inserter *s, const struct zt_value *w) {
    for (int i = 0; i < s->job->adapter_count && w->data; i++) {
        const struct zt_adapter *a = &s->job->adapters[i];
        if (a->formed && strcmp(a->weight, w->name) == 0 && !is_zero(a->initial[1], zt_shape_count(&a->shape[1])))
            return zt_job_merge(s->g->arena, a, w->data, a->initial);
    }
    return w->data;
}

/* A learned scale starts at that of the weight's range. */
static const float *first_scale(const struct inserter *s, const struct zt_qat_pair *p, int value) {
    const struct zt_qat_source from = zt_qat_source_of(s->g, value, p->axis);
    const struct zt_value *w = s->g->values[from.value >= 0 ? from.value : value];
    const int axis = from.value >= 0 ? from.axis : p->axis;
    const struct zt_range_scale rule = rule_of(s->job, p);
    const int64_t count = axis < 0 ? 1 : w->shape.dim[axis];
    struct zt_qat_numbers to = { .scales = ZT_NEW_N(s->g->arena, float, count + 1),
                                 .zeros = ZT_NEW_N(s->g->arena, float, count + 1) };
    const float *weight = first_contents(s, w);
    if (weight)
        numbers_along(&rule, &w->shape, axis, weight, &to);
    return to.scales;
}

static int insert(struct inserter *s, const struct zt_qat_pair *p, int value, int before) {
    static const float nothing[3] = { 0 };
    const struct zt_config *c = s->job->config;
    struct zt_fake_quantize how = { .axis = p->axis,
                                    .name = p->store,
                                    .initial = p->initial ? p->initial : nothing,
                                    .momentum = (float)c->qat.momentum,
                                    .update = s->training,
                                    .share = c->data_parallel > 1,
                                    .row_weight = s->row_weight };
    how.type = zt_qat_type(s->job, p, &how.symmetric);
    how.from = zt_qat_moves(p) ? ZT_RANGE_MOVING : zt_qat_learns(s->job, p) ? ZT_SCALE_LEARNED : ZT_RANGE_OF_VALUE;
    if (how.from == ZT_SCALE_LEARNED && !p->initial)
        how.initial = first_scale(s, p, value);
    return zt_pass_fake_quantize(s->g, &zt_ops, &how, value, before, s->err);
}

static bool quantize(struct inserter *s, const struct zt_qat_pair *p) {
    int from = -1, to = -1;
    for (int i = 0; i < p->reader_count; i++) {
        const struct zt_onnx_reader *r = &p->readers[i];
        const int at = s->node_of[r->node];
        const struct zt_node *like = file_node(s->job, r->node);
        struct zt_node *n = at < 0 ? NULL : s->g->nodes[at];
        if (!n || strcmp(n->op_type, like->op_type) != 0)
            continue; /* folded, or in a branch that is not taken */
        if (from < 0) {
            from = n->in[r->in];
            to = insert(s, p, from, at);
        }
        if (to < 0)
            return false;
        if (s->g->nodes[at]->in[r->in] != from)
            return zt_node_fail(s->g, at, s->err, "ztrain.qat: reads \"%s\" in another form than other nodes do",
                                p->value);
        s->g->nodes[at]->in[r->in] = to;
    }
    return true;
}

bool zt_job_quantize(const struct zt_job *job, struct zt_training_graph *to, bool training, struct zt_err *err) {
    struct zt_graph *g = to->graph;
    struct inserter s = { .job = job, .g = g, .training = training, .row_weight = to->row_weight, .err = err };
    if (!job->pair_count)
        return true;
    find_nodes(&s);
    for (int i = 0; i < job->pair_count; i++)
        if (!quantize(&s, &job->pairs[i]))
            return false;
    return zt_graph_sort(g, err);
}

/* ---- lines for users ---- */

static void count_pairs(const struct zt_job *job, int *weights, int *activations) {
    *weights = *activations = 0;
    for (int i = 0; i < job->pair_count; i++)
        ++*(job->pairs[i].initializer ? weights : activations);
}

void zt_job_list_pairs(const struct zt_job *job, struct zt_texts *lines, struct zt_arena *arena) {
    const struct zt_qat_config *c = &job->config->qat;
    struct zt_text text = { 0 };
    int count[2];
    *lines = (struct zt_texts){ 0 };
    if (!job->pair_count)
        return;
    count_pairs(job, &count[0], &count[1]);
    for (int i = 0; i < 2; i++) {
        const struct zt_qat_pair like = { .initializer = i ? NULL : "" };
        bool symmetric;
        if (count[i])
            zt_text_add(&text, "%s%d %s in %s", text.length ? ", " : "", count[i], i ? "activations" : "weights",
                        zt_dtype_name(zt_qat_type(job, &like, &symmetric)));
        if (count[i] && !i)
            zt_text_add(&text, ", a %sscale per %s", c->learn_scales ? "learned " : "",
                        c->per_tensor ? "tensor" : "output channel");
    }
    lines->at = ZT_NEW_N(arena, const char *, job->unquantized.count + 1);
    lines->at[lines->count++] = zt_arena_strdup(arena, text.at);
    for (int i = 0; i < job->unquantized.count; i++)
        lines->at[lines->count++] = job->unquantized.at[i];
    zt_text_finish(&text);
}
