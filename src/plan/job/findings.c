/* Findings about the parameters of a model: what its exporter lost, what was restored, what is doubtful. Each kind is
 * one line, so that the report is short for any model; `ztrain inspect` lists every tensor. */
#include "plan/job/findings.h"

#include "base/text.h"
#include "base/map.h"
#include "base/vec.h"
#include "graph/passes/trainable/torch.h"
#include "plan/job/padding.h"
#include "plan/job/parameters.h"

#include <string.h>

struct names {
    const char **at;
    int count, room;
};

struct findings {
    struct zt_job *job;
    const struct zt_graph *g;
    struct zt_map listed; /* names in PyTorch's signature */
    struct zt_map apart;  /* tensors that are told to hold elements several times */
    struct zt_trainable_fold *folds;
    int fold_count;
};

static void find(struct findings *f, bool warning, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void find(struct findings *f, bool warning, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const char *text = zt_arena_vprintf(f->job->arena, fmt, args);
    va_end(args);
    if (f->job->finding_count < ZT_FINDINGS)
        f->job->findings[f->job->finding_count++] = (struct zt_finding){ text, warning };
}

static void push_all(struct names *to, const char *const *at, int count) {
    for (int i = 0; i < count; i++)
        zt_vec_push(to, at[i]);
}

/* Returns "a, b, c and 4 more" and clears `names`. */
static const char *listed(const struct findings *f, struct names *names) {
    enum { SHOWN = 3 };
    struct zt_text text = { 0 };
    for (int i = 0; i < names->count && i < SHOWN; i++)
        zt_text_add(&text, "%s%s", i ? ", " : "", names->at[i]);
    if (names->count > SHOWN)
        zt_text_add(&text, " and %d more", names->count - SHOWN);
    const char *all = zt_arena_strdup(f->job->arena, text.at ? text.at : "");
    zt_text_finish(&text);
    zt_vec_finish(names);
    return all;
}

/* ---- tensors folded by torch's dynamo exporter ---- */

/* Whether a tensor that gets no gradient was computed from a parameter that the file trains: it stays what it was. */
static bool is_left_behind(const struct findings *f, const struct zt_value *v, const char *parameter) {
    const int id = v->may_train ? -1 : zt_graph_find(f->g, parameter);
    return id >= 0 && f->g->values[id]->trainable;
}

/* Finds tensors computed from parameters that the file does not contain, or that no gradient reaches. */
static void find_lost(struct findings *f) {
    struct names fixed = { 0 }, lost = { 0 };
    for (int i = 0; i < f->g->value_count; i++) {
        const struct zt_value *v = f->g->values[i];
        struct zt_torch_folding folding;
        if (v->origin != ZT_FROM_INITIALIZER || v->trainable || !v->torch_folded_from ||
            !zt_dtype_in(v->dtype, ZT_ANY_FLOAT) || zt_graph_users(f->g, i, NULL) == 0)
            continue;
        zt_torch_read_folding(f->g->arena, v, &f->listed, &folding);
        if (!folding.parameter || !folding.operation_count)
            continue;
        if (!v->may_train && !is_left_behind(f, v, folding.parameter))
            continue;
        zt_vec_push(&fixed, v->name);
        zt_vec_push(&lost, folding.parameter);
    }
    if (fixed.count)
        find(f, true,
             "%s: computed by the exporter from parameters (%s), and fixed; torch.onnx.export(..., optimize=False) "
             "keeps "
             "the parameters, a name in ztrain.trainable trains the result",
             listed(f, &fixed), listed(f, &lost));
}

/* Finds rearranged parameters. Those recognised by numbered names alone are a guess. */
static void find_moved(struct findings *f) {
    struct names guessed = { 0 }, mixed = { 0 }, apart = { 0 };
    for (int i = 0; i < f->g->value_count; i++) {
        const struct zt_value *v = f->g->values[i];
        struct zt_torch_folding folding;
        if (v->origin != ZT_FROM_INITIALIZER || !v->trainable || v->torch_kind || !v->torch_folded_from)
            continue;
        zt_torch_read_folding(f->g->arena, v, &f->listed, &folding);
        const char *repeats = zt_derived_apart(f->job->arena, v, &f->listed);
        if (repeats) {
            zt_map_put(&f->apart, v->name, 1);
            zt_vec_push(&apart, zt_arena_printf(f->job->arena, "%s (of %s)", v->name, repeats));
        } else if (folding.buffer)
            zt_vec_push(&mixed, zt_arena_printf(f->job->arena, "%s (of %s)", v->name, folding.buffer));
        else if (!folding.moved || folding.indexed)
            zt_vec_push(&guessed, zt_arena_printf(f->job->arena, "%s (of %s)", v->name, folding.parameter));
    }
    if (mixed.count)
        find(f, true, "%s: concatenated by the exporter from parameters and a buffer; the whole tensor trains",
             listed(f, &mixed));
    if (apart.count)
        find(f, true,
             "%s: may hold elements of a parameter several times, which train separately; torch.onnx.export(..., "
             "optimize=False) keeps the parameter",
             listed(f, &apart));
    if (guessed.count)
        find(f, false, "%s: assumed to be rearranged parameters, judging by their names", listed(f, &guessed));
}

/* Finds parameters of the signature without a tensor. The signature lists tied weights once for each of their names, so
 * it may have one missing name for each embedding that a matrix product also reads. */
static void find_missing(struct findings *f) {
    const char **missing;
    struct names names = { 0 };
    const int count = zt_trainable_missing(f->job->model, &missing);
    push_all(&names, missing, count);
    if (count && count <= zt_trainable_shared(f->g))
        find(f, false, "%s: shares the parameter of the embedding that a matrix product reads", listed(f, &names));
    else if (count)
        find(f, true,
             "%s: parameters missing from the file: merged with equal ones, or folded into others; "
             "torch.onnx.export(..., optimize=False) keeps them",
             listed(f, &names));
}

/* Finds what was split and restored on reading (zt_pass_split_merged()). */
static void find_split(struct findings *f) {
    const struct zt_onnx_own *owned;
    struct names merged = { 0 }, fixed = { 0 }, removed = { 0 };
    struct zt_map seen = { 0 };
    const int count = zt_onnx_owned(f->job->model, &owned);
    for (int i = 0; i < count; i++) {
        if (zt_map_get(&seen, owned[i].name, 0))
            continue;
        zt_map_put(&seen, owned[i].name, 1);
        const bool trains = !owned[i].kind || strcmp(owned[i].kind, "PARAMETER") == 0;
        struct names *to = !trains ? &fixed : owned[i].is_copy ? &merged : &removed;
        zt_vec_push(to, owned[i].name);
    }
    if (merged.count)
        find(f, false, "%s: merged by the exporter with equal tensors; trained separately", listed(f, &merged));
    if (removed.count)
        find(f, false, "%s: zeros that the exporter removed; trained again", listed(f, &removed));
    if (fixed.count)
        find(f, false, "%s: merged by the exporter with equal parameters; fixed", listed(f, &fixed));
    zt_map_finish(&seen);
}

/* ---- any exporter ---- */

static void find_optimized(struct findings *f) {
    if (zt_trainable_is_optimized(f->job->model))
        find(f, true,
             "the file was rewritten by onnxruntime's optimizer, which computes with parameters, merges equal ones and "
             "drops what tells buffers, detach() and frozen weights: train the file that the exporter wrote");
}

static void find_folds(struct findings *f) {
    struct names names = { 0 };
    f->fold_count = zt_trainable_folds(f->job->model, &f->folds);
    for (int i = 0; i < f->fold_count; i++)
        zt_vec_push(&names, f->job->model->graph->values[f->folds[i].weight]->name);
    if (names.count)
        find(f, true, "%s: hold a folded normalization and train as plain layers with a bias; to keep it: %s",
             listed(f, &names), zt_trainable_unfold(f->folds[0].by));
}

/* Whether a tensor numbered by TorchScript is only rearranged: the transposed weight of a product, or packed weights of
 * a recurrent node. A product that transposes the weight itself would have read the parameter, a mask leaves zeros,
 * and sums of 1 a softmax. */
static bool is_rearranged(const struct findings *f, const struct zt_value *v) {
    static const char *const recurrent[] = { "LSTM", "GRU", "RNN", NULL };
    int reader = -1;
    if (zt_graph_users(f->g, v->id, &reader) == 0)
        return true;
    const struct zt_node *n = f->g->nodes[reader];
    const bool turned = n->op->flags & ZT_OP_PRODUCT && v->shape.rank == 2 && !zt_attr_int(n, "transB", 0);
    return zt_node_is_any(n, recurrent) || (turned && !zt_trainable_is_masked(v) && !zt_trainable_is_softmax(v));
}

/* Whether a tensor that TorchScript's exporter computed and no gradient reaches holds the squares of a parameter that
 * is trained, as a distance |x|^2 - 2 x c + |c|^2 to the nearest c has them. */
static bool is_left_squares(const struct findings *f, const struct zt_value *v) {
    if (v->trainable || v->may_train || !v->data || v->dtype != ZT_FLOAT || v->shape.rank < 2 ||
        !zt_torch_is_made(f->job->model, v) || zt_graph_users(f->g, v->id, NULL) == 0)
        return false;
    const float *square = v->data;
    for (int i = 0; i < f->g->value_count; i++) {
        const struct zt_value *of = f->g->values[i];
        if (!of->trainable || !of->data || of->dtype != ZT_FLOAT || !zt_shape_equal(&of->shape, &v->shape))
            continue;
        const float *x = of->data;
        int64_t k = 0, count = zt_shape_count(&v->shape);
        while (k < count && square[k] == x[k] * x[k])
            k++;
        if (k == count)
            return true;
    }
    return false;
}

/* Whether a tensor is a guess: TorchScript numbers everything it computes from parameters. Folded normalizations are
 * listed separately. */
static bool is_numbered_guess(const struct findings *f, const struct zt_value *v) {
    if (!zt_torch_is_made(f->job->model, v) || zt_job_is_asked_for(f->job->config, v->name) || is_rearranged(f, v))
        return false;
    for (int i = 0; i < f->fold_count; i++) {
        const struct zt_trainable_fold *fold = &f->folds[i];
        if (strcmp(v->name, f->job->model->graph->values[fold->weight]->name) == 0 ||
            (fold->bias >= 0 && strcmp(v->name, f->job->model->graph->values[fold->bias]->name) == 0))
            return false;
    }
    return true;
}

/* Whether a tensor is reported elsewhere for what its name tells. */
static bool is_told(const struct findings *f, const struct zt_value *v) {
    return is_numbered_guess(f, v) || zt_map_get(&f->apart, v->name, 0);
}

/* Finds parts of one parameter, by their contents; after find_moved(). */
static void find_overlaps(struct findings *f) {
    struct zt_trainable_overlap *overlaps;
    struct names parts = { 0 };
    const int count = zt_trainable_overlaps(f->job->model, f->g, &overlaps);
    for (int i = 0; i < count; i++) {
        const struct zt_value *a = f->g->values[overlaps[i].a], *b = f->g->values[overlaps[i].b];
        if (!is_told(f, a) && !is_told(f, b))
            zt_vec_push(&parts, a == b ? a->name : zt_arena_printf(f->job->arena, "%s (in %s)", a->name, b->name));
    }
    if (!parts.count)
        return;
    const char *several = "elements of one parameter that the exporter stored several times, which train separately";
    if (zt_trainable_is_tensorflow(f->job->model))
        find(f, true, "%s: %s", listed(f, &parts), several);
    else
        find(f, true, "%s: %s; %s keeps the parameter", listed(f, &parts), several,
             f->job->model->torch_signature ? "torch.onnx.export(..., optimize=False)" : "do_constant_folding=False");
}

static bool is_fixed_scalar(const struct findings *f, const struct zt_value *v) {
    return v->origin == ZT_FROM_INITIALIZER && !v->trainable && v->may_train && v->shape.rank == 0 &&
           zt_graph_users(f->g, v->id, NULL) > 0;
}

/* Whether a scalar is numbered by TorchScript: it comes from a constant, or like 1 + eps from a lost parameter. */
static bool is_numbered_scalar(const struct findings *f, const struct zt_value *v) {
    return zt_torch_is_made(f->job->model, v) && is_fixed_scalar(f, v);
}

/* Whether a scalar is what tf2onnx computed from a variable. */
static bool is_computed_scalar(const struct findings *f, const struct zt_value *v) {
    return zt_trainable_is_computed(f->job->model, v) && is_fixed_scalar(f, v);
}

static void find_doubts(struct findings *f) {
    struct names doubts = { 0 }, guesses = { 0 }, scalars = { 0 }, computed = { 0 };
    for (int i = 0; i < f->g->value_count; i++) {
        const struct zt_value *v = f->g->values[i];
        if (is_numbered_scalar(f, v))
            zt_vec_push(&scalars, v->name);
        if (is_computed_scalar(f, v))
            zt_vec_push(&computed, v->name);
        if (is_left_squares(f, v))
            zt_vec_push(&guesses, v->name);
        if (v->origin != ZT_FROM_INITIALIZER || !v->trainable)
            continue;
        const bool asked = zt_job_is_asked_for(f->job->config, v->name);
        const char *why = asked ? NULL : zt_trainable_doubt(f->g, v, f->job->model);
        if (why)
            zt_vec_push(&doubts, zt_arena_printf(f->job->arena, "%s (%s)", v->name, why));
        else if (is_numbered_guess(f, v))
            zt_vec_push(&guesses, v->name);
    }
    if (doubts.count)
        find(f, true,
             "%s: may be a buffer or have requires_grad=False, but is trained; ztrain.freeze keeps it fixed, its name "
             "in "
             "ztrain.trainable confirms it",
             listed(f, &doubts));
    if (guesses.count)
        find(f, true,
             "%s: created by the exporter, possibly computed from a parameter; do_constant_folding=False keeps the "
             "parameter",
             listed(f, &guesses));
    if (scalars.count)
        find(f, true,
             "%s: a scalar created by the exporter, possibly computed from a parameter, and fixed; "
             "do_constant_folding=False keeps the parameter",
             listed(f, &scalars));
    if (computed.count)
        find(f, true, "%s: a scalar computed from variables by the exporter, and fixed; ztrain.trainable trains it",
             listed(f, &computed));
}

/* ---- what the file does not train as it was built ---- */

/* Finds statistics of normalizations that were written as plain operators, and what Paddle does not train. */
static void find_statistics(struct findings *f) {
    struct names statistics = { 0 }, others = { 0 };
    for (int i = 0; i < f->g->value_count; i++) {
        const struct zt_value *v = f->g->values[i];
        int reader = -1;
        if (v->origin != ZT_FROM_INITIALIZER || v->trainable || !v->may_train || v->torch_kind)
            continue;
        if (zt_trainable_statistic(f->g, v))
            zt_vec_push(&statistics, v->name);
        else if (zt_trainable_is_no_parameter(v->name) && zt_graph_users(f->g, i, &reader) > 0 &&
                 f->g->nodes[reader]->op && f->g->nodes[reader]->op->flops)
            zt_vec_push(&others, v->name);
    }
    if (statistics.count)
        find(f, true, "%s: statistics of a normalization that was written for inference, and fixed",
             listed(f, &statistics));
    if (others.count)
        find(f, true, "%s: computed from parameters by the exporter, and fixed; ztrain.trainable trains it",
             listed(f, &others));
}

/* Finds weights that a tool has quantized: integers have no gradient. */
static void find_integers(struct findings *f) {
    static const char *const readers[] = { "DequantizeLinear", "MatMulInteger", "ConvInteger",
                                           "QLinearMatMul",    "QLinearConv",   NULL };
    struct names integers = { 0 };
    for (int i = 0; i < f->g->value_count; i++) {
        const struct zt_value *v = f->g->values[i];
        int reader = -1;
        if (v->origin == ZT_FROM_INITIALIZER && v->shape.rank > 1 && !zt_dtype_in(v->dtype, ZT_ANY_FLOAT) &&
            zt_graph_users(f->g, i, &reader) > 0 && zt_node_is_any(f->g->nodes[reader], readers))
            zt_vec_push(&integers, v->name);
    }
    if (integers.count)
        find(f, true, "%s: stored as integers, and fixed; train the file that was quantized, with ztrain.qat",
             listed(f, &integers));
}

/* Finds Dropout that is off in the file: training drops what its ratio says. */
static void find_dropout(struct findings *f) {
    const struct zt_graph *g = f->job->model->graph;
    struct names names = { 0 };
    for (int n = 0; n < g->node_count; n++) {
        const struct zt_node *node = g->nodes[n];
        if (!zt_node_is(node, "Dropout"))
            continue;
        const struct zt_value *ratio = zt_in(g, n, 1), *on = zt_in(g, n, 2); /* from opset 12 on */
        const bool known = ratio && ratio->data, off = !on || (on->data && !*(const bool *)on->data);
        const double drops =
            known ? zt_load_double(ratio->dtype, ratio->data, 0) : (double)zt_attr_float(node, "ratio", .5F);
        if (off && drops != 0)
            zt_vec_push(&names, node->name);
    }
    if (names.count)
        find(f, false, "%s: Dropout that was exported for inference; training drops", listed(f, &names));
}

/* Whether a product with trained weights has a bias, its own or of the Add behind it. *counts: it has such weights. */
static bool has_bias(const struct zt_graph *g, const struct zt_node *n, bool *counts) {
    int reader = -1;
    *counts = zt_op_has_channels(n->op) && n->in[1] >= 0 && g->values[n->in[1]]->trainable;
    if (!*counts || (n->in_count > 2 && n->in[2] >= 0))
        return *counts;
    if (zt_graph_users(g, n->out[0], &reader) != 1 || !zt_node_is(g->nodes[reader], "Add"))
        return false;
    const int *in = g->nodes[reader]->in;
    return g->values[in[0]]->trainable || g->values[in[1]]->trainable;
}

/* Finds networks of tf2onnx without any bias: it removes those of zeros, as a new network has. */
static void find_no_bias(struct findings *f) {
    int products = 0, biases = 0;
    for (int n = 0; n < f->g->node_count && zt_trainable_is_tensorflow(f->job->model); n++) {
        bool counts;
        biases += has_bias(f->g, f->g->nodes[n], &counts);
        products += counts;
    }
    if (products && !biases)
        find(f, true,
             "no layer has a bias: tf2onnx removes biases of zeros and scales of ones, as a new network has them; "
             "export trained weights, or start them a little off");
}

/* Finds singular vectors of spectral norms, which PyTorch's training iterates. */
static void find_singular(struct findings *f) {
    struct names names = { 0 };
    for (int i = 0; i < f->g->value_count; i++) {
        const struct zt_value *v = f->g->values[i];
        if (v->origin == ZT_FROM_INITIALIZER && !v->trainable && strncmp(f->job->model->producer, "pytorch", 7) == 0 &&
            zt_trainable_is_singular(f->g, v))
            zt_vec_push(&names, v->name);
    }
    if (names.count)
        find(f, true, "%s: singular vectors of a spectral norm, which PyTorch iterates in training; fixed here",
             listed(f, &names));
}

/* Finds parameters on which the loss depends only through operators without a gradient; in a file that does not list
 * parameters those that are weights of layers. */
static void find_blocked(struct findings *f) {
    struct names names = { 0 };
    const char *at = NULL;
    for (int i = 0; i < f->g->value_count; i++) {
        const struct zt_value *v = f->g->values[i];
        int reader = -1;
        if (!v->unreached || !v->blocked_at || zt_graph_users(f->g, i, &reader) == 0 ||
            zt_parameter_fits(v, f->job->config->freeze.at, f->job->config->freeze.count))
            continue;
        if (!v->torch_kind && !v->torch_folded_from &&
            !(f->g->nodes[reader]->op && f->g->nodes[reader]->op->channel_axis))
            continue;
        zt_vec_push(&names, v->name);
        at = v->blocked_at;
    }
    if (names.count)
        find(f, true,
             "%s: no gradient passes %s, and the loss depends on them in no other way; if forward() estimates it in "
             "training, model.train() before torch.onnx.export() writes that",
             listed(f, &names), at);
}

/* Finds embeddings with max_norm, whose rows PyTorch shortens as it reads them. */
static void find_renormed(struct findings *f) {
    const struct zt_graph *g = f->job->model->graph;
    for (int n = 0; n < g->node_count; n++)
        if (g->nodes[n]->torch_fx_node && strstr(g->nodes[n]->torch_fx_node, "aten.embedding_renorm")) {
            find(f, true,
                 "max_norm of an embedding: PyTorch shortens the rows that a step reads, which is not done here");
            return;
        }
}

/* Finds sums that kept a square root or a quotient from zero. */
static void find_removed_sums(struct findings *f) {
    const char **nodes;
    struct names names = { 0 };
    const int count = zt_trainable_removed_sums(f->job->model, &nodes);
    push_all(&names, nodes, count);
    if (names.count)
        find(f, true,
             "%s: lacks the 1e-8 or less that the network adds before it, which the exporter removed; "
             "torch.onnx.export(..., optimize=False) keeps it",
             listed(f, &names));
}

/* Finds layers that are called again in a block without gradients. */
static void find_read_again(struct findings *f) {
    const char **nodes;
    struct names names = { 0 };
    const int count = zt_trainable_read_again(f->job->model, f->g, &nodes);
    push_all(&names, nodes, count);
    if (names.count)
        find(f, true,
             "%s: read parameters outside of their modules, as in torch.no_grad(), which the exporter drops; gradients "
             "flow through them; detach() in place of the block, exported with optimize=False, stops them",
             listed(f, &names));
}

/* Finds where gradients stop, and where they should. */
static void find_detached(struct findings *f) {
    const char **lost;
    struct names stopped = { 0 }, flows = { 0 };
    const int count = zt_trainable_flows(f->job->model, &lost);
    for (int n = 0; n < f->g->node_count; n++)
        if (strcmp(f->g->nodes[n]->op_type, "Detach") == 0 && strcmp(f->g->nodes[n]->domain, "ztrain") == 0)
            zt_vec_push(&stopped, f->g->nodes[n]->name);
    push_all(&flows, lost, count);
    if (stopped.count)
        find(f, false, "%s: no gradient passes, as the network was written", listed(f, &stopped));
    struct names both = { 0 };
    const int undetached = zt_trainable_undetached(f->job->model, f->g, &lost);
    push_all(&both, lost, undetached);
    if (both.count)
        find(
            f, true,
            "%s: between codes and what they stand for; if the network detaches one of the two, TorchScript's exporter "
            "drops that and gradients flow to both: torch.onnx.export(..., dynamo=True, optimize=False) keeps it",
            listed(f, &both));
    if (flows.count)
        find(f, true,
             "%s: reads something detached, whose gradient flows here; torch.onnx.export(..., optimize=False) keeps it",
             listed(f, &flows));
}

/* Finds what is restored in the graph alone, not in nodes inside of nodes or functions: copies of equal tensors that
 * TorchScript's exporter merged, and from node `first` rows of padding. */
static void find_inner(struct findings *f, int first) {
    struct zt_texts paddings = { 0 };
    struct names copies = { 0 }, tables = { 0 };
    for (int n = 0; n < f->g->node_count && zt_torch_is_script(f->job->model); n++) {
        const struct zt_node *node = f->g->nodes[n];
        if (!node->dead && zt_node_is(node, "Identity") && f->g->values[node->in[0]]->trainable)
            zt_vec_push(&copies, f->g->values[node->in[0]]->name);
    }
    zt_job_find_inner_paddings(f->job, f->g, first, &paddings);
    push_all(&tables, paddings.at, paddings.count);
    if (copies.count)
        find(f, true,
             "%s: copied inside of a node or function, as the exporter stores one of several equal tensors; trained as "
             "one parameter",
             listed(f, &copies));
    if (tables.count)
        find(f, true,
             "%s: looked up inside of a node, where a row of zeros, of which padding_idx of nn.Embedding is the "
             "reason, trains as any other",
             listed(f, &tables));
}

/* ---- restored parameters ---- */

static void find_undone(struct findings *f) {
    struct names undone = { 0 }, tied = { 0 }, apart = { 0 }, paddings = { 0 };
    struct zt_job *job = f->job;
    for (int i = 0; i < job->padding_count; i++)
        zt_vec_push(&paddings, zt_arena_printf(job->arena, "row %lld of %s", (long long)job->paddings[i].row,
                                               job->paddings[i].table));
    for (int i = 0; i < job->derived_count; i++)
        zt_vec_push(&undone, zt_arena_printf(job->arena, "%s = %s", job->derived[i].name,
                                             zt_derived_text(job->arena, &job->derived[i])));
    for (int i = 0; i < job->tie_count; i++)
        if (job->ties[i].found)
            zt_vec_push(&tied, zt_arena_printf(job->arena, "%s = %s%s", job->ties[i].name,
                                               job->ties[i].transposed ? "transpose of " : "", job->ties[i].to));
    push_all(&apart, job->apart.at, job->apart.count);
    if (undone.count)
        find(f, false, "%s: folded by the exporter; recomputed from the parameter, which is trained",
             listed(f, &undone));
    if (tied.count)
        find(f, false,
             "%s: copies made by the exporter, trained as one parameter (ztrain.tie_equal: false trains them "
             "separately)",
             listed(f, &tied));
    if (paddings.count)
        find(f, false,
             "%s: gets no gradient from look-ups, as padding_idx of nn.Embedding says; a table's name in "
             "ztrain.trainable trains it whole",
             listed(f, &paddings));
    if (apart.count)
        find(f, false,
             "%s: equal weights of different modules, trained separately (ztrain.tie trains them as one parameter)",
             listed(f, &apart));
}

void zt_job_find_findings(struct zt_job *job, const struct zt_graph *g) {
    struct zt_graph *opened = zt_trainable_opened(g);
    struct findings f = { .job = job, .g = opened ? opened : g };
    job->finding_count = 0;
    if (job->model->torch_signature)
        zt_torch_read_signature(job->arena, job->model->torch_signature, &f.listed);
    find_optimized(&f);
    find_lost(&f);
    find_missing(&f);
    find_split(&f);
    find_folds(&f);
    find_doubts(&f);
    find_statistics(&f);
    find_integers(&f);
    find_dropout(&f);
    find_no_bias(&f);
    find_blocked(&f);
    find_singular(&f);
    find_renormed(&f);
    find_removed_sums(&f);
    find_detached(&f);
    find_read_again(&f);
    find_inner(&f, g->node_count);
    find_undone(&f);
    find_moved(&f);
    find_overlaps(&f);
    zt_map_finish(&f.listed);
    zt_map_finish(&f.apart);
    zt_graph_destroy(opened);
}

void zt_job_find_numbers(struct zt_job *job, const struct zt_texts *numbers) {
    struct findings f = { .job = job };
    struct names names = { 0 };
    for (int i = 0; i < numbers->count; i++)
        zt_vec_push(&names, zt_arena_strdup(job->arena, numbers->at[i]));
    if (names.count)
        find(&f, true,
             "%s: scales what is summed over the batch by a number that may be the exported batch of %lld (or one "
             "less), which stays as it is; export with a dynamic batch, or train with this one",
             listed(&f, &names), (long long)job->fixed_batch);
}
