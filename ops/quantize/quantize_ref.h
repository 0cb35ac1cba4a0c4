/* The formulas of quantize.h for one element, in double, for the reference kernels. */
#ifndef ZT_OPS_QUANTIZE_QUANTIZE_REF_H
#define ZT_OPS_QUANTIZE_QUANTIZE_REF_H

#include "ops/quantize/quantize.h"

/* x / scale in the precision of the division. */
double zt_quantize_divide(const struct zt_quantize *q, double x, double scale);
/* q of v = x / scale, as a number, and stored as element `index` of `data`. */
double zt_quantized(const struct zt_quantize *q, double v, double zero);
void zt_quantize_store(const struct zt_quantize *q, double v, double zero, void *data, int64_t index);
/* y of q, before it is rounded to its type. */
double zt_dequantized(double quantized, double zero, double scale);
/* Whether the gradient passes: v + zero lies within the range of q. */
bool zt_quantize_passes(const struct zt_quantize *q, double v, double zero);

/* Calls `one` for every piece of every unit, each unit on one thread. */
struct zt_quantize_job {
    const struct zt_call *call;
    struct zt_quantize q;
    struct zt_quantize_units units;
    void (*one)(const struct zt_quantize_job *job, const struct zt_quantize_run *run);
};
bool zt_quantize_run_ref(const struct zt_call *call,
                         void (*one)(const struct zt_quantize_job *job, const struct zt_quantize_run *run),
                         struct zt_err *err);
/* Element i of input `in`, 0 where it is omitted. */
static inline double zt_quantize_in(const struct zt_quantize_job *job, int in, int64_t i) {
    const struct zt_view *v = in < job->call->in_count ? &job->call->in[in] : NULL;
    return v && v->data ? zt_load_double(v->dtype, v->data, i) : 0;
}

#endif
