/* ztrain.Reorder(x) -> y: the same tensor in another memory layout. The assign pass puts it where a producer and a
 * reader want different ones; in a graph without layouts it is a copy. */
#include "ops/movement/kernels.h"
#include "ops/kernel/shape.h"

#ifdef HAVE_DNNL
#include "device/threads.h"
#include "ops/cpu/batch_blocks.h"
#include "ops/cpu/blocked_layout.h"
#include "ops/kernel/tile.h"
#include "ops/movement/simd/simd_blocks.h"

#include <stdlib.h>

/* Between plain and blocked activations our own loops run, else oneDNN's. */
struct reorder_state {
    struct zt_planes planes; /* of the blocked side */
    void (*run)(const struct zt_block_part *p);
    bool packs;
    size_t bytes; /* of an element */
    struct zt_batch_blocks blocks;
};

bool zt_reorder_cpu_supports(const struct zt_graph *g, int node) {
    return zt_dtype_in(zt_in(g, node, 0)->dtype, ZT_BIT(ZT_FLOAT) | ZT_BIT(ZT_BFLOAT16) | ZT_BIT(ZT_UINT8));
}

void zt_reorder_cpu_release(void *state) {
    struct reorder_state *s = state;
    if (s && !s->run)
        zt_batch_blocks_finish(&s->blocks);
    free(s);
}

enum { GRAIN = 64 }; /* a multiple of the blocks in packed orders */

/* A packed tensor is cut along the axis whose blocks follow each other in memory, those of whole GRAINs; not at all
 * where no axis is like that. */
static struct zt_batch_cut cut_packed(const struct zt_desc *packed) {
    const size_t bytes = zt_desc_bytes(packed);
    for (int axis = 0; axis < packed->rank; axis++)
        for (int64_t pieces = ZT_BATCH_BLOCKS; pieces > 1; pieces /= 2) {
            struct zt_desc piece = *packed;
            piece.dim[axis] /= pieces;
            piece.part = true;
            if (packed->dim[axis] % (GRAIN * pieces) == 0 && zt_desc_bytes(&piece) * (size_t)pieces == bytes)
                return (struct zt_batch_cut){ { axis, axis, -1, -1, -1 }, packed->dim[axis], piece.dim[axis] };
        }
    return (struct zt_batch_cut){ { -1, -1, -1, -1, -1 }, 1, 1 };
}

/* Sets the loop, if there is one for these layouts. */
static void choose_loop(const struct zt_prepare *p, const struct zt_value *x, struct reorder_state *s) {
    const struct zt_layout *from = p->in_layout[0], *to = p->out_layout[0];
    int block = 0;
    s->packs = !from;
    s->bytes = zt_dtype_bytes(x->dtype);
    if ((from && to) || zt_layout_order(from ? from : to, &block) != ZT_ORDER_BLOCKED || (block != 8 && block != 16) ||
        (s->bytes != 2 && s->bytes != 4))
        return;
    const struct zt_block_kernels *k = zt_block_kernels(block, s->bytes);
    zt_planes_of(from ? from : to, &x->shape, &s->planes);
    s->run = s->packs ? k->pack : k->unpack;
}

/* oneDNN's reorder; activations are cut over the batch. */
static bool prepare_blocks(struct zt_prepare *p, const struct zt_value *x, struct zt_batch_blocks *blocks,
                           struct zt_err *err) {
    struct zt_desc from = zt_desc_of(p->in_layout[0], x->dtype, &x->shape);
    struct zt_desc to = zt_desc_of(p->out_layout[0], x->dtype, &x->shape);
    bool packed = from.order == ZT_DESC_VENDOR || to.order == ZT_DESC_VENDOR;
    if (packed) { /* the other side takes its dims, and its plain order where it is plain */
        struct zt_desc *other = from.order == ZT_DESC_VENDOR ? &to : &from;
        if (other->order == ZT_DESC_PLAIN) {
            *other = from.order == ZT_DESC_VENDOR ? from : to;
            other->order = ZT_DESC_STRIDED;
        }
    }
    struct zt_dnnl_spec spec = { .kind = ZT_DNNL_REORDER, .slot = { from, to } };
    struct zt_batch_cut cut = { { 0, 0, -1, -1, -1 }, .total = x->shape.dim[0] };
    cut.block = zt_batch_block_of(cut.total, ZT_BATCH_BLOCKS, 1);
    if (packed)
        cut = cut_packed(from.order == ZT_DESC_VENDOR ? &from : &to);
    if (!zt_batch_blocks_make(blocks, &spec, &cut, p->threads, err))
        return zt_err_within(err, 0, "%s", p->graph->nodes[p->node]->name);
    p->workspace_bytes = zt_batch_blocks_scratch(blocks, p->threads);
    return true;
}

