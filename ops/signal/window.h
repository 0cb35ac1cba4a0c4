/* Shared by the operators that make windows and weights. */
#ifndef ZT_OPS_SIGNAL_WINDOW_H
#define ZT_OPS_SIGNAL_WINDOW_H

#include "graph/ir/op.h"

/* The attribute `output_datatype`: a type of numbers, float by default. */
bool zt_signal_output_type(const struct zt_graph *g, int node, enum zt_dtype *to, struct zt_err *err);

#endif
