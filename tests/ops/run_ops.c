/* Runs the op cases: `run_ops check|grad|bench|support [--backend ref|cpu] [--family PATTERN] [--only PATTERN]
 * [--threads N]`. `--backend cuda --module FOLDER` runs the cases its kernels take on the GPU, through the CUDA module
 * in FOLDER; exit 77 where either is missing.
 *
 *   check    the back end against the reference kernels; for ref, each type against the same values in double
 *   grad     gradients (zt_grad_build, run eagerly in double) against central differences along random directions
 *   bench    milliseconds, GB/s and GFLOP/s of the back end
 *   support  which back end takes which case */
#include "tests/ops/cases.h"

#include "base/rng.h"
#include "base/text.h"
#include "device/module.h"
#include "graph/eval.h"
#include "graph/grad.h"
#include "ops/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options {
    enum zt_backend backend;
    const char *only, *family;
    int threads;
    struct zt_device *device;
};

static const struct zt_random no_random = { .seed = 1 };
static const char *const backend_names[ZT_BACKENDS] = { [ZT_REF] = "ref", [ZT_CPU] = "cpu", [ZT_CUDA] = "cuda" };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct zt_tensor tensor_of(const struct zt_value *v) {
    return (struct zt_tensor){ .dtype = v->dtype, .shape = v->shape, .data = v->data };
}

static struct zt_eval *start(struct zt_case_graph *m, int threads) {
    struct zt_eval *eval = zt_eval_create(m->graph, &no_random, threads);
    for (int i = 0; i < m->in_count; i++)
        if (m->in[i] >= 0 && !m->constant[i])
            zt_eval_feed(eval, m->in[i], &m->feed[i]);
    return eval;
}

/* ---- check ---- */

static double tolerance(const struct zt_case *c, enum zt_dtype dtype) {
    if (c->tolerance > 0)
        return c->tolerance;
    return dtype == ZT_BFLOAT16 ? 2e-2 : dtype == ZT_FLOAT16 ? 4e-3 : dtype == ZT_FLOAT ? 1e-5 : 1e-12;
}

static bool same(const struct zt_case *c, int out, const struct zt_tensor *got, const struct zt_tensor *want,
                 struct zt_err *err) {
    char a[ZT_SHAPE_TEXT], b[ZT_SHAPE_TEXT];
    if (!zt_shape_equal(&got->shape, &want->shape))
        return zt_fail(err, ZT_EXIT_RUN, "output %d: shape %s, expected %s", out, zt_shape_text(&got->shape, a),
                       zt_shape_text(&want->shape, b));
    double limit = zt_dtype_in(got->dtype, ZT_ANY_FLOAT) ? tolerance(c, got->dtype) : 0;
    int64_t count = zt_shape_count(&got->shape);
    double scale = 0;
    for (int64_t i = 0; i < count; i++) {
        double w = zt_load_double(want->dtype, want->data, i);
        scale += isfinite(w) ? fabs(w) / (double)count : 0;
    }
    for (int64_t i = 0; i < count; i++) {
        double x = zt_load_double(got->dtype, got->data, i), w = zt_load_double(want->dtype, want->data, i);
        bool fits = (isnan(x) && isnan(w)) || x == w || fabs(x - w) <= limit * (fabs(w) + scale) + 1e-30;
        if (!fits)
            return zt_fail(err, ZT_EXIT_RUN, "output %d, element %lld: %.9g, expected %.9g", out, (long long)i, x, w);
    }
    return true;
}

/* A prepared graph with a buffer a value. */
struct machine {
    struct zt_graph *g;
    struct zt_prepared *prepared;
    struct zt_device *device;
    void **buffer; /* in the device's memory */
    void *workspace;
    size_t workspace_bytes;
    int threads;
};

static size_t value_bytes(const struct zt_value *v) {
    return v->layout ? v->layout->bytes : (size_t)zt_shape_count(&v->shape) * zt_dtype_bytes(v->dtype);
}

/* Infers with the contents of all inputs in sight, so that shapes that depend on data are known too. */
static bool infer(struct zt_case_graph *made, struct zt_err *err) {
    struct zt_graph *g = made->graph;
    for (int i = 0; i < made->in_count; i++)
        if (made->in[i] >= 0)
            g->values[made->in[i]].data = made->feed[i].data;
    bool good = zt_op_infer(g, 0, err);
    for (int i = 0; i < made->in_count; i++)
        if (made->in[i] >= 0 && !made->constant[i])
            g->values[made->in[i]].data = NULL;
    return good;
}

