/* What PyTorch's exporters say of an initializer, in metadata (dynamo) or by its name (TorchScript). Read by the
 * verdict (trainable.c) and by what undoes foldings (derived.c). */
#ifndef ZT_GRAPH_PASSES_TRAINABLE_TORCH_H
#define ZT_GRAPH_PASSES_TRAINABLE_TORCH_H

#include "graph/onnx/onnx.h"

/* What the graph signature lists a name as. */
enum zt_torch_kind { ZT_TORCH_UNLISTED, ZT_TORCH_PARAMETER, ZT_TORCH_BUFFER, ZT_TORCH_INPUT };

/* Fills `listed`: name -> enum zt_torch_kind. Lines of the signature read "p_fc_weight: PARAMETER target='fc.weight'"
 * and "x: USER_INPUT"; targets are names of the state, the others names of values. Texts in `arena`. */
void zt_torch_read_signature(struct zt_arena *arena, const char *signature, struct zt_map *listed);

/* Names of the PARAMETERs in the order of the signature. Returns how many. */
int zt_torch_parameters(struct zt_arena *arena, const char *signature, const char ***names);

/* The next name after *at in a folded_from list, a Python list such as "['arange', 'val_1', 'wpe.weight']"; NULL at the
 * end. */
const char *zt_torch_next_source(struct zt_arena *arena, const char **at);

/* How an initializer came out of others that the exporter folded (value_info metadata folded_from). */
struct zt_torch_folding {
    const char *parameter;     /* the first PARAMETER among the sources, NULL: none */
    int parameters;            /* distinct PARAMETERs */
    const char *buffer;        /* a BUFFER among the sources, NULL: none */
    const char *operations[3]; /* that compute (not: pick and place), the first ones; the value's own is the last */
    int operation_count;       /* may be more */
    bool moved;   /* an operation that picks and places is named: with none, the numbered names say nothing */
    bool picked;  /* one that may drop or join elements (select, slice, cat, ...) */
    bool copied;  /* one that may repeat elements (expand, embedding, ...) */
    bool indexed; /* a lookup by computed indices: that these operations are the indices' own is a guess */
};
void zt_torch_read_folding(struct zt_arena *arena, const struct zt_value *v, const struct zt_map *listed,
                           struct zt_torch_folding *to);

/* Whether a file without a signature is the TorchScript exporter's. */
bool zt_torch_is_script(const struct zt_onnx *model);
/* Whether a name may be one of a module's state, "encoder.0.weight": no value that exporters number ("onnx::Mul_19",
 * "val_3", "12") and no path of a node ("/fc/Constant_output_0"). */
bool zt_torch_is_state_name(const char *name);

#endif
