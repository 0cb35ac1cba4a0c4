/* The loops work on the eight elements of a byte of signs at once. */
#include "parallel/comm/compressed_cpu.h"

#include "device/threads.h"

#include <string.h>

/* Half of them: a vector that every 64-bit processor has. */
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t four_bits __attribute__((vector_size(16)));
enum { EIGHT = 8, FOUR = 4 };
static const four_bits bits_of[2] = { { 1, 2, 4, 8 }, { 16, 32, 64, 128 } };

struct work {
    const struct zt_compressed_call *call;
    enum zt_compressed_side side;
};

/* ---- signs ---- */

/* `scale` with the signs of half a byte; a set bit is positive */
static inline four signed_half(float scale, unsigned char byte, int half) {
    const four_bits zero = { 0 }, negative = ((zero + byte) & bits_of[half]) == zero;
    const four value = (four){ 0 } + scale;
    return (four)((four_bits)value ^ (negative & INT32_MIN));
}

static inline unsigned char signs_of_half(four x, int half) {
    const four_bits set = (x >= (four){ 0 }) & bits_of[half];
    return (unsigned char)(set[0] | set[1] | set[2] | set[3]);
}

/* to += scale with the signs of `bytes` bytes */
static void add_signs(float *to, float scale, const unsigned char *signs, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i++)
        for (int half = 0; half < 2; half++)
            *(four *)(to + EIGHT * i + FOUR * half) += signed_half(scale, signs[i], half);
}

/* Packs the signs of the errors, which hold y or z, and leaves in them what the signs do not carry. */
static void pack(float *error, float scale, unsigned char *signs, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i++) {
        four *e = (four *)(error + EIGHT * i);
        signs[i] = signs_of_half(e[0], 0) | signs_of_half(e[1], 1);
        for (int half = 0; half < 2; half++)
            e[half] -= signed_half(scale, signs[i], half);
    }
}

static void set_signs(float *to, float scale, unsigned char byte) {
    for (int half = 0; half < 2; half++)
        *(four *)(to + FOUR * half) = signed_half(scale, byte, half);
}

static void expand(float *x, int64_t count, float scale, const unsigned char *signs) {
    const int64_t whole = count / EIGHT;
    for (int64_t i = 0; i < whole; i++)
        set_signs(x + EIGHT * i, scale, signs[i]);
    if (count % EIGHT) {
        float last[EIGHT];
        set_signs(last, scale, signs[whole]);
        memcpy(x + EIGHT * whole, last, (size_t)(count % EIGHT) * sizeof *x);
    }
}

/* ---- norms ---- */

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

/* ---- blocks ---- */

/* error = y: what this rank wants to send */
static void correct_worker(const struct zt_compressed_call *c, const struct zt_compressed_block *b, float *error) {
    const struct zt_compressed_part *p = &c->layout.parts[b->part];
    const float *x = c->x + p->first + b->first;
    const int64_t left = p->count - b->first;
    for (int i = 0; i < b->count && i < left; i++) /* x is 0 in the filling */
        error[i] += x[i];
}

/* error = z: the mean of what the ranks sent, in rank order, and the error */
static void correct_server(const struct zt_compressed_call *c, const struct zt_compressed_block *b, float *error) {
    const int64_t signs_at = c->layout.parts[b->part].signs_at + b->first / EIGHT;
    const float share = 1 / (float)c->layout.ranks;
    float mean[ZT_COMPRESSED_BLOCK] = { 0 };
    for (int r = 0; r < c->layout.ranks; r++)
        add_signs(mean, zt_compressed_scales(c, c->in, r)[b->part] * share,
                  zt_compressed_message(c, c->in, r) + signs_at, b->count / EIGHT);
    for (int i = 0; i < b->count; i++)
        error[i] += mean[i];
}

static float *errors_of(const struct work *w, const struct zt_compressed_block *b) {
    return w->call->error[w->side] + w->call->layout.parts[b->part].error_at[w->side] + b->first;
}

static void correct_block(void *arg, int64_t i) {
    const struct work *w = arg;
    const struct zt_compressed_block *b = &w->call->layout.block[w->side][i];
    float *error = errors_of(w, b);
    if (w->side == ZT_WORKER)
        correct_worker(w->call, b, error);
    else
        correct_server(w->call, b, error);
    w->call->sums[i] = sum_squares(error, b->count);
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

/* Elements from `at` to the end of their chunk, at most `most`: their signs are in one message. */
static int64_t run_from(const struct zt_compressed_part *p, int64_t at, int64_t most) {
    const int64_t left = p->chunk - at % p->chunk;
    return left < most ? left : most;
}

static void pack_block(void *arg, int64_t i) {
    const struct work *w = arg;
    const struct zt_compressed_call *c = w->call;
    const struct zt_compressed_block *b = &c->layout.block[w->side][i];
    const struct zt_compressed_part *p = &c->layout.parts[b->part];
    const int64_t first = b->first + (w->side == ZT_SERVER ? c->rank * p->chunk : 0);
    for (int64_t done = 0, run; done < b->count; done += run) {
        run = run_from(p, first + done, b->count - done);
        pack(errors_of(w, b) + done, c->scale[b->part], zt_compressed_byte(c, p, c->out, first + done), run / EIGHT);
    }
}

static void expand_block(void *arg, int64_t i) {
    const struct zt_compressed_call *c = ((const struct work *)arg)->call;
    const struct zt_compressed_block *b = &c->layout.block[ZT_WORKER][i];
    const struct zt_compressed_part *p = &c->layout.parts[b->part];
    const int64_t left = p->count - b->first, count = left < b->count ? left : b->count;
    for (int64_t done = 0, run; done < count; done += run) {
        const int64_t at = b->first + done;
        run = run_from(p, at, count - done);
        expand(c->x + p->first + at, run, zt_compressed_scales(c, c->out, at / p->chunk)[b->part],
               zt_compressed_byte(c, p, c->out, at));
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
