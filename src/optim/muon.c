/* Muon (Jordan et al., 2024, https://kellerjordan.github.io/posts/muon/) with Adam for what is no matrix, as DeepSpeed
 * has it. Of a matrix with gradient g, momentum mu and weight decay wd:
 *
 *     b = b + (1 - mu)(g - b)        u = g + mu (b - g)
 *     X = u / (|u| + 1e-7), then five times     X = 3.4445 X - 4.7750 (X X') X + 2.0315 (X X')^2 X
 *     p = p (1 - lr wd) - lr sqrt(max(1, outputs / inputs)) X
 *
 * X X' is a square of the smaller side: for a matrix with more rows than columns X'X, which multiplies from the right.
 * A convolution kernel is a matrix of its first axis by the rest.
 *
 * The method "standard" iterates on X. "gram" iterates on R = X X' (https://tridao.me/blog/2026/gram-newton-schulz/):
 * with Z = -4.7750 R + 2.0315 R^2 an iteration multiplies X by 3.4445 I + Z, and the products Q of these factors and
 * the next R are squares too. Q is applied to X after two iterations and at the end, since R loses the small singular
 * values when it runs on for too long. Squares gain nothing from it and use the standard method.
 *
 * All sums are fp32: DeepSpeed iterates in bfloat16 or fp16 where the machine has them. */
#include "optim/muon.h"

#include "optim/row.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { ITERATIONS = 5, RESTART = 2 };
static const float keep = 3.4445f, linear = -4.7750f, square = 2.0315f;

struct params {
    double eps, momentum, muon_lr, adam_lr;
    int method; /* enum zt_muon_method */
};

/* ---- the iteration ---- */

/* Memory of an iteration: x and other change places; R, Z, Q and two more are squares. */
struct iteration {
    const struct zt_matrix *m;
    const struct zt_matrix_ops *ops;
    int64_t side;
    float *x, *other, *r, *z, *q, *t, *s;
};

