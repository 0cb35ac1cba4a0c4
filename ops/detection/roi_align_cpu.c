/* RoiAlign in float on the CPU. The weights of a bin are products of weights of its rows and of its columns, the same
 * for all channels: both are listed once per roi.
 *
 *     roi     [ head | rows: first entry of each bin, entries | columns: the same ]      entry: pixel and weight
 *
 * Mode avg: the entries of a bin are pixels with the sums of their weights. With R and C the matrices of these lists,
 *
 *     y = R x C^T / count        dx += R^T (dy C) / count
 *
 * in which one side is done for a whole row of pixels at a time. Mode max: a pair of entries for each sample, and a bin
 * tries all. The gradient of rois is the reference kernel's: boxes seldom have one. A job is a plane of y, or a plane
 * of dx, to which the rois are added in order. */
#include "ops/detection/roi_align.h"

#include "base/align.h"
#include "device/threads.h"
#include "ops/detection/kernels.h"
#include "ops/kernel/tile.h"

#include <string.h>

/* Limits of samples of an axis and of bytes of all rois; above them the reference kernel runs. */
static const int64_t most_samples = INT64_C(1) << 24, most_bytes = INT64_C(1) << 40;

struct entry {
    int32_t pixel;
    float weight;
};

struct head {
    double grid[2];
    float share;       /* 1 / count */
    int32_t from, end; /* the columns that the roi reads */
    bool known;
};

/* The entries of an axis: those of bin b are entry[first[b]] .. entry[first[b + 1] - 1]. */
struct list {
    int32_t *first;
    struct entry *entry;
};

struct plan {
    struct zt_roi_align r;
    int64_t samples[2]; /* most of an axis */
    size_t list_bytes[2], roi_bytes;
};

/* ---- preparation ---- */

/* A grid of one cell reads at most one position a bin; of more, their distance is above half a pixel. */
static int64_t most_samples_of(const struct zt_roi_align *r, int axis) {
    return r->ratio > 0 ? r->out[axis] * r->ratio : zt_max_int(r->out[axis], 2 * r->in[axis] + 16);
}

static bool make_plan(struct plan *s) {
    s->roi_bytes = zt_align_64(sizeof(struct head));
    for (int a = 0; a < 2; a++) {
        s->samples[a] = most_samples_of(&s->r, a);
        if (s->samples[a] > most_samples || s->r.out[a] > most_samples)
            return false;
        s->list_bytes[a] = zt_align_64((size_t)s->samples[a] * 2 * sizeof(struct entry)) +
                           zt_align_64((size_t)(s->r.out[a] + 1) * sizeof(int32_t));
        s->roi_bytes += s->list_bytes[a];
    }
    return s->r.rois <= most_bytes / (int64_t)s->roi_bytes;
}

static bool read_node(const struct zt_graph *g, int node, struct zt_roi_align *to, struct zt_err *err) {
    return (g->nodes[node]->domain[0] ? zt_roi_align_grad_read : zt_roi_align_read)(g, node, to, err);
}

static bool supports(const struct zt_graph *g, int node) {
    struct plan s;
    struct zt_err err = { 0 };
    return zt_in(g, node, 0)->dtype == ZT_FLOAT && !zt_out(g, node, 1) && read_node(g, node, &s.r, &err) && s.r.c > 0 &&
           s.r.in[0] * s.r.in[1] > 0 && make_plan(&s);
}

bool zt_roi_align_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node);
}
bool zt_roi_align_grad_cpu_supports(const struct zt_graph *g, int node) {
    return supports(g, node);
}

/* The workspace: all rois, then a row of pixels a thread. */
static bool prepare(struct zt_prepare *p, struct zt_err *err) {
    struct plan *s = zt_calloc(1, sizeof *s);
    for (int i = 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    p->out_layout[0] = NULL;
    if (!read_node(p->graph, p->node, &s->r, err) || !make_plan(s)) {
        free(s);
        return false;
    }
    p->workspace_bytes = (size_t)s->r.rois * s->roi_bytes +
                         (size_t)(p->threads > 0 ? p->threads : 1) * zt_align_64((size_t)s->r.in[1] * sizeof(float));
    p->state = s;
    return true;
}
bool zt_roi_align_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, err);
}
bool zt_roi_align_grad_cpu_prepare(struct zt_prepare *p, struct zt_err *err) {
    return prepare(p, err);
}
void zt_roi_align_cpu_release(void *state) {
    free(state);
}
void zt_roi_align_grad_cpu_release(void *state) {
    free(state);
}

