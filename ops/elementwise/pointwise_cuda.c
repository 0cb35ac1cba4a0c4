/* Elementwise nodes and fused elementwise nodes on CUDA: their kernels are generated (source_cuda.h) and compiled
 * (generated_cuda.h) when a node is prepared. */
#include "ops/elementwise/pointwise_cuda.h"

#include "ops/cuda/describe.h"
#include "ops/cuda/generated_cuda.h"
#include "ops/cuda/layout_cuda.h"
#include "ops/kernel/merge_axes.h"
#include "ops/kernel/shape.h"

#include "device/cuda.h"

#include <stdlib.h>

enum { THREADS = 256, BLOCKS = 132 * 16 };

static enum zt_broadcast_kind broadcast_of(const struct zt_kernel_arguments *a, int axes, int input) {
    int64_t next = 1;
    bool alike = true, one = true;
    for (int k = axes - 1; k >= 0; k--) {
        alike &= a->step[input][k] == next;
        one &= a->step[input][k] == 0;
        next *= a->dim[k];
    }
    return alike ? ZT_BROADCAST_ALIKE : one ? ZT_BROADCAST_ONE : ZT_BROADCAST_AXES;
}

/* Broadcast of the inputs to the output, along axes in the output's order. */
static void lay_out(struct zt_prepare *q, struct zt_kernel_source *s, struct zt_kernel_arguments *a) {
    int64_t *step[sizeof a->step / sizeof *a->step];
    const struct zt_shape *y = &zt_out(q->graph, q->node, 0)->shape;
    zt_layout_broadcast(q, s->fused.inputs);
    zt_broadcast_layout_dims(q, a->dim);
    for (int i = 0; i < s->fused.inputs; i++) {
        zt_broadcast_layout_steps(q, i, a->step[i]);
        step[i] = a->step[i];
    }
    s->axes = zt_merge_axes(y->rank, a->dim, s->fused.inputs, step);
    a->count = zt_shape_count(y);
    s->wide = a->count >= INT32_MAX;
    for (int i = 0; i < s->fused.inputs; i++)
        s->input[i] =
            (struct zt_kernel_input){ zt_in(q->graph, q->node, i)->dtype, broadcast_of(a, s->axes, i), false };
}

/* The vector width: elements that fill 16 bytes of the narrowest dtype, at most eight, where rows of the last axis
 * consist of such packs. */
static int width_of(const struct zt_kernel_source *s, const struct zt_kernel_arguments *a) {
    size_t narrowest = zt_dtype_bytes(s->fused.step[s->fused.steps - 1].dtype);
    bool walks = false;
    for (int i = 0; i < s->fused.inputs; i++) {
        const size_t bytes = zt_dtype_bytes(s->input[i].dtype);
        walks |= s->input[i].broadcast == ZT_BROADCAST_AXES;
        if (s->input[i].broadcast == ZT_BROADCAST_ALIKE && bytes < narrowest)
            narrowest = bytes;
    }
    int width = narrowest < 2 ? 8 : (int)(16 / narrowest);
    while (width > 1 && ((walks && a->dim[s->axes - 1] % width != 0) || a->count < width))
        width /= 2;
    return width;
}

/* ---- a result with another layout than the inputs ---- */

/* The tile of a thread; 0 rows: no tile fits. Columns fill 16 bytes of the widest input, at most four; rows fill 16
 * bytes, or are all rows where these are few. */
static struct zt_kernel_tile tile_of(const struct zt_kernel_source *s, int64_t rows, int64_t columns) {
    struct zt_kernel_tile tile = { rows <= 8 ? (int)rows : rows % 8 == 0 ? 8 : rows % 4 == 0 ? 4 : 0, 4, rows <= 8 };
    size_t widest = zt_dtype_bytes(s->fused.step[s->fused.steps - 1].dtype);
    for (int i = 0; i < s->fused.inputs; i++)
        if (zt_dtype_bytes(s->input[i].dtype) > widest)
            widest = zt_dtype_bytes(s->input[i].dtype);
    while (tile.columns > 1 && (columns % tile.columns != 0 || widest * (size_t)tile.columns > 16))
        tile.columns /= 2;
    return tile;
}

/* Rows and columns of the transposition between plain and channels last, as the inputs are laid out. */
static void transposed_dims(const struct zt_shape *y, bool from_last, int64_t dim[2]) {
    const int64_t places = zt_dims(y, 2, y->rank);
    dim[0] = from_last ? places : y->dim[1];
    dim[1] = from_last ? y->dim[1] : places;
}

