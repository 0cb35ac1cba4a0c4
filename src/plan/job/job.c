#include "plan/job/job.h"

#include "base/show.h"
#include "base/text.h"
#include "graph/passes/grad.h"
#include "graph/passes/lower.h"
#include "graph/passes/infer.h"
#include "graph/passes/precision/half_precision.h"
#include "parallel/partition/split.h"
#include "parallel/schedule/collectives.h"
#include "plan/job/fusion.h"
#include "plan/job/bind.h"
#include "plan/job/findings.h"
#include "plan/job/float.h"
#include "plan/job/frozen.h"
#include "plan/job/lora.h"
#include "plan/job/training_graph.h"
#include "plan/job/loss.h"
#include "plan/job/override.h"
#include "plan/job/padding.h"
#include "plan/job/parameters.h"
#include "plan/job/qat.h"
#include "plan/job/tie.h"
#include "plan/job/unmatched.h"

#include <stdlib.h>
#include <string.h>

/* ---- from the file's graph to a bound, inferred one ---- */

/* Hints where tf2onnx left an operator of TensorFlow in the file, which onnxruntime does not run either. */
static void hint_translation(const struct zt_job *job, const struct zt_graph *g, struct zt_err *err) {
    for (int n = 0; n < g->node_count && zt_trainable_is_tensorflow(job->model); n++)
        if (!g->nodes[n]->dead && !g->nodes[n]->op && !g->nodes[n]->domain[0]) {
            zt_hint(err, "tf2onnx leaves operators of TensorFlow that it cannot translate: use others in the network");
            return;
        }
}

/* Returns the part of the model's graph that `job->logits` depends on, with resolved operators and classified
 * initializers; *root is the id of the logits. */
static struct zt_graph *needed_graph(const struct zt_job *job, int *root, struct zt_err *err) {
    struct zt_graph *g = zt_graph_clone(job->model->graph);
    zt_pass_detach(g, job->model);
    zt_pass_split_aliases(g, &zt_ops, job->model);
    zt_pass_keep_one_bias(g, job->model);
    *root = zt_graph_find(g, job->logits);
    bool ok = zt_pass_lower(g, &zt_ops, err);
    if (ok)
        zt_pass_detach(g, job->model); /* in what functions held */
    if (!ok || !zt_pass_resolve(g, &zt_ops, root, 1, err)) {
        hint_translation(job, g, err);
        zt_graph_destroy(g);
        return NULL;
    }
    zt_pass_trainable(g, job->model, *root);
    zt_job_apply_overrides(job, g);
    return g;
}

/* ---- required data columns ---- */

/* Returns the elements of the shortest axis that an input holds indices of, directly or through nodes that copy them;
 * 0: the input holds no indices. */
static int64_t indexed_by(const struct zt_graph *g, int input) {
    bool *copies = zt_calloc((size_t)g->value_count + 1, sizeof *copies);
    int64_t least = 0;
    copies[input] = true;
    for (int i = 0; i < g->node_count; i++) {
        const struct zt_node *n = g->nodes[i];
        if (n->in_count > 0 && n->in[0] >= 0 && copies[n->in[0]] && n->op->flags & (ZT_OP_VIEW | ZT_OP_CAST))
            copies[n->out[0]] = true;
        bool selects = false;
        for (int k = 0; k < n->in_count; k++)
            selects |= zt_op_mask_has(n->op->slice_in, k) && n->in[k] >= 0 && copies[n->in[k]];
        if (!selects || n->in[0] < 0)
            continue;
        const struct zt_shape *table = &g->values[n->in[0]]->shape;
        const int64_t axis = zt_attr_int(n, "axis", 0), at = axis < 0 ? axis + table->rank : axis;
        const int64_t rows = at >= 0 && at < table->rank ? table->dim[at] : 0;
        least = rows > 0 && (least == 0 || rows < least) ? rows : least;
    }
    free(copies);
    return least;
}

