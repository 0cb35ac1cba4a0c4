/* Evenness of the stages of real models: for every model of models/ and every reference case, on 2 to 6 stages, the
 * cost of the dearest stage against the best contiguous cut of the same nodes, wherever it lies. Fails above 1.1, and
 * where there is no model.
 *
 *     split_models SOURCE_ROOT REFERENCE        REFERENCE: tests/reference, or another folder with cases */
#include "plan/job/job.h"

#include "graph/ir/op.h"
#include "session/session.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STAGES = 6 };
static const double LIMIT = 1.1;

/* Work and the bytes written, as pipeline.partition "best" has it (split.h). */
static double cost_of(const struct zt_graph *g, int node) {
    double bytes = 0;
    for (int i = 0; i < g->nodes[node]->out_count; i++)
        bytes += (double)zt_value_bytes(zt_out(g, node, i));
    return zt_op_work(g, node) + bytes;
}

/* The dearest stage of the best cut of nodes 0..count-1 into `stages` ranges: best[s][n] from best[s - 1]. */
static double best_cut(const double *cost, int count, int stages) {
    double *sum = calloc((size_t)count + 1, sizeof *sum), *before = calloc((size_t)count + 1, sizeof *before),
           *now = calloc((size_t)count + 1, sizeof *now);
    for (int n = 0; n < count; n++)
        sum[n + 1] = sum[n] + cost[n];
    memcpy(before, sum, ((size_t)count + 1) * sizeof *sum);
    for (int s = 1; s < stages; s++) {
        for (int n = 0; n <= count; n++) {
            now[n] = 1e300;
            for (int k = 0; k <= n; k++) {
                double worst = before[k] > sum[n] - sum[k] ? before[k] : sum[n] - sum[k];
                now[n] = worst < now[n] ? worst : now[n];
            }
        }
        memcpy(before, now, ((size_t)count + 1) * sizeof *now);
    }
    double best = before[count];
    free(now);
    free(before);
    free(sum);
    return best;
}

/* Ratio of the program's cut to the best one; 0: the model has fewer layers than that. */
static bool measure(const struct zt_job *job, const struct zt_source *source, int stages, double *ratio,
                    struct zt_err *err) {
    struct zt_training_graph_request request = { .rows = job->config->micro_batch, .training = true, .stages = stages };
    struct zt_training_graph training_graph;
    *ratio = 0;
    if (!zt_job_training_graph(job, source, &request, &training_graph, err)) {
        bool few = strstr(err->text[0], "layers with parameters") != NULL;
        *err = few ? (struct zt_err){ 0 } : *err;
        return few;
    }
    const struct zt_graph *g = training_graph.graph;
    double *cost = calloc((size_t)g->node_count + 1, sizeof *cost), stage[MOST_STAGES] = { 0 }, dearest = 0;
    int count = 0;
    for (int n = 0; n < g->node_count; n++) {
        if (g->nodes[n]->phase != ZT_FORWARD)
            continue;
        cost[count++] = cost_of(g, n);
        stage[g->nodes[n]->stage] += cost[count - 1];
    }
    for (int s = 0; s < stages; s++)
        dearest = stage[s] > dearest ? stage[s] : dearest;
    *ratio = dearest / best_cut(cost, count, stages);
    free(cost);
    zt_graph_destroy(training_graph.graph);
    return true;
}

static bool check_model(const char *name, const char *model_path, const char *config_path) {
    struct zt_config_overrides over = { .ranks = 1, .epochs = -1, .steps = -1, .seed = -1, .threads = 1 };
    struct zt_err err = { 0 };
    struct zt_config *config = zt_session_config(&(struct zt_texts){ (const char *[]){ config_path }, 1 }, &over, &err);
    struct zt_onnx *model = config ? zt_onnx_read(model_path, ZT_WEIGHTS_MAPPED, &err) : NULL;
    struct zt_job *job = model ? zt_job_create(config, model, &err) : NULL;
    struct zt_source *source = job ? zt_source_open(config, false, job->wants, job->want_count, &err) : NULL;
    bool ok = source != NULL;
    printf("%-24s", name);
    for (int stages = 2; ok && stages <= MOST_STAGES; stages++) {
        double ratio;
        bool made = measure(job, source, stages, &ratio, &err);
        if (made && ratio > 0)
            printf(" %d: %.3f%s", stages, ratio, ratio > LIMIT ? " ABOVE" : "");
        ok = made && ratio <= LIMIT;
    }
    printf("%s%s\n", err.count ? " " : "", err.count ? err.text[0] : "");
    zt_source_close(source);
    zt_job_destroy(job);
    if (model)
        zt_onnx_destroy(model);
    if (config)
        zt_config_destroy(config);
    return ok;
}

/* The models that `pattern` fits: cases with the config beside them, others with that of their name. */
static bool check_all(const char *pattern, const char *root, bool cases) {
    glob_t found;
    int failed = 0;
    if (glob(pattern, 0, NULL, &found) != 0) {
        printf("%s: nothing is there\n", pattern);
        return false;
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i], *end = strrchr(path, '/');
        char name[128], config[4096];
        if (cases) {
            const char *start = end - 1;
            while (start > path && start[-1] != '/')
                start--;
            snprintf(name, sizeof name, "%.*s", (int)(end - start), start);
            snprintf(config, sizeof config, "%.*s/config.json", (int)(end - path), path);
        } else {
            snprintf(name, sizeof name, "%.*s", (int)(strlen(end + 1) - strlen(".onnx")), end + 1);
            snprintf(config, sizeof config, "%s/configs/%s.json", root,
                     strcmp(name, "convnet") == 0 ? "ds_config" : name);
        }
        failed += !check_model(name, path, config);
    }
    globfree(&found);
    return failed == 0;
}

int main(int argc, char **argv) {
    char pattern[4096];
    if (argc != 3) {
        fputs("usage: split_models SOURCE_ROOT REFERENCE\n", stderr);
        return 2;
    }
    snprintf(pattern, sizeof pattern, "%s/models/*.onnx", argv[1]);
    bool ok = check_all(pattern, argv[1], false);
    snprintf(pattern, sizeof pattern, "%s/cases/*/model.onnx", argv[2]);
    ok &= check_all(pattern, argv[1], true);
    return ok ? 0 : 1;
}
