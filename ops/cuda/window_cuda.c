#include "ops/cuda/window_cuda.h"

struct zt_launch_window zt_window_cuda(const struct zt_window *w) {
    struct zt_launch_window to;
    const int lead = ZT_LAUNCH_AXES - w->axes;
    for (int k = 0; k < ZT_LAUNCH_AXES; k++) {
        const int a = k - lead;
        to.in[k] = a < 0 ? 1 : w->in[a];
        to.out[k] = a < 0 ? 1 : w->out[a];
        to.kernel[k] = a < 0 ? 1 : w->kernel[a];
        to.stride[k] = a < 0 ? 1 : w->stride[a];
        to.dilation[k] = a < 0 ? 1 : w->dilation[a];
        to.pad[k] = a < 0 ? 0 : w->pad[a];
        to.pad_end[k] = a < 0 ? 0 : w->pad_end[a];
    }
    return to;
}
