#include "ops/elementwise/where_cpu.h"

#include "device/threads.h"
#include "ops/kernel/shape.h"

enum { BLOCK = 1 << 14 };

/* Where: blocks of rows along the last axis. */
struct choice {
    const struct zt_call *call;
    int64_t step[3][ZT_MAX_RANK], row, rows;
};

bool zt_where_cpu_supports(const struct zt_graph *g, int node) {
    const struct zt_shape *y = &zt_out(g, node, 0)->shape;
    return zt_dtype_bytes(zt_in(g, node, 1)->dtype) == 4 && y->rank > 0 && zt_shape_count(y) > 0;
}

static void choice_row(const struct choice *c, int64_t row) {
    const struct zt_shape *y = &c->call->out[0].shape;
    const int last = y->rank - 1;
    int64_t rest = row, offset[3] = { 0 };
    for (int k = last - 1; k >= 0; rest /= y->dim[k--])
        for (int i = 0; i < 3; i++)
            offset[i] += rest % y->dim[k] * c->step[i][k];
    const uint8_t *condition = (const uint8_t *)c->call->in[0].data + offset[0];
    const uint32_t *yes = (const uint32_t *)c->call->in[1].data + offset[1];
    const uint32_t *no = (const uint32_t *)c->call->in[2].data + offset[2];
    uint32_t *to = (uint32_t *)c->call->out[0].data + row * c->row;
    for (int64_t k = 0; k < c->row; k++) {
        uint32_t mask = condition[k * c->step[0][last]] ? UINT32_MAX : 0;
        to[k] = (yes[k * c->step[1][last]] & mask) | (no[k * c->step[2][last]] & ~mask);
    }
}

static void choice_block(void *arg, int64_t block) {
    const struct choice *c = arg;
    const int64_t each = BLOCK / c->row + 1;
    for (int64_t l = block * each; l < (block + 1) * each && l < c->rows; l++)
        choice_row(c, l);
}

bool zt_where_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_shape *y = &call->out[0].shape;
    struct choice c = { .call = call, .row = y->dim[y->rank - 1] };
    c.rows = zt_shape_count(y) / c.row;
    for (int i = 0; i < 3; i++)
        zt_broadcast_steps(y, &call->in[i].shape, c.step[i]);
    const int64_t each = BLOCK / c.row + 1;
    zt_parallel_for(call->threads, (c.rows + each - 1) / each, choice_block, &c);
    return true;
}