static bool want_inputs(struct zt_job *job, const struct zt_graph *g, const bool *used, struct zt_err *err) {
    int most = ZT_COLUMNS - 1 - (job->weight != NULL); /* columns left by target and weight */
    for (int i = 0; i < g->input_count; i++) {
        const struct zt_value *v = g->values[g->inputs[i]];
        if (!used[g->inputs[i]])
            continue;
        if (job->want_count == most)
            return zt_fail(err, ZT_EXIT_MODEL, "input \"%s\": more than %d inputs are not supported", v->name, most);
        struct zt_want want = { .name = zt_arena_strdup(job->arena, v->name),
                                .dtype = zt_job_type(job, v->dtype),
                                .shape = { .rank = -1 } };
        if (v->shape.rank > 0) {
            want.shape.rank = v->shape.rank - 1;
            memcpy(want.shape.dim, v->shape.dim + 1, (size_t)want.shape.rank * sizeof *want.shape.dim);
            if (v->shape.dim[0] > 0 && !job->fixed_batch)
                job->fixed_batch = v->shape.dim[0];
        }
        want.indexed = zt_dtype_in(v->dtype, ZT_ANY_INT) ? indexed_by(g, v->id) : 0;
        want.image = v->shape.rank == 4 && zt_dtype_in(v->dtype, ZT_ANY_FLOAT);
        job->names[job->want_count] = want.name;
        job->wants[job->want_count++] = want;
    }
    return true;
}

static bool shapes_known(const struct zt_job *job) {
    for (int i = 0; i < job->want_count; i++)
        if (!zt_shape_known(&job->wants[i].shape))
            return false;
    return true;
}

/* Lists the statistics that training forms update: running mean and variance. Evaluation graphs read them too, so every
 * graph marks them by name. */
static void find_statistics(struct zt_job *job, const struct zt_graph *g) {
    bool *listed = zt_calloc((size_t)g->value_count + 1, sizeof *listed); /* nodes may share statistics */
    job->statistics = ZT_NEW_N(job->arena, const char *, g->value_count + job->pair_count + 1);
    for (int n = 0; n < g->node_count && !job->config->batch_norm_frozen; n++) {
        for (int i = 0; g->nodes[n]->op->train && i < g->nodes[n]->in_count; i++) {
            const struct zt_value *v = zt_in(g, n, i);
            if (!v || listed[v->id] || !(g->nodes[n]->op->statistic_in >> i & 1) || v->origin != ZT_FROM_INITIALIZER ||
                zt_job_type(job, v->dtype) != ZT_FLOAT || v->shape.rank <= 0)
                continue;
            listed[v->id] = true;
            job->statistics[job->statistic_count++] = zt_arena_strdup(job->arena, v->name);
        }
    }
    for (int i = 0; i < job->pair_count; i++)
        if (zt_qat_moves(&job->pairs[i]))
            job->statistics[job->statistic_count++] = job->pairs[i].store;
    free(listed);
}

/* Casts from bfloat16 came with opset 13. */
static bool check_half_export(const struct zt_config *config, const struct zt_onnx *model, struct zt_err *err) {
    for (int i = 0; config->zero.half_export && config->bf16 && i < model->opset_count; i++)
        if (!model->opsets[i].domain[0] && model->opsets[i].version < 13)
            return zt_fail(err, ZT_EXIT_CONFIG,
                           "zero_optimization.stage3_gather_16bit_weights_on_model_save: bfloat16 initializers need "
                           "opset 13, %s imports opset %lld",
                           model->path, (long long)model->opsets[i].version);
    return true;
}

struct zt_job *zt_job_create(const struct zt_config *config, const struct zt_onnx *model, struct zt_err *err) {
    struct zt_arena *arena = zt_arena_create();
    struct zt_job *job = ZT_NEW(arena, struct zt_job);
    *job = (struct zt_job){ .config = config, .model = model, .arena = arena };
    job->frozen = zt_frozen_create(zt_sharding_gathers_for_use(zt_sharding_of_run(
        &(struct zt_sharding_wish){ .zero_stage = config->zero.stage, .data_ranks = config->data_parallel })));
    job->wants = ZT_NEW_N(arena, struct zt_want, ZT_COLUMNS);
    job->names = ZT_NEW_N(arena, const char *, ZT_COLUMNS);
    int root = -1;
    struct zt_graph *g = check_half_export(config, model, err) && zt_fusion_read(config, arena, &job->fusion, err) &&
                                 zt_job_find_loss(job, err)
                             ? needed_graph(job, &root, err)
                             : NULL;
    struct zt_texts numbers = { 0 };
    bool ok =
        g && zt_job_find_parameters(job, g, err) && zt_job_find_adapters(job, g, err) && zt_job_find_pairs(job, g, err);
    if (ok) {
        zt_job_freeze(job, g);
        zt_job_find_paddings(job, g);
        zt_job_find_findings(job, g);
        zt_job_find_unmatched(job, g);
        ok = zt_job_mark_paddings(job, g, err);
    }
    if (ok) {
        bool *used = zt_graph_read(g);
        zt_job_find_floats(job, g, used, root);
        ok = want_inputs(job, g, used, err);
        free(used);
    }
    if (ok && shapes_known(job)) /* otherwise the shapes of the data are needed first */
        ok = zt_job_infer(job, g, NULL, config->micro_batch, &numbers, err);
    zt_job_find_numbers(job, &numbers);
    if (ok) {
        find_statistics(job, g);
        zt_job_want_target(job, g->values[root]);
    }
    zt_graph_destroy(g);
    if (ok)
        return job;
    zt_job_destroy(job);
    return NULL;
}

