/* Quantization on the CPU: units of runs (quantize.h), each run or part of one a stretch of a vector loop
 * (simd_quantize.h). Scales and zero points are made floats first.
 *
 * The gradient of a scale sums in double. Units of runs with one scale each give a sum a piece, which are added in the
 * order of the pieces. Where adjacent elements have adjacent scales, the runs are cut into at most GROUPS groups with
 * an array of sums each, and the arrays are added in the order of the groups. */
#include "ops/quantize/kernels.h"
#include "ops/quantize/simd_quantize.h"
#include "ops/quantize/quantize.h"

#include "device/threads.h"
#include "ops/kernel/element_blocks.h"
#include "ops/kernel/shape.h"

#include <stdlib.h>
#include <string.h>

enum { GROUPS = 32 };

struct quantize_state {
    struct zt_quantize q;
    struct zt_quantize_units units;
    const struct zt_quantize_kernels *kernels;
    int first;            /* input of x */
    bool from_q, to_q;    /* DequantizeLinear, QuantizeLinear */
    bool sums;            /* the gradient of the scale is wanted */
    int64_t groups, each; /* arrays of sums and their lengths; each 0: a sum a piece */
};

static bool is_float(const struct zt_value *v) {
    return !v || v->dtype == ZT_FLOAT;
}

static bool takes(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    const int first = zt_quantize_first(n);
    struct zt_quantize q;
    struct zt_err none = { 0 };
    const bool dequantize = strcmp(n->op_type, "DequantizeLinear") == 0;
    if (!zt_quantize_kernels() || !zt_quantize_read(g, node, first, &q, &none))
        return false;
    for (int i = 0; i < first + 2; i++)
        if (!(dequantize && i == 0) && !is_float(zt_in(g, node, i)))
            return false;
    const struct zt_value *y = zt_out(g, node, 0);
    return q.integer && q.scales > 0 && (dequantize || q.precision == ZT_FLOAT) &&
           (strcmp(n->op_type, "QuantizeLinear") == 0 || is_float(y));
}

bool zt_quantize_cpu_supports(const struct zt_graph *g, int node) {
    return takes(g, node);
}

bool zt_fake_quantize_grad_cpu_supports(const struct zt_graph *g, int node) {
    return takes(g, node);
}

/* Groups of runs where adjacent elements have adjacent scales: all runs of a block of blocked scales, as they are those
 * of one array. */
static void choose_groups(struct quantize_state *s) {
    const struct zt_quantize *q = &s->q;
    const bool vector = zt_quantize_runs(q) > 0 && zt_quantize_run_at(q, 0).step;
    s->each = vector ? q->scales : 0;
    s->groups = !vector ? 0 : q->inner_step ? 1 : s->units.runs < GROUPS ? s->units.runs : GROUPS;
}

static size_t sum_count(const struct quantize_state *s) {
    const int64_t per_unit = s->units.parts > 1 ? 1 : s->units.group;
    return (size_t)(s->each ? s->groups * s->each : s->units.units * per_unit);
}

bool zt_quantize_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    const struct zt_node *n = p->graph->nodes[p->node];
    struct quantize_state *s = zt_calloc(1, sizeof *s);
    s->first = zt_quantize_first(n);
    if (!zt_quantize_read(p->graph, p->node, s->first, &s->q, err)) {
        free(s);
        return false;
    }
    for (int i = 0; i < n->in_count; i++)
        p->in_layout[i] = NULL;
    s->units = zt_quantize_units_of(&s->q);
    s->kernels = zt_quantize_kernels();
    s->from_q = strcmp(n->op_type, "DequantizeLinear") == 0;
    s->to_q = strcmp(n->op_type, "QuantizeLinear") == 0;
    s->sums = n->out_count > 1 && n->out[1] >= 0;
    choose_groups(s);
    p->workspace_bytes = 2 * (size_t)s->q.scales * sizeof(float) + 64;
    if (s->sums)
        p->workspace_bytes += (sum_count(s) + (size_t)s->q.scales) * sizeof(double);
    p->state = s;
    return true;
}

bool zt_fake_quantize_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return zt_quantize_cpu_prepare(p, err);
}

/* ---- a run ---- */

struct quantize_job {
    const struct zt_call *call;
    const struct quantize_state *s;
    float *scale, *zero;
    double *sum; /* NULL: not wanted */
};

