#include "parallel/comm/compressed_cpu.h"

#include "device/threads.h"

struct work {
    const struct zt_compressed_call *call;
    enum zt_compressed_side side;
};

static double add_lanes(double *lane) {
    for (int half = ZT_COMPRESSED_LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++)
            lane[k] += lane[k + half];
    return lane[0];
}

static double sum_squares(const float *x, int count) {
    double lane[ZT_COMPRESSED_LANES] = { 0 };
    const int whole = count - count % ZT_COMPRESSED_LANES;
    for (int i = 0; i < whole; i += ZT_COMPRESSED_LANES)
        for (int k = 0; k < ZT_COMPRESSED_LANES; k++)
            lane[k] += (double)x[i + k] * (double)x[i + k];
    for (int i = whole; i < count; i++)
        lane[i - whole] += (double)x[i] * (double)x[i];
    return add_lanes(lane);
}

/* Writes y or z of a block to its errors, and the sum of the squares. */
static void correct_block(void *arg, int64_t b) {
    const struct work *w = arg;
    const struct zt_compressed_call *c = w->call;
    const struct zt_compressed_block block = c->layout.block[w->side][b];
    const struct zt_compressed_part *p = &c->layout.parts[block.part];
    float *error = c->error[w->side] + p->error_at[w->side] + block.first;
    if (w->side == ZT_WORKER)
        for (int i = 0; i < block.count; i++)
            error[i] = zt_compressed_y(c, p, block.first + i);
    else
        for (int i = 0; i < block.count; i++)
            error[i] = zt_compressed_z(c, p, block.part, block.first + i);
    c->sums[b] = sum_squares(error, block.count);
}

/* The scale of a part, which the worker writes to the message of every server, and the server to its own. */
static void scale_part(void *arg, int64_t part) {
    const struct work *w = arg;
    const struct zt_compressed_call *c = w->call;
    const struct zt_compressed_part *p = &c->layout.parts[part];
    double lane[ZT_COMPRESSED_LANES] = { 0 };
    for (int64_t i = 0; i < p->blocks[w->side]; i++)
        lane[i % ZT_COMPRESSED_LANES] += c->sums[p->block[w->side] + i];
    c->scale[part] = zt_compressed_scale(add_lanes(lane), w->side == ZT_WORKER ? p->padded : p->chunk);
    for (int r = 0; r < c->layout.ranks; r++)
        if (w->side == ZT_WORKER || r == c->rank)
            zt_compressed_scales(c, c->out, r)[part] = c->scale[part];
}

static void pack_block(void *arg, int64_t b) {
    const struct work *w = arg;
    const struct zt_compressed_call *c = w->call;
    const struct zt_compressed_block block = c->layout.block[w->side][b];
    const struct zt_compressed_part *p = &c->layout.parts[block.part];
    float *error = c->error[w->side] + p->error_at[w->side] + block.first;
    const int64_t first = block.first + (w->side == ZT_SERVER ? c->rank * p->chunk : 0);
    for (int i = 0; i < block.count; i += 8)
        *zt_compressed_byte(c, p, c->out, first + i) = zt_compressed_pack(error + i, c->scale[block.part]);
}

static void expand_block(void *arg, int64_t b) {
    const struct zt_compressed_call *c = ((const struct work *)arg)->call;
    const struct zt_compressed_block block = c->layout.block[ZT_WORKER][b];
    const struct zt_compressed_part *p = &c->layout.parts[block.part];
    for (int64_t i = block.first; i < block.first + block.count && i < p->count; i += 8) {
        const unsigned char byte = *zt_compressed_byte(c, p, c->out, i);
        const float scale = zt_compressed_scales(c, c->out, i / p->chunk)[block.part];
        for (int k = 0; k < 8 && i + k < p->count; k++)
            c->x[p->first + i + k] = zt_compressed_signed(scale, byte >> k & 1);
    }
}

void zt_compressed_run(int threads, enum zt_compressed_stage stage, const struct zt_compressed_call *call) {
    struct work w = { call, stage == ZT_COMPRESS_SERVER ? ZT_SERVER : ZT_WORKER };
    const int64_t blocks = call->layout.blocks[w.side];
    if (stage == ZT_COMPRESSED_EXPAND) {
        zt_parallel_for(threads, blocks, expand_block, &w);
        return;
    }
    zt_parallel_for(threads, blocks, correct_block, &w);
    zt_parallel_for(threads, call->layout.part_count, scale_part, &w);
    zt_parallel_for(threads, blocks, pack_block, &w);
}
