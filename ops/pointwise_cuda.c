/* Elementwise nodes on CUDA: their kernels are written (source_cuda.h) and compiled (generated_cuda.h) when a node is
 * prepared. */
#include "ops/generated_cuda.h"
#include "ops/kernels_cuda.h"
#include "ops/pointwise.h"
#include "ops/source_cuda.h"
#include "ops/walk_cuda.h"

#include "device/cuda.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS = 256, BLOCKS = 132 * 16 };

struct pointwise {
    const struct zt_cuda_code *code;
    struct zt_source_arguments arguments;
    int inputs;
    unsigned blocks;
};

static enum zt_spread spread_of(const struct zt_source_arguments *a, int axes, int input) {
    int64_t next = 1;
    bool alike = true, one = true;
    for (int k = axes - 1; k >= 0; k--) {
        alike &= a->step[input][k] == next;
        one &= a->step[input][k] == 0;
        next *= a->dim[k];
    }
    return alike ? ZT_SPREAD_ALIKE : one ? ZT_SPREAD_ONE : ZT_SPREAD_AXES;
}

static void describe(const struct zt_graph *g, int node, const struct zt_pointwise *what, struct zt_source *s,
                     struct zt_source_arguments *a) {
    const struct zt_value *y = zt_out(g, node, 0);
    s->inputs = what->inputs;
    s->steps = 1;
    s->step[0].what = *what;
    s->out = what->moves ? what->dtype : y->dtype;
    memcpy(a->dim, y->shape.dim, sizeof a->dim);
    for (int i = 0; i < what->inputs; i++)
        zt_steps_cuda(&y->shape, &zt_in(g, node, i)->shape, a->step[i]);
    s->axes = zt_axes_cuda(y->shape.rank, a->dim, what->inputs, a->step);
    a->count = zt_shape_count(&y->shape);
    s->wide = a->count >= INT32_MAX;
    for (int i = 0; i < what->inputs; i++) {
        s->input[i].dtype = what->moves && i > 0 ? what->dtype : zt_in(g, node, i)->dtype;
        s->input[i].spread = spread_of(a, s->axes, i);
        s->step[0].from[i] = i;
    }
}

static bool prepare(struct zt_prepare *q, struct zt_err *err) {
    struct zt_pointwise what;
    struct zt_source source = { 0 };
    struct zt_text text = { 0 };
    if (!q->graph->nodes[q->node].op->kernel[ZT_CUDA].describe(q->graph, q->node, &what, err))
        return false;
    struct pointwise *p = zt_calloc(1, sizeof *p);
    describe(q->graph, q->node, &what, &source, &p->arguments);
    zt_source_write(&source, &text);
    p->inputs = what.inputs;
    const int64_t blocks = (p->arguments.count + THREADS - 1) / THREADS;
    p->blocks = (unsigned)(blocks < BLOCKS ? blocks : BLOCKS);
    p->code = zt_generated_cuda(q->device, text.at, ZT_SOURCE_ENTRY, err);
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
    struct zt_source_arguments a = p->arguments;
    void *arguments[] = { &a };
    a.out = call->out[0].data;
    for (int i = 0; i < p->inputs; i++)
        a.in[i] = call->in[i].data;
    return a.count == 0 ||
           zt_cuda_good(call->device, zt_cuda_launch(call->device, p->code, p->blocks, THREADS, arguments), err,
                        call->node->name);
}

const struct zt_kernel zt_kernel_pointwise_cuda = { .prepare = prepare, .run = run, .release = free };
