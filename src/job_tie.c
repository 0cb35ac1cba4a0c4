/* ztrain.tie: which initializers are one parameter. */
#include "job_parts.h"

#include <string.h>

/* A name of a group as a value that is trained; -1 with the reason. */
static int find_tied(const struct zt_graph *g, const char *name, int group, int item, struct zt_err *err) {
    int id = zt_graph_find(g, name);
    const struct zt_value *v = id >= 0 ? g->values[id] : NULL;
    if (!v || v->origin != ZT_FROM_INITIALIZER)
        zt_fail(err, ZT_EXIT_CONFIG, "ztrain.tie[%d][%d]: the model has no initializer \"%s\"", group, item, name);
    else if (!v->trainable)
        zt_fail(err, ZT_EXIT_CONFIG, "ztrain.tie[%d][%d]: \"%s\" is not trained: %s", group, item, name,
                v->why ? v->why : "the loss does not need it");
    else
        return id;
    return -1;
}

static bool is_turned(const struct zt_shape *a, const struct zt_shape *b) {
    return a->rank == 2 && b->rank == 2 && a->dim[0] == b->dim[1] && a->dim[1] == b->dim[0];
}

/* How b is tied to a. A square matrix fits both ways: as it is, unless it is a's transpose and not its equal. */
static bool fit(const struct zt_graph *g, int a, int b, int group, int item, struct zt_tie *to, struct zt_err *err) {
    const struct zt_value *x = g->values[a], *y = g->values[b];
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    bool same = zt_shape_equal(&x->shape, &y->shape), turned = is_turned(&x->shape, &y->shape);
    if (x->dtype != y->dtype)
        return zt_fail(err, ZT_EXIT_CONFIG, "ztrain.tie[%d][%d]: \"%s\" is of type %s, \"%s\" of type %s", group, item,
                       y->name, zt_dtype_name(y->dtype), x->name, zt_dtype_name(x->dtype));
    if (!same && !turned)
        return zt_fail(err, ZT_EXIT_CONFIG,
                       "ztrain.tie[%d][%d]: \"%s\" %s is \"%s\" %s neither as it is nor transposed", group, item,
                       y->name, zt_shape_text(&y->shape, t), x->name, zt_shape_text(&x->shape, s));
    bool equal = same && zt_trainable_same(x, y, NULL);
    to->perm[0] = 1;
    to->perm[1] = 0;
    to->transposed = turned && !equal && (!same || zt_trainable_same(x, y, to->perm));
    to->differs = x->data && y->data && !equal && !(to->transposed && zt_trainable_same(x, y, to->perm));
    return true;
}

/* Whether ztrain.tie names it: the first `count` ties. */
static bool is_tied(const struct zt_job *job, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(job->ties[i].name, name) == 0 || strcmp(job->ties[i].to, name) == 0)
            return true;
    return false;
}

/* Copies that the exporter left, but those that ztrain.tie names. */
static void add_copies(struct zt_job *job, const struct zt_graph *g, const struct zt_trainable_pair *pairs, int count) {
    const int asked = job->tie_count;
    for (int i = 0; i < count; i++) {
        struct zt_tie tie = { .name = zt_arena_strdup(job->arena, g->values[pairs[i].b]->name),
                              .to = zt_arena_strdup(job->arena, g->values[pairs[i].a]->name),
                              .transposed = pairs[i].transposed,
                              .found = true };
        memcpy(tie.perm, pairs[i].perm, sizeof tie.perm);
        if (!is_tied(job, asked, tie.name) && !is_tied(job, asked, tie.to))
            job->ties[job->tie_count++] = tie;
    }
}

bool zt_job_find_ties(struct zt_job *job, struct zt_graph *g, struct zt_err *err) {
    const struct zt_text_lists *groups = &job->config->tie;
    int count = 0, before = err->count;
    struct zt_trainable_pair *copies = NULL;
    for (int i = 0; i < groups->count; i++)
        count += groups->at[i].count;
    const int copy_count = job->config->tie_equal ? zt_trainable_copies(job->model, g, &copies) : 0;
    job->ties = ZT_NEW_N(job->arena, struct zt_tie, count + copy_count + 1);
    for (int i = 0; i < groups->count; i++) {
        const struct zt_texts *names = &groups->at[i];
        int first = find_tied(g, names->at[0], i, 0, err);
        for (int k = 1; k < names->count; k++) {
            int other = find_tied(g, names->at[k], i, k, err);
            struct zt_tie *tie = &job->ties[job->tie_count];
            *tie = (struct zt_tie){ .name = names->at[k], .to = names->at[0] };
            if (first >= 0 && other >= 0 && fit(g, first, other, i, k, tie, err))
                job->tie_count++;
        }
    }
    add_copies(job, g, copies, copy_count);
    return err->count == before;
}

bool zt_job_apply_ties(const struct zt_job *job, struct zt_graph *g, struct zt_err *err) {
    for (int i = 0; i < job->tie_count; i++) {
        const struct zt_tie *tie = &job->ties[i];
        if (!zt_pass_tie(g, &zt_ops, zt_graph_find(g, tie->name), zt_graph_find(g, tie->to),
                         tie->transposed ? tie->perm : NULL, err))
            return false;
    }
    return true;
}

void zt_job_note_ties(const struct zt_job *job, struct zt_joint *joint) {
    for (int i = 0; i < job->tie_count; i++)
        if (job->ties[i].differs)
            zt_job_note(joint, "ztrain.tie: the initial values of \"%s\" differ from those of \"%s\", which count",
                        job->ties[i].name, job->ties[i].to);
}
