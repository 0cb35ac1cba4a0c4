#include "parallel/schedule/cost.h"

#include "graph/ir/op.h"

static double elements_of(const struct zt_value *v) {
    return v ? (double)zt_shape_count(&v->shape) : 0;
}

/* Light rows read no more elements of an input than they write: Gather and Slice leave the others alone. */
double zt_cost_bytes(const struct zt_graph *g, int node) {
    const struct zt_node *n = g->nodes[node];
    double bytes = 0, written = 0;
    for (int i = 0; i < n->out_count; i++) {
        bytes += (double)zt_value_bytes(zt_out(g, node, i));
        written += elements_of(zt_out(g, node, i));
    }
    for (int i = 0; i < n->in_count; i++) {
        const struct zt_value *v = zt_in(g, node, i);
        bool part = n->op->flags & ZT_OP_LIGHT && elements_of(v) > written;
        bytes += (double)zt_value_bytes(v) * (part ? written / elements_of(v) : 1);
    }
    return bytes;
}

/* Returns the time of a node's arithmetic at the share `efficiency` of the machine's rate. */
static double work_seconds(const struct zt_machine *m, const struct zt_graph *g, int node, double efficiency) {
    const struct zt_op *op = g->nodes[node]->op;
    const struct zt_value *v = zt_in(g, node, 0);
    bool half = v && (v->dtype == ZT_BFLOAT16 || v->dtype == ZT_FLOAT16);
    const bool light = op->flags & ZT_OP_LIGHT;
    /* light rows without a kernel of the CPU copy: their reference kernels are as fast */
    bool plain = g->nodes[node]->backend == ZT_REF && m->plain_flops > 0 && !(light && !op->kernel[ZT_CPU].run);
    double rate = m->element_flops, move = zt_cost_bytes(g, node) / m->memory_rate;
    if (op->flops) /* products, and nodes that count as products: sums, recurrent cells */
        rate = half ? m->half_flops : op->flags & ZT_OP_WINDOWS ? m->conv_flops : m->product_flops;
    if (plain)
        rate = m->plain_flops;
    if (light && !plain)
        return move;
    const struct zt_kernel *kernel = &op->kernel[g->nodes[node]->backend];
    const double share = kernel->share ? kernel->share(g, node) : 1;
    double compute = share * zt_op_work(g, node) / (rate * efficiency);
    return compute > move ? compute : move;
}

double zt_cost_node(const struct zt_machine *m, const struct zt_graph *g, int node) {
    return work_seconds(m, g, node, m->efficiency) + m->node_seconds;
}

double zt_cost_floor(const struct zt_machine *m, const struct zt_graph *g, int node) {
    return work_seconds(m, g, node, 1);
}

int64_t zt_cost_sent(int ranks, int64_t bytes) {
    return ranks > 1 ? bytes / ranks * (ranks - 1) : 0;
}

double zt_cost_half_reduce(const struct zt_machine *m, int ranks, int64_t bytes) {
    int here = ranks < m->per_host ? ranks : m->per_host, hosts = (ranks + here - 1) / here;
    double inside = (double)bytes * (here - 1) / here / m->link_rate + (here - 1) * m->link_seconds;
    return inside + (double)bytes / here * (hosts - 1) / hosts / m->net_rate + (hosts - 1) * m->net_seconds;
}

/* Of a message between neighbouring stages of the grid. */
static double message_seconds(const struct zt_machine *m, const struct zt_grid *grid, int64_t bytes) {
    bool hosts = grid->data >= m->per_host || grid->world > m->per_host;
    if (m->send_rate > 0)
        return (double)bytes / m->send_rate + m->send_seconds;
    return (double)bytes / (hosts ? m->net_rate : m->link_rate) + (hosts ? m->net_seconds : m->link_seconds);
}

/* ---- one stage ---- */

struct walk {
    const struct zt_machine *m;
    const struct zt_grid *grid;
    const struct zt_flats *flats;
    struct zt_spans *to;
    int64_t *gathered, *reduced; /* bytes sent in one run of the phase, by kind; those of last_only once a step */
    int runs;                    /* of the phase in a step */
    const double *times;         /* measured, as enum zt_part has it; NULL: not */
    int64_t reduce_width;        /* bytes of an element that is reduced */
};

