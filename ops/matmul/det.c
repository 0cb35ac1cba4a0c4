/* Det (opset 11): y = det(A) of matrices A [..., M, M]; 1 of matrices without elements.
 *
 *     dA = dy cof(A)                                  cof(A)[i, j] = (-1)^(i + j) det(A without row i and column j)
 *
 * which is det(A) inv(A)^T where A is regular, and is right for singular matrices too. Both come from an elimination in
 * double, for cofactors with complete pivoting: A = P L U Q with permutations P and Q and unit triangular L.
 *
 *     det(A) = det(P) det(Q) prod of u[k, k]
 *     cof(A) = det(P) det(Q) P cof(L) cof(U) Q,      cof(L) = L^-T
 *
 * With U = [V, c; 0, u], where V has M - 1 rows, the adjugate cof(U)^T is [u adj(V), -adj(V) c; 0, det(V)], and adj(V)
 * = det(V) V^-1: the last pivot, the least one, divides nothing. Where the last but one is 0 too, the rank of A is
 * below M - 1 and all cofactors are 0. */
#include "ops/matmul/kernels.h"

#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include "device/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool read_matrices(const struct zt_graph *g, int node, const struct zt_value *a, struct zt_err *err) {
    const int rank = a->shape.rank;
    return (rank >= 2 && a->shape.dim[rank - 1] == a->shape.dim[rank - 2]) ||
           zt_node_fail(g, node, err, "\"%s\" is not [..., M, M]", a->name);
}

static bool det_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *a = zt_in(g, node, 0);
    struct zt_shape shape = a->shape;
    if (!read_matrices(g, node, a, err))
        return false;
    shape.rank -= 2;
    zt_set_out(g, node, 0, a->dtype, &shape);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    const struct zt_value *dy = zt_in(g, node, 0), *a = zt_in(g, node, 1);
    struct zt_shape shape = a->shape;
    if (!read_matrices(g, node, a, err))
        return false;
    shape.rank -= 2;
    if (!zt_shape_equal(&dy->shape, &shape))
        return zt_node_fail(g, node, err, "\"%s\" does not have one number a matrix", dy->name);
    zt_set_out(g, node, 0, a->dtype, &a->shape);
    return true;
}

/* ---- elimination ---- */

/* A matrix and the room that its elimination needs: m, of row-major [size, size], becomes L below the diagonal and U.
 */
struct elimination {
    int64_t size;
    double *m, *inverse, *result; /* [size, size] each; the last two for cofactors */
    int64_t *row, *col;           /* row k of the elimination is row row[k] of A */
    int sign;                     /* det(P) det(Q) */
    bool rows;                    /* only rows change places: enough for a determinant */
};

static size_t room_bytes(int64_t size, bool cofactors) {
    return (size_t)size * ((size_t)size * (cofactors ? 3 : 1) * sizeof(double) + 2 * sizeof(int64_t));
}

static struct elimination elimination_in(void *room, int64_t size, bool cofactors) {
    double *m = room;
    int64_t *row = (int64_t *)(m + size * size * (cofactors ? 3 : 1));
    return (struct elimination){ size, m, m + size * size, m + 2 * size * size, row, row + size, 1, !cofactors };
}

static void swap_numbers(double *a, double *b) {
    const double kept = *a;
    *a = *b;
    *b = kept;
}
static void swap_places(int64_t *list, int64_t a, int64_t b) {
    const int64_t kept = list[a];
    list[a] = list[b];
    list[b] = kept;
}

static double greater(double a, double b) {
    return a > b ? a : b;
}

/* The greatest magnitude among `count` numbers, -1 of none; numbers that are NaN do not count. Four comparisons do not
 * wait for each other. */
