/* Runs the op cases:
 *
 *     run_ops check|grad|backward|bench|support|list [--backend ref|cpu] [--family PATTERN,...] [--only PATTERN] ...
 *
 * `--backend cuda --module FOLDER` runs the cases its kernels take on the GPU, through the CUDA module in FOLDER; exit
 * 77 where either is missing. --tf32: products may be rounded there; --last: tensors come with their channels last,
 * with --mixed every second one plain; --blocked N, on the host: in blocks of N channels, and what fills the last block
 * of a result must be zero; --rows: matrices come with filled rows; --fp16: the cases of bfloat16 alone, in float16.
 * --small: check leaves sizes of training out. --from N: the first N cases of those asked for are left out (a line of a
 * failure begins "FAIL N").
 *
 *   check    the back end against the reference kernels; for ref, each type against the same values in double
 *   grad     gradients (zt_grad_build, run eagerly in double) against central differences along random directions
 *   backward gradients of the training form on the back end against the reference kernels'
 *   bench    milliseconds of a case's forward and backward nodes as training runs them (bench.h); --bf16 with bf16
 *            compute
 *   support  which back end takes which case
 *   list     the cases that bench takes, numbered, a JSON object a line
 *
 * bench --json prints a JSON object a line; with it, --ask reads lines "NUMBER SECONDS" from stdin and times that case
 * of the list for that long, keeping the last one ready. */
#include "tests/ops/backward.h"
#include "tests/ops/bench.h"

#include "base/rng.h"
#include "base/text.h"
#include "device/module.h"
#include "graph/passes/eval.h"
#include "graph/passes/grad.h"
#include "ops/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct zt_random no_random = { .seed = 1 };
static const char *const backend_names[ZT_BACKENDS] = { [ZT_REF] = "ref", [ZT_CPU] = "cpu", [ZT_CUDA] = "cuda" };

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

static bool start_fed(struct machine *m, const struct zt_case *c, const struct options *o, struct zt_case_graph *made,
                      struct zt_err *err) {
    if (!zt_case_make(c, false, made, err) || !machine_infer(made, err) ||
        !machine_start(m, made->graph, made->graph->outputs, made->graph->output_count, o, err))
        return false;
    for (int i = 0; i < made->in_count; i++)
        if (made->in[i] >= 0 && made->feed[i].data && !machine_feed(m, made->in[i], &made->feed[i], err))
            return false;
    return true;
}

static bool run_nodes(const struct machine *m, struct zt_err *err) {
    for (int n = 0; n < m->g->node_count; n++)
        if (!machine_run_node(m, n, err))
            return false;
    return m->device->api->synchronize(m->device, err);
}

