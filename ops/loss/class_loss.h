/* A loss over class indices, or its gradient, read from its node: shared by the kernels of class_loss.c's rows
 * (formulas there). */
#ifndef ZT_OPS_LOSS_CLASS_LOSS_H
#define ZT_OPS_LOSS_CLASS_LOSS_H

#include "ops/kernel/axis_slices.h"

enum zt_reduction { ZT_LOSS_MEAN, ZT_LOSS_SUM, ZT_LOSS_NONE };

struct zt_class_loss {
    struct zt_axis_slices lines; /* along the classes */
    int64_t room;                /* elements of x from line to line: lines.length, or more (attribute classes) */
    int64_t count, sample;       /* lines; those of a sample */
    int64_t each;                /* lines that share a row weight, which follow each other */
    enum zt_reduction reduction;
    bool own;  /* a row of ours: row weights, ignores -100, and keeps log sum exp where the standard's keeps log p */
    bool logs; /* x is log p */
    bool ignores;
    int64_t ignore;
    double smoothing, weight_sum; /* weight_sum: of the classes */
    const struct zt_view *x, *target, *row_weight, *class_weight;
};

bool zt_class_loss_reduction(const struct zt_graph *g, int node, enum zt_reduction *to, struct zt_err *err);
/* Shapes and attributes, without contents; x is input `first`. */
bool zt_class_loss_shape(const struct zt_graph *g, int node, int first, struct zt_class_loss *to, struct zt_err *err);
/* Everything; x, target, row weight (own rows) and class weight are inputs from `first` on. Fails on a target that is
 * no class. */
bool zt_class_loss_read(const struct zt_call *call, int first, struct zt_class_loss *to, struct zt_err *err);

/* An input, NULL where it is not given. */
const struct zt_view *zt_class_loss_in(const struct zt_call *call, int i);
int64_t zt_class_loss_target(const struct zt_class_loss *j, int64_t line);
/* Weight of a class, 1 where not given. */
double zt_class_loss_weight(const struct zt_class_loss *j, int64_t c);
/* s of a line, 0 where its target is ignored. */
double zt_class_loss_sample(const struct zt_class_loss *j, int64_t line);
/* What the sum of the losses is divided by. */
double zt_class_loss_total(const struct zt_class_loss *j);
/* Stores the loss of all lines from their sum, where there is one. */
void zt_class_loss_store(const struct zt_call *call, const struct zt_class_loss *j, double sum);
/* What (p_t - 1) and the (p_c - ...) of all classes are multiplied with in a line's gradient. */
struct zt_class_slope {
    double hit, spread;
};
struct zt_class_slope zt_class_loss_slope(const struct zt_call *call, const struct zt_class_loss *j, int64_t line,
                                          double total);

bool zt_class_loss_ref(const struct zt_call *call, struct zt_err *err);
bool zt_class_loss_grad_ref(const struct zt_call *call, struct zt_err *err);
/* The gradient's inputs but the log sum exp -> dx, loss */
bool zt_class_loss_train_ref(const struct zt_call *call, struct zt_err *err);

#endif
