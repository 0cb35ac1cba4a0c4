/* No node of users' models falls back to the host: the programs of every visible case and every sample model,
 * planned for a device of CUDA's back end (far_device.h), in float and in bfloat16. Programs that do are listed with
 * these nodes. */
#include "tests/gpu/far_device.h"
#include "tests/gpu/reference_case.h"
#include "tests/suite.h"

#include "plan/open.h"

#include "graph/ir/op.h"
#include "plan/rank_plan.h"

#include <check.h>
#include <dirent.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256 };
struct missing {
    struct {
        char op[64], where[200];
        int nodes;
    } at[MOST];
    int count;
};

static void note(struct missing *all, const char *op, const char *where) {
    int i = 0;
    while (i < all->count && strcmp(all->at[i].op, op) != 0)
        i++;
    ck_assert_int_lt(i, MOST);
    if (i == all->count) {
        snprintf(all->at[i].op, sizeof all->at[i].op, "%s", op);
        snprintf(all->at[i].where, sizeof all->at[i].where, "%s", where);
        all->count++;
    }
    all->at[i].nodes++;
}

static void note_program(struct missing *all, const struct zt_program *p, const char *where) {
    const struct zt_graph *g = p->training_graph.graph;
    const struct zt_command *list[] = { p->derive, p->forward, p->backward };
    const int count[] = { p->derive_count, p->forward_count, p->backward_count };
    for (int k = 0; k < 3; k++)
        for (int c = 0; c < count[k]; c++)
            if (list[k][c].kind == ZT_RUN_NODE && g->nodes[list[k][c].node]->backend != ZT_CUDA)
                note(all, g->nodes[list[k][c].node]->op_type, where);
}

static void note_model(struct missing *all, const char *model, const char *config, bool half) {
    static const char *const set[] = { "bf16={\"enabled\": true}" };
    struct zt_options options = { .model = model, .config = config };
    options.configs = (struct zt_texts){ &options.config, 1 };
    options.over = (struct zt_config_overrides){ .set = set, .set_count = half, .epochs = -1, .steps = 2, .seed = -1 };
    struct zt_session s;
    struct zt_err err = { 0 };
    ck_assert_msg(zt_open(&s, &options, ZT_WEIGHTS_MAPPED, ZT_DATA_TRAIN | ZT_DATA_EVAL | ZT_DATA_IF_THERE, &err),
                  "%s: %s", model, err.text[0]);
    struct zt_device *device = far_device_create();
    struct zt_rank_options of = { .source = s.source, .eval_source = s.eval_source, .device = device, .threads = 1 };
    struct zt_rank_plan *plan = zt_rank_plan_create(s.job, &of, &err);
    ck_assert_msg(plan != NULL, "%s: %s", model, err.text[0]);
    for (int i = 0; i < plan->programs.train.count; i++)
        note_program(all, plan->programs.train.at[i], model);
    for (int i = 0; i < plan->programs.evaluation.count; i++)
        note_program(all, plan->programs.evaluation.at[i], model);
    zt_rank_plan_destroy(plan);
    device->api->destroy(device);
    zt_open_finish(&s);
}

/* Folders of `path` that hold a model and a config. */
static void note_cases(struct missing *all, const char *path, bool half) {
    char model[8192], config[8192];
    DIR *folder = opendir(path);
    ck_assert_msg(folder != NULL, "%s", path);
    for (const struct dirent *e; (e = readdir(folder));) {
        snprintf(model, sizeof model, "%s/%s/model.onnx", path, e->d_name);
        snprintf(config, sizeof config, "%s/%s/config.json", path, e->d_name);
        if (e->d_name[0] != '.')
            note_model(all, model, config, half);
    }
    closedir(folder);
}

static void note_samples(struct missing *all, const char *root, bool half) {
    char path[4096];
    glob_t models;
    snprintf(path, sizeof path, "%s/models/*.onnx", root);
    ck_assert_int_eq(glob(path, 0, NULL, &models), 0);
    for (size_t i = 0; i < models.gl_pathc; i++) {
        const char *name = strrchr(models.gl_pathv[i], '/') + 1;
        const bool convnet = strcmp(name, "convnet.onnx") == 0;
        snprintf(path, sizeof path, "%s/configs/%.*s.json", root, convnet ? 9 : (int)strlen(name) - 5,
                 convnet ? "ds_config" : name);
        note_model(all, models.gl_pathv[i], path, half);
    }
    globfree(&models);
}

START_TEST(no_node_of_cases_and_samples_runs_on_the_host) {
    struct missing found = { 0 };
    char path[4096];
    snprintf(path, sizeof path, "%s/cases", getenv("ZT_REFERENCE"));
    for (int half = 0; half < 2; half++) {
        note_cases(&found, path, half);
        note_samples(&found, getenv("ZT_ROOT"), half);
    }
    for (int i = 0; i < found.count; i++)
        printf("%4d x %-24s %s\n", found.at[i].nodes, found.at[i].op, found.at[i].where);
    ck_assert_msg(found.count == 0, "%s runs on the host: %d nodes, %s", found.at[0].op, found.at[0].nodes,
                  found.at[0].where);
}
END_TEST

int main(void) {
    TCase *test = tcase_create("covered");
    tcase_add_test(test, no_node_of_cases_and_samples_runs_on_the_host);
    return run_suite("covered", test, CK_NOFORK); /* libgomp does not survive a fork */
}
