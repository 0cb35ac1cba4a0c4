/* Parameters that torch's dynamo exporter merged or removed. Its optimizer makes one initializer of all that have equal
 * contents, and removes biases of zeros:
 *
 *     LayerNormalization(tanh, a.weight, a.bias)     layer_norm(%tanh, [8], %p_b_weight, %p_b_bias, 1e-05)
 *     Gemm(x, fc.weight), RemoveOptionalBiasFromGemm    linear(%x, %p_fc_weight, %p_fc_bias)
 *
 * The traced call, which the exporter keeps in the metadata of each node, names the parameters and buffers that the
 * node read before that. An initializer of another name is then that of an argument that no initializer holds: the one
 * with the same last component ("weight"), or in order where there are as many of the one as of the other. One number
 * that no argument stands for is a constant. What stays unclear is left as it is, and told (zt_trainable_missing). */
#include "graph/passes/trainable/trainable.h"

#include "graph/ir/op.h"
#include "graph/passes/trainable/torch.h"

#include <string.h>

enum {
    ARGUMENTS = 16, /* of one call that are in the signature; more are not looked at */
    MOST_CHANNELS = 1 << 24
};

struct merged {
    struct zt_onnx *model;
    const struct zt_op_table *table;
    struct zt_graph *g;
    struct zt_arena *arena;
    struct zt_map listed, held, at_placeholder;
    struct zt_torch_state *states;
    struct given {
        const char *name; /* of the initializer that a state got; NULL: none yet */
        int source;       /* the value that it is a copy of */
    } * given;
    int *reads; /* of each value, how many inputs of nodes */
};

/* A node, its inputs that are initializers of other arguments, and arguments that no initializer holds. */
struct call {
    const struct zt_node *n;
    int argument[ARGUMENTS], argument_count; /* states */
    int other[ARGUMENTS], other_count;       /* inputs */
    int lost[ARGUMENTS], lost_count;         /* states; -1: found */
    bool filled;                             /* an argument is a tensor of one number */
    bool unclear; /* an argument is no value of the graph: the exporter removed it, perhaps a copy of a parameter */
};

static void read_call(struct merged *m, struct call *c) {
    const char *at;
    zt_torch_call(m->arena, c->n, &at);
    for (const char *name; at && (name = zt_torch_next_argument(m->arena, &at));) {
        const int state = zt_map_get(&m->at_placeholder, name, -1);
        bool known = state < 0;
        for (int i = 0; i < c->argument_count; i++)
            known |= c->argument[i] == state;
        c->filled |= state < 0 && zt_torch_is_filled(m->arena, name);
        c->unclear |= state < 0 ? zt_graph_find(m->g, name) < 0 : !known && c->argument_count == ARGUMENTS;
        if (known || c->argument_count == ARGUMENTS)
            continue;
        c->argument[c->argument_count++] = state;
        if (!zt_map_get(&m->held, m->states[state].target, 0))
            c->lost[c->lost_count++] = state;
    }
}

/* The parameter, buffer or constant whose contents the initializer has, as they are or (`rearranged`) placed elsewhere;
 * NULL: those of several, or computed ones. */
static const char *state_of(const struct merged *m, const struct zt_value *v, bool *rearranged) {
    struct zt_torch_folding folding;
    zt_torch_read_folding(m->arena, v, &m->listed, &folding);
    *rearranged = folding.parameter != NULL;
    if (folding.buffer || folding.parameters > 1 || (folding.parameter && (folding.operation_count || folding.copied)))
        return NULL;
    return folding.parameter ? folding.parameter : v->name;
}

/* Whether an initializer may be one of several that were merged. */
static bool may_be_merged(const struct merged *m, const struct zt_value *v) {
    bool rearranged;
    return v->origin == ZT_FROM_INITIALIZER && zt_dtype_in(v->dtype, ZT_ANY_FLOAT) && m->reads[v->id] >= 2 &&
           (v->torch_kind || v->shape.rank > 0) && state_of(m, v, &rearranged);
}

static bool is_argument(const struct merged *m, const struct call *c, const struct zt_value *v) {
    bool rearranged;
    const char *state = state_of(m, v, &rearranged);
    for (int i = 0; i < c->argument_count; i++)
        if (strcmp(m->states[c->argument[i]].target, state) == 0)
            return true;
    return false;
}