static double measured(const double *times, int at, double estimate) {
    return times && times[at] >= 0 ? times[at] : estimate;
}

static void add_compute(struct zt_spans *to, double seconds) {
    if (!to->count || to->at[to->count - 1].kind != ZT_SPAN_COMPUTE)
        to->at[to->count++] = (struct zt_span){ .kind = ZT_SPAN_COMPUTE };
    to->at[to->count - 1].seconds += seconds;
}

static void add_collective(const struct walk *w, const struct zt_command *c) {
    bool gather = c->kind == ZT_GATHER;
    int64_t width = gather ? (int64_t)sizeof(float) : w->reduce_width;
    int64_t bytes = zt_flats_elems(w->flats, c->bucket) * width;
    double seconds = zt_cost_half_reduce(w->m, w->grid->data, bytes);
    int64_t sent = zt_cost_sent(w->grid->data, bytes) * (c->last_only ? 1 : w->runs);
    *(gather ? w->gathered : w->reduced) += c->all ? 2 * sent : sent;
    w->to->at[w->to->count++] = (struct zt_span){ .kind = gather ? ZT_SPAN_GATHER : ZT_SPAN_REDUCE,
                                                  .seconds = c->all ? 2 * seconds : seconds,
                                                  .bucket = c->bucket,
                                                  .last_only = c->last_only };
}

/* All persistent tensors in one all-gather. */
static void add_keep(const struct walk *w) {
    int64_t bytes = w->flats->trained->persistent * (int64_t)sizeof(float);
    *w->gathered += zt_cost_sent(w->grid->data, bytes);
    w->to->at[w->to->count++] =
        (struct zt_span){ .kind = ZT_SPAN_GATHER, .seconds = zt_cost_half_reduce(w->m, w->grid->data, bytes) };
}

static double walk(const struct walk *w, const struct zt_graph *g, const struct zt_command *at, int count) {
    double compute = 0;
    for (int i = 0; i < count; i++) {
        if (at[i].kind == ZT_GATHER || at[i].kind == ZT_REDUCE) {
            add_collective(w, &at[i]);
        } else if (at[i].kind == ZT_GATHER_PERSISTENT) {
            add_keep(w);
        } else if (at[i].kind == ZT_GATHERED || at[i].kind == ZT_REDUCED) {
            w->to->at[w->to->count++] =
                (struct zt_span){ .kind = at[i].kind == ZT_GATHERED ? ZT_SPAN_GATHERED : ZT_SPAN_REDUCED,
                                  .bucket = at[i].bucket,
                                  .last_only = at[i].last_only };
        } else if (at[i].kind == ZT_RUN_NODE) {
            double seconds = measured(w->times, ZT_PARTS + at[i].node, zt_cost_node(w->m, g, at[i].node));
            add_compute(w->to, seconds);
            compute += seconds;
        } else if (at[i].kind == ZT_ADD_GRAD || at[i].kind == ZT_ZERO_GRAD) {
            double seconds = 12.0 * (double)w->flats->trained->tensors[at[i].tensor].count / w->m->memory_rate;
            add_compute(w->to, seconds);
            compute += seconds;
        }
    }
    return compute;
}

static int64_t boundary_bytes(const struct zt_boundary_tensors *c) {
    int64_t bytes = 0;
    for (int i = 0; i < c->count; i++)
        bytes += (int64_t)c->at[i].bytes;
    return bytes;
}

/* ---- files ---- */

static double move_seconds(const struct zt_machine *m, int64_t read, int64_t written) {
    return (read ? (double)read / m->file_read_rate : 0) + (written ? (double)written / m->file_write_rate : 0);
}

static double longer(double a, double b) {
    return a > b ? a : b;
}

/* Seconds of an update of `seconds` with its transfers. */
static double with_files(const struct zt_machine *m, const struct zt_file_work *f, double seconds) {
    const double beside =
        move_seconds(m, f->reads_ahead ? f->update_read : 0, f->writes_behind ? f->update_written : 0);
    return longer(seconds, beside) + move_seconds(m, f->update_read, f->update_written) - beside;
}

