#include "tests/run/tiny.h"
#include "run/rank/blocks.h"
#include "run/swap_average.h"
#include "run/collect.h"
#include "run/evaluate.h"
#include "run/step.h"

#include "base/file.h"
#include "base/map.h"
#include "device/threads.h"
#include "plan/rank_plan.h"
#include "run/rank/rank.h"
#include "run/rank_data.h"
#include "session/session.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- graphs ---- */

struct zt_graph *tiny_output(struct zt_graph *g, int value) {
    int *outputs = ZT_NEW_N(g->arena, int, g->output_count + 1);
    if (g->output_count)
        memcpy(outputs, g->outputs, (size_t)g->output_count * sizeof *outputs);
    outputs[g->output_count++] = value;
    g->outputs = outputs;
    return g;
}

static int batch_input(struct zt_graph *g, int64_t width) {
    int x = net_input(g, "x", ZT_FLOAT, SHAPE(-1, width));
    g->values[x]->dim_param[0] = "N";
    return x;
}

/* y = x w + b with w [in, out]; parameters are called after the layer. */
static int layer(struct zt_graph *g, const char *name, int x, int64_t in, int64_t out) {
    int w = net_param(g, zt_arena_printf(g->arena, "%s.weight", name), SHAPE(in, out));
    int b = net_param(g, zt_arena_printf(g->arena, "%s.bias", name), SHAPE(out));
    return NET(g, "Gemm", name, x, w, b);
}

static struct zt_graph *ends_with(struct zt_graph *g, int y) {
    g->values[y]->dtype = ZT_FLOAT; /* as a file declares its outputs */
    return tiny_output(g, y);
}

struct zt_graph *tiny_mlp(void) {
    struct zt_graph *g = zt_graph_create("mlp");
    int h = NET(g, "Relu", "relu1", layer(g, "fc1", batch_input(g, 12), 12, 16));
    h = NET(g, "Relu", "relu2", layer(g, "fc2", h, 16, 16));
    return ends_with(g, layer(g, "y", h, 16, 5));
}

struct zt_graph *tiny_shared(void) {
    struct zt_graph *g = zt_graph_create("shared");
    int early = NET(g, "Tanh", "tanh1", layer(g, "fc1", batch_input(g, 12), 12, 96));
    int h = NET(g, "Relu", "relu1", layer(g, "fc2", early, 96, 16));
    int w = net_param(g, "both", SHAPE(16, 16));
    int once = NET(g, "Relu", "relu2", NET(g, "MatMul", "first", h, w));
    int twice = NET(g, "MatMul", "second", once, w);
    int sum = NET(g, "Add", "sum", NET(g, "Add", "over", twice, h), once);
    sum = NET(g, "Add", "skipped", sum,
              NET(g, "ReduceMean", "mean", early, zt_graph_add_ints(g, "axes", (int64_t[]){ 1 }, 1)));
    return ends_with(g, layer(g, "y", NET(g, "Relu", "relu3", sum), 16, 5));
}

struct zt_graph *tiny_tied(void) {
    struct zt_graph *g = zt_graph_create("tied");
    int ends = net_param(g, "ends", SHAPE(12, 72)), both = net_param(g, "both", SHAPE(72, 72));
    int turned = NET(g, "Transpose", "turned", ends);
    int h = NET(g, "Tanh", "tanh1", NET(g, "MatMul", "in", batch_input(g, 12), ends));
    h = NET(g, "Tanh", "tanh2", NET(g, "MatMul", "once", h, both));
    h = NET(g, "Tanh", "tanh3", layer(g, "fc1", h, 72, 72));
    h = NET(g, "Tanh", "tanh4", NET(g, "MatMul", "twice", h, both));
    h = NET(g, "Tanh", "tanh5", layer(g, "fc2", h, 72, 72));
    h = NET(g, "Tanh", "tanh6", NET(g, "MatMul", "thrice", h, both));
    h = NET(g, "MatMul", "out", h, turned);
    return ends_with(g, layer(g, "y", h, 12, 5));
}