static bool machine_start(struct machine *m, struct zt_case_graph *made, const struct options *o, struct zt_err *err) {
    struct zt_graph *g = made->graph;
    const struct zt_device_api *api = o->device->api;
    *m = (struct machine){ .g = g, .threads = o->threads, .device = o->device, .workspace_bytes = 1 };
    if (!infer(made, err) ||
        !zt_pass_assign(g, &zt_ops, o->backend, o->threads, o->device, g->outputs, g->output_count, &m->prepared, err))
        return false;
    bool good = true;
    m->buffer = ZT_NEW_N(g->arena, void *, g->value_count);
    for (int v = 0; good && v < g->value_count; v++)
        good = (m->buffer[v] = api->allocate(o->device, value_bytes(&g->values[v]), "a tensor", err)) != NULL;
    for (int i = 0; good && i < made->in_count; i++)
        if (made->in[i] >= 0 && made->feed[i].data)
            good = api->to_device(o->device, m->buffer[made->in[i]], made->feed[i].data,
                                  value_bytes(&g->values[made->in[i]]), err);
    for (int n = 0; n < g->node_count; n++)
        if (m->prepared[n].workspace_bytes > m->workspace_bytes)
            m->workspace_bytes = m->prepared[n].workspace_bytes;
    return good && (m->workspace = api->allocate(o->device, m->workspace_bytes, "workspace", err)) != NULL;
}

static void machine_finish(struct machine *m) {
    for (int v = 0; m->buffer && v < m->g->value_count; v++)
        if (m->buffer[v])
            m->device->api->free(m->device, m->buffer[v], value_bytes(&m->g->values[v]));
    if (m->workspace)
        m->device->api->free(m->device, m->workspace, m->workspace_bytes);
    if (m->prepared)
        zt_assign_release(m->g, m->prepared);
}

/* A back end with memory of its own runs only what it has kernels for; elsewhere reference kernels fill in. */
static bool runs_here(const struct machine *m) {
    for (int n = 0; m->device->module && n < m->g->node_count; n++)
        if (m->g->nodes[n].backend != m->device->api->backend)
            return false;
    return true;
}

static struct zt_view view(const struct machine *m, int value) {
    if (value < 0)
        return (struct zt_view){ 0 };
    const struct zt_value *v = &m->g->values[value];
    return (struct zt_view){ .dtype = v->dtype, .shape = v->shape, .data = m->buffer[value], .layout = v->layout };
}

static bool machine_run(const struct machine *m, struct zt_err *err) {
    struct zt_view in[CASE_INPUTS], out[CASE_OUTPUTS];
    for (int n = 0; n < m->g->node_count; n++) {
        const struct zt_node *node = &m->g->nodes[n];
        for (int i = 0; i < node->in_count; i++)
            in[i] = view(m, node->in[i]);
        for (int i = 0; i < node->out_count; i++)
            out[i] = view(m, node->out[i]);
        struct zt_call call = { .graph = m->g,
                                .node = node,
                                .in = in,
                                .out = out,
                                .in_count = node->in_count,
                                .out_count = node->out_count,
                                .state = m->prepared[n].state,
                                .workspace = m->workspace,
                                .threads = m->threads,
                                .random = &no_random,
                                .device = m->device };
        if (!node->op->kernel[node->backend].run(&call, err))
            return false;
    }
    return m->device->api->synchronize(m->device, err);
}

/* A result in host memory. */
static bool fetch(const struct machine *m, int value, struct zt_tensor *to, struct zt_err *err) {
    const struct zt_value *v = &m->g->values[value];
    void *data = zt_arena_alloc(m->g->arena, value_bytes(v));
    *to = (struct zt_tensor){ v->dtype, v->shape, data };
    return m->device->api->to_host(m->device, data, m->buffer[value], value_bytes(v), err) &&
           m->device->api->synchronize(m->device, err);
}

/* Runs the case once more on one thread: the bits are those that `many` gave with several. */
static bool check_one_thread(const struct zt_case *c, const struct options *o, const struct machine *many,
                             struct zt_err *err) {
    struct options alone = *o;
    struct zt_case_graph made;
    struct machine m = { 0 };
    alone.threads = 1;
    bool good = zt_case_make(c, false, &made, err) && machine_start(&m, &made, &alone, err) && machine_run(&m, err);
    for (int i = 0; good && i < made.graph->output_count; i++) {
        struct zt_tensor one, several;
        good = fetch(&m, made.graph->outputs[i], &one, err) && fetch(many, many->g->outputs[i], &several, err);
        size_t bytes = good ? (size_t)zt_shape_count(&one.shape) * zt_dtype_bytes(one.dtype) : 0;
        if (good && memcmp(one.data, several.data, bytes) != 0)
            good = zt_fail(err, ZT_EXIT_RUN, "output %d: %d threads give other bits than one", i, o->threads);
    }
    machine_finish(&m);
    zt_graph_destroy(made.graph);
    return good;
}

