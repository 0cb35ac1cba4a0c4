/* Information of PyTorch's exporters about initializers: metadata (dynamo) and names (TorchScript). trainable.c and
 * derived.c use it. */
#ifndef ZT_GRAPH_PASSES_TRAINABLE_TORCH_H
#define ZT_GRAPH_PASSES_TRAINABLE_TORCH_H

#include "graph/onnx/onnx.h"

/* The kind of a name in the graph signature. */
enum zt_torch_kind { ZT_TORCH_UNLISTED, ZT_TORCH_PARAMETER, ZT_TORCH_BUFFER, ZT_TORCH_INPUT };

/* Fills `listed`: name -> enum zt_torch_kind. Lines of the signature read "p_fc_weight: PARAMETER target='fc.weight'"
 * and "x: USER_INPUT"; targets are state names, the others value names. Strings are in `arena`. */
void zt_torch_read_signature(struct zt_arena *arena, const char *signature, struct zt_map *listed);

/* A line with a target: "p_fc_weight: PARAMETER target='fc.weight'". */
struct zt_torch_state {
    const char *placeholder, *target;
    enum zt_torch_kind kind;
};
/* Returns the count. Strings are in `arena`. */
int zt_torch_states(struct zt_arena *arena, const char *signature, struct zt_torch_state **list);

/* The next name "%NAME" after *at in the text of a traced call; NULL at the end. */
const char *zt_torch_next_argument(struct zt_arena *arena, const char **at);
/* The name of the traced call that the node belongs to; NULL: none. *arguments: from where zt_torch_next_argument()
 * finds its arguments; NULL: it has none. */
const char *zt_torch_call(struct zt_arena *arena, const struct zt_node *n, const char **arguments);
/* Whether a name in a traced call is that of new zeros, ones or another number. */
bool zt_torch_is_filled(struct zt_arena *arena, const char *name);

/* Lists the PARAMETERs in the order of the signature. Returns the count. */
int zt_torch_parameters(struct zt_arena *arena, const char *signature, const char ***names);

/* The next name after *at in a folded_from list, a Python list such as "['arange', 'val_1', 'wpe.weight']"; NULL at the
 * end. */
const char *zt_torch_next_source(struct zt_arena *arena, const char **at);

/* The folding that produced an initializer (value_info metadata folded_from). */
struct zt_torch_folding {
    const char *parameter;     /* the first PARAMETER among the sources, NULL: none */
    int parameters;            /* distinct PARAMETERs */
    const char *buffer;        /* a BUFFER among the sources, NULL: none */
    const char *operations[3]; /* the first arithmetic operations (no data movement); the last is the value's own */
    int operation_count;       /* may be more */
    bool moved;    /* a data movement operation is named; without one, numbered names carry no information */
    bool picked;   /* may drop or join elements (select, slice, cat) */
    bool copied;   /* may repeat elements (expand, embedding) */
    bool counts;   /* a cumsum is named: positions are counted, and a mul behind it masks them */
    bool bucketed; /* rows read by bucketed distances: all arithmetic is on indices */
    bool indexed;  /* a lookup by computed indices; the operations are assumed to compute the indices */
};
void zt_torch_read_folding(struct zt_arena *arena, const struct zt_value *v, const struct zt_map *listed,
                           struct zt_torch_folding *to);

/* The module in a path that TorchScript gives a node: "/h/h.0/attn/MatMul" is "h.0.attn"; "" where there is none. */
const char *zt_torch_module(struct zt_arena *arena, const char *node);

/* Whether `name` is `with` and a number. */
bool zt_torch_is_numbered(const char *name, const char *with);
/* Whether a file without a signature comes from the TorchScript exporter. */
bool zt_torch_is_script(const struct zt_onnx *model);
/* Whether a file without a signature comes from the dynamo exporter and has lost its metadata, as onnxruntime's
 * optimizer leaves it. */
bool zt_torch_is_stripped(const struct zt_onnx *model);
/* Whether the TorchScript exporter made the value of others: "onnx::MatMul_7". */
bool zt_torch_is_made(const struct zt_onnx *model, const struct zt_value *v);
/* Whether a name can be a state name such as "encoder.0.weight", and not a numbered value ("onnx::Mul_19", "val_3",
 * "12") or the path of a node ("/fc/Constant_output_0"). */
bool zt_torch_is_state_name(const char *name);

#endif
