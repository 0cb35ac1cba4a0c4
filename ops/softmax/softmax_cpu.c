/* Softmax, LogSoftmax and their gradients on the CPU: bundles of slices (simd_softmax.h), each within one block. */
#include "ops/softmax/kernels.h"
#include "ops/softmax/simd_softmax.h"
#include "ops/softmax/softmax.h"

#include <stdlib.h>
#include <string.h>

struct softmax_state {
    struct zt_bundles bundles;
    const struct zt_softmax_kernels *kernels;
    bool log, grad;
    size_t bytes; /* of an element */
};

bool zt_softmax_cpu_supports(const struct zt_graph *g, int node) {
    enum zt_dtype dtype = zt_in(g, node, 0)->dtype;
    return zt_softmax_kernels() && zt_row_type(dtype);
}

bool zt_softmax_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_node *n = p->graph->nodes[p->node];
    enum zt_dtype dtype = zt_in(p->graph, p->node, 0)->dtype;
    struct zt_axis_slices slices;
    if (!zt_softmax_read(p->graph, p->node, &slices, err))
        return false;
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = NULL;
    struct softmax_state *s = zt_calloc(1, sizeof *s);
    s->kernels = zt_softmax_kernels();
    s->bundles = zt_bundles_of(&slices, dtype, s->kernels->vector);
    s->log = strncmp(n->op->name, "Log", 3) == 0;
    s->grad = n->in_count > 1;
    s->bytes = zt_dtype_bytes(dtype);
    p->state = s;
    return true;
}

static void run_bundle(const void *with, const struct zt_bundle *b, int64_t start, int64_t slice) {
    (void)slice;
    const struct zt_call *call = with;
    const struct softmax_state *s = call->state;
    const struct zt_softmax_kernels *k = s->kernels;
    const void *first = zt_element(call->in[0].data, s->bytes, start);
    void *out = zt_element(call->out[0].data, s->bytes, start);
    if (s->grad)
        (s->log ? k->log_softmax_grad : k->softmax_grad)(b, first, zt_element(call->in[1].data, s->bytes, start), out);
    else
        (s->log ? k->log_softmax : k->softmax)(b, first, out);
}

bool zt_softmax_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct softmax_state *s = call->state;
    zt_bundles_each(&s->bundles, call->threads, run_bundle, call);
    return true;
}

void zt_softmax_cpu_release(void *state) {
    free(state);
}
