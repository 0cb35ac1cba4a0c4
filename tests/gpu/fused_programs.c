#include "tests/gpu/far_device.h"
#include "tests/gpu/fused_programs.h"
#include "tests/parallel/memory_check.h"

#include "device/module.h"

#include <check.h>
#include <math.h>

const char *fused_folder;

struct zt_device *fused_device(void) {
    struct zt_err err = { 0 };
    struct zt_device *device = fused_folder ? zt_module_device(fused_folder, 0, 1, &err) : far_device_create();
    ck_assert_msg(device, "%s", err.text[0]);
    return device;
}

/* ---- graphs ---- */

int fused_input(struct zt_graph *g) {
    const int x = net_input(g, "x", ZT_FLOAT, SHAPE(-1, 8));
    g->values[x]->dim_param[0] = "N";
    return x;
}

int fused_product(struct zt_graph *g, const char *name, int x, int64_t in, int64_t out) {
    const int w = net_param(g, zt_arena_printf(g->arena, "%s.weight", name), SHAPE(in, out));
    return NET(g, "MatMul", name, x, w);
}

struct zt_graph *fused_output(struct zt_graph *g, int h) {
    const int y = fused_product(g, "y", h, 8, 5);
    g->values[y]->dtype = ZT_FLOAT; /* as a file declares its outputs */
    return tiny_output(g, y);
}

/* ---- what is merged ---- */

static void expect(const struct fused *f, const struct small_program *m, const struct wish *wish, const char *wanted) {
    struct zt_text listed = { 0 };
    f->list(m->program->training_graph.graph, &listed);
    ck_assert_str_eq(listed.at ? listed.at : "", wanted);
    zt_text_finish(&listed);
    check_program_memory(m->program, m->flat, zt_sharding_of(wish->zero));
}

void fused_expect(const struct fused *f, struct zt_graph *graph, struct wish wish, const char *wanted) {
    struct small_program m;
    wish.device = f->device();
    wish.ranks = 1;
    wish.stages = 1;
    small_program_create(&m, graph, &wish);
    expect(f, &m, &wish, wanted);
    small_program_finish(&m);
    wish.device->api->destroy(wish.device);
}

void fused_expect_stages(const struct fused *f, struct zt_graph *(*make)(void), const char *crossing,
                         const char *const wanted[2]) {
    struct wish wish = { .ranks = 1, .stages = 2, .device = f->device() };
    for (; wish.stage < 2; wish.stage++) {
        struct small_program m;
        small_program_create(&m, make(), &wish);
        const struct zt_boundary_tensors *all = wish.stage ? &m.program->recv_act : &m.program->send_act;
        bool crosses = false;
        for (int i = 0; i < all->count; i++)
            crosses |= all->at[i].value == zt_graph_find(m.program->training_graph.graph, crossing);
        ck_assert(crosses);
        expect(f, &m, &wish, wanted[wish.stage]);
        small_program_finish(&m);
    }
    wish.device->api->destroy(wish.device);
}

/* ---- training ---- */

const struct fused_layout fused_layouts[] = {
    { 1, false, "" },
    { 1, false, ", 'train_micro_batch_size_per_gpu': 2" },
    { 1, true, ", 'bf16': {'enabled': true}" },
    { 2, false, ", 'zero_optimization': {'stage': 3}" },
    { 2, false, ", 'pipeline': {'stages': 2}, 'train_micro_batch_size_per_gpu': 4" },
    { 0 },
};

#define BF16 ", 'bf16': {'enabled': true}"
#define FP16 ", 'fp16': {'enabled': true, 'loss_scale': 128}"
const struct fused_layout fused_half_layouts[] = {
    { 1, true, BF16 },
    { 1, true, FP16 },
    { 1, true, BF16 ", 'train_micro_batch_size_per_gpu': 2" },
    { 2, true, BF16 ", 'zero_optimization': {'stage': 3}" },
    { 2, true, BF16 ", 'pipeline': {'stages': 2}, 'train_micro_batch_size_per_gpu': 4" },
    { 0 },
};

struct tiny_run fused_train(const struct fused *f, struct zt_graph *(*make)(void), const struct fused_layout *layout,
                            const char *fuse) {
    char config[1000];
    snprintf(config, sizeof config,
             "'train_batch_size': 8, 'optimizer': {'type': %s}, "
             "'ztrain': {'parallel': {'communicator': 'thread'}, 'data': {'samples': 22}, 'fuse': ['%s']}%s",
             f->optimizer, fuse, layout->more);
    return tiny_learn(make(), config, layout->ranks, FUSED_STEPS, f->device);
}

void fused_expect_losses(const struct fused *f, struct zt_graph *(*make)(void), const struct fused_layout *layout,
                         const char *fuse, const char *without, double limit) {
    const struct tiny_run a = fused_train(f, make, layout, fuse), b = fused_train(f, make, layout, without);
    for (int k = 0; k < FUSED_STEPS; k++)
        ck_assert_msg(fabs(a.loss[k] - b.loss[k]) <= limit * b.loss[k],
                      "%d ranks%s, step %d: loss %.9g, without fusion %.9g", layout->ranks, layout->more, k + 1,
                      a.loss[k], b.loss[k]);
}
