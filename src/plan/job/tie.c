/* ztrain.tie: initializers that share one parameter. */
#include "plan/job/tie.h"

#include "graph/passes/tie.h"
#include "plan/job/training_graph.h"

#include <string.h>

/* Returns the value of a name in a group if it is trainable or not needed by the loss (then it follows the others on
 * export); otherwise -1 with the reason. */
static int find_tied(const struct zt_graph *g, const char *name, int group, int item, struct zt_err *err) {
    int id = zt_graph_find(g, name);
    const struct zt_value *v = id >= 0 ? g->values[id] : NULL;
    if (!v || v->origin != ZT_FROM_INITIALIZER)
        zt_fail(err, ZT_EXIT_CONFIG, "ztrain.tie[%d][%d]: the model has no initializer \"%s\"", group, item, name);
    else if (!v->trainable && !v->may_train && zt_graph_users(g, id, NULL) > 0)
        zt_fail(err, ZT_EXIT_CONFIG, "ztrain.tie[%d][%d]: \"%s\" cannot be trained: %s", group, item, name, v->why);
    else
        return id;
    return -1;
}

static bool is_transposed(const struct zt_shape *a, const struct zt_shape *b) {
    return a->rank == 2 && b->rank == 2 && a->dim[0] == b->dim[1] && a->dim[1] == b->dim[0];
}

/* Determines how b is tied to a: directly, or with permuted axes if the contents show this; matrices also if the
 * contents differ. A square matrix with different contents is tied directly. */
static bool fit(const struct zt_graph *g, int a, int b, const int place[2], struct zt_tie *to, struct zt_err *err) {
    const struct zt_value *x = g->values[a], *y = g->values[b];
    char s[ZT_SHAPE_TEXT], t[ZT_SHAPE_TEXT];
    const bool equal = zt_trainable_is_reshaped(x, y), same = equal || zt_shape_equal(&x->shape, &y->shape);
    bool transposed = is_transposed(&x->shape, &y->shape);
    if (x->dtype != y->dtype)
        return zt_fail(err, ZT_EXIT_CONFIG, "ztrain.tie[%d][%d]: \"%s\" is of type %s, \"%s\" of type %s", place[0],
                       place[1], y->name, zt_dtype_name(y->dtype), x->name, zt_dtype_name(x->dtype));
    const bool permuted = !equal && zt_trainable_find_perm(x, y, to->perm);
    if (!same && !transposed && !permuted)
        return zt_fail(err, ZT_EXIT_CONFIG,
                       "ztrain.tie[%d][%d]: \"%s\" %s has neither the shape of \"%s\" %s nor its transpose", place[0],
                       place[1], y->name, zt_shape_text(&y->shape, t), x->name, zt_shape_text(&x->shape, s));
    to->differs = x->data && y->data && !equal && !permuted;
    to->transposed = permuted || !same;
    if (!same && !permuted) {
        to->perm[0] = 1;
        to->perm[1] = 0;
    }
    return true;
}

/* Returns the tie among the first `count` in which `name` follows another initializer; NULL if there is none. */
static const struct zt_tie *tie_of(const struct zt_job *job, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(job->ties[i].name, name) == 0)
            return &job->ties[i];
    return NULL;
}

static bool is_followed(const struct zt_job *job, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(job->ties[i].to, name) == 0)
            return true;
    return false;
}

/* Adds copies made by the exporter, except those in ztrain.tie. A copy of an initializer that follows another one in
 * ztrain.tie follows the same one. */
static void add_copies(struct zt_job *job, const struct zt_graph *g, const struct zt_trainable_pair *pairs, int count) {
    const int asked = job->tie_count;
    for (int i = 0; i < count; i++) {
        const struct zt_value *a = g->values[pairs[i].a], *b = g->values[pairs[i].b];
        const struct zt_tie *first = tie_of(job, asked, a->name);
        struct zt_tie tie = { .name = zt_arena_strdup(job->arena, b->name),
                              .to = first ? first->to : zt_arena_strdup(job->arena, a->name),
                              .transposed = pairs[i].transposed,
                              .found = true };
        memcpy(tie.perm, pairs[i].perm, sizeof tie.perm);
        if (tie_of(job, asked, b->name) || is_followed(job, asked, b->name))
            continue;
        if (pairs[i].apart) {
            job->apart.at[job->apart.count++] =
                zt_arena_printf(job->arena, "%s = %s%s", b->name, pairs[i].transposed ? "transpose of " : "", a->name);
            continue;
        }
        if (first) {
            const struct zt_value *root = g->values[zt_graph_find(g, first->to)];
            tie.transposed = !zt_trainable_is_reshaped(root, b);
            if (tie.transposed && !zt_trainable_find_perm(root, b, tie.perm))
                continue; /* its contents are not used because of ztrain.tie */
        }
        job->ties[job->tie_count++] = tie;
    }
}

/* Adds one group of ztrain.tie: all follow the first trainable one. */
static void add_group(struct zt_job *job, const struct zt_graph *g, int group, struct zt_err *err) {
    const struct zt_texts *names = &job->config->tie.at[group];
    int *ids = ZT_NEW_N(job->arena, int, names->count), first = -1;
    for (int k = 0; k < names->count; k++) {
        ids[k] = find_tied(g, names->at[k], group, k, err);
        if (first < 0 && ids[k] >= 0 && g->values[ids[k]]->trainable)
            first = k;
    }
    if (first < 0 && !err->count)
        zt_fail(err, ZT_EXIT_CONFIG, "ztrain.tie[%d]: none of these is trained; \"%s\": %s", group, names->at[0],
                g->values[ids[0]]->why);
    for (int k = 0; k < names->count && first >= 0; k++) {
        struct zt_tie *tie = &job->ties[job->tie_count];
        *tie = (struct zt_tie){ .name = names->at[k], .to = names->at[first] };
        if (k != first && ids[k] >= 0 && fit(g, ids[first], ids[k], (int[]){ group, k }, tie, err))
            job->tie_count++;
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
    job->apart = (struct zt_texts){ ZT_NEW_N(job->arena, const char *, copy_count + 1), 0 };
    for (int i = 0; i < groups->count; i++)
        add_group(job, g, i, err);
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

void zt_job_note_ties(const struct zt_job *job, struct zt_training_graph *training_graph) {
    for (int i = 0; i < job->tie_count; i++)
        if (job->ties[i].differs)
            zt_job_note(training_graph,
                        "ztrain.tie: the initial values of \"%s\" differ from those of \"%s\", which are used",
                        job->ties[i].name, job->ties[i].to);
}
