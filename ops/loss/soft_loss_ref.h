/* Cross-entropy over class probabilities (formulas in soft_loss.c): what the kernels of the host read from a call, and
 * the reference kernels. A row is one prediction: `length` logits along the class axis. */
#ifndef ZT_OPS_LOSS_SOFT_LOSS_REF_H
#define ZT_OPS_LOSS_SOFT_LOSS_REF_H

#include "ops/kernel/axis_slices.h"

struct zt_soft_loss {
    const struct zt_call *call;
    const struct zt_view *x, *target, *row_weight, *class_weight;
    struct zt_axis_slices rows; /* along the classes */
    int64_t count, each;        /* rows; consecutive rows that share a weight */
    double smoothing, uniform;  /* label_smoothing, and what it adds to every class */
    double total;               /* sum of the rows' weights */
};

/* x, probabilities, row weight and class weight are inputs from `first` on. */
bool zt_soft_loss_read(const struct zt_call *call, int first, struct zt_soft_loss *to, struct zt_err *err);
/* The weight of a row; what a row's gradient is multiplied with, where dloss is input 0. */
double zt_soft_loss_weight(const struct zt_soft_loss *j, int64_t row);
double zt_soft_loss_factor(const struct zt_soft_loss *j, int64_t row);
/* q of class c with probability t: smoothed and weighted. */
double zt_soft_loss_target(const struct zt_soft_loss *j, int64_t c, double t);
/* Threads that the work is worth. */
int zt_soft_loss_threads(const struct zt_soft_loss *j);

/* Blocks of rows, each summed alone and then in order: the bits do not depend on threads. */
enum { ZT_SOFT_LOSS_BLOCKS = 64 };
/* The loss of a row of `block` without its weight, and its log sum exp. */
typedef double zt_soft_loss_row(const void *with, int64_t block, int64_t row, double *lse);
/* Stores loss and log sum exps. */
void zt_soft_loss_sum(const struct zt_soft_loss *j, zt_soft_loss_row *row, const void *with);

/* The reference kernels. */
bool zt_soft_loss_ref(const struct zt_call *call, struct zt_err *err);
bool zt_soft_loss_grad_ref(const struct zt_call *call, struct zt_err *err);

#endif