static double greatest(const double *at, int64_t count) {
    double a = -1, b = -1, c = -1, d = -1;
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        a = greater(fabs(at[i]), a);
        b = greater(fabs(at[i + 1]), b);
        c = greater(fabs(at[i + 2]), c);
        d = greater(fabs(at[i + 3]), d);
    }
    for (; i < count; i++)
        a = greater(fabs(at[i]), a);
    return greater(greater(a, b), greater(c, d));
}

/* Finds the element of the greatest magnitude in rows from k on, and in columns from k on or, with `rows`, in column k.
 */
static void find_pivot(const struct elimination *e, int64_t k, int64_t *row, int64_t *col) {
    const int64_t n = e->size;
    double most = -1;
    *row = *col = k;
    for (int64_t i = k; i < n; i++) {
        const double here = greatest(e->m + i * n + k, e->rows ? 1 : n - k);
        if (here > most)
            most = here, *row = i;
    }
    for (int64_t j = k; j < n && !e->rows; j++)
        if (fabs(e->m[*row * n + j]) == most) {
            *col = j;
            return;
        }
}

/* Brings the pivot to the diagonal. */
static void pivot(struct elimination *e, int64_t k) {
    const int64_t n = e->size;
    int64_t row, col;
    find_pivot(e, k, &row, &col);
    for (int64_t j = 0; row != k && j < n; j++)
        swap_numbers(&e->m[row * n + j], &e->m[k * n + j]);
    for (int64_t i = 0; col != k && i < n; i++)
        swap_numbers(&e->m[i * n + col], &e->m[i * n + k]);
    swap_places(e->row, row, k);
    swap_places(e->col, col, k);
    e->sign *= (row != k) == (col != k) ? 1 : -1;
}

/* row -= factor times other */
static void subtract(double *restrict row, const double *restrict other, double factor, int64_t count) {
    for (int64_t j = 0; j < count; j++)
        row[j] -= factor * other[j];
}

static void eliminate(struct elimination *e) {
    const int64_t n = e->size;
    for (int64_t k = 0; k < n; k++)
        e->row[k] = e->col[k] = k;
    for (int64_t k = 0; k < n; k++) {
        pivot(e, k);
        const double *top = e->m + k * n;
        for (int64_t i = k + 1; i < n && top[k] != 0; i++) {
            double *m = e->m + i * n;
            m[k] /= top[k];
            subtract(m + k + 1, top + k + 1, m[k], n - k - 1);
        }
    }
}

/* A product whose parts may be outside the range of double: the exponent is kept apart. */
struct scaled {
    double part;
    int64_t exponent;
};
static void times(struct scaled *a, double factor) {
    int exponent, more;
    const double part = frexp(factor, &exponent);
    a->part = frexp(a->part * part, &more);
    a->exponent += exponent + more;
}
static double value_of(const struct scaled *a) {
    const int64_t most = 1 << 20; /* beyond every exponent of double */
    return ldexp(a->part, (int)(a->exponent > most ? most : a->exponent < -most ? -most : a->exponent));
}

/* a factor: directly where a is far from the ends of the range, as nothing is lost then */
static double scaled_by(const struct scaled *a, double factor) {
    struct scaled y = *a;
    if (llabs(a->exponent) < 900 && isfinite(a->part))
        return ldexp(a->part, (int)a->exponent) * factor;
    times(&y, factor);
    return value_of(&y);
}

/* sign times the product of the first `count` pivots */
static struct scaled pivots(const struct elimination *e, int64_t count) {
    struct scaled y = { e->sign, 0 };
    for (int64_t k = 0; k < count; k++)
        times(&y, e->m[k * e->size + k]);
    return y;
}

/* ---- cofactors ---- */

