/* ztrain.qat: QuantizeLinear and DequantizeLinear for the operands of MatMul, Gemm and Conv.
 *
 * A node is quantized where one operand is a float initializer, possibly behind Transpose and Identity nodes, and a
 * pattern matches its name, that of the initializer, or that of the parameter which an exporter rearranged. The pair
 * stands in front of the node, so that other readers of the weight are not concerned; nodes that read one value share
 * its pair. Nodes of the model's own graph are meant, not those in bodies and functions.
 *
 * The range of a weight is that of its elements in each step, or its scale is a parameter (ztrain.qat.scales "learn"),
 * named "WEIGHT.scale". The range of an activation is a moving average with the state "VALUE.range", a running
 * statistic. Training graphs have ztrain.FakeQuantize (graph/passes/fake_quantize.h), model.onnx the standard's nodes
 * with constants. */
#ifndef ZT_PLAN_JOB_QAT_H
#define ZT_PLAN_JOB_QAT_H

#include "plan/job/job.h"

/* A value of the file's graph that is quantized. */
struct zt_qat_pair {
    const char *value;
    const char *initializer; /* whose elements the value has; NULL: an activation */
    int axis;                /* of the value: it has a scale for each index; -1: one */
    int initializer_axis;    /* the same axis of the initializer */
    int64_t scales;          /* their number */
    const char *store;       /* name of the state, or of the learned scale */
    const float *initial;    /* its contents from --load; NULL: none */
    struct zt_onnx_reader *readers;
    int reader_count, reader_room;
};

static inline bool zt_qat_moves(const struct zt_qat_pair *p) {
    return !p->initializer;
}
/* Whether the pair's scale is a parameter, and whether it would be one if the config did not freeze it: a scale that is
 * frozen follows its weight. */
bool zt_qat_learns(const struct zt_job *job, const struct zt_qat_pair *p);
bool zt_qat_may_learn(const struct zt_job *job, const struct zt_qat_pair *p);
/* The integer type of the pair, and whether its ranges are symmetric. */
enum zt_dtype zt_qat_type(const struct zt_job *job, const struct zt_qat_pair *p, bool *symmetric);
/* Shape of the contents of `store`. */
struct zt_shape zt_qat_store_shape(const struct zt_qat_pair *p);

/* A weight behind nodes that only transpose or copy. */
struct zt_qat_source {
    int value; /* -1: there is none */
    int axis;  /* the axis that was asked for, in the initializer; -1: none */
};
struct zt_qat_source zt_qat_source_of(const struct zt_graph *g, int value, int axis);

/* Finds job->pairs in the model's graph. `g` is the graph after zt_job_find_parameters(): nodes that it does not have
 * do not lead to the loss. Adapters of weights in pairs, found before, are marked as formed. Patterns that select
 * nothing, a model whose opset lacks the nodes, and a formed adapter with dropout are errors. */
bool zt_job_find_pairs(struct zt_job *job, struct zt_graph *g, struct zt_err *err);
/* Quantizes in a graph in float, whose row weights are known. */
bool zt_job_quantize(const struct zt_job *job, struct zt_training_graph *to, bool training, struct zt_err *err);

/* Scales and zero points of a pair: `count` numbers each, of which zero points are integers. The caller has room for
 * one, or for one each index of the axis. */
struct zt_qat_numbers {
    int64_t count;
    float *scales, *zeros;
};
/* Scales and zero points of a weight from its contents. `shape` is that of the initializer. */
void zt_qat_numbers_of_weight(const struct zt_job *job, const struct zt_qat_pair *p, const struct zt_shape *shape,
                              const float *weight, struct zt_qat_numbers *to);
/* Scale and zero point of an activation from its state; false: it has seen nothing. */
bool zt_qat_numbers_of_state(const struct zt_job *job, const struct zt_qat_pair *p, const float *state,
                             struct zt_qat_numbers *to);
/* The zero point of a learned scale. */
float zt_qat_learned_zero(const struct zt_job *job, const struct zt_qat_pair *p);

/* Adds a line about what is quantized, and one for each node left out. */
void zt_job_list_pairs(const struct zt_job *job, struct zt_texts *lines, struct zt_arena *arena);

#endif
