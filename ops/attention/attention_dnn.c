#include "ops/attention/attention_dnn.h"

const char *zt_flash_refusal(const struct zt_graph *g, int node, const struct zt_attention *a) {
    if (!zt_dtype_is_half(zt_in(g, node, ZT_Q)->dtype))
        return "cuDNN's flash attention takes half types only";
    if (a->size % 8 || a->v_size % 8)
        return "the head size is no multiple of 8";
    if (a->past || a->left >= 0 || a->right >= 0)
        return "past keys and windows have no cuDNN graph here";
    if (a->softcap != 0)
        return "softcap has no cuDNN graph here";
    return zt_in(g, node, ZT_MASK) || zt_in(g, node, ZT_NONPAD) ? "a mask may hide every key of a query" : NULL;
}

/* ---- tensors ---- */

struct flash {
    struct zt_dnn_graph *to;
    const struct zt_attention *a;
    enum zt_dtype dtype; /* of queries, keys, values */
};

static struct zt_dnn_tensor tensor(enum zt_dtype dtype, int64_t batch, int64_t heads, int64_t rows, int64_t columns,
                                   struct zt_heads step) {
    return (struct zt_dnn_tensor){ .dtype = dtype,
                                   .rank = 4,
                                   .dim = { batch, heads, rows, columns },
                                   .stride = { step.batch, step.head, step.row, 1 } };
}

/* Row-major. */
static struct zt_dnn_tensor whole(enum zt_dtype dtype, int64_t batch, int64_t heads, int64_t rows, int64_t columns) {
    const struct zt_heads step = { .batch = heads * rows * columns, .head = rows * columns, .row = columns };
    return tensor(dtype, batch, heads, rows, columns, step);
}

static struct zt_dnn_tensor transposed(struct zt_dnn_tensor t) {
    const struct zt_dnn_tensor was = t;
    t.dim[2] = was.dim[3];
    t.dim[3] = was.dim[2];
    t.stride[2] = was.stride[3];
    t.stride[3] = was.stride[2];
    return t;
}

static struct zt_dnn_tensor number(void) {
    struct zt_dnn_tensor t = whole(ZT_FLOAT, 1, 1, 1, 1);
    t.number = true;
    return t;
}

/* A number a score, and a number a query. */
static struct zt_dnn_tensor scores(const struct flash *f, enum zt_dtype dtype) {
    return whole(dtype, f->a->batch, f->a->heads, f->a->queries, f->a->keys);
}
static struct zt_dnn_tensor queries(const struct flash *f) {
    return whole(ZT_FLOAT, f->a->batch, f->a->heads, f->a->queries, 1);
}

static int inner(struct flash *f, struct zt_dnn_tensor t) {
    t.inner = true;
    f->to->tensor[f->to->tensor_count] = t;
    return f->to->tensor_count++;
}

/* ---- operations: each gives the number of its result ---- */

static void add(struct flash *f, enum zt_dnn_kind kind, int a, int b, int c, int d) {
    f->to->operation[f->to->operation_count++] = (struct zt_dnn_operation){ kind, { a, b, c, d } };
}

static int of_two(struct flash *f, enum zt_dnn_kind kind, int a, int b, struct zt_dnn_tensor result) {
    int c = inner(f, result);
    add(f, kind, a, b, c, 0);
    return c;
}
static int of_one(struct flash *f, enum zt_dnn_kind kind, int a, struct zt_dnn_tensor result) {
    int b = inner(f, result);
    add(f, kind, a, b, 0, 0);
    return b;
}

static int scaled_scores(struct flash *f) {
    int s = of_two(f, ZT_DNN_MATMUL, ZT_FLASH_Q, ZT_FLASH_K, scores(f, ZT_FLOAT));
    return of_two(f, ZT_DNN_MULTIPLY, s, ZT_FLASH_SCALE, scores(f, ZT_FLOAT));
}

/* Query i sees key j where i >= j. */
static int hide_later(struct flash *f, int s) {
    if (!f->a->causal)
        return s;
    int row = of_one(f, ZT_DNN_ROW, s, scores(f, ZT_INT32)), column = of_one(f, ZT_DNN_COLUMN, s, scores(f, ZT_INT32));
    int seen = of_two(f, ZT_DNN_AT_LEAST, row, column, scores(f, ZT_BOOL)), x = inner(f, scores(f, ZT_FLOAT));
    add(f, ZT_DNN_SELECT, s, ZT_FLASH_HIDDEN, seen, x);
    return x;
}

