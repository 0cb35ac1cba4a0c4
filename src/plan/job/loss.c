/* The end of the training graph: the output that the loss reads, the target, and the weights of targets. */
#include "ops/loss/loss.h"
#include "plan/job/loss.h"

#include "base/text.h"
#include "graph/ir/list.h"
#include "plan/job/float.h"
#include "plan/job/training_graph.h"

#include <string.h>

/* ---- which output the loss reads ---- */

static const char *output_names(const struct zt_graph *g, struct zt_text *to) {
    for (int i = 0; i < g->output_count; i++)
        zt_text_add(to, "%s%s", i ? ", " : "", g->values[g->outputs[i]]->name);
    return to->at ? to->at : "none";
}

static bool fail_output(const struct zt_graph *g, const char *key, const char *wanted, struct zt_err *err) {
    struct zt_text names = { 0 };
    if (wanted) {
        zt_fail(err, ZT_EXIT_CONFIG, "%s: the model has no output \"%s\" (it has: %s)", key, wanted,
                output_names(g, &names));
    } else {
        zt_fail(err, ZT_EXIT_CONFIG, "%s is not set, and the model has not exactly one float output (it has: %s)", key,
                output_names(g, &names));
        if (g->output_count)
            zt_hint(err, "--set %s=NAME chooses the output", key);
    }
    zt_text_finish(&names);
    return false;
}

/* Returns the only float output; NULL if there are none or several. Outputs of unknown type count as float. */
static const char *only_float_output(const struct zt_graph *g) {
    const char *found = NULL;
    for (int i = 0; i < g->output_count; i++) {
        const struct zt_value *v = g->values[g->outputs[i]];
        if (v->list || (v->dtype != ZT_UNDEFINED && !zt_dtype_in(v->dtype, ZT_ANY_FLOAT)))
            continue;
        if (found && strcmp(found, v->name) != 0)
            return NULL;
        found = v->name;
    }
    return found;
}

static bool check_tensor(const struct zt_value *v, const char *key, struct zt_err *err) {
    char text[ZT_LIST_TEXT];
    return !v->list || zt_fail(err, ZT_EXIT_CONFIG, "%s: output \"%s\" is a%s %s, the loss wants a tensor", key,
                               v->name, v->list->kind == ZT_OPTIONAL ? "n" : "", zt_list_text(v->list, text));
}

bool zt_job_find_loss(struct zt_job *job, struct zt_err *err) {
    const struct zt_loss_config *c = &job->config->loss;
    const struct zt_graph *g = job->model->graph;
    bool own = c->type && strcmp(c->type, "output") == 0;
    const char *key = own ? "ztrain.loss.output" : "ztrain.loss.logits", *wanted = own ? c->output : c->logits;
    job->loss = own ? NULL : zt_loss_find(c->type ? c->type : "cross_entropy");
    job->target = own ? NULL : c->target ? c->target : "target";
    job->weight = own || !c->weight || !c->weight[0] ? NULL : c->weight;
    job->logits = wanted ? wanted : only_float_output(g);
    if (!job->logits)
        return fail_output(g, key, NULL, err);
    for (int i = 0; i < g->output_count; i++)
        if (strcmp(g->values[g->outputs[i]]->name, job->logits) == 0)
            return check_tensor(g->values[g->outputs[i]], key, err);
    return fail_output(g, key, job->logits, err);
}

/* ---- required data columns besides the inputs ---- */

/* The class axis: the last axis if the target has the logits' shape without it, otherwise axis 1, as in PyTorch. */
static int class_axis(const struct zt_shape *logits, const struct zt_shape *target) {
    int last = logits->rank - 1;
    bool is_last = target->rank == last;
    for (int i = 0; is_last && i < last; i++)
        is_last = target->dim[i] == logits->dim[i];
    return is_last || logits->rank < 2 ? last : 1;
}

static int add_want(struct zt_job *job, struct zt_want want) {
    job->names[job->want_count] = NULL;
    job->wants[job->want_count] = want;
    return job->want_count++;
}

/* cross_entropy takes probabilities as well, of the logits' shape. */
static void want_probabilities(const struct zt_job *job, const struct zt_shape *logits, struct zt_want *want) {
    want->probabilities = job->loss->soft_op_type != NULL;
    want->classes.rank = logits->rank - 1;
    memcpy(want->classes.dim, logits->dim + 1, (size_t)want->classes.rank * sizeof *want->classes.dim);
}