/* adj(U) / det(V), in `inverse`: [u V^-1, -V^-1 c; 0, 1]. Rows of V^-1 come by substitution from below. */
static void adjugate(struct elimination *e) {
    const int64_t n = e->size, last = n - 1;
    memset(e->inverse, 0, sizeof(double) * (size_t)(n * n));
    for (int64_t i = last - 1; i >= 0; i--) {
        const double *u = e->m + i * n;
        double *row = e->inverse + i * n;
        row[i] = 1;
        for (int64_t k = i + 1; k < last; k++)
            subtract(row + k, e->inverse + k * n + k, u[k], last - k);
        for (int64_t j = i; j < last; j++)
            row[j] /= u[i];
    }
    for (int64_t i = 0; i < last; i++) {
        double *row = e->inverse + i * n, sum = 0;
        for (int64_t k = i; k < last; k++) {
            sum -= row[k] * e->m[k * n + last];
            row[k] *= e->m[last * n + last];
        }
        row[last] = sum;
    }
    e->inverse[last * n + last] = 1;
}

/* result = factor P L^-T cof(U) Q: row r of adj(U) L^-1 is column r of its transpose. */
static void cofactors(struct elimination *e, const struct scaled *factor) {
    const int64_t n = e->size;
    for (int64_t r = 0; r < n; r++) {
        double *x = e->inverse + r * n; /* x L = row r of adj(U) */
        for (int64_t j = n - 1; j > 0; j--)
            subtract(x, e->m + j * n, x[j], j);
        for (int64_t c = 0; c < n; c++)
            e->result[e->row[c] * n + e->col[r]] = scaled_by(factor, x[c]);
    }
}

/* ---- kernels ---- */

struct job {
    const struct zt_call *call;
    int64_t size;
};

static struct elimination load(const struct job *j, const struct zt_view *a, int64_t i, bool cofactor) {
    const int64_t elements = j->size * j->size;
    char *room = (char *)j->call->workspace + (int64_t)room_bytes(j->size, cofactor) * zt_parallel_thread();
    struct elimination e = elimination_in(room, j->size, cofactor);
    zt_load_block(a->dtype, a->data, i * elements, 1, elements, e.m);
    eliminate(&e);
    return e;
}

static void det_matrix(void *arg, int64_t i) {
    const struct job *j = arg;
    const struct elimination e = load(j, &j->call->in[0], i, false);
    const struct scaled y = pivots(&e, e.size);
    zt_store_double(j->call->out[0].dtype, j->call->out[0].data, i, value_of(&y));
}

static void grad_matrix(void *arg, int64_t i) {
    const struct job *j = arg;
    const struct zt_view *dy = &j->call->in[0], *da = &j->call->out[0];
    struct elimination e = load(j, &j->call->in[1], i, true);
    const int64_t n = e.size, elements = n * n;
    struct scaled factor = pivots(&e, n - 1);
    times(&factor, zt_load_double(dy->dtype, dy->data, i));
    if (n > 1 && e.m[(n - 2) * n + n - 2] == 0) {
        memset(e.result, 0, sizeof(double) * (size_t)elements);
    } else {
        adjugate(&e);
        cofactors(&e, &factor);
    }
    zt_store_block(da->dtype, da->data, i * elements, 1, elements, e.result);
}

static int64_t size_of(const struct zt_shape *matrices) {
    return matrices->dim[matrices->rank - 1];
}

static bool run_matrices(const struct zt_call *call, int in, void (*one)(void *, int64_t)) {
    struct job j = { call, size_of(&call->in[in].shape) };
    const int64_t count = zt_dims(&call->in[in].shape, 0, call->in[in].shape.rank - 2);
    const double n = (double)j.size;
    if (in == 0 || j.size > 0)
        zt_parallel_for(zt_threads_worth(call->threads, (double)count * n * n * n), count, one, &j);
    return true;
}
static bool det_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return run_matrices(call, 0, det_matrix);
}
static bool grad_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    return run_matrices(call, 1, grad_matrix);
}

static bool det_prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    p->workspace_bytes = (size_t)p->threads * room_bytes(size_of(&zt_in(p->graph, p->node, 0)->shape), false);
    return true;
}
static bool grad_prepare(struct zt_prepare *p, struct zt_err *err) {
    (void)err;
    p->workspace_bytes = (size_t)p->threads * room_bytes(size_of(&zt_in(p->graph, p->node, 1)->shape), true);
    return true;
}

