/* AffineGrid (opset 20 on): grid[n, place, r] = sum over c of theta[n, r, c] b[place, c], with b[place] = (x, y, 1) or
 * (x, y, z, 1) and x, y, z from -1 to 1 along the last, the second to last and the third to last axis: the middles of
 * equal parts, or, with align_corners, both ends included.        dtheta[n, r, c] = sum over the places of dgrid[n,
 * place, r] b[place, c] */
#include "ops/resample/kernels.h"
#include "ops/resample/launch_grid_sample.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include "device/threads.h"

#include <string.h>

enum { AXES = ZT_LAUNCH_SAMPLE_AXES };

static bool grid_read(const struct zt_graph *g, int node, const struct zt_value *theta, int size_in,
                      struct zt_launch_affine_grid *to, struct zt_err *err) {
    int64_t size[AXES + 2];
    int count;
    *to = (struct zt_launch_affine_grid){ .places = 1,
                                          .align_corners = zt_attr_int(g->nodes[node], "align_corners", 0) != 0 };
    if (!zt_known_ints(g, node, size_in, &(struct zt_int_list){ size, AXES + 2, &count }, err))
        return false;
    to->axes = count - 2;
    if (to->axes < 2)
        return zt_node_fail(g, node, err, "its size has %d numbers, not 4 or 5", count);
    if (theta->shape.rank != 3 || theta->shape.dim[0] != size[0] || theta->shape.dim[1] != to->axes ||
        theta->shape.dim[2] != to->axes + 1)
        return zt_node_fail(g, node, err, "\"%s\" is not [%lld, %d, %d]", theta->name, (long long)size[0], to->axes,
                            to->axes + 1);
    to->batch = size[0];
    for (int k = 0; k < to->axes; k++) {
        to->dim[k] = size[2 + k];
        if (to->dim[k] < 0 || !zt_ops_dim_product(g, node, to->places, to->dim[k], &to->places, err))
            return zt_node_fail(g, node, err, "an axis of %lld", (long long)to->dim[k]);
    }
    return true;
}

static void grid_shape(const struct zt_launch_affine_grid *g, struct zt_shape *to) {
    *to = (struct zt_shape){ g->axes + 2, { g->batch } };
    memcpy(to->dim + 1, g->dim, sizeof *g->dim * (size_t)g->axes);
    to->dim[g->axes + 1] = g->axes;
}

static bool grid_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_launch_affine_grid grid;
    struct zt_shape shape;
    if (!grid_read(g, node, zt_in(g, node, 0), 1, &grid, err))
        return false;
    grid_shape(&grid, &shape);
    zt_set_out(g, node, 0, zt_in(g, node, 0)->dtype, &shape);
    return true;
}

static bool grad_infer(struct zt_graph *g, int node, struct zt_err *err) {
    struct zt_launch_affine_grid grid;
    struct zt_shape shape;
    const struct zt_value *theta = zt_in(g, node, 2);
    if (!grid_read(g, node, theta, 1, &grid, err))
        return false;
    grid_shape(&grid, &shape);
    if (!zt_shape_equal(&shape, &zt_in(g, node, 0)->shape))
        return zt_node_fail(g, node, err, "the gradient does not have the shape of the grid");
    zt_set_out(g, node, 0, theta->dtype, &theta->shape);
    return true;
}

/* Coordinate `i` along an axis of `size` places. */
static double coordinate(const struct zt_launch_affine_grid *g, int64_t i, int64_t size) {
    if (g->align_corners)
        return size > 1 ? 2.0 * (double)i / (double)(size - 1) - 1 : 0;
    return (2.0 * (double)i + 1) / (double)size - 1;
}

/* A row of places along the last axis: all of b[place] but x. */
static void base_of_row(const struct zt_launch_affine_grid *g, int64_t row, double to[AXES + 1]) {
    for (int c = 1; c < g->axes; c++) {
        const int64_t size = g->dim[g->axes - 1 - c];
        to[c] = coordinate(g, row % size, size);
        row /= size;
    }
    to[g->axes] = 1;
}

enum { PART = ZT_ELEMENT_BLOCK / AXES }; /* places of a row at a time */

static void grid_row(const struct zt_launch_affine_grid *g, int64_t row, const struct zt_view *theta,
                     const struct zt_view *y) {
    const int width = g->axes + 1;
    const int64_t size = g->dim[g->axes - 1], rows = g->places / size;
    double b[AXES + 1], m[AXES * (AXES + 1)], rest[AXES] = { 0 }, block[ZT_ELEMENT_BLOCK];
    base_of_row(g, row % rows, b);
    zt_load_block(theta->dtype, theta->data, row / rows * g->axes * width, 1, g->axes * width, m);
    for (int r = 0; r < g->axes; r++)
        for (int c = 1; c < width; c++)
            rest[r] += m[r * width + c] * b[c];
    for (int64_t at = 0; at < size; at += PART) {
        const int64_t count = size - at < PART ? size - at : PART;
        for (int64_t i = 0; i < count; i++) {
            const double x = coordinate(g, at + i, size);
            for (int r = 0; r < g->axes; r++)
                block[i * g->axes + r] = m[r * width] * x + rest[r];
        }
        zt_store_block(y->dtype, y->data, (row * size + at) * g->axes, 1, count * g->axes, block);
    }
}