/* Scales and zero points as floats behind one another, then the sums. */
static struct quantize_job start(const struct zt_call *call) {
    const struct quantize_state *s = call->state;
    const struct zt_view *scale = &call->in[s->first + 1];
    const struct zt_view *zero = call->in_count > s->first + 2 ? &call->in[s->first + 2] : NULL;
    const int64_t count = s->q.scales;
    struct quantize_job job = { call, s, call->workspace, (float *)call->workspace + count, NULL };
    for (int64_t i = 0; i < count; i++) {
        job.scale[i] = (float)zt_load_double(scale->dtype, scale->data, i);
        job.zero[i] = zero && zero->data ? (float)zt_load_double(zero->dtype, zero->data, i) : 0;
    }
    if (s->sums) {
        job.sum = (double *)((char *)call->workspace + (2 * (size_t)count * sizeof(float) + 7) / 8 * 8);
        memset(job.sum, 0, sum_count(s) * sizeof *job.sum);
    }
    return job;
}

static struct zt_quantize_span span_of(const struct quantize_job *job, const struct zt_quantize_run *run) {
    const struct quantize_state *s = job->s;
    const struct zt_view *x = &job->call->in[s->first], *to = &job->call->out[0];
    return (struct zt_quantize_span){
        .count = run->count,
        .from = zt_element(x->data, zt_dtype_bytes(x->dtype), run->at),
        .dy = s->first ? (const float *)job->call->in[0].data + run->at : NULL,
        .scale = job->scale + run->scale,
        .zero = job->zero + run->scale,
        .step = run->step,
        .type = s->q.type,
        .low = (float)s->q.low,
        .high = (float)s->q.high,
        .to = to->data ? zt_element(to->data, zt_dtype_bytes(to->dtype), run->at) : NULL,
    };
}

static void run_unit(void *arg, int64_t unit) {
    const struct quantize_job *job = arg;
    const struct quantize_state *s = job->s;
    const struct zt_quantize_kernels *k = s->kernels;
    const int64_t pieces = zt_quantize_pieces(&s->units, unit);
    for (int64_t i = 0; i < pieces; i++) {
        const struct zt_quantize_run run = zt_quantize_piece(&s->units, unit, i);
        const struct zt_quantize_span span = span_of(job, &run);
        if (s->first)
            k->gradient(&span, job->sum ? job->sum + unit * (s->units.parts > 1 ? 1 : s->units.group) + i : NULL);
        else
            (s->from_q ? k->dequantize : s->to_q ? k->quantize : k->fake)(&span);
    }
}

bool zt_quantize_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct quantize_job job = start(call);
    zt_parallel_for(zt_threads_worth(call->threads, 4.0 * (double)zt_shape_count(&call->out[0].shape)),
                    job.s->units.units, run_unit, &job);
    return true;
}

void zt_quantize_cpu_release(void *state) {
    free(state);
}

/* ---- the gradient of scales ---- */

/* Runs first..last of a group, to its array of sums. */
static void run_group(void *arg, int64_t group) {
    const struct quantize_job *job = arg;
    const struct quantize_state *s = job->s;
    const int64_t last = s->units.runs * (group + 1) / s->groups;
    for (int64_t i = s->units.runs * group / s->groups; i < last; i++) {
        const struct zt_quantize_run run = zt_quantize_run_at(&s->q, i);
        const struct zt_quantize_span span = span_of(job, &run);
        s->kernels->gradient(&span, job->sum + group * s->each + run.scale);
    }
}

static void store_vector(const struct quantize_job *job, float *to, double factor) {
    for (int64_t i = 0; i < job->s->each; i++) {
        double sum = 0;
        for (int64_t group = 0; group < job->s->groups; group++)
            sum += job->sum[group * job->s->each + i];
        to[i] = (float)(factor * sum);
    }
}

/* Behind the sums of the pieces those of the scales: by axis a scale is met again for each outer index. */
static void store_pieces(const struct quantize_job *job, float *to, double factor) {
    const struct zt_quantize_units *u = &job->s->units;
    const int64_t per_unit = u->parts > 1 ? 1 : u->group;
    double *total = job->sum + sum_count(job->s);
    memset(total, 0, (size_t)job->s->q.scales * sizeof *total);
    for (int64_t unit = 0; unit < u->units; unit++)
        for (int64_t i = 0; i < zt_quantize_pieces(u, unit); i++)
            total[zt_quantize_piece(u, unit, i).scale] += job->sum[unit * per_unit + i];
    for (int64_t i = 0; i < job->s->q.scales; i++)
        to[i] = (float)(factor * total[i]);
}

bool zt_fake_quantize_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    (void)err;
    struct quantize_job job = start(call);
    const struct quantize_state *s = job.s;
    const int threads = zt_threads_worth(call->threads, 4.0 * (double)zt_shape_count(&call->in[0].shape));
    const bool vector = s->sums && s->each;
    zt_parallel_for(threads, vector ? s->groups : s->units.units, vector ? run_group : run_unit, &job);
    if (s->sums)
        (vector ? store_vector : store_pieces)(&job, call->out[1].data, zt_quantize_scale_factor(&s->q));
    return true;
}

void zt_fake_quantize_grad_cpu_release(void *state) {
    free(state);
}
