#include "ops/cpu/gradient/planes.h"

const struct zt_planes_gradient *zt_planes_gradient_make(struct zt_arena *arena, const struct zt_planes_forms *forms) {
    struct zt_planes_gradient w = { 0 }, *made;
    if (forms->is_few_results)
        w.few_results = zt_few_results_gradient_make(arena, &forms->few_results);
    if (forms->is_winograd && !w.few_results)
        w.winograd = zt_winograd_gradient_make(arena, &forms->winograd);
    if (forms->is_pointwise && forms->dtype == ZT_BFLOAT16)
        w.pointwise_bfloat = zt_pointwise_bfloat_make(arena, &forms->pointwise);
    else if (forms->is_pointwise && !w.few_results)
        w.pointwise = zt_pointwise_gradient_make(arena, &forms->pointwise);
    if (!w.few_results && !w.winograd && !w.pointwise && !w.pointwise_bfloat)
        return NULL;
    made = ZT_NEW(arena, struct zt_planes_gradient);
    *made = w;
    return made;
}

bool zt_planes_gradient_reads_plain(const struct zt_planes_gradient *w) {
    return w->few_results != NULL;
}

size_t zt_planes_gradient_bytes(const struct zt_planes_gradient *w, int threads) {
    return w->few_results ? zt_few_results_gradient_bytes(w->few_results)
           : w->winograd  ? zt_winograd_gradient_bytes(w->winograd, threads)
           : w->pointwise ? zt_pointwise_gradient_bytes(w->pointwise)
                          : zt_pointwise_bfloat_bytes(w->pointwise_bfloat, threads);
}

void zt_planes_gradient_run(const struct zt_planes_gradient *w, const struct zt_planes_weights *data, void *workspace,
                            int threads) {
    if (w->few_results)
        zt_few_results_gradient_run(w->few_results, data, workspace, threads);
    else if (w->winograd)
        zt_winograd_gradient_run(w->winograd, data, workspace, threads);
    else if (w->pointwise)
        zt_pointwise_gradient_run(w->pointwise, data, workspace, threads);
    else
        zt_pointwise_bfloat_run(w->pointwise_bfloat, data, workspace, threads);
}
