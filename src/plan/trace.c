/* The simulated step as a Chrome trace (chrome://tracing, Perfetto): one process for each rank, with one row for its
 * work and one for its messages. Times are predictions in microseconds. */
#include "plan/trace.h"

#include "base/file.h"

/* Writes an idle interval in seconds, if there is one. */
static void write_idle(int rank, double from, double until, FILE *to) {
    if (until > from + 1e-12)
        fprintf(to, ",\n{\"ph\": \"X\", \"name\": \"idle\", \"pid\": %d, \"tid\": 0, \"ts\": %.3f, \"dur\": %.3f}",
                rank, 1e6 * from, 1e6 * (until - from));
}

/* Writes the events of a stage in order, with idle intervals between them. */
static void write_rank(const struct zt_plan *plan, int rank, int stage, FILE *to) {
    const struct zt_timeline *t = &plan->timeline;
    double free_at = 0;
    fprintf(to,
            ",\n{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"args\": {\"name\": \"rank %d (stage %d)\"}}",
            rank, rank, stage);
    fprintf(to,
            ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": 0, \"args\": {\"name\": \"work\"}}",
            rank);
    if (plan->grid.world > 1)
        fprintf(to,
                ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": 1, \"args\": {\"name\": "
                "\"messages\"}}",
                rank);
    for (int i = 0; i < t->count; i++) {
        const struct zt_event *e = &t->at[i];
        if (e->stage != stage)
            continue;
        bool message = e->beside;
        if (!message)
            write_idle(rank, free_at, e->start, to);
        fprintf(to,
                ",\n{\"ph\": \"X\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"args\": "
                "{\"micro_batch\": %d}}",
                zt_event_name(e->kind), rank, message, 1e6 * e->start, 1e6 * (e->end - e->start), e->micro_batch);
        if (!message)
            free_at = e->end;
    }
    write_idle(rank, free_at, t->seconds, to);
}

bool zt_plan_trace(const struct zt_plan *plan, const char *path, struct zt_err *err) {
    struct zt_file_out out;
    if (!zt_file_out_open(&out, path, err))
        return false;
    fprintf(
        out.stream,
        "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{\"ph\": \"M\", \"name\": \"trace\", \"pid\": 0, \"args\": "
        "{\"plan\": \"%016llx\", \"step_ms\": %.6f}}",
        (unsigned long long)plan->hash, 1e3 * plan->timeline.seconds);
    for (int rank = 0; rank < plan->grid.world; rank++)
        write_rank(plan, rank, rank / plan->grid.data, out.stream);
    fputs("\n]}\n", out.stream);
    return zt_file_out_commit(&out, err);
}
