#include "ops/quantize/quantize_ref.h"

#include "device/threads.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include <math.h>

static double rounded(enum zt_dtype to, double x) {
    uint64_t room = 0;
    zt_store_double(to, &room, 0, x);
    return zt_load_double(to, &room, 0);
}

/* The quotient of two numbers of at most 24 bits is rounded to double first, which does not change its rounding to 24
 * bits or fewer (Figueroa, "When is double rounding innocuous?", 1995). */
double zt_quantize_divide(const struct zt_quantize *q, double x, double scale) {
    return rounded(q->precision, rounded(q->precision, x) / rounded(q->precision, scale));
}

static double clipped(const struct zt_quantize *q, double v, double zero) {
    const double sum = rint(v) + zero;
    return !(sum > q->low) ? q->low : sum < q->high ? sum : q->high;
}

/* Without a zero point -0 stays. */
static double shifted(double v, double zero) {
    return zero != 0 ? v + zero : v;
}

void zt_quantize_store(const struct zt_quantize *q, double v, double zero, void *data, int64_t index) {
    if (q->integer)
        zt_store_int(q->type, data, index, (int64_t)clipped(q, v, zero));
    else
        zt_store_narrow(q->type, data, index, shifted(v, zero), (struct zt_narrow_rule){ q->saturate, ZT_E8M0_UP });
}

double zt_quantized(const struct zt_quantize *q, double v, double zero) {
    uint8_t code;
    if (q->integer)
        return clipped(q, v, zero);
    zt_quantize_store(q, v, zero, &code, 0);
    return zt_load_double(q->type, &code, 0);
}

double zt_dequantized(double quantized, double zero, double scale) {
    return (float)(quantized - zero) * (float)scale;
}

bool zt_quantize_passes(const struct zt_quantize *q, double v, double zero) {
    return v >= (float)(q->low - zero) && v <= (float)(q->high - zero);
}

static void run_unit(void *arg, int64_t unit) {
    const struct zt_quantize_job *job = arg;
    const int64_t pieces = zt_quantize_pieces(&job->units, unit);
    for (int64_t i = 0; i < pieces; i++) {
        const struct zt_quantize_run run = zt_quantize_piece(&job->units, unit, i);
        job->one(job, &run);
    }
}

bool zt_quantize_run_ref(const struct zt_call *call,
                         void (*one)(const struct zt_quantize_job *job, const struct zt_quantize_run *run),
                         struct zt_err *err) {
    struct zt_quantize_job job = { .call = call, .one = one };
    if (!zt_quantize_read(call->graph, zt_call_node(call), zt_quantize_first(call->node), &job.q, err))
        return false;
    job.units = zt_quantize_units_of(&job.q);
    zt_parallel_for(zt_threads_worth(call->threads, 16.0 * (double)zt_shape_count(&call->out[0].shape)),
                    job.units.units, run_unit, &job);
    return true;
}