struct zt_graph *tiny_norm(void) {
    struct zt_graph *g = zt_graph_create("norm");
    int h = layer(g, "fc1", batch_input(g, 12), 12, 16);
    int scale = net_param(g, "bn.weight", SHAPE(16)), bias = net_param(g, "bn.bias", SHAPE(16));
    int mean = net_param(g, "bn.mean", SHAPE(16)), variance = net_param(g, "bn.var", SHAPE(16));
    float *one = (float *)g->values[variance]->data;
    for (int i = 0; i < 16; i++)
        one[i] = 1;
    h = NET(g, "BatchNormalization", "bn", h, scale, bias, mean, variance);
    return ends_with(g, layer(g, "y", NET(g, "Relu", "relu", h), 16, 5));
}

struct zt_graph *tiny_drop(void) {
    struct zt_graph *g = zt_graph_create("drop");
    int h = NET(g, "Relu", "relu", layer(g, "fc1", batch_input(g, 12), 12, 16));
    return ends_with(g, layer(g, "y", NET(g, "Dropout", "drop", h), 16, 5));
}

struct zt_graph *tiny_wide(void) {
    struct zt_graph *g = zt_graph_create("wide");
    int h = NET(g, "Tanh", "tanh1", layer(g, "fc1", batch_input(g, 12), 12, 512));
    h = NET(g, "Tanh", "tanh2", layer(g, "fc2", h, 512, 24));
    return ends_with(g, layer(g, "y", h, 24, 5));
}

struct zt_graph *tiny_middle(void) {
    struct zt_graph *g = zt_graph_create("middle");
    int h = NET(g, "Tanh", "tanh1", layer(g, "fc1", batch_input(g, 12), 12, 256));
    h = NET(g, "Tanh", "tanh2", layer(g, "fc2", h, 256, 512));
    return ends_with(g, layer(g, "y", h, 512, 5));
}

struct zt_graph *tiny_deep(void) {
    struct zt_graph *g = zt_graph_create("deep");
    static const char *const names[] = { "fc1", "fc2", "fc3", "fc4", "fc5", "fc6", "fc7", "fc8" };
    int h = batch_input(g, 512);
    for (int i = 0; i < 8; i++)
        h = NET(g, "Tanh", zt_arena_printf(g->arena, "tanh%d", i + 1), layer(g, names[i], h, 512, 512));
    return ends_with(g, layer(g, "y", h, 512, 5));
}

struct zt_graph *tiny_uneven(void) {
    struct zt_graph *g = zt_graph_create("uneven");
    int turned = NET(g, "Transpose", "turned", net_param(g, "fc1.weight", SHAPE(512, 12)));
    int h = NET(g, "Tanh", "tanh1", NET(g, "MatMul", "fc1", batch_input(g, 12), turned));
    h = NET(g, "Tanh", "tanh2", layer(g, "fc2", h, 512, 8));
    h = NET(g, "Tanh", "tanh3", layer(g, "fc3", h, 8, 1024));
    return ends_with(g, layer(g, "y", h, 1024, 5));
}

struct zt_graph *tiny_chain(int layers) {
    struct zt_graph *g = zt_graph_create("chain");
    int h = batch_input(g, 8);
    for (int i = 0; i < layers; i++) {
        h = layer(g, zt_arena_printf(g->arena, "fc%d", i), h, 8, 8);
        h = NET(g, "Relu", zt_arena_printf(g->arena, "relu%d", i), h);
    }
    return ends_with(g, layer(g, "y", h, 8, 5));
}

/* ---- opening ---- */