/* ---- lists ---- */

struct job {
    const struct zt_call *call;
    const struct plan *s;
    const int64_t *batch;
    const float *x, *dy;
    float *to;
};

static struct head *head_of(const struct job *job, int64_t roi) {
    return (struct head *)((char *)job->call->workspace + (size_t)roi * job->s->roi_bytes);
}
static struct list list_of(const struct job *job, int64_t roi, int axis) {
    const struct plan *s = job->s;
    char *at = (char *)head_of(job, roi) + zt_align_64(sizeof(struct head)) + (axis ? s->list_bytes[0] : 0);
    return (struct list){ .entry = (struct entry *)at,
                          .first = (int32_t *)(at + zt_align_64((size_t)s->samples[axis] * 2 * sizeof(struct entry))) };
}
static float *row_of(const struct job *job) {
    const struct plan *s = job->s;
    return (float *)((char *)job->call->workspace + (size_t)s->r.rois * s->roi_bytes +
                     (size_t)zt_parallel_thread() * zt_align_64((size_t)s->r.in[1] * sizeof(float)));
}

/* Adds an entry to those from `first` on; the weights of one pixel are joined where `join` says so. Positions go one
 * way, so that a pixel is among the last two entries. */
static void add_entry(struct entry *entry, int32_t first, int32_t *count, int64_t pixel, double weight, bool join) {
    for (int32_t i = *count; join && i > first && i > *count - 2; i--)
        if (entry[i - 1].pixel == pixel) {
            entry[i - 1].weight += (float)weight;
            return;
        }
    entry[(*count)++] = (struct entry){ (int32_t)pixel, (float)weight };
}

static void list_axis(const struct job *job, const struct zt_roi_axis *axis, int a, const struct list *to) {
    const struct zt_roi_align *r = &job->s->r;
    int32_t count = 0;
    int64_t samples = 0;
    for (int64_t bin = 0; bin < r->out[a]; bin++) {
        int64_t i = 0, end = 0;
        struct zt_roi_tap tap;
        to->first[bin] = count;
        zt_roi_range(axis, bin, 0, (double)r->in[a] - 1, &i, &end);
        for (; i < end && samples < job->s->samples[a]; i++)
            if (zt_roi_tap(r->in[a], zt_roi_position(r, axis, bin, i), &tap)) {
                add_entry(to->entry, to->first[bin], &count, tap.low, 1 - tap.part, !r->max);
                add_entry(to->entry, to->first[bin], &count, tap.high, tap.part, !r->max);
                samples++;
            }
    }
    to->first[r->out[a]] = count;
}

static void list_roi(void *arg, int64_t roi) {
    const struct job *job = arg;
    const struct zt_roi_align *r = &job->s->r;
    struct head *head = head_of(job, roi);
    struct zt_roi_axis axis[2];
    struct list list[2];
    *head = (struct head){ .from = (int32_t)r->in[1], .known = true };
    for (int a = 0; a < 2; a++) {
        axis[a] = zt_roi_axis_of(r, &job->call->in[1], roi, a);
        list[a] = list_of(job, roi, a);
        head->known &= axis[a].known;
        head->grid[a] = axis[a].grid;
    }
    for (int a = 0; head->known && a < 2; a++)
        list_axis(job, &axis[a], a, &list[a]);
    for (int32_t i = 0; head->known && i < list[1].first[r->out[1]]; i++) {
        head->from = (int32_t)zt_min_int(head->from, list[1].entry[i].pixel);
        head->end = (int32_t)zt_max_int(head->end, list[1].entry[i].pixel + 1);
    }
    head->share = (float)(1 / zt_roi_count(&axis[0], &axis[1]));
}

/* Whether whole rows of pixels are added up: not of a roi that reads few of many columns. */
static bool takes_rows(const struct job *job, const struct head *head, const struct list *columns) {
    return head->end - head->from <= 4 * (int64_t)columns->first[job->s->r.out[1]];
}

/* ---- mode avg ---- */