void zt_job_destroy(struct zt_job *job) {
    if (!job)
        return;
    zt_frozen_destroy(job->frozen);
    zt_arena_destroy(job->arena);
}

struct zt_graph *zt_job_parameters(const struct zt_job *job, struct zt_err *err) {
    int root;
    struct zt_graph *g = needed_graph(job, &root, err);
    if (g && !zt_job_settle_parameters(job, g, err)) {
        zt_graph_destroy(g);
        return NULL;
    }
    if (g)
        zt_job_freeze(job, g);
    return g;
}

/* ---- the training graph ---- */

static void list_params(const struct zt_job *job, struct zt_training_graph *training_graph) {
    struct zt_graph *g = training_graph->graph;
    training_graph->params = ZT_NEW_N(g->arena, int, g->value_count + 1);
    training_graph->grads = ZT_NEW_N(g->arena, int, g->value_count + 1);
    training_graph->statistics = ZT_NEW_N(g->arena, int, job->statistic_count + 1);
    bool *used = zt_graph_read(g);
    training_graph->home = ZT_NEW_N(g->arena, int, g->value_count + 1);
    for (int v = 0; v < g->value_count; v++) {
        if (!g->values[v]->trainable || !used[v])
            continue;
        int home = -1;
        for (int i = 0; g->values[v]->copy_of && home < 0; i++)
            home = strcmp(g->values[training_graph->params[i]]->name, g->values[v]->copy_of) == 0 ? i : -1;
        training_graph->home[training_graph->param_count] = home;
        training_graph->params[training_graph->param_count++] = v;
    }
    free(used);
    for (int i = 0; i < job->statistic_count; i++)
        training_graph->statistics[training_graph->statistic_count++] = zt_graph_find(g, job->statistics[i]);
}

static bool add_gradients(struct zt_training_graph *training_graph, struct zt_err *err) {
    struct zt_graph *g = training_graph->graph;
    struct zt_shape shape = g->values[training_graph->loss]->shape;
    training_graph->seed = zt_job_add_input(g, "gradient of loss", ZT_FLOAT, &shape);
    struct zt_cotangent from = { training_graph->loss, training_graph->seed };
    const struct zt_grad_request request = { &from, 1, training_graph->params, training_graph->param_count };
    return zt_grad_build(g, &zt_ops, &request, training_graph->grads, err);
}

static enum zt_dtype half_type(const struct zt_config *config) {
    return config->fp16.enabled ? ZT_FLOAT16 : config->bf16 ? ZT_BFLOAT16 : ZT_UNDEFINED;
}

static bool prune_or_cast(const struct zt_job *job, enum zt_backend fast, struct zt_training_graph *training_graph,
                          struct zt_err *err) {
    struct zt_graph *g = training_graph->graph;
    int *roots = zt_malloc(((size_t)training_graph->param_count + 4) * sizeof *roots), count = 0;
    roots[count++] = training_graph->loss;
    roots[count++] = training_graph->correct;
    roots[count++] = training_graph->counted;
    for (int i = 0; i < training_graph->param_count && training_graph->training; i++)
        roots[count++] = training_graph->grads[i];
    const enum zt_dtype half = half_type(job->config);
    const struct zt_half_options options = { half, roots, count, zt_frozen_contents, job->frozen, fast };
    bool ok = zt_graph_prune(g, roots, count, err) && (!half || zt_pass_half_propagation(g, &zt_ops, &options, err));
    free(roots);
    if (ok)
        zt_frozen_align(job->frozen, g);
    return ok;
}

