/* Matrix products through oneDNN:  y[m,n] = relu(scale a[m,k] b[k,n] + bias[n]), one or a batch of them.
 *
 * The shape alone determines which axis is divided into blocks:
 *
 *     many products    the batch
 *     m >= n           rows of a and y; b is shared by all blocks and is packed once for all of them
 *     m <  n           columns of b, bias and y; every block packs its own columns
 *
 * In bfloat16 many rows are divided also where m < n: the kernel of a packed b gains more than packing it
 * costs.
 *
 * A large b is divided into columns wherever there are enough of them: the packed copy of a weight would stay in
 * memory, and packing costs the same either way. */
#include "ops/elementwise/activation_cpu.h"
#include "ops/cpu/batch_blocks.h"
#include "ops/matmul/matmul_dnnl_cpu.h"
#include "ops/matmul/product_cpu.h"

#include "device/threads.h"

#include <stdlib.h>

enum { A, B, BIAS, Y };           /* slots of a product in dnnl.h */
enum { MANY = 8 };                /* products that are worth dealing out whole */
enum { ROWS = 512 };              /* that pay for packing b */
enum { COLUMNS = 16, WIDE = 48 }; /* of a block: a multiple of them; as many are as fast as rows */
static const int64_t large_bytes = 4 << 20;
static const int64_t small_flops = 100000; /* below it one block */

/* The addend is taken where it is one row. */
static bool read_product(const struct zt_graph *g, int node, struct zt_product_cpu *p) {
    return zt_product_cpu_read(g, node, p) && zt_dnnl_takes(p->dtype) && p->b_dtype == p->dtype &&
           (p->bias_dtype == ZT_UNDEFINED || p->bias_dtype == p->dtype) &&
           (p->bias_dtype == ZT_UNDEFINED ||
            (p->scale == 1 && p->bias_scale == 1 && p->bias_row == 0 && (p->bias_col || p->shape.n == 1)));
}

bool zt_matmul_dnnl_supports(const struct zt_graph *g, int node) {
    struct zt_product_cpu p;
    return read_product(g, node, &p);
}

/* A matrix, or `count` of them `step` elements apart (step 0: one for all). */
static struct zt_desc matrix(const struct zt_product_cpu *p, int64_t step, int64_t rows, int64_t cols, int64_t row,
                             int64_t col) {
    struct zt_desc d = { .dtype = p->dtype, .order = ZT_DESC_STRIDED };
    if (p->count > 1) {
        d.dim[0] = step ? p->count : 1;
        d.stride[0] = step ? step : rows * cols;
        d.rank = 1;
    }
    d.dim[d.rank] = rows;
    d.stride[d.rank++] = row;
    d.dim[d.rank] = cols;
    d.stride[d.rank++] = col;
    return d;
}

static bool is_large(const struct zt_product_cpu *p) {
    return p->count == 1 && p->shape.k * p->shape.n * (int64_t)zt_dtype_bytes(p->dtype) >= large_bytes;
}

static struct zt_batch_cut choose_cut(const struct zt_product_cpu *p) {
    const struct zt_matmul *s = &p->shape;
    const int64_t least = s->n < ROWS ? s->n : ROWS;
    int rows = p->count > 1; /* axis of the rows */
    struct zt_batch_cut c = { .axis = { -1, -1, -1, -1, -1 } };
    bool tiny = 2.0 * (double)p->count * (double)s->m * (double)s->n * (double)s->k < (double)small_flops;
    if (p->count >= MANY) {
        c = (struct zt_batch_cut){ .axis = { p->a_step ? 0 : -1, p->b_step ? 0 : -1, -1, 0, -1 }, .total = p->count };
        c.block = zt_batch_block_of(c.total, ZT_BATCH_BLOCKS, 1);
    } else if (s->m >= (p->dtype == ZT_BFLOAT16 ? least : s->n) && !(is_large(p) && s->n >= WIDE * ZT_BATCH_BLOCKS)) {
        c = (struct zt_batch_cut){ .axis = { rows, -1, -1, rows, -1 }, .total = s->m };
        c.block = zt_batch_block_of(c.total, ZT_BATCH_BLOCKS, 8);
    } else {
        c = (struct zt_batch_cut){ .axis = { -1, rows + 1, rows + 1, rows + 1, -1 }, .total = s->n };
        c.block = zt_batch_block_of(c.total, ZT_BATCH_BLOCKS, COLUMNS);
    }
    if (tiny)
        c.block = c.total;
    return c;
}

