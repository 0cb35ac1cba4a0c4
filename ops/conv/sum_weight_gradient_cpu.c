/* The sum of the weight gradients that the blocks of a batch make apart (conv_cpu.h). */
#include "ops/conv/conv_cpu.h"

#include "base/align.h"
#include "ops/cpu/block_sum.h"

/* Blocks are made larger where partial weight gradients would exceed this size, but never fewer than four. */
static const int64_t partial_elems = INT64_C(4) << 20;
enum { FEWEST = 4, MOST = 64 };

int64_t zt_conv_pieces(const struct zt_conv *c) {
    int64_t elems = c->m * (c->c / c->groups) * c->window.kernel_elems, pieces = partial_elems / elems;
    return pieces < FEWEST ? FEWEST : pieces > MOST ? MOST : pieces;
}

bool zt_conv_partial_make(struct zt_conv_partial *to, struct zt_batch_blocks *weight, int64_t m, enum zt_dtype dtype,
                          bool bias, struct zt_err *err) {
    struct zt_desc dw = zt_dnnl_slot(weight->whole, ZT_CONV_W);
    *to = (struct zt_conv_partial){
        .blocks = weight->count, .m = m, .dtype = dtype, .dw_bytes = zt_align_64(zt_desc_bytes(&dw))
    };
    to->db_bytes = bias ? zt_align_64((size_t)m * sizeof(float)) : 0;
    weight->step[ZT_CONV_W] = to->dw_bytes;
    weight->step[ZT_CONV_B] = to->db_bytes;
    struct zt_dnnl_spec spec = { .kind = ZT_DNNL_REORDER, .slot = { dw, dw } };
    spec.slot[1].order = ZT_DESC_STRIDED;
    spec.slot[1].dtype = dtype;
    to->plain = zt_dnnl_create(&spec, 1, err);
    spec.add = true;
    to->plain_add = to->plain ? zt_dnnl_create(&spec, 1, err) : NULL;
    if (!to->plain_add)
        zt_conv_partial_finish(to);
    return to->plain_add != NULL;
}

void zt_conv_partial_finish(struct zt_conv_partial *partial) {
    zt_dnnl_destroy(partial->plain);
    zt_dnnl_destroy(partial->plain_add);
    partial->plain = partial->plain_add = NULL;
}

size_t zt_conv_partial_bytes(const struct zt_conv_partial *partial) {
    return (size_t)partial->blocks * (partial->dw_bytes + partial->db_bytes);
}

size_t zt_conv_partial_scratch(const struct zt_conv_partial *partial) {
    size_t plain = zt_dnnl_scratch_bytes(partial->plain), add = zt_dnnl_scratch_bytes(partial->plain_add);
    return plain > add ? plain : add;
}

bool zt_conv_partial_sum(const struct zt_conv_partial *partial, void *parts, void *scratch,
                         const struct zt_conv_gradients *to, int threads, struct zt_err *err) {
    zt_sum_blocks(parts, (int64_t)(partial->dw_bytes / sizeof(float)), partial->blocks, threads);
    void *sides[ZT_DNNL_SLOTS] = { parts, to->dw };
    if (to->dw && !zt_dnnl_run(to->accumulate ? partial->plain_add : partial->plain, 0, sides, scratch))
        return zt_dnnl_failed(partial->plain, err);
    if (to->db) {
        float *db = (float *)((char *)parts + (size_t)partial->blocks * partial->dw_bytes);
        zt_sum_blocks(db, (int64_t)(partial->db_bytes / sizeof(float)), partial->blocks, 1);
        for (int64_t i = 0; i < partial->m; i++)
            zt_store_double(partial->dtype, to->db, i, (double)db[i]);
    }
    return true;
}
