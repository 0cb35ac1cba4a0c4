#include "run/non_finite_origin.h"

#include "data/sampler.h"
#include "run/evaluate.h"
#include "run/rank/non_finite_nodes.h"
#include "run/rank_data.h"
#include "run/step.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES_SHOWN = 5, EVALUATION = -1 /* in place of a step */ };

/* ---- text ---- */

static int column_of(const struct zt_training_graph *training_graph, int value) {
    for (int i = 0; i < training_graph->column_count; i++)
        if (training_graph->columns[i] == value)
            return i;
    return -1;
}

/* Samples of a source, by their index. */
struct samples {
    const struct zt_source *source;
    int64_t *index, count, epoch;
};

static struct samples samples_of(const struct zt_rank *r, int64_t step) {
    const struct zt_config *config = r->plan->job->config;
    const struct zt_sampling sampling = zt_sampling_of(config, r->plan->source);
    struct samples s = { .source = r->plan->source };
    struct zt_err ignored = { 0 };
    struct zt_sampler sampler;
    int64_t batch;
    s.index = zt_malloc((size_t)config->train_batch * sizeof *s.index);
    if (zt_sampler_init(&sampler, &sampling, &ignored))
        s.count = zt_sampler_step(&sampler, step, s.index, &s.epoch, &batch);
    zt_sampler_finish(&sampler);
    return s;
}

static struct samples samples_evaluated(const struct zt_rank *r) {
    const int64_t count = r->plan->steps.eval_samples;
    struct samples s = { r->plan->eval_source, zt_malloc((size_t)count * sizeof *s.index + 1), count, 0 };
    for (int64_t i = 0; i < count; i++)
        s.index[i] = i;
    return s;
}

/* Appends the samples that are not finite in column `c`: " in sample 3, 17 and 2 more"; nothing if there are none. */
static void list_samples(const struct samples *s, int c, struct zt_text *to) {
    const struct zt_column *column = &s->source->column[c];
    struct zt_err ignored = { 0 };
    void *sample = zt_malloc(column->sample_bytes + 1);
    int64_t found = 0;
    for (int64_t i = 0; i < s->count; i++) {
        if (!zt_source_read(s->source, c, (struct zt_sample){ s->index[i], s->epoch }, sample, &ignored) ||
            !zt_trace_status(column->dtype, sample, zt_shape_count(&column->shape)))
            continue;
        if (found++ < SAMPLES_SHOWN)
            zt_text_add(to, "%s %lld", found == 1 ? " in sample" : ",", (long long)s->index[i]);
    }
    if (found > SAMPLES_SHOWN)
        zt_text_add(to, " and %lld more", (long long)(found - SAMPLES_SHOWN));
    free(sample);
}

static void say_data(const struct zt_rank *r, const struct zt_trace_origin *o, int c, int64_t step,
                     struct zt_trace *trace) {
    const struct zt_data_config *data = &r->plan->job->config->data;
    struct samples samples = step == EVALUATION ? samples_evaluated(r) : samples_of(r, step);
    const char *path = step == EVALUATION && data->eval_path ? data->eval_path : data->path;
    struct zt_text text = { 0 };
    zt_text_add(&text, "%s: column \"%s\" holds %s", path ? path : data->format, r->plan->job->wants[c].name,
                zt_trace_kind(o->kind));
    list_samples(&samples, c, &text);
    snprintf(trace->text, sizeof trace->text, "%s", text.at);
    trace->data = true;
    free(samples.index);
    zt_text_finish(&text);
}

static void say_node(const struct zt_trace_origin *o, int64_t step, struct zt_trace *trace) {
    const struct zt_graph *g = o->program->program->training_graph.graph;
    const struct zt_node *node = g->nodes[o->node];
    if (step == EVALUATION) {
        snprintf(trace->text, sizeof trace->text, "node \"%s\" (%s) makes %s in \"%s\"", node->name, node->op_type,
                 zt_trace_kind(o->kind), g->values[o->value]->name);
        return;
    }
    snprintf(trace->text, sizeof trace->text, "node \"%s\" (%s) makes %s in \"%s\" (%s, micro-batch %llu)", node->name,
             node->op_type, zt_trace_kind(o->kind), g->values[o->value]->name,
             node->phase == ZT_FORWARD ? "forward" : "backward", (unsigned long long)o->micro_batch);
}