static void average_by_rows(const struct job *job, int64_t roi, const float *x, float *y) {
    const struct zt_roi_align *r = &job->s->r;
    const struct head *head = head_of(job, roi);
    const struct list rows = list_of(job, roi, 0), columns = list_of(job, roi, 1);
    const int64_t width = zt_max_int(head->end - head->from, 0);
    float *row = row_of(job);
    for (int64_t i = 0; i < r->out[0]; i++) {
        memset(row, 0, (size_t)width * sizeof *row);
        for (int32_t e = rows.first[i]; e < rows.first[i + 1]; e++) {
            const float *from = x + rows.entry[e].pixel * r->in[1] + head->from, weight = rows.entry[e].weight;
            for (int64_t c = 0; c < width; c++)
                row[c] += weight * from[c];
        }
        for (int64_t k = 0; k < r->out[1]; k++) {
            float sum = 0;
            for (int32_t e = columns.first[k]; e < columns.first[k + 1]; e++)
                sum += columns.entry[e].weight * row[columns.entry[e].pixel - head->from];
            y[i * r->out[1] + k] = sum * head->share;
        }
    }
}

static void average_by_entries(const struct job *job, int64_t roi, const float *x, float *y) {
    const struct zt_roi_align *r = &job->s->r;
    const struct list rows = list_of(job, roi, 0), columns = list_of(job, roi, 1);
    for (int64_t bin = 0; bin < r->out[0] * r->out[1]; bin++) {
        const int64_t i = bin / r->out[1], k = bin % r->out[1];
        float sum = 0;
        for (int32_t e = rows.first[i]; e < rows.first[i + 1]; e++) {
            const float *from = x + rows.entry[e].pixel * r->in[1];
            float along = 0;
            for (int32_t f = columns.first[k]; f < columns.first[k + 1]; f++)
                along += columns.entry[f].weight * from[columns.entry[f].pixel];
            sum += rows.entry[e].weight * along;
        }
        y[bin] = sum * head_of(job, roi)->share;
    }
}

static void add_by_rows(const struct job *job, int64_t roi, const float *dy, float *dx) {
    const struct zt_roi_align *r = &job->s->r;
    const struct head *head = head_of(job, roi);
    const struct list rows = list_of(job, roi, 0), columns = list_of(job, roi, 1);
    const int64_t width = zt_max_int(head->end - head->from, 0);
    float *row = row_of(job);
    for (int64_t i = 0; i < r->out[0]; i++) {
        memset(row, 0, (size_t)width * sizeof *row);
        for (int64_t k = 0; k < r->out[1]; k++) {
            const float d = dy[i * r->out[1] + k] * head->share;
            for (int32_t e = columns.first[k]; e < columns.first[k + 1]; e++)
                row[columns.entry[e].pixel - head->from] += columns.entry[e].weight * d;
        }
        for (int32_t e = rows.first[i]; e < rows.first[i + 1]; e++) {
            float *to = dx + rows.entry[e].pixel * r->in[1] + head->from, weight = rows.entry[e].weight;
            for (int64_t c = 0; c < width; c++)
                to[c] += weight * row[c];
        }
    }
}

static void add_by_entries(const struct job *job, int64_t roi, const float *dy, float *dx) {
    const struct zt_roi_align *r = &job->s->r;
    const struct list rows = list_of(job, roi, 0), columns = list_of(job, roi, 1);
    for (int64_t bin = 0; bin < r->out[0] * r->out[1]; bin++) {
        const int64_t i = bin / r->out[1], k = bin % r->out[1];
        const float d = dy[bin] * head_of(job, roi)->share;
        for (int32_t e = rows.first[i]; e < rows.first[i + 1]; e++)
            for (int32_t f = columns.first[k]; f < columns.first[k + 1]; f++)
                dx[rows.entry[e].pixel * r->in[1] + columns.entry[f].pixel] +=
                    rows.entry[e].weight * columns.entry[f].weight * d;
    }
}

/* ---- mode max ---- */

struct largest {
    float value, weight;
    int64_t pixel; /* -1: what is outside */
};