/* Whether every input of y's shape has the same layout and every other input is one number. */
static bool can_transpose(const struct zt_prepare *q, const struct zt_kernel_source *s) {
    const struct zt_shape *y = &zt_out(q->graph, q->node, 0)->shape;
    int64_t dim[2];
    bool alike = false, axes = false;
    if (zt_layout_either(y) || zt_shape_count(y) == 0)
        return false;
    for (int i = 0; i < s->fused.inputs; i++) {
        alike |= s->input[i].broadcast == ZT_BROADCAST_ALIKE;
        axes |= s->input[i].broadcast == ZT_BROADCAST_AXES;
    }
    transposed_dims(y, q->out_layout[0] != NULL, dim);
    return alike && !axes && tile_of(s, dim[0], dim[1]).rows > 0;
}

static void transpose(const struct zt_prepare *q, struct zt_kernel_source *s, struct zt_kernel_arguments *a) {
    transposed_dims(&zt_out(q->graph, q->node, 0)->shape, q->out_layout[0] != NULL, a->dim);
    s->tile = tile_of(s, a->dim[0], a->dim[1]);
}

/* ---- packs ---- */

/* Sets the vector width and the alignment that addresses need. */
static void choose_packs(struct zt_pointwise_kernel *k, struct zt_kernel_source *s) {
    const struct zt_kernel_tile *t = &s->tile;
    const int read = t->rows ? t->columns : width_of(s, &k->arguments);
    const int written = t->rows && !t->whole ? t->rows : read;
    s->width = k->width = t->rows ? t->rows * t->columns : read;
    k->inputs = s->fused.inputs;
    k->out_alignment = zt_pack_alignment(s->fused.step[s->fused.steps - 1].dtype, written);
    for (int i = 0; i < k->inputs; i++) {
        struct zt_kernel_input *in = &s->input[i];
        k->alignment[i] = in->broadcast == ZT_BROADCAST_ALIKE ? zt_pack_alignment(in->dtype, read) : 1;
        in->still = in->broadcast == ZT_BROADCAST_AXES && k->arguments.step[i][s->axes - 1] == 0;
    }
}

bool zt_pointwise_make(struct zt_pointwise_kernel *k, struct zt_device *device, const struct zt_kernel_source *source,
                       struct zt_err *err) {
    struct zt_text text = { 0 };
    struct zt_kernel_source packed = *source;
    choose_packs(k, &packed);
    const int64_t each = (int64_t)THREADS * k->width, blocks = (k->arguments.count + each - 1) / each;
    zt_kernel_source_write(&packed, &text);
    k->blocks = (unsigned)(blocks < BLOCKS ? blocks : BLOCKS);
    k->code = zt_generated_cuda(device, text.at, ZT_KERNEL_ENTRY, err);
    zt_text_finish(&text);
    return k->code != NULL;
}

bool zt_pointwise_run(const struct zt_pointwise_kernel *k, const struct zt_call *call, const void *const *in, void *out,
                      struct zt_err *err) {
    struct zt_kernel_arguments a = k->arguments;
    void *arguments[] = { &a };
    bool aligned = k->width > 1 && (uintptr_t)out % k->out_alignment == 0;
    a.out = out;
    for (int i = 0; i < k->inputs; i++) {
        a.in[i] = in[i];
        aligned &= (uintptr_t)in[i] % k->alignment[i] == 0;
    }
    a.packs = aligned ? a.count / k->width : 0;
    return a.count == 0 || zt_launched(call, zt_cuda_launch(call->device, k->code, k->blocks, THREADS, arguments), err);
}

static bool prepare(struct zt_prepare *q, struct zt_err *err) {
    struct zt_kernel_source source = { 0 };
    if (!zt_describe_to_cuda(q, &source.fused, err))
        return false;
    struct zt_pointwise_kernel *k = zt_calloc(1, sizeof *k);
    const struct zt_layout *wanted = q->out_layout[0];
    lay_out(q, &source, &k->arguments);
    q->free_out = can_transpose(q, &source);
    if (q->settled && !wanted != !q->out_layout[0]) {
        transpose(q, &source, &k->arguments);
        q->out_layout[0] = wanted;
    }
    if (!zt_pointwise_make(k, q->device, &source, err)) {
        free(k);
        return false;
    }
    q->state = k;
    return true;
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_pointwise_kernel *k = call->state;
    const void *in[ZT_POINTWISE_INPUTS];
    for (int i = 0; i < k->inputs; i++)
        in[i] = call->in[i].data;
    return zt_pointwise_run(k, call, in, call->out[0].data, err);
}

const struct zt_kernel zt_kernel_pointwise_cuda = { .prepare = prepare, .layouts = true, .run = run, .release = free };