static void say(const struct zt_rank *r, const struct zt_trace_origin *o, int64_t step, struct zt_trace *trace) {
    const struct zt_training_graph *training_graph = &o->program->program->training_graph;
    const int column = column_of(training_graph, o->value);
    if (o->node >= 0)
        say_node(o, step, trace);
    else if (column >= 0)
        say_data(r, o, column, step, trace);
    else if (o->value == training_graph->seed)
        snprintf(trace->text, sizeof trace->text, "the loss scale %g is beyond fp16", r->scaling.scale);
    else
        snprintf(trace->text, sizeof trace->text, "weight \"%s\" holds %s%s",
                 training_graph->graph->values[o->value]->name, zt_trace_kind(o->kind),
                 step == EVALUATION ? "" : " before the step");
}

/* ---- the search over all ranks ---- */

/* Returns a number that orders the origins of ranks in time: forward before backward, then by micro-batch, then by
 * stage in the order of the phase. */
static double order_of(const struct zt_rank *r, const struct zt_trace_origin *o) {
    static const double none = 1e30;
    const struct zt_grid *grid = &r->plan->grid;
    if (!o->program)
        return none;
    const bool backward =
        o->node >= 0 && o->program->program->training_graph.graph->nodes[o->node]->phase == ZT_BACKWARD;
    const int stage = backward ? grid->stages - 1 - grid->stage : grid->stage;
    return ((double)backward * 1e9 + (double)o->micro_batch) * 1e6 + stage + 1;
}

/* The rank with the first origin sends it to all ranks. */
static bool share(struct zt_rank *r, const struct zt_trace_origin *o, int64_t step, struct zt_trace *trace,
                  struct zt_err *err) {
    double *order = zt_calloc((size_t)r->world->size, sizeof *order);
    int first = 0;
    order[r->world->rank] = order_of(r, o);
    bool ok = r->world->api->sum(r->world, order, r->world->size, err);
    for (int i = 1; i < r->world->size; i++)
        first = order[i] < order[first] ? i : first;
    free(order);
    trace->rank = first;
    if (first == r->world->rank && o->program)
        say(r, o, step, trace);
    else if (first == r->world->rank)
        snprintf(trace->text, sizeof trace->text, "no node makes it: it arises in a sum over micro-batches or ranks");
    return ok && r->world->api->broadcast(r->world, trace, sizeof *trace, first, err);
}

bool zt_rank_trace(struct zt_rank *r, int64_t step, struct zt_trace *trace, struct zt_err *err) {
    struct zt_loader *loader = NULL;
    struct zt_step_result result;
    *trace = (struct zt_trace){ 0 };
    while (r->begun_count > 0) /* steps begun ahead */
        if (!zt_rank_end(r, &result, err))
            return false;
    if (!zt_rank_loader(r, true, step, step + 1, &loader, err))
        return false;
    zt_rank_tracing_begin(r, true);
    const bool ok = zt_rank_step(r, loader, step, &result, err) && share(r, zt_rank_tracing_first(r), step, trace, err);
    zt_rank_tracing_end(r);
    zt_loader_destroy(loader);
    return ok;
}

bool zt_rank_trace_evaluation(struct zt_rank *r, struct zt_trace *trace, struct zt_err *err) {
    struct zt_loader *loader = NULL;
    struct zt_eval_result result;
    *trace = (struct zt_trace){ 0 };
    if (!zt_rank_loader(r, false, 0, 0, &loader, err))
        return false;
    zt_rank_tracing_begin(r, false);
    const bool ok =
        zt_rank_evaluate(r, loader, &result, err) && share(r, zt_rank_tracing_first(r), EVALUATION, trace, err);
    zt_rank_tracing_end(r);
    zt_loader_destroy(loader);
    return ok;
}
