/* DFT and STFT on CUDA. The tables of the plan, made on the host, stay in device memory as long as the node. */
#include "ops/signal/dft.h"
#include "ops/signal/launch_dft.h"

#include "ops/cuda/describe.h"

struct dft {
    struct zt_device *device;
    struct zt_launch_dft launch;
    void *numbers; /* in device memory */
    size_t bytes;
};

static void dft_release(void *state) {
    struct dft *s = state;
    if (s && s->numbers)
        s->device->api->free(s->device, s->numbers, s->bytes);
    free(s);
}

/* Copies the tables to the device, rounded to float. Waits, since the host memory is freed next. */
static bool upload(struct dft *s, const double *numbers, struct zt_err *err) {
    const struct zt_device_api *api = s->device->api;
    const int64_t count = 2 * s->launch.plan.table;
    s->bytes = (size_t)(count + 1) * sizeof(float);
    float *narrow = zt_calloc(1, s->bytes);
    for (int64_t i = 0; i < count; i++)
        narrow[i] = (float)numbers[i];
    s->numbers = api->allocate(s->device, s->bytes, "the tables of a Fourier transform", err);
    const bool good =
        s->numbers && api->to_device(s->device, s->numbers, narrow, s->bytes, err) && api->synchronize(s->device, err);
    s->launch.numbers = s->numbers;
    free(narrow);
    return good;
}

/* Slices at a time, by the shape alone: what fills a large GPU, less where that needs much memory. */
static int64_t blocks_of(const struct zt_launch_dft *l) {
    const int64_t most = 132 * 4, room = INT64_C(1) << 23, fit = room / l->rows > 1 ? room / l->rows : 1;
    int64_t blocks = l->plan.dft.slices < most ? l->plan.dft.slices : most;
    if (l->rows > ZT_LAUNCH_DFT_NEAR)
        blocks = blocks < fit ? blocks : fit;
    return blocks;
}

static bool dft_prepare(struct zt_prepare *p, struct zt_err *err) {
    struct zt_dft d;
    if (!zt_describe_to_cuda(p, &d, err))
        return false;
    struct dft *s = zt_calloc(1, sizeof *s);
    struct zt_launch_dft *l = &s->launch;
    s->device = p->device;
    l->plan.dft = d;
    p->state = s;
    if (d.slices == 0)
        return true;
    double *numbers = zt_dft_plan_make(&d, true, &l->plan);
    l->rows = zt_dft_rows(&l->plan);
    l->blocks = blocks_of(l);
    if (l->rows > ZT_LAUNCH_DFT_NEAR)
        p->workspace_bytes = (size_t)(l->blocks * 2 * l->rows) * 2 * sizeof(float);
    const bool good = upload(s, numbers, err);
    free(numbers);
    if (!good) {
        p->state = NULL;
        dft_release(s);
    }
    return good;
}

static bool dft_run(const struct zt_call *call, struct zt_err *err) {
    struct zt_launch_dft l = ((const struct dft *)call->state)->launch;
    if (l.plan.dft.slices == 0)
        return true;
    l.room = l.rows > ZT_LAUNCH_DFT_NEAR ? call->workspace : NULL;
    const int window = l.plan.dft.window;
    return zt_launched(call,
                       zt_launch_dft(zt_stream_of(call), &l, zt_in_cuda(call, 0),
                                     window ? zt_in_cuda(call, window) : (struct zt_launch_tensor){ ZT_FLOAT, NULL },
                                     zt_out_cuda(call, 0)),
                       err);
}

const struct zt_kernel zt_kernel_dft_cuda = { .prepare = dft_prepare, .run = dft_run, .release = dft_release };
