/* Quantization of a value of the training graph: the readers that are given the result compute with numbers of an
 * integer type, and gradients pass (ops/quantize/fake_quantize.c).
 *
 *     x ---------------------------------------------- FakeQuantize -- y        y = (q - zero point) scale
 *      \-- ReduceMin, ReduceMax -- (state) -- RangeScale --/
 *
 * The range is that of the value itself, or the moving average of a state (ops/quantize/moving_range.c), which training
 * updates and evaluation reads; or the scale is a parameter. Gradients reach x through FakeQuantize alone. */
#ifndef ZT_GRAPH_PASSES_FAKE_QUANTIZE_H
#define ZT_GRAPH_PASSES_FAKE_QUANTIZE_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

enum zt_range_source {
    ZT_RANGE_OF_VALUE,
    ZT_RANGE_MOVING,  /* a state of 3 numbers */
    ZT_SCALE_LEARNED, /* no range: a parameter */
};

struct zt_fake_quantize {
    enum zt_range_source from;
    enum zt_dtype type; /* integer of 4, 8 or 16 bits */
    bool symmetric;
    int axis;             /* a scale for each index of it; -1: one for the tensor */
    const char *name;     /* initializer of the state or the scale */
    const float *initial; /* its contents */
    float momentum;       /* of the average */
    bool update;          /* the state: training */
    bool share;           /* the state: the range over the data-parallel ranks */
    int row_weight;       /* the state: a value with a number for each sample, 0: its rows do not count; -1: all count.
                             Where the value's first axis does not divide into the samples, all rows count */
};

/* Quantizes `value`, a float of known shape, in front of node `before`; returns the value to read instead. New nodes
 * are inferred; the caller sorts the graph. -1 on failure. */
int zt_pass_fake_quantize(struct zt_graph *g, const struct zt_op_table *table, const struct zt_fake_quantize *how,
                          int value, int before, struct zt_err *err);

#endif
