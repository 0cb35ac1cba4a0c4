#include "ops/cpu/gradient/planes.h"

const struct zt_planes_gradient *zt_planes_gradient_make(struct zt_arena *arena, const struct zt_planes_forms *forms) {
    struct zt_planes_gradient w = { 0 }, *made;
    if (forms->is_taps && forms->taps.results <= ZT_TAPS_FEW)
        w.taps = zt_taps_gradient_make(arena, &forms->taps);
    if (forms->is_winograd && !w.taps)
        w.winograd = zt_winograd_gradient_make(arena, &forms->winograd);
    if (forms->is_pointwise && forms->dtype == ZT_BFLOAT16)
        w.pointwise_bfloat = zt_pointwise_bfloat_make(arena, &forms->pointwise);
    else if (forms->is_pointwise && !w.taps)
        w.pointwise = zt_pointwise_gradient_make(arena, &forms->pointwise);
    if (forms->is_taps && !w.taps && !w.winograd && !w.pointwise)
        w.taps = zt_taps_gradient_make(arena, &forms->taps);
    if (!w.taps && !w.winograd && !w.pointwise && !w.pointwise_bfloat)
        return NULL;
    made = ZT_NEW(arena, struct zt_planes_gradient);
    *made = w;
    return made;
}

bool zt_planes_gradient_reads_plain(const struct zt_planes_gradient *w) {
    return w->taps && zt_taps_gradient_reads_plain(w->taps);
}

size_t zt_planes_gradient_bytes(const struct zt_planes_gradient *w, int threads) {
    return w->taps        ? zt_taps_gradient_bytes(w->taps)
           : w->winograd  ? zt_winograd_gradient_bytes(w->winograd, threads)
           : w->pointwise ? zt_pointwise_gradient_bytes(w->pointwise)
                          : zt_pointwise_bfloat_bytes(w->pointwise_bfloat, threads);
}

void zt_planes_gradient_run(const struct zt_planes_gradient *w, const struct zt_planes_weights *data, void *workspace,
                            int threads) {
    if (w->taps)
        zt_taps_gradient_run(w->taps, data, workspace, threads);
    else if (w->winograd)
        zt_winograd_gradient_run(w->winograd, data, workspace, threads);
    else if (w->pointwise)
        zt_pointwise_gradient_run(w->pointwise, data, workspace, threads);
    else
        zt_pointwise_bfloat_run(w->pointwise_bfloat, data, workspace, threads);
}
