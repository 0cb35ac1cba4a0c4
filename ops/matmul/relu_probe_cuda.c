#include "ops/matmul/relu_probe_cuda.h"

#include "device/cuda.h"
#include "device/device.h"
#include "ops/cuda/describe.h"
#include "ops/cuda/launch_broadcast.h"
#include "ops/matmul/matmul.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 1024 }; /* of the first row, whose bits are compared */

/* All inputs are `in`; the members point into one block of memory. */
struct probe {
    struct zt_device *device;
    const struct zt_blas *blas;
    const struct zt_blas_spec *spec;
    char *in, *y, *z, *workspace;
    size_t in_bytes;
};

static size_t bytes_of(const struct zt_blas_matrix *m) {
    return (size_t)(m->rows * m->row_step) * zt_dtype_bytes(m->dtype);
}

static bool has_bits(const struct probe *p) {
    return p->spec->then == ZT_BLAS_RELU_KEEP;
}

/* Fills the inputs with zeros, or with NaN; zero times NaN is NaN too. */
static bool fill(const struct probe *p, bool nan, struct zt_err *err) {
    const enum zt_dtype dtype = p->spec->a.dtype;
    const struct zt_launch_walk all = { .rank = 1, .dim = { (int64_t)(p->in_bytes / zt_dtype_bytes(dtype)) } };
    if (!nan)
        return p->device->api->zero(p->device, p->in, p->in_bytes, err);
    return p->device->api->zero(p->device, p->y, zt_dtype_bytes(dtype), err) &&
           zt_cuda_good(p->device, zt_launch_broadcast(zt_cuda_stream(p->device), dtype, &all, NAN, p->y, p->in), err,
                        "ReLU");
}

/* Whether the first row is ReLU of zeros, or of NaN. */
static bool looks(const struct probe *p, bool nan, struct zt_err *err) {
    const int64_t n = p->spec->y.columns < COLUMNS ? p->spec->y.columns : COLUMNS;
    const enum zt_dtype dtype = p->spec->y.dtype;
    unsigned char bits[COLUMNS / 8], y[8];
    memset(bits, nan ? 0xff : 0, sizeof bits);
    memset(y, nan ? 0xff : 0, sizeof y);
    if (!p->device->api->to_host(p->device, y, p->y, zt_dtype_bytes(dtype), err) ||
        (has_bits(p) && !p->device->api->to_host(p->device, bits, p->z, (size_t)(n + 7) / 8, err)) ||
        !p->device->api->synchronize(p->device, err))
        return false;
    const double first = zt_load_double(dtype, y, 0);
    bool same = nan ? isnan(first) : first == 0;
    for (int64_t c = 0; c < n; c++)
        same &= (bits[c / 8] >> c % 8 & 1) == nan;
    return same;
}

/* Runs the product with b at `off` bytes behind an aligned address and checks the first row. */
static bool is_relu_of(const struct probe *p, bool nan, size_t off, struct zt_err *err) {
    const struct zt_blas_data data = { .a = p->in,
                                       .b = p->in + off,
                                       .bias = p->spec->bias ? p->in : NULL,
                                       .y = p->y,
                                       .z = has_bits(p) ? p->z : NULL,
                                       .alpha = 1 };
    return !zt_blas_takes(p->blas, &data) ||
           (fill(p, nan, err) && zt_blas_run(p->blas, &data, p->workspace, "ReLU", err) && looks(p, nan, err));
}

bool zt_relu_probe(struct zt_device *device, const struct zt_blas *blas, const struct zt_blas_spec *spec) {
    struct probe p = { device, blas, spec, .in_bytes = bytes_of(&spec->a) };
    const size_t b = bytes_of(&spec->b), off = zt_dtype_bytes(spec->b.dtype);
    p.in_bytes = zt_room_cuda((b > p.in_bytes ? b : p.in_bytes) + off);
    const size_t y = zt_room_cuda(bytes_of(&spec->y)),
                 z = zt_room_cuda((size_t)(spec->y.rows * ZT_LINEAR_BITS(spec->y.columns) / 8)),
                 all = p.in_bytes + y + z + zt_blas_workspace_bytes(blas);
    struct zt_err err = { 0 };
    char *memory = p.in = device->api->allocate(device, all, "a product that is tried", &err);
    if (!memory)
        return false;
    p.y = p.in + p.in_bytes;
    p.z = p.y + y;
    p.workspace = p.z + z;
    bool good = true;
    for (int variant = 0; variant < 4; variant++)
        good = good && is_relu_of(&p, variant & 1, variant & 2 ? off : 0, &err);
    device->api->free(device, memory, all);
    return good;
}