static bool check_params(const struct zt_job *job, const struct zt_training_graph *training_graph, struct zt_err *err) {
    if (training_graph->param_count > 0)
        return true;
    bool held = false;
    for (int n = 0; n < job->model->graph->node_count; n++)
        held = held || zt_trainable_is_held(job->model->graph->nodes[n]);
    return zt_fail(err, ZT_EXIT_MODEL,
                   "nothing to train: \"%s\" depends on no trained parameter (`ztrain inspect` shows why)%s",
                   training_graph->graph->values[training_graph->loss]->name,
                   held ? "; Constant nodes hold float tensors: what is to be trained must be an initializer" : "");
}

/* Whether the config leaves the training of a parameter to the model. */
static bool is_wanted(const struct zt_config *c, const struct zt_value *v) {
    return !zt_parameter_fits(v, c->freeze.at, c->freeze.count) &&
           zt_parameter_fits(v, c->trainable.at, c->trainable.count);
}

/* zero_optimization.ignore_unused_parameters false: every parameter must have a gradient. */
static bool check_unused(const struct zt_config *c, const struct zt_training_graph *training_graph,
                         struct zt_err *err) {
    enum { SHOWN = 10 };
    const struct zt_graph *g = training_graph->graph;
    bool *zero = zt_calloc((size_t)g->value_count + 1, sizeof *zero);
    struct zt_text names = { 0 };
    int count = 0;
    for (int i = 0; i < training_graph->param_count; i++)
        zero[training_graph->params[i]] = training_graph->grads[i] < 0 && training_graph->home[i] < 0;
    for (int v = 0; v < g->value_count; v++) {
        char name[ZT_ERR_TEXT / 8];
        const bool unreached = g->values[v]->unreached && is_wanted(c, g->values[v]);
        if (!(zero[v] || unreached) || count++ >= SHOWN)
            continue;
        zt_text_add(&names, "%s\"%s\"", count > 1 ? ", " : "", zt_show(name, sizeof name, g->values[v]->name));
    }
    if (count > SHOWN)
        zt_text_add(&names, " and %d more", count - SHOWN);
    if (count) {
        zt_fail(err, ZT_EXIT_CONFIG,
                "zero_optimization.ignore_unused_parameters is false, and %d parameter%s no gradient: %s", count,
                count == 1 ? " has" : "s have", names.at);
        zt_hint(err, "ztrain.freeze excludes parameters from training");
    }
    zt_text_finish(&names);
    free(zero);
    return count == 0;
}

/* Checks that no statistics are updated in a branch whose condition depends on data shapes: the first graph, built
 * without these shapes, does not contain such branches. */
static bool check_statistics(const struct zt_job *job, const struct zt_graph *g, struct zt_err *err) {
    for (int i = 0, k; i < g->write_back_count; i++) {
        const char *name = g->values[g->write_backs[i].initializer]->name;
        for (k = 0; k < job->statistic_count && strcmp(job->statistics[k], name) != 0; k++)
            ;
        if (k == job->statistic_count)
            return zt_fail(err, ZT_EXIT_MODEL,
                           "statistics \"%s\": the node that updates them is in a branch or loop that depends on data "
                           "shapes, which is not supported",
                           name);
    }
    return true;
}

static bool split_loss(const struct zt_job *job, const struct zt_training_graph_request *request,
                       struct zt_training_graph *training_graph, struct zt_err *err) {
    if (!job->loss) {
        zt_fail(err, ZT_EXIT_CONFIG,
                "ztrain.parallel.mode: \"dp\" gathers the output that the loss reads, but the loss is output \"%s\" of "
                "the graph itself",
                job->logits);
        return zt_hint(err, "use mode \"ddp\", which computes the same mean over the ranks");
    }
    const int inputs[] = { training_graph->columns[job->target_want],
                           job->weight_want >= 0 ? training_graph->columns[job->weight_want] : -1 };
    return zt_graph_index(training_graph->graph, err) &&
           zt_split_loss(training_graph->graph, request->rows, inputs, 2, err);
}

