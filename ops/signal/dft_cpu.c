/* DFT and STFT on the CPU: groups of slices (simd_dft.h) in float, of double tensors in double. */
#include "ops/signal/dft.h"
#include "ops/signal/kernels.h"
#include "ops/signal/simd_dft.h"

#include "ops/kernel/tile.h"

#include "device/threads.h"
#include "ops/kernel/element_blocks.h"

#include <stdlib.h>

/* Numbers of an array of a group, at most: four arrays then stay in the second cache. */
enum { GROUP_NUMBERS = 1 << 15 };

struct state {
    struct zt_dft_plan plan;
    const struct zt_simd_dft *kernels;
    void *numbers; /* tables, float or double */
    bool wide;     /* double */
    int across;
    size_t room; /* bytes of a group */
};

bool zt_dft_cpu_supports(const struct zt_graph *g, int node) {
    (void)g, (void)node;
    return true;
}

/* Slices of a group: a power of two that the slices fill by more than half. */
static int across_for(const struct zt_dft_plan *p) {
    const int64_t rows = zt_dft_rows(p);
    int across = 1;
    while (2 * across <= ZT_SIMD_DFT_ACROSS && across < p->dft.slices && 2 * across * rows <= GROUP_NUMBERS)
        across *= 2;
    return across;
}

static void *tables_of(const struct zt_dft_plan *p, double *numbers, bool wide) {
    if (wide)
        return numbers;
    float *narrow = zt_malloc((size_t)p->table * 2 * sizeof *narrow);
    for (int64_t i = 0; i < 2 * p->table; i++)
        narrow[i] = (float)numbers[i];
    free(numbers);
    return narrow;
}

bool zt_dft_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_node *n = p->graph->nodes[p->node];
    struct zt_dft d;
    if (!zt_dft_of(p->graph, p->node, &d, err))
        return false;
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = NULL;
    struct state *s = zt_calloc(1, sizeof *s);
    p->state = s;
    if (d.slices == 0)
        return true;
    s->kernels = zt_simd_dft();
    s->wide = zt_in(p->graph, p->node, 0)->dtype == ZT_DOUBLE;
    s->numbers = tables_of(&s->plan, zt_dft_plan_make(&d, true, &s->plan), s->wide);
    s->across = across_for(&s->plan);
    s->room = (size_t)zt_simd_dft_room(&s->plan, s->across) * (s->wide ? sizeof(double) : sizeof(float));
    s->room = (s->room + 63) / 64 * 64;
    p->workspace_bytes = s->room * (size_t)p->threads;
    return true;
}

static void run_group(void *arg, int64_t i) {
    const struct zt_call *call = arg;
    const struct state *s = call->state;
    const int64_t first = i * s->across;
    const struct zt_simd_dft_group group = {
        .plan = &s->plan,
        .numbers = s->numbers,
        .x = &call->in[0],
        .window = s->plan.dft.window ? &call->in[s->plan.dft.window] : NULL,
        .y = &call->out[0],
        .first = first,
        .across = s->across,
        .used = (int)zt_min_int(s->across, s->plan.dft.slices - first),
        .room = (char *)call->workspace + s->room * (size_t)zt_parallel_thread(),
    };
    (s->wide ? s->kernels->doubles : s->kernels->floats)(&group);
}

bool zt_dft_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    const struct state *s = call->state;
    const int64_t slices = s->plan.dft.slices;
    if (slices > 0)
        zt_parallel_for(zt_threads_worth(call->threads, zt_dft_flops(call->graph, call->node->index)),
                        zt_ceil_div(slices, s->across), run_group, (void *)call);
    return true;
}

void zt_dft_cpu_release(void *state) {
    struct state *s = state;
    if (s)
        free(s->numbers);
    free(s);
}
