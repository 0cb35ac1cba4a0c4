/* Functions of one input: y = f(x), and dx from dy and either x or y. functions.inc has a row for each; functions that
 * need more than a row (gelu.c) share the loops. */
#ifndef ZT_OPS_ELEMENTWISE_UNARY_H
#define ZT_OPS_ELEMENTWISE_UNARY_H

#include "ops/elementwise/elementwise_cpu.h"
#include "ops/elementwise/kernels.h"
#include "ops/elementwise/pointwise.h"
#include "ops/kernel/shape.h"

enum zt_saved { ZT_SAVE_X, ZT_SAVE_Y }; /* what the gradient reads beside dy */

struct zt_unary_rule {
    double otherwise[2]; /* defaults of the first two attributes of the row */
    void (*f)(const double *p, int64_t n, const double *x, double *y);
    void (*df)(const double *p, int64_t n, const double *v, const double *g, double *dx);
    void (*f_int)(int64_t n, bool is_unsigned, const int64_t *x, int64_t *y); /* NULL: integers go through double */
};

/* Reference kernels. */
bool zt_unary_run(const struct zt_call *call, const struct zt_unary_rule *rule);
bool zt_unary_grad_run(const struct zt_call *call, const struct zt_unary_rule *rule);
/* Appends the gradient node `op_type`, which reads dy and what `saved` says. */
bool zt_unary_grad(struct zt_grad *b, int node, const char *op_type, enum zt_saved saved);

/* id_f and id_df of a rule. Y: y from x; DX: dx from g (dy) and v (the saved tensor); a, b: the first two attributes. A
 * macro, because the compiler makes vector loops only where the expression stands in the loop. */
#define ZT_UNARY_LOOPS(id, Y, DX)                                                                                      \
    static void id##_f(const double *p, int64_t n, const double *from, double *to) {                                   \
        const double a = p[0], b = p[1];                                                                               \
        (void)a, (void)b;                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const double x = from[i];                                                                                  \
            to[i] = Y;                                                                                                 \
        }                                                                                                              \
    }                                                                                                                  \
    static void id##_df(const double *p, int64_t n, const double *saved, const double *dy, double *to) {               \
        const double a = p[0], b = p[1];                                                                               \
        (void)a, (void)b;                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const double v = saved[i], g = dy[i];                                                                      \
            (void)v;                                                                                                   \
            to[i] = DX;                                                                                                \
        }                                                                                                              \
    }

#endif