static struct zt_dnnl_spec spec_of(const struct zt_product_cpu *p, const struct zt_batch_cut *cut) {
    const struct zt_matmul *s = &p->shape;
    struct zt_dnnl_spec spec = { .kind = ZT_DNNL_MATMUL, .scale = p->scale };
    spec.slot[A] = matrix(p, p->a_step, s->m, s->k, s->a_row, s->a_col);
    spec.slot[B] = matrix(p, p->b_step, s->k, s->n, s->b_row, s->b_col);
    spec.slot[Y] = matrix(p, s->m * s->n, s->m, s->n, s->n, 1);
    if (p->bias_dtype != ZT_UNDEFINED)
        spec.slot[BIAS] = matrix(p, 0, 1, s->n, s->n, 1);
    if (p->count == 1 && cut->axis[A] == 0 && cut->block < cut->total) {
        spec.slot[B].order = ZT_DESC_ANY;
        spec.slot[B].opaque = true;
    }
    return spec;
}

struct matmul_state {
    struct zt_batch_blocks blocks, adding; /* adding.whole NULL where accumulating was not foreseen */
    int64_t relu_elems;                    /* of y; 0: no ReLU */
    struct zt_activation relu;
};

void zt_matmul_dnnl_release(void *state) {
    struct matmul_state *s = state;
    if (!s)
        return;
    zt_batch_blocks_finish(&s->blocks);
    zt_batch_blocks_finish(&s->adding);
    free(s);
}

/* The same product added to what y holds, with b as the first one wants it. */
static bool make_adding(struct zt_prepare *p, struct matmul_state *s, struct zt_dnnl_spec *spec,
                        const struct zt_batch_cut *cut, struct zt_err *err) {
    spec->slot[B] = spec->slot[B].order == ZT_DESC_ANY ? zt_dnnl_slot(s->blocks.whole, B) : spec->slot[B];
    spec->add = true;
    return zt_batch_blocks_make(&s->adding, spec, cut, p->threads, err);
}

bool zt_matmul_dnnl_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_graph *g = p->graph;
    const struct zt_node *n = g->nodes[p->node];
    struct zt_product_cpu product;
    if (!read_product(g, p->node, &product))
        return zt_node_fail(g, p->node, err, "a product that oneDNN does not take");
    struct zt_batch_cut cut = choose_cut(&product);
    struct zt_dnnl_spec spec = spec_of(&product, &cut);
    struct matmul_state *s = zt_calloc(1, sizeof *s);
    if (!zt_batch_blocks_make(&s->blocks, &spec, &cut, p->threads, err) ||
        (product.weight_gradient && !make_adding(p, s, &spec, &cut, err))) {
        zt_matmul_dnnl_release(s);
        return zt_err_within(err, 0, "%s", n->name);
    }
    p->state = s;
    s->relu_elems = product.relu ? zt_shape_count(&product.shape.out) : 0;
    zt_activation_of(n, &zt_op_relu, &s->relu);
    p->can_accumulate = product.weight_gradient;
    p->workspace_bytes = zt_batch_blocks_scratch(&s->blocks, p->threads);
    size_t adding = product.weight_gradient ? zt_batch_blocks_scratch(&s->adding, p->threads) : 0;
    p->workspace_bytes = adding > p->workspace_bytes ? adding : p->workspace_bytes;
    struct zt_desc b = zt_dnnl_slot(s->blocks.whole, B);
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = NULL;
    if (spec.slot[B].opaque)
        p->in_layout[1] = zt_desc_layout(g->arena, &b, &zt_in(g, p->node, 1)->shape);
    return true;
}

enum { RELU_BLOCK = 1 << 14 };

static void relu_block(void *arg, int64_t block) {
    const struct zt_call *call = arg;
    const struct matmul_state *s = call->state;
    const struct zt_view *y = &call->out[0];
    const int64_t at = block * RELU_BLOCK, rest = s->relu_elems - at;
    char *from = (char *)y->data + (size_t)at * zt_dtype_bytes(y->dtype);
    zt_activation_run(&s->relu, y->dtype, rest < RELU_BLOCK ? rest : RELU_BLOCK, from, from);
}

bool zt_matmul_dnnl_run(const struct zt_call *call, struct zt_err *err) {
    const struct matmul_state *s = call->state;
    void *data[ZT_DNNL_SLOTS] = { [A] = call->in[0].data,
                                  [B] = call->in[1].data,
                                  [BIAS] = call->in_count > 2 ? call->in[2].data : NULL,
                                  [Y] = call->out[0].data };
    if (!zt_batch_blocks_run(call->accumulate ? &s->adding : &s->blocks, call->threads, data, call->workspace, NULL,
                             err))
        return false;
    zt_parallel_for(call->threads, (s->relu_elems + RELU_BLOCK - 1) / RELU_BLOCK, relu_block, (void *)call);
    return true;
}
