/* RotaryEmbedding of floats on the CPU: row by row, with all heads that share its angles. */
#include "ops/attention/kernels.h"
#include "ops/attention/rotary.h"
#include "ops/kernel/tile.h"

#include "device/threads.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 14 }; /* elements a thread takes at a time */

bool zt_rotary_cpu_supports(const struct zt_graph *g, int node) {
    for (int i = ZT_ROTARY_X; i <= ZT_ROTARY_SIN; i++)
        if (zt_in(g, node, i)->dtype != ZT_FLOAT)
            return false;
    return zt_shape_count(&zt_in(g, node, ZT_ROTARY_X)->shape) > 0;
}

struct state {
    struct zt_launch_rotary r;
    int64_t places, grain; /* grain: places of a block */
};

/* The workspace holds the offsets of the angles of every row. */
bool zt_rotary_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_launch_rotary r;
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    if (!zt_rotary_read(p->graph, p->node, &r, err))
        return false;
    struct state *s = zt_calloc(1, sizeof *s);
    s->r = r;
    s->places = r.batch * r.rows;
    s->grain = zt_max_int(1, BLOCK / (r.heads * r.size));
    p->workspace_bytes = (size_t)s->places * sizeof(int64_t);
    p->state = s;
    return true;
}

void zt_rotary_cpu_release(void *state) {
    free(state);
}

static void rotate_halves(int64_t half, const float *restrict x, const float *restrict cos, const float *restrict sin,
                          float *restrict y) {
    for (int64_t i = 0; i < half; i++) {
        float x1 = x[i], x2 = x[i + half];
        y[i] = cos[i] * x1 - sin[i] * x2;
        y[i + half] = sin[i] * x1 + cos[i] * x2;
    }
}

static void rotate_pairs(int64_t half, const float *restrict x, const float *restrict cos, const float *restrict sin,
                         float *restrict y) {
    for (int64_t i = 0; i < half; i++) {
        float x1 = x[2 * i], x2 = x[2 * i + 1];
        y[2 * i] = cos[i] * x1 - sin[i] * x2;
        y[2 * i + 1] = sin[i] * x1 + cos[i] * x2;
    }
}

static void rotate_block(void *arg, int64_t block) {
    const struct zt_call *call = arg;
    const struct state *s = call->state;
    const struct zt_launch_rotary *r = &s->r;
    const int64_t *angle = call->workspace;
    const size_t unrotated = (size_t)(r->size - 2 * r->half) * sizeof(float);
    for (int64_t n = block * s->grain; n < s->places && n < (block + 1) * s->grain; n++) {
        const float *cos = (const float *)call->in[ZT_ROTARY_COS].data + angle[n];
        const float *sin = (const float *)call->in[ZT_ROTARY_SIN].data + angle[n];
        int64_t start = n / r->rows * r->batch_step + n % r->rows * r->row_step;
        for (int64_t h = 0; h < r->heads; h++, start += r->head_step) {
            const float *x = (const float *)call->in[ZT_ROTARY_X].data + start;
            float *y = (float *)call->out[0].data + start;
            (r->interleaved ? rotate_pairs : rotate_halves)(r->half, x, cos, sin, y);
            memcpy(y + 2 * r->half, x + 2 * r->half, unrotated);
        }
    }
}

bool zt_rotary_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct state *s = call->state;
    int64_t *angle = call->workspace;
    for (int64_t n = 0; n < s->places; n++)
        if (!zt_rotary_angle(call, &s->r, n / s->r.rows, n % s->r.rows, &angle[n], err))
            return false;
    zt_parallel_for(call->threads, zt_ceil_div(s->places, s->grain), rotate_block, (void *)call);
    return true;
}
