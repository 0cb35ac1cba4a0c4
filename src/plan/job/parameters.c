/* The parameters of a job. These are applied in order: the exporter's classification
 * (graph/passes/trainable/trainable.h), undoing of foldings (graph/passes/trainable/derived.h), ties, and the config's
 * trainable and freeze. */
#include "plan/job/parameters.h"

#include "base/text.h"
#include "plan/job/frozen.h"
#include "plan/job/tie.h"

#include <string.h>

/* ---- ztrain.trainable and freeze ---- */

static bool is_glob(const char *name) {
    return strpbrk(name, "*?") != NULL;
}

bool zt_job_is_asked_for(const struct zt_config *c, const char *name) {
    for (int i = 0; i < c->trainable.count; i++)
        if (strcmp(c->trainable.at[i], name) == 0)
            return true;
    return false;
}

static void choose(const struct zt_config *c, struct zt_value *v) {
    if (!v->trainable && v->may_train && zt_job_is_asked_for(c, v->name)) {
        v->trainable = true;
        v->why = "named in ztrain.trainable";
    }
    if (!v->trainable && v->may_train && v->scale && c->qat.learn_scales) {
        v->trainable = true;
        v->why = "a scale of quantization, learned by ztrain.qat.scales";
    }
    if (!v->trainable || c->lora.match.count) /* zt_job_freeze() does the rest */
        return;
    if (zt_parameter_fits(v, c->freeze.at, c->freeze.count))
        v->why = "frozen by ztrain.freeze";
    else if (!zt_parameter_fits(v, c->trainable.at, c->trainable.count))
        v->why = "not in ztrain.trainable";
    else
        return;
    v->trainable = false;
}

/* A name without wildcards must match a trainable initializer; otherwise it is an error. */
static bool check_names(const struct zt_job *job, const struct zt_graph *g, struct zt_err *err) {
    const struct zt_texts *names = &job->config->trainable;
    const int before = err->count;
    for (int i = 0; i < names->count; i++) {
        if (is_glob(names->at[i]))
            continue;
        const int id = zt_graph_find(g, names->at[i]);
        const struct zt_value *v = id >= 0 ? g->values[id] : NULL;
        if (!v || v->origin != ZT_FROM_INITIALIZER)
            zt_fail(err, ZT_EXIT_CONFIG, "ztrain.trainable[%d]: the model has no initializer \"%s\"", i, names->at[i]);
        else if (!v->trainable && !v->may_train)
            zt_fail(err, ZT_EXIT_CONFIG, "ztrain.trainable[%d]: \"%s\" cannot be trained: %s", i, names->at[i],
                    v->why ? v->why : "the loss does not need it");
    }
    return err->count == before;
}

/* ---- applying the decisions ---- */

static bool undo_foldings(const struct zt_job *job, struct zt_graph *g, struct zt_err *err) {
    for (int i = 0; i < job->derived_count; i++)
        if (!zt_derived_apply(g, &zt_ops, &job->derived[i], err))
            return false;
    return true;
}

static void settle_rest(const struct zt_job *job, struct zt_graph *g) {
    for (int v = 0; v < g->value_count; v++) {
        if (g->values[v]->origin != ZT_FROM_INITIALIZER)
            continue;
        choose(job->config, g->values[v]);
        if (g->values[v]->may_train) /* before contents are copied to be aligned */
            zt_frozen_know(job->frozen, g->values[v]);
    }
    for (int i = 0; i < job->statistic_count; i++) {
        const int id = zt_graph_find(g, job->statistics[i]);
        if (id >= 0) /* else a later pass adds it */
            g->values[id]->statistic = true;
    }
    zt_graph_align_constants(g);
}

bool zt_job_settle_parameters(const struct zt_job *job, struct zt_graph *g, struct zt_err *err) {
    if (!undo_foldings(job, g, err) || !zt_job_apply_ties(job, g, err))
        return false;
    settle_rest(job, g);
    return true;
}

bool zt_job_find_parameters(struct zt_job *job, struct zt_graph *g, struct zt_err *err) {
    job->derived_count = zt_derived_find(job->model, g, job->arena, &job->derived);
    if (!undo_foldings(job, g, err) || !zt_job_find_ties(job, g, err) || !zt_job_apply_ties(job, g, err))
        return false;
    settle_rest(job, g);
    return check_names(job, g, err);
}