static struct zt_config *read_config(const char *text, int ranks, struct zt_err *err) {
    static const char *const set[] = { "ztrain.data.format=synthetic", "ztrain.data.shuffle=false" };
    struct zt_config_overrides over = {
        .set = set, .set_count = 2, .ranks = ranks, .epochs = -1, .steps = -1, .seed = -1, .threads = 1
    };
    const char *folder = getenv("TMPDIR");
    char *path = zt_path_join(folder ? folder : P_tmpdir, "ztrain-tiny-XXXXXX"), *json = zt_malloc(strlen(text) + 3),
         *at;
    int fd = mkstemp(path);
    sprintf(json, "{%s}", text);
    for (at = json; *at; at++)
        if (*at == '\'')
            *at = '"';
    bool ok = fd >= 0 && write(fd, json, strlen(json)) == (ssize_t)strlen(json);
    struct zt_config *config =
        ok ? zt_session_config(&(struct zt_texts){ (const char *[]){ path }, 1 }, &over, err) : NULL;
    if (fd >= 0)
        close(fd);
    unlink(path);
    free(path);
    free(json);
    return config;
}

bool tiny_open(struct tiny *t, struct zt_graph *graph, const char *config, int ranks, struct zt_err *err) {
    *t = (struct tiny){ .model = { .path = "tiny.onnx", .graph = graph, .producer = "" } };
    t->config = read_config(config, ranks, err);
    t->job = t->config ? zt_job_create(t->config, &t->model, err) : NULL;
    if (t->job)
        t->source = zt_source_open(t->config, false, t->job->wants, t->job->want_count, err);
    return t->source != NULL;
}

void tiny_finish(struct tiny *t) {
    zt_source_close(t->source);
    zt_job_destroy(t->job);
    if (t->config)
        zt_config_destroy(t->config);
    zt_graph_destroy(t->model.graph);
}

/* ---- running ---- */

struct worker {
    struct tiny *t;
    int rank, steps;
    struct zt_comm *world, *data;
    struct zt_device *device;
    struct zt_rank_plan *plan;
    struct zt_rank *run;
    struct zt_loader *loader;
    pthread_t thread;
    struct tiny_run result;
};

static bool start(struct worker *w) {
    struct zt_err *err = &w->result.err;
    struct zt_rank_options options = {
        .source = w->t->source, .eval_source = w->t->source, .rank = w->rank, .device = w->device, .threads = 1
    };
    return (w->plan = zt_rank_plan_create(w->t->job, &options, err)) != NULL &&
           (w->data = w->world->api->split(w->world, w->plan->grid.stage, err)) != NULL &&
           (w->run = zt_rank_create(w->plan, w->device, w->world, w->data, NULL, err)) != NULL &&
           zt_rank_loader(w->run, true, 0, w->steps, &w->loader, err);
}

/* A hash that does not depend on the order of the stages. */
static uint64_t hash_of(const struct zt_onnx_payload *payloads, const int64_t *elements, int count) {
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) {
        uint64_t one = zt_hash(ZT_HASH_START, payloads[i].name, strlen(payloads[i].name));
        sum += zt_hash(one, payloads[i].data, (size_t)elements[i] * sizeof(float));
    }
    return sum;
}

/* Weights held on several stages are the same there, bit by bit. */
static bool ties_agree(struct worker *w) {
    const struct zt_rank_plan *p = w->plan;
    struct zt_err *err = &w->result.err;
    bool ok = true;
    w->result.ties = p->tensors.tie_count;
    for (int i = 0; ok && i < p->tensors.tie_count; i++) {
        const struct zt_tie_run *t = &p->tensors.ties[i];
        const float *at = (const float *)w->run->parameters + t->param_at;
        size_t bytes = (size_t)t->count * sizeof *at;
        void *home = zt_malloc(bytes), *own = zt_malloc(bytes);
        ok = zt_rank_fetch(w->run, own, at, bytes, err) &&
             (t->home ? w->world->api->send(w->world, own, bytes, t->peer, err)
                      : w->world->api->recv(w->world, home, bytes, t->peer, err));
        if (ok && !t->home && memcmp(home, own, bytes) != 0)
            ok = zt_fail(err, ZT_EXIT_RUN, "run %d: a copy differs from its home", i);
        free(home);
        free(own);
    }
    return ok;
}