void zt_job_want_target(struct zt_job *job, const struct zt_value *logits) {
    job->target_want = job->weight_want = -1;
    if (!job->loss)
        return;
    struct zt_want want = { .name = job->target,
                            .shape = { .rank = -1 },
                            .use = ZT_WANT_TARGET,
                            .numbers = !job->loss->integer_target,
                            .ones = true };
    want.dtype = job->loss->integer_target       ? ZT_INT64
                 : logits->dtype == ZT_UNDEFINED ? ZT_FLOAT
                                                 : zt_job_type(job, logits->dtype);
    if (job->loss->integer_target && logits->shape.rank >= 2) {
        /* [N, C] has targets [N]. With more axes, positions may precede or follow C, and the data decide */
        if (logits->shape.rank == 2)
            want.shape.rank = 0;
        want.below = logits->shape.rank == 2 && logits->shape.dim[1] > 0 ? logits->shape.dim[1] : 0;
        want.except = job->config->loss.ignore_index;
        want_probabilities(job, &logits->shape, &want);
    } else if (!job->loss->integer_target && logits->shape.rank >= 1) {
        want.shape.rank = logits->shape.rank - 1;
        memcpy(want.shape.dim, logits->shape.dim + 1, (size_t)want.shape.rank * sizeof *want.shape.dim);
    }
    job->target_want = add_want(job, want);
    /* one weight per sample or per target; with one target per sample only the former exists */
    if (job->weight)
        job->weight_want = add_want(job, (struct zt_want){ .name = job->weight,
                                                           .dtype = ZT_FLOAT,
                                                           .shape = { .rank = want.shape.rank ? -1 : 0 },
                                                           .use = ZT_WANT_WEIGHT,
                                                           .numbers = true,
                                                           .ones = true });
}

/* ---- the end of the training graph ---- */

struct new_node {
    const char *name, *op_type, *domain;
    const int *in;
    int in_count, out_count;
};

/* Appends a node and resolves it. Attributes may be added before infer_last(). */
static bool append(struct zt_graph *g, const struct new_node *what, int *out, struct zt_err *err) {
    for (int i = 0; i < what->out_count; i++)
        out[i] = zt_graph_add_value(g, i ? NULL : what->name, ZT_UNDEFINED, NULL);
    int n = zt_graph_add_node(g, &(struct zt_node_spec){ what->name, what->op_type, what->domain,
                                                         what->domain[0] ? 1 : ZT_OPSET, what->in, what->in_count, out,
                                                         what->out_count });
    return zt_op_resolve(&zt_ops, g, n, err);
}

static bool infer_last(struct zt_graph *g, struct zt_err *err) {
    return zt_op_infer(g, g->node_count - 1, err);
}

/* The shape of column `i` with the batch axis. */
static bool column_shape(const struct zt_job *job, const struct zt_source *source, int64_t rows, int i,
                         struct zt_shape *to, struct zt_err *err) {
    const struct zt_shape *sample = source ? &source->column[i].shape : &job->wants[i].shape;
    *to = (struct zt_shape){ .rank = sample->rank + 1, .dim = { rows } };
    if (sample->rank < 0 || sample->rank >= ZT_MAX_RANK)
        return zt_fail(err, ZT_EXIT_DATA, "column \"%s\": the shape is unknown without data", job->wants[i].name);
    memcpy(to->dim + 1, sample->dim, (size_t)sample->rank * sizeof *sample->dim);
    return true;
}

/* A plan without data assumes that targets of [N, T, C] are [N, T], as in language models, and targets of [N, C, H, W]
 * are [N, H, W]. */
static bool assume_target(const struct zt_job *job, struct zt_training_graph *training_graph,
                          const struct zt_value *logits, int64_t rows, struct zt_shape *to) {
    int rank = logits->shape.rank, axis = rank == 3 ? 2 : 1;
    if (!job->loss->integer_target || rank < 3 || job->wants[job->target_want].shape.rank >= 0)
        return false;
    *to = (struct zt_shape){ .rank = rank - 1, .dim = { rows } };
    for (int i = 1, k = 1; i < rank; i++)
        if (i != axis)
            to->dim[k++] = logits->shape.dim[i];
    zt_job_note(training_graph, "without data, axis %d of \"%s\" is assumed to be the class axis", axis, job->logits);
    return true;
}

/* The kind of targets, and what it says about the end of the graph. */
struct targets {
    enum { CLASS_NUMBERS, PROBABILITIES, NUMBERS } kind;
    enum zt_dtype dtype;
    struct zt_shape shape; /* with the batch */
    int axis;              /* of the classes in the logits */
};

