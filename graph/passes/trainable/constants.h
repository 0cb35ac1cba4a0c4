/* Constants that exporters store as initializers. ONNX does not mark them; their names, contents and readers tell.
 * Internal to the pass. */
#ifndef ZT_GRAPH_PASSES_TRAINABLE_CONSTANTS_H
#define ZT_GRAPH_PASSES_TRAINABLE_CONSTANTS_H

#include "graph/ir/graph.h"
#include "graph/onnx/onnx.h"

/* The exporter of the file, as far as names depend on it. */
enum zt_writer {
    ZT_WRITER_DYNAMO,      /* lists the parameters */
    ZT_WRITER_TORCHSCRIPT, /* parameters have names of the module's state */
    ZT_WRITER_STRIPPED,    /* dynamo, and what lists the parameters is lost */
    ZT_WRITER_TENSORFLOW,  /* tf2onnx: variables end in ReadVariableOp, or in what was done to them */
    ZT_WRITER_JAX,         /* jax2onnx: values that it makes up are called by what they are for */
    ZT_WRITER_SKLEARN,     /* skl2onnx: constants are called by their reader, or by what was learned before */
    ZT_WRITER_OTHER
};
enum zt_writer zt_writer_of(const struct zt_onnx *model); /* NULL: other */

/* Whether the name is that of a parameter, so that even a scalar trains. */
bool zt_writer_names_parameter(enum zt_writer writer, const char *name);

/* Why an initializer is certainly none of the parameters, though a gradient reaches it; NULL: it may be one. `v` bears
 * no mark. */
const char *zt_constant_reason(const struct zt_graph *g, const struct zt_value *v, enum zt_writer writer);

/* Whether it holds one number that is neither a bias nor another part of a layer: an epsilon, a factor, an exponent. */
bool zt_constant_is_number(const struct zt_graph *g, const struct zt_value *v);

/* Whether it is a scalar that a PRelu multiplies by. */
bool zt_constant_is_slope(const struct zt_graph *g, const struct zt_value *v);

/* Whether it is the kernel of a convolution with one number, not 0, in every place: a sum or mean over a window. */
bool zt_constant_is_window_sum(const struct zt_graph *g, const struct zt_value *v);

/* Element i of an initializer whose weights are there. */
static inline double zt_constant_at(const struct zt_value *v, int64_t i) {
    return zt_load_double(v->dtype, v->data, i);
}

/* Whether all elements are `x`. False without weights. */
bool zt_constant_is_all(const struct zt_value *v, double x);
/* Whether all elements have the same bits, of weights that are there. */
bool zt_constant_is_uniform(const struct zt_value *v);

#endif
