#include "plan/job/lora.h"

#include "base/rng.h"
#include "base/text.h"
#include "base/vec.h"
#include "graph/passes/trainable/torch.h"
#include "plan/job/adapter_names.h"
#include "plan/job/frozen.h"
#include "plan/job/training_graph.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

struct finder {
    struct zt_job *job;
    struct zt_graph *g;
    const struct zt_lora_config *config;
    bool *fits;           /* by pattern: it selects a weight */
    const char **blocked; /* by pattern: why the first weight of that name cannot be adapted; NULL: there is none */
    struct zt_map listed; /* names in PyTorch's signature */
    struct zt_map names;  /* of A and B */
    ZT_VEC(struct zt_adapter) adapters;
    ZT_VEC(const char *) left_out;
    struct zt_err *err;
};

/* ---- selection ---- */

static bool selects(const struct finder *f, const char *pattern, const struct zt_value *v,
                    const struct zt_weight_readers *readers) {
    bool hit = zt_glob(pattern, v->name) || zt_glob(pattern, zt_parameter_of(f->g->arena, v, &f->listed));
    for (int i = 0; i < readers->count && !hit; i++)
        hit = zt_glob(pattern, readers->at[i].name);
    return hit;
}

/* Why a weight cannot be adapted; NULL: it can. */
static const char *obstacle(const struct finder *f, const struct zt_value *v, const struct zt_weight_readers *readers) {
    if (!zt_dtype_in(v->dtype, ZT_ANY_FLOAT))
        return zt_arena_printf(f->job->arena, "is of type %s", zt_dtype_name(v->dtype));
    if (readers->other)
        return zt_arena_printf(f->job->arena, "%s%s", readers->other, readers->count ? " too" : "");
    if (!readers->count)
        return "is read by no MatMul, Gemm or Conv";
    return v->may_train ? NULL : zt_arena_strdup(f->job->arena, v->why ? v->why : "does not lead to the loss");
}

/* Whether a pattern selects the weight. Patterns learn why a weight of their name cannot be adapted. */
static bool is_selected(struct finder *f, const struct zt_value *v, const struct zt_weight_readers *readers) {
    const char *why = NULL;
    bool selected = false, looked = false;
    for (int p = 0; p < f->config->match.count; p++) {
        if (!selects(f, f->config->match.at[p], v, readers))
            continue;
        why = looked ? why : obstacle(f, v, readers);
        looked = selected = true;
        f->fits[p] |= !why;
        if (why && v->shape.rank >= 2 && !f->blocked[p])
            f->blocked[p] = zt_arena_printf(f->job->arena, "\"%s\", which %s", v->name, why);
    }
    if (selected && why && readers->count)
        zt_vec_push(&f->left_out, zt_arena_printf(f->job->arena, "left out: %s %s", v->name, why));
    return selected && !why;
}

/* ---- one adapter ---- */

/* The weight as a matrix [out, in]. */
struct sides {
    int64_t out, in;
};

static struct sides sides_of(const struct zt_value *v, bool transposed) {
    const int64_t rest = v->shape.dim[0] ? zt_shape_count(&v->shape) / v->shape.dim[0] : 0;
    return transposed ? (struct sides){ rest, v->shape.dim[0] } : (struct sides){ v->shape.dim[0], rest };
}

static bool check_rank(const struct finder *f, const struct zt_value *v, struct sides s) {
    const int64_t most = s.out < s.in ? s.out : s.in;
    char shape[ZT_SHAPE_TEXT];
    return f->config->rank <= most ||
           zt_fail(f->err, ZT_EXIT_CONFIG, "ztrain.lora.rank: %lld exceeds the rank of \"%s\" %s, at most %lld",
                   (long long)f->config->rank, v->name, zt_shape_text(&v->shape, shape), (long long)most);
}

static bool is_used(const struct finder *f, const char *name) {
    return zt_graph_find(f->g, name) >= 0 || zt_map_get(&f->names, name, 0);
}

/* Two weights may belong to one module; the second one has its whole name in front. */
static const char *name_of(struct finder *f, const struct zt_value *v, const char *module, char which) {
    const char *name = zt_arena_printf(f->job->arena, "%s.lora_%c.weight", module, which);
    if (is_used(f, name))
        name = zt_arena_printf(f->job->arena, "%s.lora_%c.weight", v->name, which);
    if (is_used(f, name))
        zt_fail(f->err, ZT_EXIT_MODEL, "the model has a tensor \"%s\" already, which is the name of an adapter", name);
    zt_map_put(&f->names, name, 1);
    return name;
}

static void start_uniform(float *to, int64_t count, uint64_t key, float bound) {
    struct zt_rng rng = zt_rng_start(key, 0);
    for (int64_t i = 0; i < count; i++)
        to[i] = (2 * zt_rng_uniform(&rng) - 1) * bound;
}

static bool trains(const struct finder *f, const char *name) {
    return !zt_glob_any(f->job->config->freeze.at, f->job->config->freeze.count, name);
}