/* The order of the reference kernel: samples row by row, the four corners of each, then what is outside. */
static struct largest largest_of(const struct job *job, int64_t roi, int64_t bin, const float *x) {
    const struct zt_roi_align *r = &job->s->r;
    const struct head *head = head_of(job, roi);
    const struct list rows = list_of(job, roi, 0), columns = list_of(job, roi, 1);
    const int64_t i = bin / r->out[1], k = bin % r->out[1];
    const int64_t inside = (int64_t)(rows.first[i + 1] - rows.first[i]) * (columns.first[k + 1] - columns.first[k]) / 4;
    struct largest best = { 0, 0, -1 };
    bool any = false;
    for (int32_t e = rows.first[i]; e < rows.first[i + 1]; e += 2)
        for (int32_t f = columns.first[k]; f < columns.first[k + 1]; f += 2)
            for (int c = 0; c < 4; c++) {
                const struct entry *row = &rows.entry[e + (c >> 1)], *column = &columns.entry[f + (c & 1)];
                const int64_t pixel = row->pixel * r->in[1] + column->pixel;
                const float weight = row->weight * column->weight, value = weight * x[pixel];
                if (!any || value > best.value || (value != value && best.value == best.value))
                    best = (struct largest){ value, weight, pixel };
                any = true;
            }
    if (inside > 0 && (double)inside < head->grid[0] * head->grid[1] && best.value < 0)
        best = (struct largest){ 0, 0, -1 };
    return best;
}

/* ---- planes ---- */

static void pool_plane(void *arg, int64_t at) {
    const struct job *job = arg;
    const struct zt_roi_align *r = &job->s->r;
    const int64_t roi = at / r->c, bins = r->out[0] * r->out[1];
    const float *x = job->x + (job->batch[roi] * r->c + at % r->c) * r->in[0] * r->in[1];
    const struct list columns = list_of(job, roi, 1);
    float *y = job->to + at * bins;
    if (!head_of(job, roi)->known)
        for (int64_t i = 0; i < bins; i++)
            y[i] = NAN;
    else if (r->max)
        for (int64_t i = 0; i < bins; i++)
            y[i] = largest_of(job, roi, i, x).value;
    else if (takes_rows(job, head_of(job, roi), &columns))
        average_by_rows(job, roi, x, y);
    else
        average_by_entries(job, roi, x, y);
}

static void add_largest(const struct job *job, int64_t roi, int64_t plane, const float *dy, float *dx) {
    const struct zt_roi_align *r = &job->s->r;
    for (int64_t i = 0; i < r->out[0] * r->out[1]; i++) {
        const struct largest best = largest_of(job, roi, i, job->x + plane * r->in[0] * r->in[1]);
        if (best.pixel >= 0)
            dx[best.pixel] += best.weight * dy[i];
    }
}

static void grad_plane(void *arg, int64_t at) {
    const struct job *job = arg;
    const struct zt_roi_align *r = &job->s->r;
    float *dx = job->to + at * r->in[0] * r->in[1];
    memset(dx, 0, (size_t)(r->in[0] * r->in[1]) * sizeof *dx);
    for (int64_t roi = 0; roi < r->rois; roi++) {
        const float *dy = job->dy + (roi * r->c + at % r->c) * r->out[0] * r->out[1];
        const struct list columns = list_of(job, roi, 1);
        if (job->batch[roi] != at / r->c || !head_of(job, roi)->known)
            continue;
        if (r->max)
            add_largest(job, roi, at, dy, dx);
        else if (takes_rows(job, head_of(job, roi), &columns))
            add_by_rows(job, roi, dy, dx);
        else
            add_by_entries(job, roi, dy, dx);
    }
}

static bool run(const struct zt_call *call, struct job *job, int64_t planes, void (*plane)(void *, int64_t),
                struct zt_err *err) {
    job->call = call;
    job->s = call->state;
    job->batch = call->in[2].data;
    job->to = call->out[0].data;
    if (!zt_roi_check_batch(call, &job->s->r, err))
        return false;
    zt_parallel_for(call->threads, job->s->r.rois, list_roi, job);
    zt_parallel_for(call->threads, planes, plane, job);
    return true;
}

bool zt_roi_align_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_roi_align *r = &((const struct plan *)call->state)->r;
    return run(call, &(struct job){ .x = call->in[0].data }, r->rois * r->c, pool_plane, err);
}

bool zt_roi_align_grad_cpu_run(const struct zt_call *call, struct zt_err *err) {
    const struct zt_roi_align *r = &((const struct plan *)call->state)->r;
    struct job job = { .dy = call->in[0].data, .x = call->in_count > 3 ? call->in[3].data : NULL };
    return run(call, &job, r->n * r->c, grad_plane, err);
}
