/* Selection of the operands that ztrain.qat quantizes. */
#include "plan/job/qat.h"

#include "base/text.h"
#include "base/vec.h"
#include "graph/passes/trainable/torch.h"
#include "plan/job/adapter_names.h"

#include <string.h>

struct finder {
    struct zt_job *job;
    struct zt_graph *g;    /* of the file, where copies of initializers are initializers */
    bool *needed;          /* by file_index: the loss depends on the node */
    bool *fits;            /* by pattern: it selects a node that can be quantized */
    const char **blocked;  /* by pattern: the first node that it selects and that cannot; NULL: none */
    struct zt_map listed;  /* names in PyTorch's signature */
    struct zt_map pair_of; /* value and axis -> pair */
    struct zt_map names;   /* of states and scales */
    ZT_VEC(struct zt_qat_pair) pairs;
    ZT_VEC(const char *) left_out;
    struct zt_err *err;
};

enum { MOST_HOPS = 16 }; /* nodes between a weight and its reader */

/* ---- weights ---- */

static const struct zt_node *producer_of(const struct zt_graph *g, int value) {
    const struct zt_value *v = g->values[value];
    const bool made = v->origin == ZT_FROM_NODE && v->producer >= 0 && v->producer < g->node_count;
    return made ? g->nodes[v->producer] : NULL;
}

/* Whether the node only copies its input or permutes its axes. */
static bool is_move(const struct zt_node *n) {
    const struct zt_op *op = zt_op_of(&zt_ops, n);
    return op && (op->axis_before || zt_op_copies(op)) && n->in_count > 0 && n->in[0] >= 0;
}

/* Returns the axis of the input of a move that is axis `axis` of its output; -1: unknown. */
static int axis_before(const struct zt_node *move, int rank, int axis) {
    const struct zt_op *op = zt_op_of(&zt_ops, move);
    return op->axis_before && axis < rank ? op->axis_before(move, rank, axis) : axis;
}

struct zt_qat_source zt_qat_source_of(const struct zt_graph *g, int value, int axis) {
    const struct zt_node *chain[MOST_HOPS];
    int hops = 0;
    const struct zt_node *n;
    while ((n = producer_of(g, value)) && hops < MOST_HOPS && is_move(n)) {
        chain[hops++] = n;
        value = n->in[0];
    }
    const struct zt_value *v = g->values[value];
    if (v->origin != ZT_FROM_INITIALIZER)
        return (struct zt_qat_source){ -1, -1 };
    for (int i = 0; i < hops && axis >= 0; i++)
        axis = axis_before(chain[i], v->shape.rank, axis);
    return (struct zt_qat_source){ value, axis };
}

/* Returns the axis of the output channels in operand `in` of that rank; -1: it has none. */
static int channel_axis(const struct zt_node *n, int in, int rank) {
    return rank < 2 ? -1 : zt_op_of(&zt_ops, n)->channel_axis(n, in, rank);
}

/* Returns the operand that is a weight; -1: neither or both. */
static int weight_in(const struct finder *f, const struct zt_node *n) {
    bool weight[2];
    for (int in = 0; in < 2; in++)
        weight[in] = channel_axis(n, in, 2) >= 0 && zt_qat_source_of(f->g, n->in[in], -1).value >= 0;
    return weight[0] == weight[1] ? -1 : weight[1];
}

/* ---- selection ---- */

static bool is_product(const struct zt_node *n) {
    return n->in_count >= 2 && n->in[0] >= 0 && n->in[1] >= 0 && zt_op_has_channels(zt_op_of(&zt_ops, n));
}

static bool selects(const struct finder *f, const char *pattern, const struct zt_node *n, const struct zt_value *w) {
    return zt_glob(pattern, n->name) ||
           (w && (zt_glob(pattern, w->name) || zt_glob(pattern, zt_parameter_of(f->job->arena, w, &f->listed))));
}

/* Why a node cannot be quantized; NULL: it can. */
static const char *obstacle(const struct finder *f, const struct zt_node *n, const struct zt_value *w) {
    for (int i = 0; i < 2; i++)
        if (zt_node_is(producer_of(f->g, n->in[i]), "DequantizeLinear"))
            return "is quantized in the file";
    if (!w)
        return "has not one operand that is an initializer";
    if (w->dtype != ZT_FLOAT)
        return zt_arena_printf(f->job->arena, "has a weight of type %s", zt_dtype_name(w->dtype));
    return zt_shape_known(&w->shape) && zt_shape_count(&w->shape) ? NULL : "has a weight without elements";
}

