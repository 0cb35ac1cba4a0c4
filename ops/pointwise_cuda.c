/* Elementwise nodes and chains of them on CUDA: their kernels are written (source_cuda.h) and compiled
 * (generated_cuda.h) when a node is prepared. */
#include "ops/generated_cuda.h"
#include "ops/kernels_cuda.h"
#include "ops/layout_cuda.h"
#include "ops/pointwise.h"
#include "ops/source_cuda.h"
#include "ops/walk_cuda.h"

#include "device/cuda.h"

#include <stdlib.h>

enum { THREADS = 256, BLOCKS = 132 * 16 };

struct pointwise {
    const struct zt_cuda_code *code;
    struct zt_kernel_arguments arguments;
    int inputs;
    unsigned blocks;
};

static enum zt_spread spread_of(const struct zt_kernel_arguments *a, int axes, int input) {
    int64_t next = 1;
    bool alike = true, one = true;
    for (int k = axes - 1; k >= 0; k--) {
        alike &= a->step[input][k] == next;
        one &= a->step[input][k] == 0;
        next *= a->dim[k];
    }
    return alike ? ZT_SPREAD_ALIKE : one ? ZT_SPREAD_ONE : ZT_SPREAD_AXES;
}

/* How the inputs lie beside the output, whose axes are walked in its own order. */
static void lay_out(struct zt_prepare *q, struct zt_kernel_source *s, struct zt_kernel_arguments *a) {
    const struct zt_shape *y = &zt_out(q->graph, q->node, 0)->shape;
    zt_layout_spread(q, s->chain.inputs);
    zt_spread_dims(q, a->dim);
    for (int i = 0; i < s->chain.inputs; i++)
        zt_spread_steps(q, i, a->step[i]);
    s->axes = zt_axes_cuda(y->rank, a->dim, s->chain.inputs, a->step);
    a->count = zt_shape_count(y);
    s->wide = a->count >= INT32_MAX;
    for (int i = 0; i < s->chain.inputs; i++)
        s->input[i] = (struct zt_kernel_input){ zt_in(q->graph, q->node, i)->dtype, spread_of(a, s->axes, i) };
}

static bool prepare(struct zt_prepare *q, struct zt_err *err) {
    struct zt_kernel_source source = { 0 };
    struct zt_text text = { 0 };
    if (!q->graph->nodes[q->node].op->kernel[ZT_CUDA].describe(q->graph, q->node, &source.chain, err))
        return false;
    struct pointwise *p = zt_calloc(1, sizeof *p);
    lay_out(q, &source, &p->arguments);
    zt_kernel_source_write(&source, &text);
    p->inputs = source.chain.inputs;
    const int64_t blocks = (p->arguments.count + THREADS - 1) / THREADS;
    p->blocks = (unsigned)(blocks < BLOCKS ? blocks : BLOCKS);
    p->code = zt_generated_cuda(q->device, text.at, ZT_KERNEL_ENTRY, err);
    zt_text_finish(&text);
    if (!p->code) {
        free(p);
        return false;
    }
    q->state = p;
    return true;
}

static bool run(const struct zt_call *call, struct zt_err *err) {
    const struct pointwise *p = call->state;
    struct zt_kernel_arguments a = p->arguments;
    void *arguments[] = { &a };
    a.out = call->out[0].data;
    for (int i = 0; i < p->inputs; i++)
        a.in[i] = call->in[i].data;
    return a.count == 0 ||
           zt_cuda_good(call->device, zt_cuda_launch(call->device, p->code, p->blocks, THREADS, arguments), err,
                        call->node->name);
}

const struct zt_kernel zt_kernel_pointwise_cuda = { .prepare = prepare, .layouts = true, .run = run, .release = free };