static void add_adapter(struct finder *f, const struct zt_value *v, const struct zt_weight_readers *readers) {
    struct zt_arena *arena = f->job->arena;
    const struct sides s = sides_of(v, readers->transposed);
    const int64_t rank = f->config->rank;
    const char *module = zt_module_of(arena, v, &f->listed, readers->at[0].of);
    struct zt_adapter a = { .weight = zt_arena_strdup(arena, v->name),
                            .name = { name_of(f, v, module, 'A'), name_of(f, v, module, 'B') },
                            .shape = { v->shape, { v->shape.rank, { s.out, rank } } },
                            .transposed = readers->transposed,
                            .scale = f->config->alpha / (double)rank,
                            .dropout = f->config->dropout };
    if (!check_rank(f, v, s))
        return;
    a.shape[0].dim[0] = rank;
    if (v->shape.rank == 2)
        a.shape[0].dim[1] = s.in;
    for (int k = 2; k < v->shape.rank; k++)
        a.shape[1].dim[k] = 1;
    float *first = ZT_NEW_N(arena, float, rank *s.in + 1);
    const uint64_t key = zt_rng_key((uint64_t)f->job->config->seed, zt_hash(ZT_HASH_START, v->name, strlen(v->name)),
                                    0x6c6f7261 /* "lora" */, 0);
    start_uniform(first, rank * s.in, key, (float)(1 / sqrt((double)s.in)));
    a.initial[0] = first;
    a.initial[1] = ZT_NEW_N(arena, float, s.out *rank + 1);
    for (int i = 0; i < 2; i++)
        a.train[i] = trains(f, a.name[i]);
    zt_vec_push(&f->adapters, a);
}

/* ---- finding ---- */

static void check_patterns(const struct finder *f) {
    for (int p = 0; p < f->config->match.count; p++) {
        if (f->fits[p])
            continue;
        if (f->blocked[p])
            zt_fail(f->err, ZT_EXIT_CONFIG, "ztrain.lora.match[%d]: \"%s\" matches only what cannot be adapted: %s", p,
                    f->config->match.at[p], f->blocked[p]);
        else
            zt_fail(f->err, ZT_EXIT_CONFIG,
                    "ztrain.lora.match[%d]: \"%s\" matches no weight of a MatMul, Gemm or Conv, and no such node", p,
                    f->config->match.at[p]);
    }
}

static void keep(struct finder *f) {
    struct zt_job *job = f->job;
    job->adapter_count = f->adapters.count;
    job->adapters = zt_vec_copy(job->arena, &f->adapters);
    job->left_out.count = f->left_out.count;
    job->left_out.at = zt_vec_copy(job->arena, &f->left_out);
    zt_vec_finish(&f->adapters);
    zt_vec_finish(&f->left_out);
    zt_map_finish(&f->names);
    zt_map_finish(&f->listed);
}

bool zt_job_find_adapters(struct zt_job *job, struct zt_graph *g, struct zt_err *err) {
    struct finder f = { .job = job, .g = g, .config = &job->config->lora, .err = err };
    const int before = err->count, patterns = f.config->match.count;
    if (!patterns)
        return true;
    if (job->model->torch_signature)
        zt_torch_read_signature(job->arena, job->model->torch_signature, &f.listed);
    f.fits = ZT_NEW_N(g->arena, bool, patterns);
    f.blocked = ZT_NEW_N(g->arena, const char *, patterns);
    for (int i = 0; i < g->value_count; i++) {
        const struct zt_value *v = g->values[i];
        struct zt_weight_readers readers;
        if (v->origin != ZT_FROM_INITIALIZER)
            continue;
        zt_weight_readers_find(g, i, &readers);
        if (is_selected(&f, v, &readers))
            add_adapter(&f, v, &readers);
    }
    check_patterns(&f);
    keep(&f);
    return err->count == before;
}

/* ---- graphs ---- */

/* "*" is the default of ztrain.trainable and names no parameter. */
static bool is_named(const struct zt_config *c, const struct zt_value *v) {
    for (int i = 0; i < c->trainable.count; i++)
        if (strcmp(c->trainable.at[i], "*") != 0 && zt_parameter_fits(v, &c->trainable.at[i], 1))
            return !zt_parameter_fits(v, c->freeze.at, c->freeze.count);
    return false;
}

void zt_job_freeze(const struct zt_job *job, struct zt_graph *g) {
    for (int i = 0; i < g->value_count && job->adapter_count; i++) {
        struct zt_value *v = g->values[i];
        if (v->origin != ZT_FROM_INITIALIZER || !v->trainable || is_named(job->config, v))
            continue;
        v->trainable = false;
        v->why = "frozen: ztrain.lora trains adapters";
        if (v->shape.rank < 2) /* patterns read scalars in place; matrices may never be needed in this type */
            v->data = zt_frozen_contents(job->frozen, v, v->dtype);
    }
}