/* The shape of the logits without the classes. */
static struct zt_shape without_classes(const struct zt_shape *logits, int axis) {
    struct zt_shape to = { .rank = logits->rank - 1 };
    for (int k = 0; k < to.rank; k++)
        to.dim[k] = logits->dim[k + (k >= axis)];
    return to;
}

static bool check_target(const struct zt_job *job, const struct zt_value *logits, const struct targets *targets,
                         struct zt_err *err) {
    const struct zt_shape *target = &targets->shape;
    struct zt_shape wanted = logits->shape;
    if (targets->kind == PROBABILITIES && job->config->loss.ignore_index >= 0)
        return zt_fail(err, ZT_EXIT_CONFIG,
                       "ztrain.loss.ignore_index: %lld, but column \"%s\" holds class probabilities, not class numbers",
                       (long long)job->config->loss.ignore_index, job->target);
    if (targets->kind == CLASS_NUMBERS) {
        if (logits->shape.rank < 1)
            return zt_fail(err, ZT_EXIT_MODEL, "output \"%s\" is a scalar; %s needs a class axis", job->logits,
                           job->loss->type);
        wanted = without_classes(&logits->shape, targets->axis);
    }
    char have[ZT_SHAPE_TEXT], want[ZT_SHAPE_TEXT], of[ZT_SHAPE_TEXT];
    if (zt_shape_equal(&wanted, target))
        return true;
    return zt_fail(err, ZT_EXIT_DATA, "column \"%s\" has shape %s with the batch, but the loss on \"%s\" %s wants %s",
                   job->target, zt_shape_text(target, have), job->logits, zt_shape_text(&logits->shape, of),
                   zt_shape_text(&wanted, want));
}

/* Checks the shape of the weights. Trailing axes of the target that the weights lack share a weight. */
static bool check_weight(const struct zt_job *job, const struct zt_shape *weight, const struct zt_shape *target,
                         struct zt_err *err) {
    char have[ZT_SHAPE_TEXT], of[ZT_SHAPE_TEXT];
    bool fits = weight->rank <= target->rank;
    for (int k = 0; fits && k < weight->rank; k++)
        fits = weight->dim[k] == target->dim[k];
    return fits || zt_fail(err, ZT_EXIT_DATA,
                           "ztrain.loss.weight: column \"%s\" has shape %s with the batch, which does not match the "
                           "first axes of the target's shape %s",
                           job->weight, zt_shape_text(weight, have), zt_shape_text(target, of));
}

/* Adds the weights of targets: the data's column, zeros for padding rows, or their product; *to is -1 if all weights
 * are equal. */
static bool add_weight(const struct zt_job *job, const struct zt_source *source, const struct zt_shape *target,
                       struct zt_training_graph *training_graph, int *to, struct zt_err *err) {
    struct zt_graph *g = training_graph->graph;
    struct zt_shape shape, narrow = { .dim = { 0 } };
    *to = training_graph->row_weight;
    if (job->weight_want < 0)
        return true;
    if (!column_shape(job, source, target->dim[0], job->weight_want, &shape, err) ||
        !check_weight(job, &shape, target, err))
        return false;
    int column = zt_job_add_input(g, job->weight, ZT_FLOAT, &shape), rows;
    training_graph->columns[job->weight_want] = *to = column;
    if (training_graph->row_weight < 0)
        return true;
    narrow = (struct zt_shape){ .rank = shape.rank, .dim = { shape.dim[0] } };
    for (int k = 1; k < narrow.rank; k++)
        narrow.dim[k] = 1;
    int reshape[2] = { training_graph->row_weight, zt_graph_add_ints(g, NULL, narrow.dim, narrow.rank) };
    return append(g, &(struct new_node){ "row weights", "Reshape", "", reshape, 2, 1 }, &rows, err) &&
           infer_last(g, err) &&
           append(g, &(struct new_node){ "weights", "Mul", "", (int[]){ column, rows }, 2, 1 }, to, err) &&
           infer_last(g, err);
}

/* Adds ztrain.loss.class_weights as a constant; *to is -1 without them. */
static bool add_class_weights(const struct zt_job *job, struct zt_graph *g, const struct zt_value *logits, int axis,
                              int *to, struct zt_err *err) {
    const struct zt_numbers *weights = &job->config->loss.class_weights;
    *to = -1;
    if (!weights->count || !job->loss->integer_target)
        return true;
    if (logits->shape.dim[axis] != weights->count)
        return zt_fail(err, ZT_EXIT_CONFIG, "ztrain.loss.class_weights: %d numbers, but output \"%s\" has %lld classes",
                       weights->count, job->logits, (long long)logits->shape.dim[axis]);
    struct zt_shape shape = { 1, { weights->count } };
    float *data = ZT_NEW_N(g->arena, float, weights->count);
    for (int i = 0; i < weights->count; i++)
        data[i] = (float)weights->at[i];
    *to = zt_graph_add_constant(g, "class weights", ZT_FLOAT, &shape, data);
    return true;
}

