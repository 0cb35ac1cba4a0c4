/* The programs of a rank. */
#ifndef ZT_PLAN_RANK_PROGRAMS_H
#define ZT_PLAN_RANK_PROGRAMS_H

#include "parallel/schedule/program.h"

/* Programs for every micro-batch size. */
struct zt_program_set {
    struct zt_program **at;
    int count;
};

struct zt_rank_programs {
    struct zt_program_set train, evaluation;
    /* Mode dp: the loss of the samples of all replicas, on rank 0 (chunk 1 of the schedule); otherwise empty. */
    struct zt_program_set loss_train, loss_evaluation;
};

/* Whether the program of training graph `g` can run micro-batches of `rows` samples, with padding samples if `padded`.
 * Padding needs sample weights where the stage has the loss or (`statistics`) the model has batch statistics. */
static inline bool zt_program_fits(const struct zt_training_graph *g, int64_t rows, bool padded, bool statistics) {
    return g->rows == rows && (!padded || g->weighted || (g->loss < 0 && !statistics));
}

#endif