static bool check_fast(const struct zt_case *c, const struct options *o, const struct zt_case_graph *want,
                       struct zt_err *err) {
    struct zt_case_graph made;
    struct machine m = { 0 };
    bool good = zt_case_make(c, false, &made, err) && machine_start(&m, &made, o, err);
    bool here = good && runs_here(&m);
    good = good && (!here || machine_run(&m, err));
    for (int i = 0; good && here && i < made.graph->output_count; i++) {
        struct zt_tensor g, w = tensor_of(&want->graph->values[want->graph->outputs[i]]);
        good = fetch(&m, made.graph->outputs[i], &g, err) && same(c, i, &g, &w, err);
    }
    good = good && (o->device->module || check_one_thread(c, o, &m, err));
    machine_finish(&m);
    zt_graph_destroy(made.graph);
    return good;
}

static bool check_wide(const struct zt_case *c, const struct zt_case_graph *got, struct zt_err *err) {
    struct zt_case_graph wide;
    bool good = zt_case_make(c, true, &wide, err);
    struct zt_eval *eval = good ? start(&wide, 1) : NULL;
    good = good && zt_eval_run(eval, 0, 1, err);
    for (int i = 0; good && i < got->graph->output_count; i++) {
        struct zt_tensor g = tensor_of(&got->graph->values[got->graph->outputs[i]]);
        struct zt_tensor w = tensor_of(&wide.graph->values[wide.graph->outputs[i]]);
        good = same(c, i, &g, &w, err);
    }
    if (eval)
        zt_eval_destroy(eval);
    zt_graph_destroy(wide.graph);
    return good;
}

static bool check(const struct zt_case *c, const struct options *o, struct zt_err *err) {
    struct zt_case_graph ref;
    bool good = zt_case_make(c, false, &ref, err);
    struct zt_eval *eval = good ? start(&ref, o->threads) : NULL;
    good = good && zt_eval_run(eval, 0, 1, err) &&
           (o->backend == ZT_REF ? check_wide(c, &ref, err) : check_fast(c, o, &ref, err));
    if (eval)
        zt_eval_destroy(eval);
    zt_graph_destroy(ref.graph);
    return good;
}

/* ---- grad ---- */

static struct zt_tensor random_like(struct zt_arena *arena, const struct zt_shape *shape, uint64_t key) {
    int64_t count = zt_shape_count(shape);
    double *data = zt_arena_alloc(arena, (size_t)count * sizeof *data);
    struct zt_rng rng = zt_rng_start(key, 1);
    for (int64_t i = 0; i < count; i++)
        data[i] = (double)zt_rng_normal(&rng);
    return (struct zt_tensor){ .dtype = ZT_DOUBLE, .shape = *shape, .data = data };
}

static double inner(const struct zt_tensor *a, const double *b) {
    double sum = 0;
    for (int64_t i = 0; i < zt_shape_count(&a->shape); i++)
        sum += ((const double *)a->data)[i] * b[i];
    return sum;
}

static int result_count(const struct zt_case *c, const struct zt_graph *g) {
    return c->results ? c->results : g->output_count;
}

/* sum over outputs of <cotangent, output> with input `moved` shifted by h * direction. */
static bool objective(const struct zt_case *c, int moved, const struct zt_tensor *direction, double h, double *sum,
                      struct zt_err *err) {
    struct zt_case_graph m;
    bool good = zt_case_make(c, true, &m, err);
    if (good) {
        double *x = (double *)m.feed[moved].data; /* made by this graph, so ours to move */
        for (int64_t i = 0; i < zt_shape_count(&direction->shape); i++)
            x[i] += h * ((const double *)direction->data)[i];
    }
    struct zt_eval *eval = good ? start(&m, 1) : NULL;
    good = good && zt_eval_run(eval, 0, 1, err);
    *sum = 0;
    for (int i = 0; good && i < result_count(c, m.graph); i++) {
        const struct zt_value *y = &m.graph->values[m.graph->outputs[i]];
        struct zt_tensor cotangent = random_like(m.graph->arena, &y->shape, (uint64_t)i);
        if (y->dtype == ZT_DOUBLE)
            *sum += inner(&cotangent, y->data);
    }
    if (eval)
        zt_eval_destroy(eval);
    zt_graph_destroy(m.graph);
    return good;
}

