/* Globs of the config that match nothing. Usually the name is misspelt or was changed by the exporter. */
#include "plan/job/unmatched.h"

#include "base/text.h"
#include "plan/job/qat.h"

#include <string.h>

static bool fits_adapter(const struct zt_job *job, const char *glob) {
    for (int i = 0; i < job->adapter_count; i++)
        if (zt_glob(glob, job->adapters[i].name[0]) || zt_glob(glob, job->adapters[i].name[1]))
            return true;
    return false;
}

static bool fits_scale(const struct zt_job *job, const char *glob) {
    for (int i = 0; i < job->pair_count; i++)
        if (zt_qat_may_learn(job, &job->pairs[i]) && zt_glob(glob, job->pairs[i].store))
            return true;
    return false;
}

static bool fits_initializer(const struct zt_job *job, const struct zt_graph *g, const char *glob) {
    for (int v = 0; v < g->value_count; v++)
        if (g->values[v]->origin == ZT_FROM_INITIALIZER && zt_parameter_fits(g->values[v], &glob, 1))
            return true;
    return fits_adapter(job, glob) || fits_scale(job, glob);
}

static bool fits_node(const struct zt_job *job, const struct zt_graph *g, const char *glob) {
    (void)job;
    for (int n = 0; n < g->node_count; n++)
        if (zt_glob(glob, g->nodes[n]->name))
            return true;
    return false;
}

/* `key`: the path of the glob below "ztrain". */
static void check(struct zt_job *job, const char *key, const char *glob, bool fits, const char *what) {
    if (!fits && strcmp(glob, "*") != 0) /* the default; a model without initializers is refused */
        job->unmatched.at[job->unmatched.count++] =
            zt_arena_printf(job->arena, "ztrain.%s: no %s of the model matches \"%s\"", key, what, glob);
}

void zt_job_find_unmatched(struct zt_job *job, const struct zt_graph *g) {
    const struct zt_config *c = job->config;
    const struct {
        const char *key;
        const struct zt_texts *globs;
        bool (*fits)(const struct zt_job *job, const struct zt_graph *g, const char *glob);
        const char *what;
    } lists[] = { { "trainable", &c->trainable, fits_initializer, "initializer" },
                  { "freeze", &c->freeze, fits_initializer, "initializer" },
                  { "recompute", &c->recompute.names, fits_node, "node" } };
    const int most = c->trainable.count + c->freeze.count + c->recompute.names.count + c->group_count;
    job->unmatched = (struct zt_texts){ ZT_NEW_N(job->arena, const char *, most + 1), 0 };
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (int i = 0; i < lists[l].globs->count; i++)
            check(job, zt_arena_printf(job->arena, "%s[%d]", lists[l].key, i), lists[l].globs->at[i],
                  lists[l].fits(job, g, lists[l].globs->at[i]), lists[l].what);
    for (int i = 0; i < c->group_count; i++)
        check(job, zt_arena_printf(job->arena, "param_groups[%d].match", i), c->groups[i].match,
              fits_initializer(job, g, c->groups[i].match), "initializer");
}
