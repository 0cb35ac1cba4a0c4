#include "ops/elementwise/where_cpu.h"

#include "device/threads.h"
#include "ops/kernel/shape.h"

enum { CHUNK = 1 << 14 };

/* Where: chunks of lines along the last axis. */
struct choice {
    const struct zt_call *call;
    int64_t step[3][ZT_MAX_RANK], line, lines;
};

bool zt_where_cpu_supports(const struct zt_graph *g, int node) {
    const struct zt_shape *y = &zt_out(g, node, 0)->shape;
    return zt_dtype_bytes(zt_in(g, node, 1)->dtype) == 4 && y->rank > 0 && zt_shape_count(y) > 0;
}

static void choice_line(const struct choice *c, int64_t line) {
    const struct zt_shape *y = &c->call->out[0].shape;
    const int last = y->rank - 1;
    int64_t rest = line, offset[3] = { 0 };
    for (int k = last - 1; k >= 0; rest /= y->dim[k--])
        for (int i = 0; i < 3; i++)
            offset[i] += rest % y->dim[k] * c->step[i][k];
    const uint8_t *condition = (const uint8_t *)c->call->in[0].data + offset[0];
    const uint32_t *yes = (const uint32_t *)c->call->in[1].data + offset[1];
    const uint32_t *no = (const uint32_t *)c->call->in[2].data + offset[2];
    uint32_t *to = (uint32_t *)c->call->out[0].data + line * c->line;
    for (int64_t k = 0; k < c->line; k++) {
        uint32_t mask = condition[k * c->step[0][last]] ? UINT32_MAX : 0;
        to[k] = (yes[k * c->step[1][last]] & mask) | (no[k * c->step[2][last]] & ~mask);
    }
}

static void choice_chunk(void *arg, int64_t chunk) {
    const struct choice *c = arg;
    const int64_t each = CHUNK / c->line + 1;
    for (int64_t l = chunk * each; l < (chunk + 1) * each && l < c->lines; l++)
        choice_line(c, l);
}

bool zt_where_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct zt_shape *y = &call->out[0].shape;
    struct choice c = { .call = call, .line = y->dim[y->rank - 1] };
    c.lines = zt_shape_count(y) / c.line;
    for (int i = 0; i < 3; i++)
        zt_broadcast_steps(y, &call->in[i].shape, c.step[i]);
    const int64_t each = CHUNK / c.line + 1;
    zt_parallel_for(call->threads, (c.lines + each - 1) / each, choice_chunk, &c);
    return true;
}
