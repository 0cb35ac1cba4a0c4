#include "parallel/comm/compressed.h"

#include "base/align.h"
#include "device/module.h"
#include "parallel/comm/compressed_cpu.h"

#include <string.h>

/* ---- layout ---- */

static int64_t up_to(int64_t count, int64_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
}

static int64_t length(const struct zt_compressed_part *p, int side) {
    return side == ZT_WORKER ? p->padded : p->chunk;
}

static void add_part(struct zt_compressed *l, struct zt_compressed_part *p, int64_t first, int64_t count) {
    const int64_t unit = l->ranks * (l->ranks * 8 / zt_common_divisor(l->ranks, 8));
    *p = (struct zt_compressed_part){ .first = first, .count = count, .padded = up_to(count, unit) };
    p->chunk = p->padded / l->ranks;
    for (int side = 0; side < ZT_COMPRESSED_SIDES; side++) {
        p->error_at[side] = l->errors[side];
        p->block[side] = l->blocks[side];
        p->blocks[side] = (length(p, side) + ZT_COMPRESSED_BLOCK - 1) / ZT_COMPRESSED_BLOCK;
        l->errors[side] += length(p, side);
        l->blocks[side] += p->blocks[side];
    }
    l->part_count++;
}

static const struct zt_compressed_block *list_blocks(struct zt_arena *arena, const struct zt_compressed *l, int side) {
    struct zt_compressed_block *blocks = ZT_NEW_N(arena, struct zt_compressed_block, l->blocks[side] + 1), *to = blocks;
    for (int p = 0; p < l->part_count; p++)
        for (int64_t at = 0, all = length(&l->parts[p], side); at < all; at += ZT_COMPRESSED_BLOCK) {
            const int64_t left = all - at;
            *to++ = (struct zt_compressed_block){ at, p, left < ZT_COMPRESSED_BLOCK ? (int)left : ZT_COMPRESSED_BLOCK };
        }
    return blocks;
}

struct zt_compressed *zt_compressed_make(struct zt_arena *arena, const int64_t *bound, int parts, int ranks) {
    struct zt_compressed *l = ZT_NEW(arena, struct zt_compressed);
    struct zt_compressed_part *part = ZT_NEW_N(arena, struct zt_compressed_part, parts + 1);
    *l = (struct zt_compressed){ .ranks = ranks, .parts = part };
    for (int i = 0; i < parts; i++)
        if (bound[i] < bound[i + 1])
            add_part(l, &part[l->part_count], bound[i], bound[i + 1] - bound[i]);
    l->message_bytes = l->part_count * (int64_t)sizeof(float);
    for (int i = 0; i < l->part_count; i++) {
        part[i].signs_at = l->message_bytes;
        l->message_bytes += part[i].chunk / 8;
    }
    l->message_bytes = up_to(l->message_bytes, sizeof(float));
    for (int side = 0; side < ZT_COMPRESSED_SIDES; side++)
        l->block[side] = list_blocks(arena, l, side);
    return l;
}

int64_t zt_compressed_sent(const struct zt_compressed *l) {
    return 2 * (l->ranks - 1) * l->message_bytes;
}

/* ---- working memory ---- */

static void *take(char *memory, int64_t *at, int64_t bytes) {
    const int64_t first = *at;
    *at += zt_align_64(bytes);
    return memory ? memory + first : NULL;
}

static int64_t divide(const struct zt_compressed *l, char *memory, struct zt_compressed_call *call) {
    const int64_t messages = l->ranks * l->message_bytes, blocks = l->blocks[ZT_WORKER]; /* a server has fewer */
    int64_t at = 0;
    call->layout = *l;
    call->layout.parts = take(memory, &at, l->part_count * (int64_t)sizeof *l->parts);
    for (int side = 0; side < ZT_COMPRESSED_SIDES; side++)
        call->layout.block[side] = take(memory, &at, l->blocks[side] * (int64_t)sizeof **l->block);
    call->out = take(memory, &at, messages);
    call->in = take(memory, &at, messages);
    call->sums = take(memory, &at, blocks * (int64_t)sizeof *call->sums);
    call->scale = take(memory, &at, l->part_count * (int64_t)sizeof *call->scale);
    return at;
}

int64_t zt_compressed_bytes(const struct zt_compressed *l) {
    return divide(l, NULL, &(struct zt_compressed_call){ 0 });
}

bool zt_compressed_place(const struct zt_compressed *l, struct zt_device *device, void *memory,
                         struct zt_compressed_call *call, struct zt_err *err) {
    const struct zt_device_api *api = device->api;
    divide(l, memory, call);
    bool ok =
        api->to_device(device, (void *)call->layout.parts, l->parts, (size_t)l->part_count * sizeof *l->parts, err);
    for (int side = 0; side < ZT_COMPRESSED_SIDES; side++)
        ok = ok && api->to_device(device, (void *)call->layout.block[side], l->block[side],
                                  (size_t)l->blocks[side] * sizeof **l->block, err);
    return ok && api->synchronize(device, err);
}

/* ---- the all-reduce ---- */

static bool run(struct zt_device *device, enum zt_compressed_stage stage, const struct zt_compressed_call *call,
                struct zt_err *err) {
    if (device->module)
        return device->module->compress(device, stage, call, err);
    zt_compressed_run(device->threads, stage, call);
    return true;
}

/* Messages are gathered as numbers of 4 bytes. */
static bool gather(struct zt_comm *c, const struct zt_compressed_call *call, struct zt_err *err) {
    return zt_comm_exchange(c, call->out, (size_t)call->layout.message_bytes, err);
}

bool zt_comm_compressed_all_reduce(struct zt_comm *c, struct zt_device *device, const struct zt_compressed_call *call,
                                   struct zt_err *err) {
    if (c->size == 1 || call->layout.part_count == 0)
        return true;
    return run(device, ZT_COMPRESS_WORKER, call, err) &&
           c->api->all_to_all(c, call->out, call->in, (size_t)call->layout.message_bytes, err) &&
           run(device, ZT_COMPRESS_SERVER, call, err) && gather(c, call, err) &&
           run(device, ZT_COMPRESSED_EXPAND, call, err);
}
