/* Rows of embeddings that get no gradient: ztrain.padding_idx, and what PyTorch's files tell. An attribute of the
 * Gather nodes tells their gradient rule (ops/movement/gather.c); the forward phase and the exported file do not
 * change. */
#include "ops/movement/gather.h"
#include "plan/job/padding.h"

#include "base/text.h"
#include "base/vec.h"
#include "config/read.h"
#include "graph/passes/trainable/trainable.h"
#include "plan/job/parameters.h"

#include <string.h>

/* ---- of the file ---- */

static bool is_configured(const struct zt_config *c, const char *table) {
    for (int i = 0; i < c->padding_count; i++)
        if (zt_glob(c->paddings[i].match, table))
            return true;
    return zt_job_is_asked_for(c, table);
}

void zt_job_find_paddings(struct zt_job *job, const struct zt_graph *g) {
    ZT_VEC(struct zt_job_padding) found = { 0 };
    for (int n = 0; n < g->node_count; n++) {
        const int id = zt_gather_table(g, n);
        const struct zt_value *table = id >= 0 ? g->values[id] : NULL;
        if (!table || (table->origin == ZT_FROM_INITIALIZER && !table->trainable) ||
            is_configured(job->config, table->name))
            continue;
        const int64_t row = zt_trainable_padding(job->model, g->nodes[n], table);
        if (row >= 0)
            zt_vec_push(&found, ((struct zt_job_padding){ zt_arena_strdup(job->arena, table->name),
                                                          g->nodes[n]->file_index, row }));
    }
    job->padding_count = found.count;
    job->paddings = zt_vec_copy(job->arena, &found);
    zt_vec_finish(&found);
}

/* The nodes of a function have the index of its call, so that the table counts, too. */
static void mark_found(const struct zt_job *job, struct zt_graph *g) {
    for (int n = 0; n < g->node_count; n++) {
        const int table = zt_gather_table(g, n);
        for (int i = 0; i < job->padding_count && table >= 0; i++)
            if (g->nodes[n]->file_index == job->paddings[i].node &&
                strcmp(g->values[table]->name, job->paddings[i].table) == 0)
                zt_node_set_int(g, n, ZT_GATHER_PADDING, job->paddings[i].row);
    }
}

void zt_job_find_inner_paddings(const struct zt_job *job, const struct zt_graph *g, int first, struct zt_texts *names) {
    for (int n = first; n < g->node_count; n++) {
        const int id = zt_gather_table(g, n);
        const struct zt_value *table = id >= 0 ? g->values[id] : NULL;
        if (table && table->origin == ZT_FROM_INITIALIZER && table->trainable &&
            !is_configured(job->config, table->name) && zt_trainable_padding(job->model, g->nodes[n], table) >= 0)
            zt_texts_add(job->arena, names, "%s", table->name);
    }
}

/* ---- of the config ---- */

/* Marks every Gather node of initializer `id`; returns false if there is none. */
static bool mark_readers(struct zt_graph *g, int id, int64_t row) {
    bool any = false;
    for (int n = 0; n < g->node_count; n++)
        if (zt_gather_table(g, n) == id) {
            zt_node_set_int(g, n, ZT_GATHER_PADDING, row);
            any = true;
        }
    return any;
}

static bool mark_table(struct zt_graph *g, const struct zt_value *v, const struct zt_padding_config *p,
                       struct zt_err *err) {
    const int64_t rows = v->shape.rank > 0 ? v->shape.dim[0] : 0, row = p->row < 0 ? p->row + rows : p->row;
    if (row < 0 || row >= rows)
        return zt_fail(err, ZT_EXIT_CONFIG, "ztrain.padding_idx.%s: row %lld is outside \"%s\", which has %lld rows",
                       p->match, (long long)p->row, v->name, (long long)rows);
    if (mark_readers(g, v->id, row))
        return true;
    zt_fail(err, ZT_EXIT_CONFIG, "ztrain.padding_idx.%s: matches \"%s\", which no Gather along axis 0 reads", p->match,
            v->name);
    return zt_hint(err, "only embeddings have a padding row: the pattern must match embeddings only");
}

/* Lists the embeddings of the model, because exporters may name a tied embedding after the output layer. */
static void hint_tables(const struct zt_graph *g, struct zt_err *err) {
    struct zt_text names = { 0 };
    for (int n = 0; n < g->node_count; n++) {
        const int table = zt_gather_table(g, n);
        if (table >= 0 && g->values[table]->origin == ZT_FROM_INITIALIZER && names.length < ZT_ERR_TEXT)
            zt_text_add(&names, "%s%s", names.length ? ", " : "", g->values[table]->name);
    }
    if (names.at)
        zt_hint(err, "embeddings of the model are: %s", names.at);
    zt_text_finish(&names);
}

bool zt_job_mark_paddings(const struct zt_job *job, struct zt_graph *g, struct zt_err *err) {
    const int before = err->count;
    mark_found(job, g);
    for (int i = 0; i < job->config->padding_count; i++) {
        const struct zt_padding_config *p = &job->config->paddings[i];
        bool any = false;
        for (int v = 0; v < g->value_count; v++)
            if (g->values[v]->origin == ZT_FROM_INITIALIZER && zt_glob(p->match, g->values[v]->name)) {
                mark_table(g, g->values[v], p, err);
                any = true;
            }
        if (!any) {
            zt_fail(err, ZT_EXIT_CONFIG, "ztrain.padding_idx.%s: matches no initializer of the model", p->match);
            hint_tables(g, err);
        }
    }
    return err->count == before;
}
