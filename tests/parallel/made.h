/* Programs for tests of them: from a tiny graph or a training graph made by hand, in a layout wished for. */
#ifndef ZT_TESTS_PARALLEL_MADE_H
#define ZT_TESTS_PARALLEL_MADE_H

#include "device/device.h"
#include "tests/run/tiny.h"

/* A program, and what it was made from. */
struct made {
    struct tiny t;
    struct zt_arena *arena;
    struct zt_flat *flat;
    struct zt_program *program;
};

/* How a program is asked for. */
struct wish {
    int zero, ranks, stage, stages;
    bool accumulates, fast, bf16, fp16, evaluation, weighted;
    int64_t bucket;
    struct zt_traffic traffic;
    struct zt_device *device; /* whose back end is fast; NULL: the host's, and `fast` chooses */
};

/* The program of `graph` (taken over), under Adam and 4 samples. Fails the test where there is none. */
void made_program(struct made *m, struct zt_graph *graph, const struct wish *wish);
void made_finish(struct made *m);

/* The same of a training graph, which is taken over; m->arena is there, and the caller's to destroy with m->program. */
void made_build(struct made *m, const struct zt_training_graph *training_graph, const struct wish *wish);

/* Adds `count` commands as text, one a line. */
void made_commands(struct zt_text *to, const struct made *m, const struct zt_command *at, int count);

#endif
