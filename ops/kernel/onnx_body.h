/* Helpers that ONNX function bodies of several families share (graph/export/function_body.h). A row's `.body` names a
 * function that writes the node in standard operators of opset ZT_FUNCTION_BODY_OPSET; these functions are in
 * ops/FAMILY/..._onnx.c and declared in ops/FAMILY/kernels.h. Texts live in the body's arena. */
#ifndef ZT_OPS_KERNEL_ONNX_BODY_H
#define ZT_OPS_KERNEL_ONNX_BODY_H

#include "graph/export/function_body.h"
#include "ops/kernel/axis_slices.h"

#define ZT_FUNCTION_BODY(name)                                                                                         \
    bool name(struct zt_function_body *b, const struct zt_graph *g, int node, struct zt_err *err)

/* "[outer, length, inner]" */
const char *zt_body_slices(struct zt_function_body *b, const struct zt_axis_slices *s);
/* The shape of output `out` as a list. */
const char *zt_body_out(struct zt_function_body *b, int out);
/* The integers of attribute `name` as a list, "" where the node has no such attribute. */
const char *zt_body_attr_list(struct zt_function_body *b, const char *name);

/* The node itself in its form of opset ZT_FUNCTION_BODY_OPSET: only accepted types or rare attributes differ. */
ZT_FUNCTION_BODY(zt_same_opset_form_body);
/* The same where the attribute `axes` has become an input. */
ZT_FUNCTION_BODY(zt_axes_old_function_body);

#endif