/* cross_entropy expects logits and computes probabilities itself. If the graph ends in a Softmax over the classes, the
 * loss reads the input of that node. Other activations remain, as in PyTorch. */
static bool use_scores(const struct zt_job *job, struct zt_training_graph *training_graph, int axis, int *root,
                       struct zt_err *err) {
    struct zt_graph *g = training_graph->graph;
    int node, reader;
    enum zt_loss_end end = zt_loss_end_of(g, *root, &g->values[*root]->shape, axis, &node, &reader);
    if (end == ZT_END_PLAIN)
        return true;
    const struct zt_node *n = g->nodes[node];
    bool both = strcmp(job->loss->type, "cross_entropy") == 0;
    if (end == ZT_END_SIGMOID && strcmp(job->loss->type, "bce_with_logits") == 0)
        zt_job_note(training_graph,
                    "%s (%s): output \"%s\" holds probabilities, but bce_with_logits expects logits; export the model "
                    "without this node",
                    n->name, n->op_type, job->logits);
    if (end == ZT_END_SOFTMAX && strcmp(job->loss->type, "nll") == 0)
        zt_job_note(training_graph,
                    "%s (%s): output \"%s\" holds probabilities, but nll expects log-probabilities; cross_entropy "
                    "computes them from logits",
                    n->name, n->op_type, job->logits);
    if (!both || end == ZT_END_SIGMOID)
        return true;
    zt_job_note(training_graph,
                "%s (%s): cross_entropy computes probabilities itself, so the loss reads the input of this node",
                n->name, n->op_type);
    int from = n->in[0], to = n->out[0];
    if (reader < 0)
        *root = from;
    else
        g->nodes[reader]->in[0] = from;
    if (!zt_graph_index(g, err))
        return false;
    g->nodes[node]->dead =
        zt_graph_users(g, to, NULL) == 0; /* no fusion pattern must match nodes that the loss does not need */
    return zt_graph_sort(g, err);
}

static void set_loss_numbers(const struct zt_job *job, struct zt_graph *g, int node) {
    const struct zt_loss_config *c = &job->config->loss;
    const struct {
        const char *name;
        double value;
    } numbers[] = { { "beta", c->beta }, { "delta", c->delta }, { "label_smoothing", c->label_smoothing } };
    for (int i = 0; i < 2 && job->loss->numbers[i]; i++)
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            if (strcmp(job->loss->numbers[i], numbers[k].name) == 0)
                zt_node_set_float(g, node, numbers[k].name, (float)numbers[k].value);
}

static bool infer_classes(const struct zt_job *job, struct zt_graph *g, int axis, struct zt_err *err) {
    zt_node_set_int(g, g->node_count - 1, "axis", axis);
    zt_node_set_int(g, g->node_count - 1, "ignore_index", job->config->loss.ignore_index);
    return infer_last(g, err);
}

/* The class of the largest probability. */
static bool add_largest(struct zt_graph *g, int target, int axis, int *to, struct zt_err *err) {
    if (!append(g, &(struct new_node){ "largest", "ArgMax", "", &target, 1, 1 }, to, err))
        return false;
    zt_node_set_int(g, g->node_count - 1, "axis", axis);
    zt_node_set_int(g, g->node_count - 1, "keepdims", 0);
    return infer_last(g, err);
}

/* Accuracy counts all targets with equal weight, except padding. */
static bool add_count(const struct zt_job *job, struct zt_training_graph *training_graph, int root, int target,
                      const struct targets *targets, struct zt_err *err) {
    struct zt_graph *g = training_graph->graph;
    int in[3] = { root, target, training_graph->row_weight }, out[2];
    if (targets->kind == PROBABILITIES && !add_largest(g, target, targets->axis, &in[1], err))
        return false;
    if (!append(g, &(struct new_node){ "correct", "CountCorrect", "ztrain", in, in[2] >= 0 ? 3 : 2, 2 }, out, err))
        return false;
    training_graph->correct = out[0];
    training_graph->counted = out[1];
    return infer_classes(job, g, targets->axis, err);
}

/* The class axis of probabilities, which have the logits' shape: axis 1 as in PyTorch, but the last one of [N, T, C],
 * which language models have. */