static int64_t lesser(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t aligned(int64_t floats) {
    return (floats + 15) / 16 * 16;
}

/* The gram method where it gains something. */
static bool uses_gram(int method, const struct zt_matrix *m) {
    return method == ZT_MUON_GRAM && m->rows != m->columns;
}

int64_t zt_muon_room(int method, const struct zt_matrix *m) {
    int64_t side = lesser(m->rows, m->columns);
    return aligned(m->rows * m->columns) + (uses_gram(method, m) ? 5 : 2) * aligned(side * side);
}

static void swap(float **a, float **b) {
    float *c = *a;
    *a = *b;
    *b = c;
}

/* r = X X' or X'X */
static void find_gram(struct iteration *t) {
    const int64_t rows = t->m->rows, columns = t->m->columns;
    const bool wide = rows <= columns;
    const struct zt_matrix_product p = { .m = t->side,
                                         .n = t->side,
                                         .k = wide ? columns : rows,
                                         .a = t->x,
                                         .b = t->x,
                                         .a_row = wide ? columns : 1,
                                         .a_col = wide ? 1 : columns,
                                         .b_row = wide ? 1 : columns,
                                         .b_col = wide ? columns : 1,
                                         .y = t->r,
                                         .alpha = 1 };
    t->ops->multiply(t->ops, &p);
}

/* y = alpha a b + beta b of squares */
static void multiply_squares(const struct iteration *t, float alpha, const float *a, const float *b, float beta,
                             float *y) {
    const struct zt_matrix_product p = { t->side, t->side, t->side, a, b, b, t->side, 1, t->side, 1, y, alpha, beta };
    t->ops->multiply(t->ops, &p);
}

/* x = of the square times x, plus beta x */
static void apply_square(struct iteration *t, const float *of, float beta) {
    const int64_t rows = t->m->rows, columns = t->m->columns;
    const bool wide = rows <= columns;
    const struct zt_matrix_product p = { .m = rows,
                                         .n = columns,
                                         .k = t->side,
                                         .a = wide ? of : t->x,
                                         .b = wide ? t->x : of,
                                         .c = beta != 0 ? t->x : NULL,
                                         .a_row = wide ? t->side : columns,
                                         .a_col = 1,
                                         .b_row = wide ? columns : t->side,
                                         .b_col = 1,
                                         .y = t->other,
                                         .alpha = 1,
                                         .beta = beta };
    t->ops->multiply(t->ops, &p);
    swap(&t->x, &t->other);
}

/* z = -4.7750 R + 2.0315 R^2 */
static void find_factor(const struct iteration *t) {
    multiply_squares(t, square, t->r, t->r, linear, t->z);
}

static void iterate_standard(struct iteration *t) {
    for (int i = 0; i < ITERATIONS; i++) {
        find_gram(t);
        find_factor(t);
        apply_square(t, t->z, keep);
    }
}

/* q = (3.4445 I + Z) q; at the first of some iterations q is I. */
static void extend_product(struct iteration *t, bool first) {
    if (!first) {
        multiply_squares(t, 1, t->z, t->q, keep, t->t);
        swap(&t->q, &t->t);
        return;
    }
    swap(&t->q, &t->z);
    t->ops->add_diagonal(t->ops, t->q, t->side, keep);
}

/* r = (3.4445 I + Z)^2 r; before extend_product(), which may take z. */
static void advance_gram(struct iteration *t) {
    multiply_squares(t, 1, t->z, t->r, keep, t->t);
    multiply_squares(t, 1, t->z, t->t, keep, t->s);
    swap(&t->r, &t->s);
}

static void iterate_gram(struct iteration *t) {
    for (int i = 0; i < ITERATIONS; i++) {
        bool first = i == 0 || i == RESTART, last = i == ITERATIONS - 1 || i + 1 == RESTART;
        if (first)
            find_gram(t);
        find_factor(t);
        if (!last)
            advance_gram(t);
        extend_product(t, first);
        if (last)
            apply_square(t, t->q, 0);
    }
}

float *zt_muon_orthogonalise(int method, const struct zt_matrix *m, float *x, float *room,
                             const struct zt_matrix_ops *ops) {
    struct iteration t = { .m = m, .ops = ops, .side = lesser(m->rows, m->columns), .x = x, .other = room };
    const int64_t count = m->rows * m->columns, each = aligned(t.side * t.side);
    float **squares[] = { &t.r, &t.z, &t.q, &t.t, &t.s };
    for (int i = 0; i < 5; i++)
        *squares[i] = room + aligned(count) + i * each;
    ops->normalise(ops, t.x, count, 1e-7, t.other);
    if (uses_gram(method, m))
        iterate_gram(&t);
    else
        iterate_standard(&t);
    return t.x;
}

/* ---- elements ---- */

/* The factor of the rate for a matrix: sqrt(max(1, outputs / inputs)). */
static double shape_factor(const struct zt_matrix *m) {
    double ratio = (double)m->rows / (double)m->columns;
    if (m->inputs_first)
        ratio = 1 / ratio;
    return ratio > 1 ? sqrt(ratio) : 1;
}

static void muon_prepare(const struct zt_update *u, union zt_coefficients *to) {
    const struct params *o = u->config->params;
    const bool matrix = u->matrix.rows > 0;
    struct zt_muon c = {
        .scale = (float)u->grad_scale,
        .shrink = (float)(1 - u->lr * u->weight_decay),
        .lr = (float)(matrix ? u->lr * shape_factor(&u->matrix) : u->lr),
        .momentum = (float)o->momentum,
        .take = (float)(1 - o->momentum),
        .b1 = (float)u->beta1,
        .a1 = (float)(1 - u->beta1),
        .b2 = (float)u->beta2,
        .a2 = (float)(1 - u->beta2),
        .m_factor = (float)(1 / (1 - pow(u->beta1, (double)u->step))),
        .v_factor = (float)(1 / sqrt(1 - pow(u->beta2, (double)u->step))),
        .eps = (float)o->eps,
    };
    ZT_STORE_COEFFICIENTS(to, c);
}

ZT_CLONES static void muon_adam_loop(struct zt_muon c, float *restrict p, const float *restrict g, float *restrict m,
                                     float *restrict v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_muon_adam(&c, &p[i], g[i], &m[i], &v[i]);
}

ZT_CLONES static void muon_direct_loop(struct zt_muon c, const float *restrict g, float *restrict b, float *restrict u,
                                       int64_t count) {
    for (int64_t i = 0; i < count; i++)
        u[i] = zt_muon_direction(&c, g[i], &b[i]);
}

ZT_CLONES static void muon_apply_loop(struct zt_muon c, float *restrict p, const float *restrict u, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        zt_muon_apply(&c, &p[i], u[i]);
}

static void muon_update(const union zt_coefficients *from, double ratio, float *p, const float *g, float *const state[],
                        int64_t count) {
    (void)ratio;
    muon_adam_loop(ZT_COEFFICIENTS(struct zt_muon, from), p, g, state[0], state[1], count);
}

static void muon_direct(const union zt_coefficients *from, const float *g, float *const state[], float *direction,
                        int64_t count) {
    muon_direct_loop(ZT_COEFFICIENTS(struct zt_muon, from), g, state[0], direction, count);
}

static void muon_apply(const union zt_coefficients *from, float *p, const float *direction, int64_t count) {
    muon_apply_loop(ZT_COEFFICIENTS(struct zt_muon, from), p, direction, count);
}

/* ---- which tensors, which rates ---- */

static bool has_part(const char *name, const char *part) {
    size_t n = strlen(part);
    for (; *name; name++)
        if (strncasecmp(name, part, n) == 0)
            return true;
    return false;
}

/* Token tables and heads are Adam's, by the names that DeepSpeed goes by. */
static bool muon_takes(const char *name) {
    return !has_part(name, "embed") && !has_part(name, "lm_head");
}

/* Of n x n x n and n x n x longer products. gram: five Z, three R of
 * two products each, three Q; R and Q X twice. */
static double muon_flops(int method, const struct zt_matrix *m) {
    const double side = (double)lesser(m->rows, m->columns), elements = (double)(m->rows * m->columns);
    const double small = 2 * side * side * side, large = 2 * side * elements;
    return uses_gram(method, m) ? (5 + 6 + 3) * small + 4 * large : 5 * small + 10 * large;
}

static int muon_method(const struct zt_optimizer_config *config) {
    return ((const struct params *)config->params)->method;
}

static double muon_rate(const struct zt_optimizer_config *config, bool matrix) {
    const struct params *o = config->params;
    return matrix ? o->muon_lr : o->adam_lr;
}

/* Without any rate, those of Muon's authors; a rate that is given counts for all tensors. */
static void muon_settle(const struct zt_settling *s) {
    struct zt_optimizer_config *c = &s->config->optimizer;
    struct params *o = c->params;
    bool given = s->given(s, OPTIMIZER "lr");
    if (given && !s->given(s, OPTIMIZER "muon_lr"))
        o->muon_lr = c->lr;
    if (given && !s->given(s, OPTIMIZER "adam_lr"))
        o->adam_lr = c->lr;
    if (!given || c->lr == 0) /* what the schedule scales must not be 0 */
        c->lr = o->muon_lr > 0 ? o->muon_lr : o->adam_lr;
}

static const struct zt_matrix_optimizer matrix = {
    .takes = muon_takes,
    .method = muon_method,
    .room = zt_muon_room,
    .flops = muon_flops,
    .direct = muon_direct,
    .orthogonalise = zt_muon_orthogonalise,
    .apply = muon_apply,
};

static bool decouples(const struct zt_optimizer_config *config) {
    (void)config;
    return true;
}

static double momentum_of(const struct zt_optimizer_config *config) {
    return ((const struct params *)config->params)->momentum;
}

static const struct zt_key_choice methods[] = { { .name = "gram" }, { .name = "standard" }, { 0 } };

#define RATE(field, text)                                                                                              \
    .key = OPTIMIZER #field, NUMBER, FROM(0), DEF(text), AUTO(text, OPTIMIZER "lr"), .auto_is_lr = true,               \
    OWN(struct params, field)
static const struct zt_key_row keys[] = {
    ROW_LR("0.02"),
    { RATE(muon_lr, "0.02") },
    { RATE(adam_lr, "3e-4") },
    { .key = OPTIMIZER "momentum", NUMBER, BELOW_ONE, DEF("0.95"), OWN(struct params, momentum) },
    { .key = OPTIMIZER "betas", .type = ZT_KEY_PAIR, BELOW_ONE, DEF("0.9 0.95"), AT(optimizer.beta1) },
    { .key = OPTIMIZER "eps", NUMBER, FROM(0), DEF("1e-10"), OWN(struct params, eps) },
    ROW_WEIGHT_DECAY,
    { .key = OPTIMIZER "ns_method", INDEX(methods), DEF("gram"), OWN(struct params, method) },
    ROWS_PYTHON,
    { 0 },
};

const struct zt_optimizer zt_optimizer_muon = {
    .type = { .name = "Muon",
              .keys = keys,
              .bytes = sizeof(struct params),
              .settle = muon_settle,
              .no_momentum = true },
    .states = 2,
    .state_names = { "exp_avg", "exp_avg_sq" }, /* of a matrix: its momentum; zeros */
    .decouples = decouples,
    .momentum = momentum_of,
    .rate = muon_rate,
    .prepare = muon_prepare,
    .update = muon_update,
    .matrix = &matrix,
};
