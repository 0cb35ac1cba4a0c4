/* Small programs for tests: planned from a tiny graph or from a training graph made by hand, in a requested layout. */
#ifndef ZT_TESTS_PARALLEL_SMALL_PROGRAM_H
#define ZT_TESTS_PARALLEL_SMALL_PROGRAM_H

#include "device/device.h"
#include "tests/run/tiny.h"

/* A program and its sources. */
struct small_program {
    struct tiny t;
    struct zt_arena *arena;
    struct zt_flat *flat;
    struct zt_program *program;
};

/* The requested layout. */
struct wish {
    int zero, ranks, stage, stages;
    bool all_reduces; /* without reduce_scatter; on several ranks */
    bool accumulates, fast, bf16, fp16, evaluation, weighted;
    int64_t bucket;
    struct zt_traffic traffic;
    struct zt_device *device; /* whose back end is fast; NULL: the host's, and `fast` chooses */
};

const struct zt_sharding *wished_sharding(const struct wish *wish);

/* Plans a program for `graph` (takes ownership), with Adam and 4 samples. A failure fails the test. */
void small_program_create(struct small_program *m, struct zt_graph *graph, const struct wish *wish);
void small_program_finish(struct small_program *m);

/* The living nodes of an operator in the program's training graph. */
int small_program_nodes(const struct small_program *m, const char *op_type);
/* Trains `graph` (takes ownership) for 6 steps on thread ranks with the fusions of `fuse`, "'name', 'name'", and other
 * keys of the config, ", 'key': value". */
struct tiny_run learn_fused(struct zt_graph *graph, const char *fuse, const char *more, int ranks);

/* Does the same for a training graph (takes ownership). The caller creates m->arena, and destroys it and m->program. */
void small_program_build(struct small_program *m, const struct zt_training_graph *training_graph,
                         const struct wish *wish);

/* Appends `count` commands as text, one per line. */
void small_program_print(struct zt_text *to, const struct small_program *m, const struct zt_command *at, int count);

#endif