bool zt_job_adapt(const struct zt_job *job, struct zt_training_graph *training_graph, struct zt_err *err) {
    for (int i = 0; i < job->adapter_count; i++) {
        int readers;
        if (!zt_pass_low_rank(training_graph->graph, &zt_ops, &job->adapters[i], &readers, err))
            return false;
        if (!readers)
            zt_job_note(training_graph,
                        "ztrain.lora: \"%s\" has no adapter: its readers are in a branch that is not taken",
                        job->adapters[i].weight);
    }
    return true;
}

/* ---- merging ---- */

/* w[rows][columns] += s left[rows][rank] right[rank][columns], where strides select A and B or their transposes. */
struct product {
    int64_t rows, columns, rank;
    const float *left, *right;
    int64_t left_row, left_rank, right_rank, right_column; /* strides */
    double scale;
};

static void add_product(const struct product *p, const float *w, float *to, double *row) {
    for (int64_t i = 0; i < p->rows; i++) {
        for (int64_t k = 0; k < p->columns; k++)
            row[k] = 0;
        for (int64_t r = 0; r < p->rank; r++) {
            const double x = (double)p->left[i * p->left_row + r * p->left_rank];
            const float *right = p->right + r * p->right_rank;
            for (int64_t k = 0; k < p->columns; k++)
                row[k] += x * (double)right[k * p->right_column];
        }
        for (int64_t k = 0; k < p->columns; k++)
            to[i * p->columns + k] = (float)((double)w[i * p->columns + k] + p->scale * row[k]);
    }
}

float *zt_job_merge(struct zt_arena *arena, const struct zt_adapter *a, const float *weight,
                    const float *const factors[2]) {
    const int64_t rank = a->shape[0].dim[0], out = a->shape[1].dim[0], in = zt_shape_count(&a->shape[0]) / rank;
    const float *A = factors[0], *B = factors[1];
    const struct product plain = { out, in, rank, B, A, rank, 1, in, 1, a->scale },
                         transposed = { in, out, rank, A, B, 1, in, 1, rank, a->scale };
    float *to = ZT_NEW_N(arena, float, out *in + 1);
    double *row = ZT_NEW_N(arena, double, (in > out ? in : out) + 1);
    add_product(a->transposed ? &transposed : &plain, weight, to, row);
    return to;
}

/* ---- lines for users ---- */

/* The name with '*' for every number. */
static const char *pattern_of(struct zt_arena *arena, const char *name) {
    char *to = zt_arena_strdup(arena, name), *out = to;
    for (const char *c = name; *c;) {
        if (isdigit((unsigned char)*c)) {
            *out++ = '*';
            c += strspn(c, "0123456789");
        } else {
            *out++ = *c++;
        }
    }
    *out = 0;
    return to;
}

/* The module in the name of A. */
static const char *module_of(struct zt_arena *arena, const struct zt_adapter *a) {
    return zt_arena_printf(arena, "%.*s", (int)(strlen(a->name[0]) - strlen(".lora_A.weight")), a->name[0]);
}

struct group {
    const char *pattern, *first;
    int count;
    int64_t elements;
};

static int64_t elements_of(const struct zt_adapter *a) {
    return zt_shape_count(&a->shape[0]) + zt_shape_count(&a->shape[1]);
}

static void add_to_group(struct zt_arena *arena, struct group *groups, int *count, const struct zt_adapter *a) {
    const char *module = module_of(arena, a), *pattern = pattern_of(arena, module);
    int at = 0;
    while (at < *count && strcmp(groups[at].pattern, pattern) != 0)
        at++;
    if (at == *count)
        groups[(*count)++] = (struct group){ .pattern = pattern, .first = module };
    groups[at].count++;
    groups[at].elements += elements_of(a);
}

void zt_job_list_adapters(const struct zt_job *job, struct zt_texts *lines, struct zt_arena *arena) {
    struct group *groups = ZT_NEW_N(arena, struct group, job->adapter_count + 1);
    const struct zt_lora_config *c = &job->config->lora;
    int count = 0;
    *lines = (struct zt_texts){ 0 };
    if (!job->adapter_count)
        return;
    for (int i = 0; i < job->adapter_count; i++)
        add_to_group(arena, groups, &count, &job->adapters[i]);
    lines->at = ZT_NEW_N(arena, const char *, count + job->left_out.count + 2);
    lines->at[lines->count++] = zt_arena_printf(arena, "rank %lld, alpha %g, %d weights adapted", (long long)c->rank,
                                                c->alpha, job->adapter_count);
    for (int i = 0; i < count; i++)
        lines->at[lines->count++] = zt_arena_printf(
            arena, "%s%s%.0d: %lld elements", groups[i].count > 1 ? groups[i].pattern : groups[i].first,
            groups[i].count > 1 ? " x " : "", groups[i].count > 1 ? groups[i].count : 0, (long long)groups[i].elements);
    for (int i = 0; i < job->left_out.count; i++)
        lines->at[lines->count++] = job->left_out.at[i];
}