/* Applies patterns of the forward graph: `when`. */
static bool fuse(const struct zt_job *job, unsigned when, const struct zt_train_options *train,
                 struct zt_training_graph *to, struct zt_err *err) {
    const struct zt_fuse_options o = { &job->fusion, when, train, to->fused };
    return zt_pass_fuse(to->graph, &zt_ops, &o, err);
}

static bool build(const struct zt_job *job, const struct zt_source *source,
                  const struct zt_training_graph_request *request, struct zt_training_graph *training_graph, int root,
                  struct zt_err *err) {
    struct zt_graph *g = training_graph->graph;
    struct zt_train_options options = { .batch_norm_frozen = job->config->batch_norm_frozen,
                                        .evaluation = !request->training,
                                        .sync =
                                            job->config->parallel.sync_batch_norm && job->config->data_parallel > 1 };
    if (!zt_job_settle_parameters(job, g, err) || !zt_job_mark_paddings(job, g, err) ||
        !zt_job_infer(job, g, source, request->rows, NULL, err))
        return false;
    zt_job_freeze(job, g);
    if (!zt_job_to_float(job, training_graph, &root, err))
        return false;
    if (request->weighted && job->loss)
        training_graph->row_weight =
            zt_job_add_input(g, "row weight", ZT_FLOAT, &(struct zt_shape){ 1, { request->rows } });
    if (!zt_job_quantize(job, training_graph, request->training, err) ||
        !zt_job_adapt(job, training_graph, err)) /* a weight that is quantized is changed before */
        return false;
    options.padded = training_graph->row_weight >= 0;
    options.row_weight = training_graph->row_weight;
    if (!zt_pass_train(g, &options, err) || !check_statistics(job, g, err))
        return false;
    zt_job_note_ties(job, training_graph);
    training_graph->columns = ZT_NEW_N(g->arena, int, job->want_count + 1);
    training_graph->column_count = job->want_count;
    training_graph->fused = zt_fusion_counts(g->arena);
    for (int i = 0; i < job->want_count; i++)
        training_graph->columns[i] = job->names[i] ? zt_graph_find(g, job->names[i]) : -1;
    if (!zt_job_add_loss(job, source, request, training_graph, root, err) ||
        !fuse(job, ZT_FUSE_FORWARD, &options, training_graph, err))
        return false;
    training_graph->bounds = ZT_NEW_N(g->arena, struct zt_stage_bounds, request->stages + 1);
    if (request->stage_bounds)
        memcpy(training_graph->bounds, request->stage_bounds,
               ((size_t)request->stages + 1) * sizeof *training_graph->bounds);
    if (!(request->stage_bounds ||
          zt_split_choose(g, job->config->parallel.partition, request->stages, training_graph->bounds, err)) ||
        !zt_split_apply(g, request->stages, training_graph->bounds, err))
        return false;
    if (request->stages > 1)
        training_graph->layers = zt_split_layers(g, g->arena);
    if (request->split_loss && !split_loss(job, request, training_graph, err))
        return false;
    /* after the stages, which are not to depend on the back end */
    if (request->fast == ZT_CPU && !fuse(job, ZT_FUSE_FORWARD_CPU, &options, training_graph, err))
        return false;
    list_params(job, training_graph);
    if (!check_params(job, training_graph, err))
        return false;
    if (request->training && (!add_gradients(training_graph, err) ||
                              (!job->config->zero.ignore_unused && !check_unused(job->config, training_graph, err))))
        return false;
    return prune_or_cast(job, request->fast, training_graph, err);
}

bool zt_job_training_graph(const struct zt_job *job, const struct zt_source *source,
                           const struct zt_training_graph_request *request, struct zt_training_graph *training_graph,
                           struct zt_err *err) {
    int root;
    *training_graph = (struct zt_training_graph){ .rows = request->rows,
                                                  .training = request->training,
                                                  .weighted = request->weighted && job->loss,
                                                  .loss = -1,
                                                  .seed = -1,
                                                  .row_weight = -1,
                                                  .correct = -1,
                                                  .counted = -1 };
    training_graph->graph = needed_graph(job, &root, err);
    if (!training_graph->graph || !build(job, source, request, training_graph, root, err)) {
        zt_graph_destroy(training_graph->graph);
        training_graph->graph = NULL;
        return false;
    }
    return true;
}