static bool is_selected(struct finder *f, const struct zt_node *n, const struct zt_value *w) {
    const struct zt_texts *match = &f->job->config->qat.match;
    const char *why = NULL;
    bool selected = false;
    for (int p = 0; p < match->count; p++) {
        if (!selects(f, match->at[p], n, w))
            continue;
        why = selected ? why : obstacle(f, n, w);
        selected = true;
        f->fits[p] |= !why;
        if (why && !f->blocked[p])
            f->blocked[p] = zt_arena_printf(f->job->arena, "\"%s\" (%s), which %s", n->name, n->op_type, why);
    }
    if (selected && why)
        zt_vec_push(&f->left_out, zt_arena_printf(f->job->arena, "left out: %s (%s) %s", n->name, n->op_type, why));
    return selected && !why;
}

/* ---- pairs ---- */

static const char *free_name(struct finder *f, const char *value, const char *what) {
    const char *name = zt_arena_printf(f->job->arena, "%s.%s", value, what);
    while (zt_graph_find(f->g, name) >= 0 || zt_map_get(&f->names, name, 0))
        name = zt_arena_printf(f->job->arena, "%s.%s", name, what);
    zt_map_put(&f->names, name, 1);
    return name;
}

static void add_reader(struct finder *f, struct zt_qat_pair *p, const struct zt_node *n, int in) {
    if (p->reader_count == p->reader_room) {
        p->reader_room = 2 * p->reader_room + 2;
        struct zt_onnx_reader *all = ZT_NEW_N(f->job->arena, struct zt_onnx_reader, p->reader_room);
        if (p->reader_count)
            memcpy(all, p->readers, (size_t)p->reader_count * sizeof *all);
        p->readers = all;
    }
    p->readers[p->reader_count++] = (struct zt_onnx_reader){ n->file_index, in };
}

static void quantize(struct finder *f, const struct zt_node *n, int in, bool weight) {
    const struct zt_value *v = f->g->values[n->in[in]];
    const struct zt_qat_source any = zt_qat_source_of(f->g, n->in[in], -1);
    const int rank = weight ? f->g->values[any.value]->shape.rank : 0;
    const int axis = weight && !f->job->config->qat.per_tensor ? channel_axis(n, in, rank) : -1;
    const char *key = zt_arena_printf(f->job->arena, "%d:%s", axis, v->name);
    int at = zt_map_get(&f->pair_of, key, -1);
    if (at < 0) {
        const struct zt_qat_source from = zt_qat_source_of(f->g, n->in[in], axis);
        struct zt_qat_pair p = { .value = zt_arena_strdup(f->job->arena, v->name),
                                 .axis = axis,
                                 .initializer_axis = from.axis,
                                 .scales = 1,
                                 .store = free_name(f, v->name, weight ? "scale" : "range") };
        if (weight) {
            p.initializer = zt_arena_strdup(f->job->arena, f->g->values[from.value]->name);
            p.scales = from.axis < 0 ? 1 : f->g->values[from.value]->shape.dim[from.axis];
        }
        at = f->pairs.count;
        zt_map_put(&f->pair_of, key, at);
        zt_vec_push(&f->pairs, p);
    }
    add_reader(f, &f->pairs.at[at], n, in);
}

static void find(struct finder *f) {
    const struct zt_qat_config *c = &f->job->config->qat;
    for (int i = 0; i < f->g->node_count; i++) {
        const struct zt_node *n = f->g->nodes[i];
        if (!is_product(n) || !f->needed[n->file_index])
            continue;
        const int in = weight_in(f, n);
        const struct zt_value *w = in < 0 ? NULL : f->g->values[zt_qat_source_of(f->g, n->in[in], -1).value];
        if (!is_selected(f, n, w))
            continue;
        if (c->weights)
            quantize(f, n, in, true);
        if (c->activations)
            quantize(f, n, !in, false);
    }
}

/* ---- adapters ---- */

static bool is_quantized(const struct finder *f, const struct zt_node *n) {
    for (int p = 0; p < f->pairs.count; p++)
        for (int i = 0; i < f->pairs.at[p].reader_count && f->pairs.at[p].initializer; i++)
            if (f->pairs.at[p].readers[i].node == n->file_index)
                return true;
    return false;
}