/* Adds the weights to the hash. */
static bool hash_weights(struct worker *w) {
    struct tiny_run *r = &w->result;
    struct zt_arena *arena = zt_arena_create();
    struct zt_collected weights;
    bool ok = zt_rank_collect(w->run, arena, &weights, &r->err) && w->world->api->barrier(w->world, &r->err);
    if (ok)
        r->hash = 31 * r->hash + hash_of(weights.payloads, weights.elements, weights.count);
    zt_arena_destroy(arena);
    return ok;
}

/* Evaluates the average of the weights, if there is one, as a run does. */
static bool finish(struct worker *w) {
    struct tiny_run *r = &w->result;
    struct zt_eval_result eval;
    struct zt_loader *loader = NULL;
    bool ok = zt_rank_loader(w->run, false, 0, 0, &loader, &r->err) && ties_agree(w) &&
              zt_rank_swap_average(w->run, &r->err) && zt_rank_evaluate(w->run, loader, &eval, &r->err) &&
              hash_weights(w) && zt_rank_swap_average(w->run, &r->err) &&
              (!w->plan->memory.averages || hash_weights(w));
    if (ok)
        r->eval_loss = eval.loss;
    zt_loader_destroy(loader);
    return ok;
}

static void *work(void *arg) {
    struct worker *w = arg;
    struct tiny_run *r = &w->result;
    zt_parallel_enter();
    w->device = w->t->device ? w->t->device() : zt_device_host_create(1);
    r->ok = start(w);
    for (int i = 0; r->ok && i < w->steps; i++) {
        struct zt_step_result step;
        r->ok = zt_rank_step(w->run, w->loader, i, &step, &r->err);
        r->loss[i] = step.loss;
        r->norm[i] = step.grad_norm;
        if (r->ok && w->t->after)
            w->t->after(w->run, w->plan, i);
    }
    r->ok = r->ok && finish(w);
    if (!r->ok)
        w->world->api->abort(w->world, r->err.count ? r->err.text[0] : "failed");
    return NULL;
}

static void destroy(struct worker *w) {
    zt_loader_destroy(w->loader);
    zt_rank_destroy(w->run);
    zt_rank_plan_destroy(w->plan);
    if (w->data)
        w->data->api->destroy(w->data);
    w->world->api->destroy(w->world);
    w->device->api->destroy(w->device);
}

void tiny_train(struct tiny *t, int steps, struct tiny_run *run) {
    int count = t->config->ranks;
    struct worker *workers = zt_calloc((size_t)count, sizeof *workers);
    struct zt_comm **comms = zt_calloc((size_t)count, sizeof *comms);
    struct zt_err err = { 0 };
    bool ok = count > 1 ? zt_comm_thread_create(count, comms, &err) : (comms[0] = zt_comm_self_create()) != NULL;
    ck_assert_msg(ok && steps <= TINY_STEPS, "%s", err.text[0]);
    for (int i = 0; i < count; i++) {
        workers[i].t = t;
        workers[i].rank = i;
        workers[i].steps = steps;
        workers[i].world = comms[i];
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < count; i++)
        pthread_join(workers[i].thread, NULL);
    *run = workers[0].result;
    for (int i = 0; i < count; i++)
        if (!workers[i].result.ok && (run->ok || run->err.code == ZT_EXIT_RANK)) {
            run->ok = false;
            run->err = workers[i].result.err;
        }
    for (int i = 0; i < count; i++)
        destroy(&workers[i]);
    free(comms);
    free(workers);
}

struct tiny_run tiny_learn(struct zt_graph *graph, const char *config, int ranks, int steps,
                           struct zt_device *(*device)(void)) {
    struct tiny t;
    struct tiny_run run = { 0 };
    struct zt_err err = { 0 };
    ck_assert_msg(tiny_open(&t, graph, config, ranks, &err), "%s", err.text[0]);
    t.device = device;
    tiny_train(&t, steps, &run);
    ck_assert_msg(run.ok, "%d ranks, %s: %s", ranks, config, run.err.text[0]);
    tiny_finish(&t);
    return run;
}