static bool check_direction(const struct zt_case *c, int in, const struct zt_tensor *gradient, struct zt_arena *arena,
                            uint64_t key, struct zt_err *err) {
    struct zt_tensor direction = random_like(arena, &gradient->shape, key);
    double up, down, h = 1e-5, norm = sqrt(inner(gradient, gradient->data));
    if (!objective(c, in, &direction, h, &up, err) || !objective(c, in, &direction, -h, &down, err))
        return false;
    double slope = (up - down) / (2 * h), got = inner(gradient, direction.data);
    double limit = c->tolerance > 0 ? c->tolerance : 1e-6;
    if (fabs(got - slope) <= limit * (fabs(slope) + norm + 1e-3))
        return true;
    return zt_fail(err, ZT_EXIT_RUN, "gradient of input %d: %.9g along a direction, finite difference %.9g", in, got,
                   slope);
}

/* Cotangents of the float outputs, fed; returns how many. */
static int add_cotangents(const struct zt_case *c, struct zt_graph *g, struct zt_eval *eval,
                          struct zt_cotangent *from) {
    int count = 0;
    for (int i = 0; i < result_count(c, g); i++) {
        int y = g->outputs[i];
        if (g->values[y].dtype != ZT_DOUBLE)
            continue;
        struct zt_tensor t = random_like(g->arena, &g->values[y].shape, (uint64_t)i);
        int d = zt_graph_add_value(g, NULL, ZT_DOUBLE, &t.shape);
        g->values[d].origin = ZT_FROM_INPUT;
        g->values[d].producer = -1;
        zt_eval_feed(eval, d, &t);
        from[count++] = (struct zt_cotangent){ .value = y, .cotangent = d };
    }
    return count;
}

static bool check_gradients(const struct zt_case *c, struct zt_case_graph *m, struct zt_eval *eval,
                            struct zt_err *err) {
    struct zt_graph *g = m->graph;
    struct zt_cotangent from[CASE_OUTPUTS];
    int wanted[CASE_INPUTS], index[CASE_INPUTS], grads[CASE_INPUTS], count = 0;
    if (!zt_eval_run(eval, 0, 1, err))
        return false;
    int from_count = add_cotangents(c, g, eval, from);
    for (int i = 0; i < m->in_count; i++)
        if (c->grad >> i & 1) {
            index[count] = i;
            wanted[count++] = m->in[i];
        }
    if (!zt_grad_build(g, &zt_ops, from, from_count, wanted, count, grads, err) ||
        !zt_eval_run(eval, 1, g->node_count, err))
        return false;
    for (int k = 0; k < count; k++) {
        if (grads[k] < 0)
            return zt_fail(err, ZT_EXIT_RUN, "input %d got no gradient", index[k]);
        struct zt_tensor gradient = tensor_of(&g->values[grads[k]]);
        if (!zt_shape_equal(&gradient.shape, &m->feed[index[k]].shape) || gradient.dtype != ZT_DOUBLE)
            return zt_fail(err, ZT_EXIT_RUN, "gradient of input %d has another shape or type than it", index[k]);
        for (uint64_t key = 100; key < 103; key++)
            if (!check_direction(c, index[k], &gradient, g->arena, key, err))
                return false;
    }
    return true;
}

static bool grad(const struct zt_case *c, const struct options *o, struct zt_err *err) {
    struct zt_case_graph m;
    bool good = zt_case_make(c, true, &m, err);
    struct zt_eval *eval = good ? start(&m, o->threads) : NULL;
    good = good && check_gradients(c, &m, eval, err);
    if (eval)
        zt_eval_destroy(eval);
    zt_graph_destroy(m.graph);
    return good;
}

/* ---- bench and support ---- */