static int probability_axis(const struct zt_job *job, struct zt_training_graph *training_graph,
                            const struct zt_shape *logits) {
    if (logits->rank != 3)
        return logits->rank < 2 ? 0 : 1;
    zt_job_note(training_graph, "column \"%s\" holds class probabilities: axis 2 of \"%s\" is taken as the class axis",
                job->target, job->logits);
    return 2;
}

static bool find_targets(const struct zt_job *job, const struct zt_source *source,
                         struct zt_training_graph *training_graph, int root, struct targets *to, struct zt_err *err) {
    const int64_t rows = training_graph->rows;
    const struct zt_value *logits = training_graph->graph->values[root];
    *to = (struct targets){ .kind = job->loss->integer_target ? CLASS_NUMBERS : NUMBERS,
                            .dtype = job->wants[job->target_want].dtype };
    if (!(!source && assume_target(job, training_graph, logits, rows, &to->shape)) &&
        !column_shape(job, source, rows, job->target_want, &to->shape, err))
        return false;
    if (source && to->kind == CLASS_NUMBERS && zt_dtype_in(source->column[job->target_want].dtype, ZT_ANY_FLOAT)) {
        to->kind = PROBABILITIES;
        to->dtype = source->column[job->target_want].dtype;
    }
    to->axis = to->kind == PROBABILITIES ? probability_axis(job, training_graph, &logits->shape)
                                         : class_axis(&logits->shape, &to->shape);
    return check_target(job, logits, to, err);
}

/* Appends the loss itself: in[] are logits, target, weight and class weights. */
static bool append_loss(const struct zt_job *job, struct zt_training_graph *training_graph,
                        const struct targets *targets, const int in[4], struct zt_err *err) {
    struct zt_graph *g = training_graph->graph;
    const char *op = targets->kind == PROBABILITIES ? job->loss->soft_op_type : job->loss->op_type;
    const int in_count = in[3] >= 0 ? 4 : in[2] >= 0 ? 3 : 2;
    int out[2];
    if (!append(g, &(struct new_node){ "loss", op, "ztrain", in, in_count, targets->kind == NUMBERS ? 1 : 2 }, out,
                err))
        return false;
    training_graph->loss = out[0];
    set_loss_numbers(job, g, g->node_count - 1);
    if (targets->kind == CLASS_NUMBERS)
        return infer_classes(job, g, targets->axis, err);
    if (targets->kind == PROBABILITIES)
        zt_node_set_int(g, g->node_count - 1, "axis", targets->axis);
    return infer_last(g, err);
}

static bool add_loss(const struct zt_job *job, const struct zt_source *source,
                     const struct zt_training_graph_request *request, struct zt_training_graph *training_graph,
                     int root, struct zt_err *err) {
    struct zt_graph *g = training_graph->graph;
    struct targets targets;
    int in[4];
    if (!find_targets(job, source, training_graph, root, &targets, err) ||
        !use_scores(job, training_graph, targets.kind == NUMBERS ? -1 : targets.axis, &root, err))
        return false;
    const struct zt_shape each =
        targets.kind == PROBABILITIES ? without_classes(&g->values[root]->shape, targets.axis) : targets.shape;
    in[0] = root;
    in[1] = zt_job_add_input(g, job->target, targets.dtype, &targets.shape);
    training_graph->columns[job->target_want] = in[1];
    if (!add_weight(job, source, &each, training_graph, &in[2], err) ||
        !add_class_weights(job, g, g->values[root], targets.axis, &in[3], err) ||
        !append_loss(job, training_graph, &targets, in, err))
        return false;
    return targets.kind == NUMBERS || request->training || add_count(job, training_graph, root, in[1], &targets, err);
}

static bool is_scalar_float(const struct zt_value *v) {
    return v->dtype == ZT_FLOAT && zt_shape_count(&v->shape) == 1;
}

static bool use_output(const struct zt_job *job, struct zt_training_graph *training_graph, int root,
                       struct zt_err *err) {
    const struct zt_value *v = training_graph->graph->values[root];
    char text[ZT_SHAPE_TEXT];
    training_graph->loss = root;
    return is_scalar_float(v) ||
           zt_fail(err, ZT_EXIT_CONFIG, "ztrain.loss.output: \"%s\" is %s%s, but a loss must be one float", job->logits,
                   zt_dtype_name(v->dtype), zt_shape_text(&v->shape, text));
}

bool zt_job_add_loss(const struct zt_job *job, const struct zt_source *source,
                     const struct zt_training_graph_request *request, struct zt_training_graph *training_graph,
                     int root, struct zt_err *err) {
    return job->loss ? add_loss(job, source, request, training_graph, root, err)
                     : use_output(job, training_graph, root, err);
}