/* Runs the case once more on one thread: the bits are those that `many` gave with several. */
static bool check_one_thread(const struct zt_case *c, const struct options *o, const struct machine *many,
                             struct zt_err *err) {
    struct options alone = *o;
    struct zt_case_graph made;
    struct machine m = { 0 };
    alone.threads = 1;
    bool good = start_fed(&m, c, &alone, &made, err) && run_nodes(&m, err);
    for (int i = 0; good && i < made.graph->output_count; i++) {
        struct zt_tensor one, several;
        good = machine_fetch(&m, made.graph->outputs[i], &one, err) &&
               machine_fetch(many, many->g->outputs[i], &several, err);
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
    struct zt_case held = *c;
    if (c->on_host > 0 && !o->device->module)
        held.tolerance = c->on_host;
    bool good = start_fed(&m, c, o, &made, err);
    bool here = good && machine_runs_here(&m);
    good = good && (!here || run_nodes(&m, err));
    for (int i = 0; good && here && i < made.graph->output_count; i++) {
        struct zt_tensor g, w = tensor_of(want->graph->values[want->graph->outputs[i]]);
        good = machine_fetch(&m, made.graph->outputs[i], &g, err) && zt_case_same(&held, i, &g, &w, err);
    }
    good = good && (o->device->module || check_one_thread(c, o, &m, err));
    machine_finish(&m);
    zt_graph_destroy(made.graph);
    return good;
}

static bool check_wide(const struct zt_case *c, const struct zt_case_graph *got, struct zt_err *err) {
    struct zt_case_graph wide;
    bool good = zt_case_make(c, !c->typed, &wide, err);
    struct zt_eval *eval = good ? start(&wide, 1) : NULL;
    good = good && zt_eval_run(eval, 0, 1, err);
    for (int i = 0; good && i < got->graph->output_count; i++) {
        struct zt_tensor g = tensor_of(got->graph->values[got->graph->outputs[i]]);
        struct zt_tensor w = tensor_of(wide.graph->values[wide.graph->outputs[i]]);
        good = zt_case_same(c, i, &g, &w, err);
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

static double inner(const struct zt_tensor *a, const double *b) {
    double sum = 0;
    for (int64_t i = 0; i < zt_shape_count(&a->shape); i++)
        sum += ((const double *)a->data)[i] * b[i];
    return sum;
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
    for (int i = 0; good && i < zt_case_results(c, m.graph); i++) {
        const struct zt_value *y = m.graph->values[m.graph->outputs[i]];
        struct zt_tensor cotangent = zt_case_random(m.graph->arena, &y->shape, (uint64_t)i);
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
    struct zt_tensor direction = zt_case_random(arena, &gradient->shape, key);
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
    for (int i = 0; i < zt_case_results(c, g); i++) {
        int y = g->outputs[i];
        if (g->values[y]->dtype != ZT_DOUBLE)
            continue;
        struct zt_tensor t = zt_case_random(g->arena, &g->values[y]->shape, (uint64_t)i);
        int d = zt_graph_add_value(g, NULL, ZT_DOUBLE, &t.shape);
        g->values[d]->origin = ZT_FROM_INPUT;
        g->values[d]->producer = -1;
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
    if (!zt_grad_build(g, &zt_ops, &(struct zt_grad_request){ from, from_count, wanted, count }, grads, err) ||
        !zt_eval_run(eval, 1, g->node_count, err))
        return false;
    for (int k = 0; k < count; k++) {
        if (grads[k] < 0)
            return zt_fail(err, ZT_EXIT_RUN, "input %d got no gradient", index[k]);
        struct zt_tensor gradient = tensor_of(g->values[grads[k]]);
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

/* ---- support ---- */

static bool support(const struct zt_case *c, const struct options *o, int number, struct zt_err *err) {
    (void)o, (void)number;
    struct zt_case_graph m;
    bool good = zt_case_make(c, false, &m, err);
    if (good && machine_infer(&m, err)) {
        const struct zt_op *op = m.graph->nodes[0]->op;
        printf("%-18s %-52s", c->op, c->in ? c->in : "");
        for (int k = 0; k < ZT_BACKENDS; k++)
            if (zt_op_takes(m.graph, 0, k))
                printf(" %s", backend_names[k]);
        printf("%s\n", op->grad ? " grad" : "");
    }
    zt_graph_destroy(m.graph);
    return good;
}

static bool bench(const struct zt_case *c, const struct options *o, int number, struct zt_err *err) {
    struct bench *b = bench_open(c, o, err);
    bool good = b && bench_print(b, number, 0.2, err);
    if (b)
        bench_close(b);
    return good;
}

static bool list(const struct zt_case *c, const struct options *o, int number, struct zt_err *err) {
    (void)o, (void)err;
    printf("{");
    bench_print_case(c, number);
    printf("}\n");
    return true;
}

/* ---- modes ---- */

static bool check_case(const struct zt_case *c, const struct options *o, int number, struct zt_err *err) {
    (void)number;
    return check(c, o, err);
}

static bool grad_case(const struct zt_case *c, const struct options *o, int number, struct zt_err *err) {
    (void)number;
    return grad(c, o, err);
}

static bool backward_case(const struct zt_case *c, const struct options *o, int number, struct zt_err *err) {
    (void)number;
    return backward_check(c, o, err);
}

enum mode { CHECK, GRAD, BACKWARD, BENCH, SUPPORT, LIST, MODES };
static const struct {
    const char *name;
    bool (*run)(const struct zt_case *c, const struct options *o, int number, struct zt_err *err);
} modes[MODES] = { { "check", check_case }, { "grad", grad_case },  { "backward", backward_case },
                   { "bench", bench },      { "support", support }, { "list", list } };

/* Returns the number of inputs with `least` to `most` axes. */
static int inputs_of_rank(const char *in, int least, int most) {
    int found = 0;
    for (const char *at = strchr(in, '['); at; at = strchr(at + 1, '[')) {
        int rank = 1;
        for (const char *c = at; *c && *c != ']'; c++)
            rank += *c == ',';
        found += rank >= least && rank <= most;
    }
    return found;
}

/* Whether a layout that is asked for changes what check runs; cases that it leaves alone run without the option. */
static bool is_laid_out(enum mode mode, const struct options *o, const struct zt_case *c) {
    if (mode != CHECK || !c->in)
        return true;
    const int plain = o->mixed ? 1 : 0; /* with --mixed the first is laid out as without it */
    return (!(o->last || o->blocked) || inputs_of_rank(c->in, 3, 5) > plain) &&
           (!o->rows || inputs_of_rank(c->in, 2, 2) > 0);
}

/* `patterns`: separated by commas. */
static bool is_one_of(const char *patterns, const char *name) {
    char pattern[64];
    for (size_t n; *patterns; patterns += patterns[n] ? n + 1 : n) {
        n = strcspn(patterns, ",");
        snprintf(pattern, sizeof pattern, "%.*s", (int)n, patterns);
        if (zt_glob(pattern, name))
            return true;
    }
    return false;
}

static bool takes(enum mode mode, const struct options *o, const struct zt_case_family *f, const struct zt_case *c) {
    if (!is_one_of(o->family, f->name) || !zt_glob(o->only, c->op) ||
        (o->fp16 && !(c->in && strstr(c->in, "bfloat16"))) || !is_laid_out(mode, o, c))
        return false;
    return mode == GRAD       ? c->grad && !f->training && !c->rounded
           : mode == BACKWARD ? c->grad && !f->training
           : mode == CHECK    ? (c->checked && !o->small) || !f->training
                              : true;
}

static void print_failure(int number, const struct zt_case_family *f, const struct zt_case *c,
                          const struct zt_err *err) {
    printf("FAIL %d %s: %s (%s%s%s): %s\n", number, f->name, c->op, c->in ? c->in : "", c->attrs ? " " : "",
           c->attrs ? c->attrs : "", err->count ? err->text[0] : "no error text");
    fflush(stdout);
}

/* The case in float16 where it is in bfloat16; `in`: room for its inputs. */
static struct zt_case in_fp16(const struct zt_case *c, char *in) {
    struct zt_case half = *c;
    char *to = in;
    for (const char *at = c->in; *at; at++)
        if (strncmp(at, "bfloat16", 8) != 0)
            *to++ = *at;
    *to = 0;
    half.in = in;
    return half;
}

static int run_all(enum mode mode, const struct options *o) {
    int passed = 0, failed = 0, number = -1;
    for (const struct zt_case_family *f = zt_case_families; f->name; f++)
        for (const struct zt_case *c = f->cases; c->op; c++) {
            struct zt_err err = { 0 };
            if (!takes(mode, o, f, c) || ++number < o->from)
                continue;
            char in[512];
            const struct zt_case one = o->fp16 ? in_fp16(c, in) : *c;
            bool good = modes[mode].run(&one, o, number, &err);
            passed += good;
            failed += !good;
            if (!good)
                print_failure(number, f, &one, &err);
        }
    if (mode != LIST && !o->json)
        printf("%s %s: %d passed, %d failed\n", modes[mode].name, backend_names[o->backend], passed, failed);
    return failed || !passed;
}

/* The case that list has under `number`. */
static const struct zt_case *find_case(const struct options *o, int number, const struct zt_case_family **family) {
    for (*family = zt_case_families; (*family)->name; ++*family)
        for (const struct zt_case *c = (*family)->cases; c->op; c++)
            if (takes(BENCH, o, *family, c) && number-- == 0)
                return c;
    return NULL;
}

/* bench --ask */
static int answer(const struct options *o) {
    struct bench *b = NULL;
    int number, last = -1;
    double budget;
    while (scanf("%d %lf", &number, &budget) == 2) {
        const struct zt_case_family *family;
        const struct zt_case *c = find_case(o, number, &family);
        struct zt_err err = { 0 };
        if (!c)
            return 2;
        if (number != last) {
            if (b)
                bench_close(b);
            b = bench_open(c, o, &err);
            last = number;
        }
        if (!b || !bench_print(b, number, budget, &err))
            print_failure(number, family, c, &err);
        fflush(stdout);
    }
    if (b)
        bench_close(b);
    return 0;
}

/* The device of a back end; the GPU's through the CUDA module in `folder`. */
static struct zt_device *open_device(enum zt_backend backend, const char *folder, int threads, struct zt_err *err) {
    return backend == ZT_CUDA ? zt_module_device(folder, 0, threads, err) : zt_device_host_create(threads);
}

/* False for what is not an option. */
static bool take_flag(struct options *o, const char *word) {
    bool *const flag = strcmp(word, "--json") == 0    ? &o->json
                       : strcmp(word, "--ask") == 0   ? &o->ask
                       : strcmp(word, "--bf16") == 0  ? &o->bf16
                       : strcmp(word, "--fp16") == 0  ? &o->fp16
                       : strcmp(word, "--tf32") == 0  ? &o->tf32
                       : strcmp(word, "--last") == 0  ? &o->last
                       : strcmp(word, "--rows") == 0  ? &o->rows
                       : strcmp(word, "--mixed") == 0 ? &o->mixed
                       : strcmp(word, "--small") == 0 ? &o->small
                                                      : NULL;
    if (flag)
        *flag = true;
    return flag;
}

static bool take_option(struct options *o, const char **folder, const char *word, const char *value) {
    if (strcmp(word, "--backend") == 0) {
        for (int k = 0; k < ZT_BACKENDS; k++)
            if (strcmp(backend_names[k], value) == 0)
                o->backend = (enum zt_backend)k;
    } else if (strcmp(word, "--only") == 0) {
        o->only = value;
    } else if (strcmp(word, "--family") == 0) {
        o->family = value;
    } else if (strcmp(word, "--module") == 0) {
        *folder = value;
    } else if (strcmp(word, "--threads") == 0) {
        o->threads = atoi(value);
    } else if (strcmp(word, "--blocked") == 0) {
        o->blocked = atoi(value);
    } else if (strcmp(word, "--from") == 0) {
        o->from = atoi(value);
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv) {
    const char *folder = ".";
    struct zt_err err = { 0 };
    struct options o = { .backend = ZT_REF, .only = "*", .family = "*", .threads = 2 };
    int mode = MODES;
    for (int i = 1; i < argc; i++) {
        if (take_flag(&o, argv[i]))
            continue;
        if (take_option(&o, &folder, argv[i], i + 1 < argc ? argv[i + 1] : ""))
            i++;
        else
            for (mode = 0; mode < MODES && strcmp(modes[mode].name, argv[i]) != 0; mode++)
                ;
    }
    if (mode == MODES || (o.ask && (mode != BENCH || !o.json))) {
        fprintf(
            stderr,
            "usage: run_ops check|grad|backward|bench|support|list [--backend ref|cpu|cuda] [--family PATTERN] "
            "[--only PATTERN] [--threads N] [--module FOLDER] [--from N] [--json [--ask]] [--bf16] [--fp16] [--tf32] "
            "[--last|--blocked N "
            "[--mixed]] [--rows] [--small]\n");
        return 2;
    }
    o.views = mode == BENCH;
    o.device = open_device(o.backend, folder, o.threads, &err);
    if (!o.device) {
        printf("SKIP: %s\n", err.text[0]);
        return 77;
    }
    o.device->tf32 = o.tf32;
    int failed = o.ask ? answer(&o) : run_all((enum mode)mode, &o);
    o.device->api->destroy(o.device);
    return failed;
}