struct job {
    const struct zt_call *call;
    struct zt_launch_affine_grid g;
};

static int threads_for(const struct job *j) {
    return zt_threads_worth(j->call->threads, 4.0 * (double)(j->g.batch * j->g.places));
}

static void run_grid_row(void *arg, int64_t row) {
    const struct job *j = arg;
    grid_row(&j->g, row, &j->call->in[0], &j->call->out[0]);
}

static bool grid_run(const struct zt_call *call, struct zt_err *err) {
    struct job j = { .call = call };
    if (!grid_read(call->graph, zt_call_node(call), zt_in(call->graph, zt_call_node(call), 0), 1, &j.g, err))
        return false;
    const int64_t rows = j.g.places ? j.g.batch * j.g.places / j.g.dim[j.g.axes - 1] : 0;
    zt_parallel_for(threads_for(&j), rows, run_grid_row, &j);
    return true;
}

/* sum[r][c] += over a row of dy: with x each place by itself, with the rest their sum */
static void grad_row(const struct zt_launch_affine_grid *g, const struct zt_view *dy, int64_t row, double *sum) {
    const int width = g->axes + 1;
    const int64_t size = g->dim[g->axes - 1], rows = g->places / size;
    double b[AXES + 1], all[AXES] = { 0 }, block[ZT_ELEMENT_BLOCK];
    base_of_row(g, row % rows, b);
    for (int64_t at = 0; at < size; at += PART) {
        const int64_t count = size - at < PART ? size - at : PART;
        zt_load_block(dy->dtype, dy->data, (row * size + at) * g->axes, 1, count * g->axes, block);
        for (int64_t i = 0; i < count; i++) {
            const double x = coordinate(g, at + i, size);
            for (int r = 0; r < g->axes; r++) {
                sum[r * width] += block[i * g->axes + r] * x;
                all[r] += block[i * g->axes + r];
            }
        }
    }
    for (int r = 0; r < g->axes; r++)
        for (int c = 1; c < width; c++)
            sum[r * width + c] += all[r] * b[c];
}

static void grad_sample(void *arg, int64_t n) {
    const struct job *j = arg;
    const struct zt_launch_affine_grid *g = &j->g;
    const struct zt_view *dtheta = &j->call->out[0];
    const int numbers = g->axes * (g->axes + 1);
    const int64_t rows = g->places ? g->places / g->dim[g->axes - 1] : 0;
    double sum[AXES * (AXES + 1)] = { 0 };
    for (int64_t row = 0; row < rows; row++)
        grad_row(g, &j->call->in[0], n * rows + row, sum);
    zt_store_block(dtheta->dtype, dtheta->data, n * numbers, 1, numbers, sum);
}

static bool grad_run(const struct zt_call *call, struct zt_err *err) {
    struct job j = { .call = call };
    if (!grid_read(call->graph, zt_call_node(call), zt_in(call->graph, zt_call_node(call), 2), 1, &j.g, err))
        return false;
    zt_parallel_for(threads_for(&j), j.g.batch, grad_sample, &j);
    return true;
}

/* A struct zt_launch_affine_grid for other back ends, of either row: theta is the first input and the last one. */
static bool grid_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {
    return grid_read(g, node, zt_in(g, node, g->nodes[node]->domain[0] ? 2 : 0), 1, to, err);
}

static bool grid_grad(struct zt_grad *b, int node, struct zt_err *err) {
    (void)err;
    const struct zt_node *n = zt_grad_graph(b)->nodes[node];
    int in[] = { zt_grad_out(b, node, 0), n->in[1], n->in[0] }, out;
    zt_emit_node(b, &(struct zt_emission){ "AffineGridGrad", "ztrain", in, 3, n }, &out, 1);
    zt_grad_give(b, node, 0, out);
    return true;
}

static const struct zt_attr_spec attrs[] = { { "align_corners", ZT_ATTR_INT }, { 0 } };

const struct zt_op zt_op_affine_grid = {
    .name = "AffineGrid",
    .domain = "",
    .since = 20,
    ZT_ONE_OUT(2, 2),
    .in_types = { ZT_ANY_FLOAT, 1 << ZT_INT64 },
    .attrs = attrs,
    .infer = grid_infer,
    .grad = grid_grad,
    .no_grad_in = 1 << 1,
    .kernel = { [ZT_REF] = { .run = grid_run },
                [ZT_CUDA] = ZT_CUDA_AS(affine_grid, zt_cuda_float_data, grid_describe) },
};
/* (dgrid, size, theta) -> dtheta; of theta only the shape counts */
const struct zt_op zt_op_affine_grid_grad = {
    .name = "AffineGridGrad",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(3, 3),
    .in_types = { ZT_ANY_FLOAT, 1 << ZT_INT64, ZT_ANY_FLOAT },
    .same_type = 1 << 2,
    .attrs = attrs,
    .infer = grad_infer,
    .body = zt_affine_grid_grad_function_body,
    .kernel = { [ZT_REF] = { .run = grad_run },
                [ZT_CUDA] = ZT_CUDA_AS(affine_grid_grad, zt_cuda_float_data, grid_describe) },
};