bool zt_reorder_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_value *x = zt_in(p->graph, p->node, 0);
    if (zt_dtype_bytes(x->dtype) != sizeof(float) &&
        !zt_reorder_cpu_supports(p->graph, p->node)) /* 4 bytes go as floats */
        return zt_node_fail(p->graph, p->node, err, "no kernel reorders %s", zt_dtype_name(x->dtype));
    struct reorder_state *s = zt_calloc(1, sizeof *s);
    choose_loop(p, x, s);
    if (!s->run && !prepare_blocks(p, x, &s->blocks, err)) {
        free(s);
        return false;
    }
    p->state = s;
    return true;
}

enum { PIXELS = 1024, PARTS = 8 }; /* of a block of channels, a multiple of every block; parts of small planes */

struct job {
    const struct reorder_state *s;
    const struct zt_call *call;
    int64_t parts, each; /* of all planes; a thread takes at a time */
};

static int64_t chunks_of(const struct zt_planes *p) {
    return zt_ceil_div(p->pixels, PIXELS);
}

static void reorder_part(const struct job *j, int64_t part) {
    const struct zt_planes *p = &j->s->planes;
    const int64_t chunks = chunks_of(p), start = part % chunks * PIXELS, group = part / chunks % p->groups,
                  sample = part / chunks / p->groups, left = p->channels - group * p->vector;
    void *from = j->call->in[0].data, *to = j->call->out[0].data;
    void *blocked =
        zt_element(j->s->packs ? to : from, j->s->bytes, sample * p->sample + group * p->group + start * p->pixel);
    void *plain = zt_element(j->s->packs ? from : to, j->s->bytes,
                             (sample * p->channels + group * p->vector) * p->pixels + start);
    j->s->run(&(struct zt_block_part){ .from = j->s->packs ? plain : blocked,
                                       .to = j->s->packs ? blocked : plain,
                                       .pixels = zt_min_int(PIXELS, p->pixels - start),
                                       .row = p->pixels,
                                       .used = (int)zt_min_int(left, p->vector) });
}

static void reorder_parts(void *arg, int64_t unit) {
    const struct job *j = arg;
    for (int64_t i = unit * j->each; i < j->parts && i < (unit + 1) * j->each; i++)
        reorder_part(j, i);
}

bool zt_reorder_cpu_run(const struct zt_call *call, struct zt_err *err) {
    struct reorder_state *s = call->state;
    if (s->run) {
        struct job j = { s, call, s->planes.samples * s->planes.groups * chunks_of(&s->planes),
                         s->planes.pixels < PIXELS / PARTS ? PARTS : 1 };
        zt_parallel_for(call->threads, zt_ceil_div(j.parts, j.each), reorder_parts, &j);
        return true;
    }
    void *data[ZT_DNNL_SLOTS] = { call->in[0].data, call->out[0].data };
    return zt_batch_blocks_run(&s->blocks, call->threads, data, call->workspace, NULL, err);
}
#endif

const struct zt_op zt_op_reorder = {
    .name = "Reorder",
    .domain = "ztrain",
    .since = 1,
    ZT_ONE_OUT(1, 1),
    .flags = ZT_OP_LIGHT | ZT_OP_REORDER,
    .infer = zt_infer_first,
    .kernel = { [ZT_REF] = { .run = zt_run_copy },
                [ZT_CPU] = ZT_IF_DNNL(zt_reorder_cpu),
                [ZT_CUDA] = ZT_ON_CUDA(reorder, zt_cuda_any) },
};