/* The first input that reads an argument's initializer is the argument, a second one another. */
static void find_others(const struct merged *m, struct call *c) {
    for (int i = 0; i < c->n->in_count; i++) {
        const int id = c->n->in[i];
        bool again = false;
        if (id < 0 || !may_be_merged(m, m->g->values[id]))
            continue;
        for (int k = 0; k < i; k++)
            again |= c->n->in[k] == id;
        if ((again || !is_argument(m, c, m->g->values[id])) && c->other_count < ARGUMENTS)
            c->other[c->other_count++] = i;
    }
}

static const char *last_component(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

static const char *kind_name(enum zt_torch_kind kind) {
    return kind == ZT_TORCH_PARAMETER ? "PARAMETER" : "BUFFER";
}

static void give(struct merged *m, const struct call *c, int in, struct zt_onnx_own own) {
    const struct zt_value *v = m->g->values[c->n->in[in]];
    own.tensor = (struct zt_tensor){ v->dtype, v->shape, v->data };
    own.node = c->n->file_index;
    own.in = in;
    own.is_copy = true;
    zt_onnx_own(m->model, &own);
}

/* A name like that of `v`, which says how it was made, with another number. */
static const char *number_anew(const struct merged *m, const struct zt_value *v) {
    enum { FIRST = 1000 };
    size_t length = strlen(v->name);
    while (length && strchr("0123456789_", v->name[length - 1]))
        length--;
    for (int i = FIRST;; i++) {
        const char *name = zt_arena_printf(m->arena, "%.*s_%d", (int)length, v->name, i);
        if (zt_graph_find(m->g, name) < 0)
            return name;
    }
}

/* Gives the input the initializer of a state that the file lacks. A state that was given one keeps it. */
static void give_state(struct merged *m, const struct call *c, int in, int state) {
    const struct zt_value *v = m->g->values[c->n->in[in]];
    const struct zt_torch_state *is = &m->states[state];
    struct given *given = &m->given[state];
    struct zt_onnx_own own = { .name = is->target, .kind = kind_name(is->kind) };
    bool rearranged;
    state_of(m, v, &rearranged);
    if (given->name && given->source != v->id)
        return;
    if (rearranged)
        own = (struct zt_onnx_own){ .name = given->name ? given->name : number_anew(m, v),
                                    .folded_from = zt_arena_printf(m->arena, "['%s']", is->target) };
    *given = (struct given){ own.name, v->id };
    give(m, c, in, own);
}

/* The place in `lost` of the one argument that goes by the initializer's last component; -1: none, or several. */
static int find_component(const struct merged *m, const struct call *c, const char *name) {
    int found = -1;
    for (int i = 0; i < c->lost_count; i++)
        if (c->lost[i] >= 0 && strcmp(last_component(m->states[c->lost[i]].target), last_component(name)) == 0) {
            if (found >= 0)
                return -1;
            found = i;
        }
    return found;
}

static int find_namesake(const struct merged *m, const struct call *c, int in) {
    bool rearranged;
    return find_component(m, c, state_of(m, m->g->values[c->n->in[in]], &rearranged));
}

/* Whether the last components give each input an argument of its own. */
static bool have_components(const struct merged *m, const struct call *c) {
    bool taken[ARGUMENTS] = { false };
    for (int i = 0; i < c->other_count; i++) {
        const int at = find_namesake(m, c, c->other[i]);
        if (at < 0 || taken[at])
            return false;
        taken[at] = true;
    }
    return true;
}

/* Whether an input that is no argument's initializer stands for a number of the call or of what the exporter made of
 * it, which was merged with a parameter: 0.001 of add(%x, 0.001), 0.5 of a GELU. */
static bool is_number(const struct call *c, const struct zt_value *v) {
    const bool plain = !c->n->torch_rule && !c->unclear && zt_shape_count(&v->shape) == 1;
    return (c->filled || plain) && !c->lost_count && v->torch_kind && strcmp(v->torch_kind, "PARAMETER") == 0;
}

static void split_others(struct merged *m, struct call *c) {
    const bool in_order = c->other_count == c->lost_count && !have_components(m, c);
    for (int i = 0; i < c->other_count; i++) {
        const struct zt_value *v = m->g->values[c->n->in[c->other[i]]];
        const int at = in_order ? i : find_namesake(m, c, c->other[i]);
        if (at >= 0) {
            give_state(m, c, c->other[i], c->lost[at]);
            c->lost[at] = -1;
        } else if (is_number(c, v))
            give(m, c, c->other[i],
                 (struct zt_onnx_own){ .name = zt_arena_printf(m->arena, "%s.constant", v->name),
                                       .kind = "CONSTANT_TENSOR" });
    }
}

static int64_t attribute(const struct zt_node *n, const char *name, int64_t otherwise) {
    const struct zt_attr *a = zt_node_attr(n, name);
    return a ? a->i : otherwise;
}

/* Returns the number of output channels, by the weight; 0: unknown. */
static int64_t find_channels(const struct merged *m, const struct zt_node *n, const struct zt_value *weight) {
    const struct zt_op *op = zt_op_of(m->table, n);
    const int64_t group = attribute(n, "group", 1);
    if (weight->origin != ZT_FROM_INITIALIZER || !zt_dtype_in(weight->dtype, ZT_ANY_FLOAT) || weight->shape.rank < 2 ||
        zt_shape_count(&weight->shape) < 1 || group < 1 || group > weight->shape.dim[0])
        return 0;
    if (!op || !op->channel_axis || op->max_in < 3)
        return 0;
    const int64_t channels = weight->shape.dim[op->channel_axis(n, 1, weight->shape.rank)];
    return op->flags & ZT_OP_GROUP_CHANNELS ? channels * group : channels;
}

/* The rewriter removes a third input of zeros. */
static void restore_bias(struct merged *m, const struct call *c) {
    static const char rule[] = "RemoveOptionalBiasFrom";
    int lost = -1, count = 0;
    for (int i = 0; i < c->lost_count; i++)
        if (c->lost[i] >= 0 && m->states[c->lost[i]].kind == ZT_TORCH_PARAMETER) {
            lost = c->lost[i];
            count++;
        }
    if (!c->n->torch_rule || strncmp(c->n->torch_rule, rule, sizeof rule - 1) != 0 || c->n->in_count != 2 ||
        c->n->in[1] < 0 || count != 1)
        return;
    const struct zt_value *weight = m->g->values[c->n->in[1]];
    const int64_t channels = find_channels(m, c->n, weight);
    if (channels < 1 || channels > MOST_CHANNELS)
        return;
    const size_t bytes = (size_t)channels * zt_dtype_bytes(weight->dtype);
    const void *zeros = zt_arena_alloc(m->arena, bytes);
    zt_onnx_own(m->model, &(struct zt_onnx_own){ .name = m->states[lost].target,
                                                 .kind = "PARAMETER",
                                                 .tensor = { weight->dtype, { 1, { channels } }, zeros },
                                                 .node = c->n->file_index,
                                                 .in = 2 });
}

static void hold(struct merged *m, const struct zt_value *v) {
    const char *list = v->torch_folded_from ? v->torch_folded_from : "";
    zt_map_put(&m->held, v->name, 1);
    for (const char *name; (name = zt_torch_next_source(m->arena, &list));)
        zt_map_put(&m->held, name, 1);
}

static void survey(struct merged *m) {
    const int count = zt_torch_states(m->arena, m->model->torch_signature, &m->states);
    m->given = ZT_NEW_N(m->arena, struct given, count + 1);
    zt_torch_read_signature(m->arena, m->model->torch_signature, &m->listed);
    for (int i = 0; i < count; i++)
        zt_map_put(&m->at_placeholder, m->states[i].placeholder, i);
    for (int i = 0; i < m->g->value_count; i++)
        if (m->g->values[i]->origin == ZT_FROM_INITIALIZER)
            hold(m, m->g->values[i]);
    for (int n = 0; n < m->g->node_count; n++)
        for (int i = 0; i < m->g->nodes[n]->in_count; i++)
            if (m->g->nodes[n]->in[i] >= 0)
                m->reads[m->g->nodes[n]->in[i]]++;
}

void zt_pass_split_merged(struct zt_onnx *model, const struct zt_op_table *table) {
    struct zt_graph *g = model->graph;
    struct merged m = { .model = model, .table = table, .g = g, .arena = g->arena };
    if (!model->torch_signature)
        return;
    m.reads = ZT_NEW_N(g->arena, int, g->value_count + 1);
    const int values = g->value_count;
    survey(&m);
    for (int i = 0; i < g->node_count; i++) {
        struct call c = { .n = g->nodes[i] };
        if (!c.n->torch_fx_node || c.n->file_index != i || strcmp(c.n->op_type, "Cast") == 0)
            continue;
        read_call(&m, &c);
        find_others(&m, &c);
        split_others(&m, &c);
        restore_bias(&m, &c);
    }
    if (g->value_count > values) {
        struct zt_err none = { 0 };
        zt_graph_sort(g, &none); /* it stays sorted: only initializers are read anew */
    }
    zt_map_finish(&m.listed);
    zt_map_finish(&m.held);
    zt_map_finish(&m.at_placeholder);
}
