/* Elementwise ops of one input as rows: y = f(x), and dx from dy and either x or y. The loops live once in unary.c;
 * rows are written with UNARY in unary.c and activation.c. */
#ifndef ZT_OPS_ELEMENTWISE_UNARY_H
#define ZT_OPS_ELEMENTWISE_UNARY_H

#include "ops/elementwise/pointwise.h"
#include "ops/elementwise/kernels.h"
#include "ops/elementwise/elementwise_cpu.h"
#include "ops/kernel/shape.h"

enum zt_keep { ZT_KEEP_X, ZT_KEEP_Y }; /* what the gradient node reads beside dy */

struct zt_unary_rule {
    double otherwise[2]; /* defaults of the first two attributes of the row */
    void (*f)(const double *p, int64_t n, const double *x, double *y);
    void (*df)(const double *p, int64_t n, const double *v, const double *g, double *dx);
    void (*f_int)(int64_t n, bool is_unsigned, const int64_t *x, int64_t *y); /* NULL: integers go through double */
};

/* The first two attributes of the row. */
void zt_unary_parameters(const struct zt_node *node, const struct zt_unary_rule *rule, double p[2]);
bool zt_unary_run(const struct zt_call *call, const struct zt_unary_rule *rule);
bool zt_unary_grad_run(const struct zt_call *call, const struct zt_unary_rule *rule);
bool zt_unary_grad(struct zt_grad *b, int node, const char *op_type, enum zt_keep keep);

#define UNARY_LOOP(id, F, G)                                                                                           \
    static void id##_f(const double *p, int64_t n, const double *from, double *to) {                                   \
        const double a = p[0], b = p[1];                                                                               \
        (void)a, (void)b;                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const double x = from[i];                                                                                  \
            to[i] = F;                                                                                                 \
        }                                                                                                              \
    }                                                                                                                  \
    static void id##_df(const double *p, int64_t n, const double *kept, const double *dy, double *to) {                \
        const double a = p[0], b = p[1];                                                                               \
        (void)a, (void)b;                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const double v = kept[i], g = dy[i];                                                                       \
            (void)v;                                                                                                   \
            to[i] = G;                                                                                                 \
        }                                                                                                              \
    }

/* Rows Name and NameGrad. F: y from x; G: dx from g (= dy) and v (= x or y, see KEEP); a, b: the first two attributes.
 */
#define UNARY_ROW(id, NAME, SINCE, TYPES, KEEP, ATTRS, A, B, F, G, F_INT, FLAGS)                                       \
    UNARY_LOOP(id, F, G)                                                                                               \
    static const struct zt_unary_rule id##_rule = { { A, B }, id##_f, id##_df, F_INT };                                \
    static bool id##_run(const struct zt_call *call, struct zt_err *err) {                                             \
        (void)err;                                                                                                     \
        return zt_unary_run(call, &id##_rule);                                                                         \
    }                                                                                                                  \
    static bool id##_grad_run(const struct zt_call *call, struct zt_err *err) {                                        \
        (void)err;                                                                                                     \
        return zt_unary_grad_run(call, &id##_rule);                                                                    \
    }                                                                                                                  \
    static bool id##_grad(struct zt_grad *b, int node, struct zt_err *err) {                                           \
        (void)err;                                                                                                     \
        return zt_unary_grad(b, node, NAME "Grad", KEEP);                                                              \
    }                                                                                                                  \
    static ZT_FUNCTION_BODY(id##_grad_function_body) {                                                                 \
        double p[2];                                                                                                   \
        (void)err;                                                                                                     \
        zt_unary_parameters(g->nodes[node], &id##_rule, p);                                                            \
        return zt_unary_function_body(b, g, node, p);                                                                  \
    }                                                                                                                  \
    const struct zt_op zt_op_##id = {                                                                                  \
        .name = NAME,                                                                                                  \
        .domain = "",                                                                                                  \
        .since = SINCE,                                                                                                \
        ZT_ONE_OUT(1, 1),                                                                                              \
        .flags = ZT_OP_IN_PLACE | ZT_OP_POINTWISE | (FLAGS),                                                           \
        .in_types = { TYPES },                                                                                         \
        .attrs = ATTRS,                                                                                                \
        .infer = zt_infer_first,                                                                                       \
        .grad = id##_grad,                                                                                             \
        .kernel = { [ZT_REF] = { .run = id##_run }, [ZT_CPU] = ZT_ELEMENTWISE_CPU, [ZT_CUDA] = ZT_POINTWISE_CUDA },    \
    };                                                                                                                 \
    const struct zt_op zt_op_##id##_grad = {                                                                           \
        .name = NAME "Grad",                                                                                           \
        .domain = "ztrain",                                                                                            \
        .since = 1,                                                                                                    \
        ZT_ONE_OUT(2, 2),                                                                                              \
        .flags = ZT_OP_IN_PLACE | (FLAGS),                                                                             \
        .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT },                                                                    \
        .same_type = 1 << 1,                                                                                           \
        .attrs = ATTRS,                                                                                                \
        .infer = zt_infer_first,                                                                                       \
        .body = id##_grad_function_body,                                                                               \
        .kernel = { [ZT_REF] = { .run = id##_grad_run },                                                               \
                    [ZT_CPU] = ZT_ELEMENTWISE_CPU,                                                                     \
                    [ZT_CUDA] = ZT_POINTWISE_CUDA },                                                                   \
    };

#define UNARY(id, NAME, SINCE, KEEP, ATTRS, A, B, F, G)                                                                \
    UNARY_ROW(id, NAME, SINCE, ZT_ANY_FLOAT, KEEP, ATTRS, A, B, F, G, NULL, ZT_OP_HALF)

#endif
