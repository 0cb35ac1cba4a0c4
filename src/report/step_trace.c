#include "report/step_trace.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "parallel/schedule/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(const struct zt_timer *t) {
    static const char *const names[] = { [ZT_TIMER_END - ZT_TIMER_END] = "end of step",
                                         [ZT_TIMER_DERIVE - ZT_TIMER_END] = "derive weights",
                                         [ZT_TIMER_REDUCE - ZT_TIMER_END] = "reduce gradients",
                                         [ZT_TIMER_GATHER - ZT_TIMER_END] = "gather weights",
                                         [ZT_TIMER_SWAP_IN - ZT_TIMER_END] = "swap in",
                                         [ZT_TIMER_SWAP_OUT - ZT_TIMER_END] = "swap out",
                                         [ZT_TIMER_PARAMS_IN - ZT_TIMER_END] = "wait for weights",
                                         [ZT_TIMER_PARAMS_OUT - ZT_TIMER_END] = "wait for written weights",
                                         [ZT_TIMER_GRADIENTS_IN - ZT_TIMER_END] = "wait for gradients",
                                         [ZT_TIMER_STATES_IN - ZT_TIMER_END] = "wait for optimizer states",
                                         [ZT_TIMER_STATES_OUT - ZT_TIMER_END] = "wait for written optimizer states",
                                         [ZT_TIMER_START_IN - ZT_TIMER_END] = "start to read",
                                         [ZT_TIMER_START_OUT - ZT_TIMER_END] = "start to write" };
    if (t->op)
        return t->op;
    return t->kind < ZT_INSTRUCTION_OPS ? zt_instruction_name((enum zt_instruction_op)t->kind)
                                        : names[t->kind - ZT_TIMER_END];
}

/* Appends text as a JSON string. Bytes that are not printable ASCII become '?'. */
static void add_string(struct zt_text *to, const char *text) {
    zt_text_add(to, "\"");
    for (const char *c = text; *c; c++)
        zt_text_add(to, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c < ' ' || *c > '~' ? '?' : *c);
    zt_text_add(to, "\"");
}

/* Times are whole nanoseconds, so that neighbours meet exactly. */
static void add_times(struct zt_text *to, double start, double end) {
    const int64_t from = llround(1e9 * start), until = llround(1e9 * end);
    zt_text_add(to, "\"ts\": %.3f, \"dur\": %.3f", 1e-3 * (double)from, 1e-3 * (double)(until - from));
}

static void add_event(struct zt_text *to, const struct zt_timer *t, double offset, int rank) {
    zt_text_add(to, ",\n{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"cat\": \"%s\", \"name\": ", rank, t->host,
                t->kind == ZT_TIMER_NODE ? "node"
                : t->part                ? "part"
                                         : "instruction");
    add_string(to, name_of(t));
    zt_text_add(to, ", ");
    add_times(to, offset + t->start, offset + t->end);
    zt_text_add(to, ", \"args\": {\"micro_batch\": %d", t->micro_batch);
    if (t->name) {
        zt_text_add(to, ", \"node\": ");
        add_string(to, t->name);
    }
    zt_text_add(to, "}}");
}

bool zt_step_trace_begin(struct zt_step_trace *trace, struct zt_comm *world, struct zt_err *err) {
    bool ok = world->api->barrier(world, err);
    trace->base = zt_now();
    return ok;
}

static void name_host(struct zt_step_trace *trace, int rank) {
    if (!trace->host)
        zt_text_add(
            &trace->events,
            ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"ts\": 0, \"pid\": %d, \"tid\": 1, \"args\": {\"name\": "
            "\"offload\"}}",
            rank);
    trace->host = true;
}

void zt_step_trace_add(struct zt_step_trace *trace, const struct zt_step_timers *timers, int rank) {
    struct zt_text *to = &trace->events;
    const double offset = timers->began - trace->base;
    zt_text_add(to, ",\n{\"ph\": \"X\", \"pid\": %d, \"tid\": 0, \"cat\": \"step\", \"name\": \"step %lld\", ", rank,
                (long long)timers->step + 1);
    add_times(to, offset, offset + timers->seconds);
    zt_text_add(to, ", \"args\": {\"step\": %lld}}", (long long)timers->step + 1);
    for (int i = 0; i < timers->count; i++) {
        if (timers->at[i].host)
            name_host(trace, rank);
        add_event(to, &timers->at[i], offset, rank);
    }
}

/* ---- the file ---- */

static void write_names(const struct zt_grid *grid, int rank, FILE *to) {
    fprintf(to,
            "%s\n{\"ph\": \"M\", \"name\": \"process_name\", \"ts\": 0, \"pid\": %d, \"args\": {\"name\": \"rank %d "
            "(stage %d)\"}}"
            ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"ts\": 0, \"pid\": %d, \"tid\": 0, \"args\": {\"name\": "
            "\"work\"}}",
            rank ? "," : "", rank, rank, rank / grid->data, rank);
}

/* Every rank gets the events of rank `from`; `to` is NULL on those that do not write. */
static bool share(struct zt_step_trace *trace, struct zt_comm *world, int from, FILE *to, struct zt_err *err) {
    const bool mine = world->rank == from;
    int64_t bytes = mine ? (int64_t)trace->events.length : 0;
    if (!world->api->broadcast(world, &bytes, sizeof bytes, from, err))
        return false;
    char *text = mine || !bytes ? trace->events.at : zt_malloc((size_t)bytes);
    bool ok = !bytes || world->api->broadcast(world, text, (size_t)bytes, from, err);
    if (ok && to && bytes)
        fwrite(text, 1, (size_t)bytes, to);
    if (text != trace->events.at)
        free(text);
    return ok;
}

bool zt_step_trace_write(struct zt_step_trace *trace, struct zt_comm *world, const struct zt_grid *grid,
                         const char *folder, struct zt_err *err) {
    struct zt_file_out out = { 0 };
    bool ok = world->rank != 0 || zt_file_out_open_in(&out, folder, "trace.json", err);
    trace->written = true;
    if (out.stream)
        fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", out.stream);
    for (int rank = 0; ok && rank < world->size; rank++) {
        if (out.stream)
            write_names(grid, rank, out.stream);
        ok = share(trace, world, rank, out.stream, err);
    }
    if (!ok)
        zt_file_out_abort(&out);
    if (!ok || world->rank != 0)
        return ok;
    fputs("\n]}\n", out.stream);
    return zt_file_out_commit(&out, err);
}

void zt_step_trace_finish(struct zt_step_trace *trace) {
    zt_text_finish(&trace->events);
}