static bool det_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    zt_grad_give(b, node, 0, ZT_EMIT_OWN(b, "DetGrad", zt_grad_out(b, node, 0), zt_grad_graph(b)->nodes[node]->in[0]));
    return true;
}

/* Cofactors by their definition: determinants of the matrices without a row and a column, which two Gathers collect. */
static ZT_FUNCTION_BODY(det_grad_function_body) {
    (void)err;
    const struct zt_shape *a = &zt_in(g, node, 1)->shape;
    const int64_t n = size_of(a), less = n - 1;
    const int rank = a->rank;
    zt_function_body_names(b, "dy, a -> da");
    const char *dims = zt_function_body_dims(b, a);
    if (n < 2) {
        zt_function_body_add(b, "da = Expand(Reshape(dy, %s), %s)", dims, dims);
        return true;
    }
    int64_t *others = ZT_NEW_N(b->arena, int64_t, n * less);
    double *signs = ZT_NEW_N(b->arena, double, n *n);
    for (int64_t i = 0; i < n * less; i++)
        others[i] = i % less + (i % less >= i / less);
    for (int64_t i = 0; i < n * n; i++)
        signs[i] = (i / n + i % n) % 2 ? -1 : 1;
    struct zt_shape column = *a, flat = { 5, { zt_dims(a, 0, rank - 2), n, less, n, less } };
    column.dim[rank - 1] = column.dim[rank - 2] = 1;
    zt_function_body_int64s(b, "others", &(struct zt_shape){ 2, { n, less } }, others);
    zt_function_body_doubles(b, "signs", &(struct zt_shape){ 2, { n, n } }, signs);
    zt_function_body_add(b, "x = Reshape(a, %s)",
                         zt_function_body_dims(b, &(struct zt_shape){ 3, { flat.dim[0], n, n } }));
    zt_function_body_add(b,
                         "minors = Transpose<perm=[0, 1, 3, 2, 4]>(Gather<axis=3>(Gather<axis=1>(x, others), others))");
    zt_function_body_add(b, "da = Reshape(dy, %s) * (signs * Reshape(Det(minors), %s))",
                         zt_function_body_dims(b, &column), dims);
    return true;
}

/* 2 / 3 M^3 a matrix */
static double det_flops(const struct zt_graph *g, int node) {
    const struct zt_shape *a = &zt_in(g, node, 0)->shape;
    const double n = (double)size_of(a);
    return 2.0 / 3 * (double)zt_dims(a, 0, a->rank - 2) * n * n * n;
}
/* the same, and as much for each of the two inverses */
static double grad_flops(const struct zt_graph *g, int node) {
    const struct zt_shape *a = &zt_in(g, node, 1)->shape;
    const double n = (double)size_of(a);
    return 2.0 * (double)zt_dims(a, 0, a->rank - 2) * n * n * n;
}

const struct zt_op zt_op_det = {
    .name = "Det",
    .domain = "",
    .since = 11,
    ZT_ONE_OUT(1, 1),
    .in_types = { ZT_ANY_FLOAT },
    .infer = det_infer,
    .grad = det_grad,
    .flops = det_flops,
    .kernel = { [ZT_REF] = { .prepare = det_prepare, .run = det_run } },
};
/* (dy, a) -> da */
const struct zt_op zt_op_det_grad = {
    .name = "DetGrad",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(2, 2),
    .in_types = { ZT_ANY_FLOAT, ZT_ANY_FLOAT },
    .same_type = 1 << 1,
    .infer = grad_infer,
    .flops = grad_flops,
    .body = det_grad_function_body,
    .kernel = { [ZT_REF] = { .prepare = grad_prepare, .run = grad_run } },
};
