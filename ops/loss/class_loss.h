/* Losses over class indices and their gradients, read from the node (formulas in class_loss.c). The kernels of all back
 * ends use it. A row is one prediction: `length` logits along the class axis. */
#ifndef ZT_OPS_LOSS_CLASS_LOSS_H
#define ZT_OPS_LOSS_CLASS_LOSS_H

#include "ops/kernel/axis_slices.h"

enum zt_reduction { ZT_LOSS_MEAN, ZT_LOSS_SUM, ZT_LOSS_NONE };

struct zt_class_loss {
    struct zt_axis_slices rows; /* along the classes */
    int64_t room;               /* elements of x from row to row: rows.length, or more (attribute classes) */
    int64_t count, sample;      /* rows; rows of a sample */
    int64_t each;               /* consecutive rows that share a row weight */
    enum zt_reduction reduction;
    bool own;  /* an operator of domain ztrain: it has row weights, ignores -100, and its second output is log sum exp,
                  not log p */
    bool logs; /* x holds log-probabilities */
    bool ignores;
    int64_t ignore;
    double smoothing, weight_sum; /* weight_sum: of the classes */
    const struct zt_view *x, *target, *row_weight, *class_weight;
};

/* Reads the attribute `reduction`, by default "mean". Fails on another word than none, sum, mean. */
bool zt_class_loss_reduction(const struct zt_graph *g, int node, enum zt_reduction *to, struct zt_err *err);
/* Shapes and attributes; x is input `first`. */
bool zt_class_loss_shape(const struct zt_graph *g, int node, int first, struct zt_class_loss *to, struct zt_err *err);
/* Shapes, attributes and data; x, target, row weight (domain ztrain) and class weight are inputs from `first` on. Fails
 * on a target that is no class. */
bool zt_class_loss_read(const struct zt_call *call, int first, struct zt_class_loss *to, struct zt_err *err);

/* Input i, NULL where it is omitted. */
const struct zt_view *zt_class_loss_in(const struct zt_call *call, int i);
/* The class index of a row, in int64. */
int64_t zt_class_loss_target(const struct zt_class_loss *j, int64_t row);
/* The weight of a class, 1 without class weights. */
double zt_class_loss_weight(const struct zt_class_loss *j, int64_t c);
/* The weight of a row, 0 where its target is ignored. */
double zt_class_loss_sample(const struct zt_class_loss *j, int64_t row);
/* The divisor of the sum of the losses. */
double zt_class_loss_total(const struct zt_class_loss *j);
/* Stores the loss from the sum over all rows; reduction none has no such loss. */
void zt_class_loss_store(const struct zt_call *call, const struct zt_class_loss *j, double sum);
/* The factors of a row's gradient: of (p_t - 1) at the target, and of (p_c - ...) at all classes. */
struct zt_class_slope {
    double hit, spread;
};
struct zt_class_slope zt_class_loss_slope(const struct zt_call *call, const struct zt_class_loss *j, int64_t row,
                                          double total);

/* Reference kernels of the loss and of its gradient, in double; formulas and shapes are in class_loss.c. They fail on a
 * target that is no class. */
bool zt_class_loss_ref(const struct zt_call *call, struct zt_err *err);
bool zt_class_loss_grad_ref(const struct zt_call *call, struct zt_err *err);
/* Inputs of the gradient without log sum exp -> dx, loss */
bool zt_class_loss_train_ref(const struct zt_call *call, struct zt_err *err);

#endif