/* A weight with an adapter is quantized after its change. */
static void form_adapted(struct finder *f, struct zt_graph *g) {
    for (int k = 0; k < f->job->adapter_count; k++) {
        struct zt_adapter *a = &f->job->adapters[k];
        struct zt_weight_readers readers;
        zt_weight_readers_find(g, zt_graph_find(g, a->weight), &readers);
        for (int i = 0; i < readers.count && !a->formed; i++)
            a->formed = !readers.at[i].inside && is_quantized(f, readers.at[i].of);
        if (a->formed && a->dropout > 0)
            zt_fail(
                f->err, ZT_EXIT_CONFIG,
                "ztrain.lora.dropout: %g excludes ztrain.qat.weights, which quantizes \"%s\" with its adapter: what "
                "enters the adapter alone cannot be dropped",
                a->dropout, a->weight);
    }
}

/* ---- errors ---- */

static void check_patterns(const struct finder *f) {
    const struct zt_texts *match = &f->job->config->qat.match;
    for (int p = 0; p < match->count; p++) {
        if (f->fits[p])
            continue;
        if (f->blocked[p])
            zt_fail(f->err, ZT_EXIT_CONFIG, "ztrain.qat.match[%d]: \"%s\" matches only what cannot be quantized: %s", p,
                    match->at[p], f->blocked[p]);
        else
            zt_fail(f->err, ZT_EXIT_CONFIG,
                    "ztrain.qat.match[%d]: \"%s\" matches no MatMul, Gemm or Conv with a weight, and no such weight", p,
                    match->at[p]);
    }
}

static bool is_of_8_bits(enum zt_qat_type type) {
    return type == ZT_QAT_NONE || type == ZT_QAT_INT8 || type == ZT_QAT_UINT8;
}

/* The standard's nodes have axes from opset 13 on, and types of 4 and 16 bits from 21 on. */
static bool check_opset(const struct finder *f) {
    const struct zt_qat_config *c = &f->job->config->qat;
    const struct zt_onnx *model = f->job->model;
    const bool wide = !is_of_8_bits(c->weights) || !is_of_8_bits(c->activations), axis = c->weights && !c->per_tensor;
    const int wanted = wide ? 21 : axis ? 13 : 10;
    for (int i = 0; i < model->opset_count; i++)
        if (!model->opsets[i].domain[0] && model->opsets[i].version < wanted)
            return zt_fail(f->err, ZT_EXIT_CONFIG,
                           "ztrain.qat.%s: %s came with opset %d, %s imports opset %lld: convert the model to opset %d",
                           c->weights ? "weights" : "activations",
                           wide   ? "QuantizeLinear of 4 and 16 bits"
                           : axis ? "QuantizeLinear along an axis (ztrain.qat.per \"tensor\" does without)"
                                  : "QuantizeLinear",
                           wanted, model->path, (long long)model->opsets[i].version, wanted);
    return true;
}

/* Marks the nodes of the file that `g` has as they are. */
static void find_needed(struct finder *f, const struct zt_graph *g) {
    int most = 0;
    for (int i = 0; i < f->g->node_count; i++)
        most = f->g->nodes[i]->file_index > most ? f->g->nodes[i]->file_index : most;
    f->needed = ZT_NEW_N(f->job->arena, bool, most + 1);
    for (int i = 0; i < g->node_count; i++) {
        const struct zt_node *n = g->nodes[i];
        if (!n->dead && n->file_index >= 0 && n->file_index <= most)
            f->needed[n->file_index] = true;
    }
}

static void keep(struct finder *f) {
    struct zt_job *job = f->job;
    job->pair_count = f->pairs.count;
    job->pairs = zt_vec_copy(job->arena, &f->pairs);
    job->unquantized.count = f->left_out.count;
    job->unquantized.at = zt_vec_copy(job->arena, &f->left_out);
    zt_graph_destroy(f->g);
    zt_vec_finish(&f->pairs);
    zt_vec_finish(&f->left_out);
    zt_map_finish(&f->listed);
    zt_map_finish(&f->pair_of);
    zt_map_finish(&f->names);
}

bool zt_job_find_pairs(struct zt_job *job, struct zt_graph *g, struct zt_err *err) {
    const struct zt_qat_config *c = &job->config->qat;
    struct finder f = { .job = job, .err = err };
    const int before = err->count;
    if (!c->weights && !c->activations)
        return true;
    f.g = zt_graph_clone(job->model->graph);
    zt_pass_split_aliases(f.g, &zt_ops, job->model);
    if (job->model->torch_signature)
        zt_torch_read_signature(job->arena, job->model->torch_signature, &f.listed);
    f.fits = ZT_NEW_N(job->arena, bool, c->match.count + 1);
    f.blocked = ZT_NEW_N(job->arena, const char *, c->match.count + 1);
    find_needed(&f, g);
    if (check_opset(&f)) {
        find(&f);
        check_patterns(&f);
        form_adapted(&f, g);
    }
    keep(&f);
    return err->count == before;
}
