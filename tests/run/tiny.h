/* A whole run in this process without any file of a model: a graph made by hand, a config from text, synthetic data,
 * ranks as threads. */
#ifndef ZT_TESTS_RUN_TINY_H
#define ZT_TESTS_RUN_TINY_H

#include "tests/graph/net.h"

#include "plan/job/job.h"
#include "run/rank/rank.h"

struct tiny {
    struct zt_onnx model; /* only path and graph */
    struct zt_config *config;
    struct zt_job *job;
    struct zt_source *source;
    struct zt_device *(*device)(void);                                             /* of every rank; NULL: the host */
    void (*after)(struct zt_rank *run, const struct zt_rank_plan *plan, int step); /* each step of a rank, or NULL */
};

/* Takes over the graph. `config`: the JSON without its braces, single quotes for double ones, put behind
 * synthetic data that are not shuffled. `ranks` as --ranks. False: `err` says why; finish it also then. */
bool tiny_open(struct tiny *t, struct zt_graph *graph, const char *config, int ranks, struct zt_err *err);
void tiny_finish(struct tiny *t);

/* Graphs with input "x" and output "y" [N, 5]: */
struct zt_graph *tiny_mlp(void); /* x [N, 12] -> Gemm 16 -> Relu -> Gemm 16 -> Relu -> Gemm 5 */
struct zt_graph *
tiny_shared(void); /* a weight used twice, residuals over it and, of three stages, from the first to the last */
struct zt_graph *tiny_tied(void);   /* two weights used by the first, a middle and the last of its layers, one turned */
struct zt_graph *tiny_norm(void);   /* BatchNormalization between two layers */
struct zt_graph *tiny_drop(void);   /* Dropout between two layers */
struct zt_graph *tiny_wide(void);   /* the MLP with layers of 512 and 24: 19,000 parameters, so that slices are cut */
struct zt_graph *tiny_middle(void); /* the MLP with layers of 256 and 512: 137,000 parameters, of several pieces */
struct zt_graph *
tiny_deep(void); /* x [N, 512] -> (Gemm 512, Tanh) x 8 -> Gemm 5: 2.1 million parameters, bytes to count */
struct zt_graph *
tiny_uneven(void); /* the costs of its layers stand otherwise to each other for few rows than for many */
struct zt_graph *tiny_chain(int layers); /* x [N, 8] -> (Gemm 8, Relu) x layers -> Gemm 5 */
/* The graph with `value` as one more output. */
struct zt_graph *tiny_output(struct zt_graph *g, int value);

enum { TINY_STEPS = 16 };

/* Results of a run. */
struct tiny_run {
    double loss[TINY_STEPS], norm[TINY_STEPS], eval_loss;
    int ties;      /* runs that rank 0 exchanges for weights of several stages */
    uint64_t hash; /* of all collected tensors, by their names in order; with ztrain.ema of the average and of them */
    bool ok;
    struct zt_err err; /* of the rank where it began */
};

/* Trains for `steps` steps on config->ranks thread ranks with one compute thread each. */
void tiny_train(struct tiny *t, int steps, struct tiny_run *run);

/* All of it; fails the test where something does. `device` as struct tiny has it. */
struct tiny_run tiny_learn(struct zt_graph *graph, const char *config, int ranks, int steps,
                           struct zt_device *(*device)(void));

#endif
