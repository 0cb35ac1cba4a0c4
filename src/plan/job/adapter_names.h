/* Names of adapters: those of the modules in the framework, as far as the file tells them. */
#ifndef ZT_PLAN_JOB_ADAPTER_NAMES_H
#define ZT_PLAN_JOB_ADAPTER_NAMES_H

#include "graph/passes/low_rank/low_rank.h"

/* The parameter that an initializer holds: its own name, or the one from which torch's dynamo exporter rearranged it
 * ("val_3", folded from "h.0.attn.weight"). `listed` comes from zt_torch_read_signature(). */
const char *zt_parameter_of(struct zt_arena *arena, const struct zt_value *v, const struct zt_map *listed);
/* The module of a weight: its parameter without ".weight". A weight that TorchScript numbered ("onnx::MatMul_7") has
 * the module in the name of the node that reads it: "/h/h.0/attn/MatMul" is "h.0.attn". */
const char *zt_module_of(struct zt_arena *arena, const struct zt_value *v, const struct zt_map *listed,
                         const struct zt_node *reader);

#endif