/* Adds the seconds for which a phase waits for `read` bytes of weights. Reads after the first one overlap with its
 * kernels, which take `compute` seconds. */
static void add_reads(const struct walk *w, int64_t read, int64_t first, double compute) {
    const double seconds = move_seconds(w->m, read, 0), rest = move_seconds(w->m, read - first, 0);
    if (read)
        add_compute(w->to, seconds - (rest < compute ? rest : compute));
}

void zt_cost_stage(struct zt_arena *arena, const struct zt_machine *m, const struct zt_grid *grid,
                   const struct zt_stage_work *work, struct zt_stage_cost *to) {
    const struct zt_program *p = work->program;
    const struct zt_graph *g = p->training_graph.graph;
    double norm = (double)work->norm_bytes / m->memory_rate, update = (double)work->update_bytes / m->memory_rate;
    if (work->update_flops > 0)
        update += work->update_flops / (m->product_flops * m->efficiency);
    const struct zt_file_work *f = &work->files;
    *to = (struct zt_stage_cost){ .load_seconds = measured(work->times, ZT_PART_LOAD, 0),
                                  .norm_seconds = measured(work->times, ZT_PART_NORM, norm),
                                  .update_seconds = measured(work->times, ZT_PART_UPDATE, with_files(m, f, update)),
                                  .own_channel = m->own_channel,
                                  .file_seconds = move_seconds(
                                      m, f->update_read + work->micro_batches * (f->forward_read + f->backward_read),
                                      f->update_written),
                                  .buckets = zt_flats_buckets(&work->flats) };
    to->forward.at = ZT_NEW_N(arena, struct zt_span, p->forward_count + 2);
    to->backward.at = ZT_NEW_N(arena, struct zt_span, p->backward_count + 2);
    to->after_step.at = ZT_NEW_N(arena, struct zt_span, work->after_count + p->derive_count + 1);
    struct walk w = { m,
                      grid,
                      &work->flats,
                      &to->forward,
                      &to->gather_bytes,
                      &to->reduce_bytes,
                      work->micro_batches,
                      work->times,
                      work->reduce_width };
    to->forward_seconds = walk(&w, g, p->forward, p->forward_count);
    add_reads(&w, f->forward_read, f->forward_first, f->gathers_ahead ? to->forward_seconds : 0);
    w.to = &to->backward;
    to->backward_seconds = walk(&w, g, p->backward, p->backward_count);
    add_reads(&w, f->backward_read, f->backward_first, f->gathers_ahead ? to->backward_seconds : 0);
    w.to = &to->after_step;
    w.runs = 1;
    walk(&w, g, work->after, work->after_count);
    to->derive_seconds = walk(&w, g, p->derive, p->derive_count);
    int64_t act = boundary_bytes(&p->send_act), grad = boundary_bytes(&p->send_grad);
    to->send_act_seconds = act ? message_seconds(m, grid, act) : 0;
    to->send_grad_seconds = grad ? message_seconds(m, grid, grad) : 0;
    to->send_bytes = (act + grad) * work->micro_batches;
}

static double kernels(const struct zt_machine *m, const struct zt_graph *g, const struct zt_command *at, int count) {
    double seconds = 0;
    for (int i = 0; i < count; i++)
        seconds += at[i].kind == ZT_RUN_NODE ? zt_cost_node(m, g, at[i].node) : 0;
    return seconds;
}

void zt_cost_replicas(const struct zt_machine *m, const struct zt_grid *grid, const struct zt_program *model,
                      const struct zt_program *loss, int64_t input_bytes, struct zt_stage_cost *to) {
    int others = grid->world - 1; /* one after the other */
    const struct zt_graph *g = loss->training_graph.graph;
    to->scatter_seconds = others * message_seconds(m, grid, input_bytes);
    to->gather_act_seconds = others * message_seconds(m, grid, boundary_bytes(&model->send_act));
    to->scatter_grad_seconds = others * message_seconds(m, grid, boundary_bytes(&model->recv_grad));
    to->loss_forward_seconds = kernels(m, g, loss->forward, loss->forward_count);
    to->loss_backward_seconds = kernels(m, g, loss->backward, loss->backward_count);
}
