/* Binds input shapes and infers all values. */
#include "plan/job/bind.h"

#include "graph/passes/batch_numbers.h"
#include "graph/passes/rebind.h"
#include "graph/passes/infer.h"

#include <string.h>

enum { FOLD_LIMIT = 64 << 20 }; /* largest size of a folded constant in bytes */

static bool bind_inputs(const struct zt_job *job, struct zt_graph *g, const struct zt_source *source, int64_t rows,
                        struct zt_err *err) {
    for (int i = 0; i < job->want_count; i++) {
        if (!job->names[i])
            continue;
        struct zt_value *v = g->values[zt_graph_find(g, job->names[i])];
        const struct zt_shape *sample = source ? &source->column[i].shape : &job->wants[i].shape;
        struct zt_shape shape = { .rank = sample->rank + 1, .dim = { rows } };
        if (sample->rank < 0 || sample->rank >= ZT_MAX_RANK || !zt_shape_known(sample))
            return zt_fail(err, ZT_EXIT_MODEL, "input \"%s\": the shape is unknown without data", v->name);
        memcpy(shape.dim + 1, sample->dim, (size_t)sample->rank * sizeof *sample->dim);
        if (v->shape.rank > 0 && !v->dim_param[0] && v->shape.dim[0] > 0 && v->shape.dim[0] != job->fixed_batch)
            return zt_fail(err, ZT_EXIT_MODEL,
                           "input \"%s\" has first dimension %lld, another input has %lld: the batch size is ambiguous",
                           v->name, (long long)v->shape.dim[0], (long long)job->fixed_batch);
        if (v->shape.rank > 0)
            v->shape.dim[0] = rows; /* the batch size can be chosen */
        if (!zt_pass_bind(g, v->id, &shape, source ? ZT_EXIT_DATA : ZT_EXIT_MODEL, err))
            return false;
    }
    return true;
}

/* Removes nodes that only untaken branches read. */
static bool prune(const struct zt_job *job, struct zt_graph *g, struct zt_err *err) {
    int root = zt_graph_find(g, job->logits);
    return zt_graph_prune(g, &root, 1, err);
}

/* Infers a copy with the exported shapes first, for comparison. */
static bool infer_anew(const struct zt_job *job, struct zt_graph *g, const struct zt_source *source, int64_t rows,
                       struct zt_texts *numbers, struct zt_err *err) {
    struct zt_graph *exported = zt_graph_clone(g), *reference = NULL;
    bool ok = bind_inputs(job, exported, source, job->fixed_batch, err);
    if (ok) {
        reference = zt_graph_clone(exported);
        ok = zt_pass_infer(reference, FOLD_LIMIT, err) && bind_inputs(job, g, source, rows, err);
    }
    const struct zt_rebinding rebinding = {
        exported, reference, job->fixed_batch, rows, job->loss ? job->logits : NULL, FOLD_LIMIT
    };
    if (ok && !zt_pass_rebind(g, &rebinding, err))
        ok = zt_hint(err,
                     "the model was exported for a batch of %lld; it cannot run %lld samples at a time (see "
                     "train_micro_batch_size_per_gpu, drop_last)",
                     (long long)job->fixed_batch, (long long)rows);
    ok = ok && prune(job, g, err);
    if (ok && numbers)
        numbers->count = zt_pass_batch_numbers(g, reference, job->fixed_batch, (const char ***)&numbers->at);
    zt_graph_destroy(reference);
    zt_graph_destroy(exported);
    return ok;
}

bool zt_job_infer(const struct zt_job *job, struct zt_graph *g, const struct zt_source *source, int64_t rows,
                  struct zt_texts *numbers, struct zt_err *err) {
    if (job->fixed_batch && job->fixed_batch != rows)
        return infer_anew(job, g, source, rows, numbers, err);
    return bind_inputs(job, g, source, rows, err) && zt_pass_infer(g, FOLD_LIMIT, err) && prune(job, g, err);
}
