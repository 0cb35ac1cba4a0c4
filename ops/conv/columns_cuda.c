/* Col2Im and Im2Col on CUDA. */
#include "ops/conv/columns.h"
#include "ops/cuda/describe.h"
#include "ops/conv/launch_columns.h"
#include "ops/cuda/window_cuda.h"

static bool columns_prepare(struct zt_prepare *q, struct zt_err *err) {
    struct zt_columns columns;
    if (!zt_describe_to_cuda(q, &columns, err))
        return false;
    struct zt_launch_columns *c = zt_malloc(sizeof *c);
    *c = (struct zt_launch_columns){ columns.planes, zt_window_cuda(&columns.window) };
    q->state = c;
    return true;
}
static bool im2col_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(
        call, zt_launch_im2col(zt_stream_of(call), call->state, zt_in_cuda(call, 0), zt_out_cuda(call, 0)), err);
}
static bool col2im_run(const struct zt_call *call, struct zt_err *err) {
    return zt_launched(
        call, zt_launch_col2im(zt_stream_of(call), call->state, zt_in_cuda(call, 0), zt_out_cuda(call, 0)), err);
}
const struct zt_kernel zt_kernel_im2col_cuda = { .prepare = columns_prepare, .run = im2col_run, .release = free };
const struct zt_kernel zt_kernel_col2im_cuda = { .prepare = columns_prepare, .run = col2im_run, .release = free };