static void forward(struct flash *f) {
    int x = hide_later(f, scaled_scores(f)), most = of_one(f, ZT_DNN_LARGEST, x, queries(f));
    int e = of_one(f, ZT_DNN_EXP, of_two(f, ZT_DNN_SUBTRACT, x, most, scores(f, ZT_FLOAT)), scores(f, ZT_FLOAT));
    int sum = of_one(f, ZT_DNN_SUM, e, queries(f)), log = of_one(f, ZT_DNN_LOG, sum, queries(f));
    add(f, ZT_DNN_ADD, most, log, ZT_FLASH_LSE, 0);
    int p = of_two(f, ZT_DNN_DIVIDE, e, sum, scores(f, f->dtype));
    add(f, ZT_DNN_MATMUL, p, ZT_FLASH_V, ZT_FLASH_Y, 0);
}

/* The gradient of keys or values from weights [queries, keys] and rows of the queries: summed over the queries' heads
 * that share theirs. */
static void to_keys(struct flash *f, int weights, int rows, int result) {
    const struct zt_attention *a = f->a;
    int transposed_weights = of_one(f, ZT_DNN_RESHAPE, weights, transposed(scores(f, f->dtype)));
    if (a->heads == a->kv_heads) {
        add(f, ZT_DNN_MATMUL, transposed_weights, rows, result, 0);
        return;
    }
    int64_t columns = f->to->tensor[result].dim[3];
    int every =
        of_two(f, ZT_DNN_MATMUL, transposed_weights, rows, whole(f->dtype, a->batch, a->heads, a->keys, columns));
    add(f, ZT_DNN_SUM, every, result, 0, 0);
}

static void backward(struct flash *f) {
    const struct zt_attention *a = f->a;
    int both =
        of_two(f, ZT_DNN_MULTIPLY, ZT_FLASH_DY, ZT_FLASH_Y, whole(ZT_FLOAT, a->batch, a->heads, a->queries, a->v_size));
    add(f, ZT_DNN_MULTIPLY, of_one(f, ZT_DNN_SUM, both, queries(f)), ZT_FLASH_ONE, ZT_FLASH_DOT, 0);

    int x = of_two(f, ZT_DNN_SUBTRACT, scaled_scores(f), ZT_FLASH_LSE, scores(f, ZT_FLOAT));
    int p = of_one(f, ZT_DNN_EXP, hide_later(f, x), scores(f, ZT_FLOAT));
    to_keys(f, p, ZT_FLASH_DY, ZT_FLASH_DV);

    int dp = of_two(f, ZT_DNN_MATMUL, ZT_FLASH_DY, ZT_FLASH_V, scores(f, ZT_FLOAT));
    int less = of_two(f, ZT_DNN_SUBTRACT, dp, ZT_FLASH_DOT, scores(f, ZT_FLOAT));
    int dx = of_two(f, ZT_DNN_MULTIPLY, less, p, scores(f, ZT_FLOAT));
    int ds = of_two(f, ZT_DNN_MULTIPLY, dx, ZT_FLASH_SCALE, scores(f, ZT_FLOAT));
    to_keys(f, ds, ZT_FLASH_Q, ZT_FLASH_DK);

    int k = of_one(f, ZT_DNN_RESHAPE, ZT_FLASH_K, transposed(f->to->tensor[ZT_FLASH_K]));
    add(f, ZT_DNN_MATMUL, ds, k, ZT_FLASH_DQ, 0);
}

/* ---- the graph ---- */

void zt_flash_graph(const struct zt_attention *a, enum zt_dtype dtype, bool grad, struct zt_dnn_graph *to) {
    struct flash f = { to, a, dtype };
    *to = (struct zt_dnn_graph){ .tensor_count = grad ? ZT_FLASH_TENSORS : ZT_FLASH_FORWARD };
    struct zt_dnn_tensor *t = to->tensor;
    struct zt_dnn_tensor v = tensor(dtype, a->batch, a->kv_heads, a->keys, a->v_size, a->v);
    t[ZT_FLASH_Q] = tensor(dtype, a->batch, a->heads, a->queries, a->size, a->q);
    t[ZT_FLASH_K] = transposed(tensor(dtype, a->batch, a->kv_heads, a->keys, a->size, a->k));
    t[ZT_FLASH_V] = grad ? transposed(v) : v;
    t[ZT_FLASH_Y] = tensor(dtype, a->batch, a->heads, a->queries, a->v_size, a->y);
    t[ZT_FLASH_LSE] = queries(&f);
    t[ZT_FLASH_SCALE] = t[ZT_FLASH_HIDDEN] = number();
    if (!grad) {
        forward(&f);
        return;
    }
    t[ZT_FLASH_DY] = t[ZT_FLASH_Y];
    t[ZT_FLASH_DQ] = t[ZT_FLASH_Q];
    t[ZT_FLASH_DK] = transposed(t[ZT_FLASH_K]);
    t[ZT_FLASH_DV] = v;
    t[ZT_FLASH_DOT] = queries(&f);
    t[ZT_FLASH_ONE] = number();
    backward(&f);
}