static bool bench(const struct zt_case *c, const struct options *o, struct zt_err *err) {
    struct zt_case_graph made;
    struct machine m = { 0 };
    bool good = zt_case_make(c, false, &made, err) && machine_start(&m, &made, o, err);
    bool here = good && runs_here(&m);
    good = good && (!here || machine_run(&m, err));
    double best = INFINITY, bytes = 0, end = seconds() + 0.2;
    while (good && here && seconds() < end) {
        double t = seconds();
        good = machine_run(&m, err);
        best = fmin(best, seconds() - t);
    }
    if (good && here) {
        for (int v = 0; v < m.g->value_count; v++)
            bytes += (double)value_bytes(&m.g->values[v]);
        printf("%-18s %-52s %9.4f ms %8.2f GB/s %8.2f GFLOP/s\n", c->op, c->in ? c->in : "", best * 1e3,
               bytes / best * 1e-9, zt_op_flops(m.g, 0) / best * 1e-9);
    }
    machine_finish(&m);
    zt_graph_destroy(made.graph);
    return good;
}

static bool support(const struct zt_case *c, const struct options *o, struct zt_err *err) {
    (void)o;
    struct zt_case_graph m;
    bool good = zt_case_make(c, false, &m, err);
    if (good && infer(&m, err)) {
        printf("%-18s %-52s", c->op, c->in ? c->in : "");
        const struct zt_op *op = m.graph->nodes[0].op;
        for (int k = 0; k < ZT_BACKENDS; k++)
            if (op->kernel[k].run && (!op->kernel[k].supports || op->kernel[k].supports(m.graph, 0)))
                printf(" %s", backend_names[k]);
        printf("%s\n", op->grad ? " grad" : "");
    }
    zt_graph_destroy(m.graph);
    return good;
}

static const struct {
    const char *name;
    bool (*run)(const struct zt_case *c, const struct options *o, struct zt_err *err);
} modes[] = { { "check", check }, { "grad", grad }, { "bench", bench }, { "support", support } };
enum { MODES = sizeof modes / sizeof *modes };

static int run_all(int mode, const struct options *o) {
    int passed = 0, failed = 0;
    for (const struct zt_case_family *f = zt_case_families; f->name; f++)
        for (const struct zt_case *c = f->cases; c->op; c++) {
            struct zt_err err = { 0 };
            if (!zt_glob(o->family, f->name) || !zt_glob(o->only, c->op) || (modes[mode].run == grad && !c->grad))
                continue;
            if (modes[mode].run(c, o, &err)) {
                passed++;
                continue;
            }
            failed++;
            printf("FAIL %s: %s (%s%s%s): %s\n", f->name, c->op, c->in ? c->in : "", c->attrs ? " " : "",
                   c->attrs ? c->attrs : "", err.count ? err.text[0] : "no error text");
        }
    printf("%s %s: %d passed, %d failed\n", modes[mode].name, backend_names[o->backend], passed, failed);
    return failed || !passed;
}

/* The device of a back end; the GPU's through the CUDA module in `folder`. */
static struct zt_device *open_device(enum zt_backend backend, const char *folder, int threads, struct zt_err *err) {
    if (backend != ZT_CUDA)
        return zt_device_host_create(threads);
    const struct zt_module *module = zt_module_open(folder, err);
    struct zt_device *device = module ? module->create(0, err) : NULL;
    if (device)
        device->module = module;
    return device;
}

int main(int argc, char **argv) {
    const char *folder = ".";
    struct zt_err err = { 0 };
    struct options o = { .backend = ZT_REF, .only = "*", .family = "*", .threads = 2 };
    int mode = MODES;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--backend") == 0) {
            for (int k = 0; k < ZT_BACKENDS; k++)
                if (strcmp(backend_names[k], value) == 0)
                    o.backend = (enum zt_backend)k;
            i++;
        } else if (strcmp(argv[i], "--only") == 0) {
            o.only = value;
            i++;
        } else if (strcmp(argv[i], "--family") == 0) {
            o.family = value;
            i++;
        } else if (strcmp(argv[i], "--module") == 0) {
            folder = value;
            i++;
        } else if (strcmp(argv[i], "--threads") == 0) {
            o.threads = atoi(value);
            i++;
        } else {
            for (mode = 0; mode < MODES && strcmp(modes[mode].name, argv[i]) != 0; mode++)
                ;
        }
    }
    if (mode == MODES) {
        fprintf(stderr,
                "usage: run_ops check|grad|bench|support [--backend ref|cpu|cuda] [--family PATTERN] "
                "[--only PATTERN] [--threads N] [--module FOLDER]\n");
        return 2;
    }
    o.device = open_device(o.backend, folder, o.threads, &err);
    if (!o.device) {
        printf("SKIP: %s\n", err.text[0]);
        return 77;
    }
    int failed = run_all(mode, &o);
    o.device->api->destroy(o.device);
    return failed;
}
