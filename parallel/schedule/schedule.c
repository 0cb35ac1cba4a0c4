#include "parallel/schedule/schedule.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_MICRO_BATCHES = 1 << 20, /* a list stays below 128 MiB */
    MOST_STAGES = 1 << 16,
    PER_MICRO_BATCH = 8, /* instructions a micro-batch has at most */
    AT_STEP_END = 4,
    SHOWN_WHOLE = 96, /* instructions of a printed list; a longer one shows its head and tail */
    SHOWN_HEAD = 48,
    SHOWN_TAIL = 24,
};

/* A list under construction. */
struct builder {
    struct zt_schedule_shape shape;
    struct zt_instruction *at;
    int count, slots;
};

struct row {
    const char *name;
    void (*emit)(struct builder *b); /* all forwards and backwards of the step; sets slots */
};

static void emit(struct builder *b, enum zt_instruction_op op, int micro_batch) {
    b->at[b->count++] =
        (struct zt_instruction){ .op = op, .micro_batch = micro_batch, .chunk = 0, .slot = micro_batch % b->slots };
}

static void emit_part(struct builder *b, enum zt_instruction_op op, int micro_batch, int chunk) {
    b->at[b->count++] = (struct zt_instruction){ .op = op, .micro_batch = micro_batch, .chunk = chunk, .slot = chunk };
}

static void emit_replica(struct builder *b, int micro_batch, bool first, bool training) {
    if (first)
        emit_part(b, ZT_DO_LOAD, micro_batch, 1);
    emit_part(b, ZT_DO_SCATTER, micro_batch, 0);
    emit_part(b, ZT_DO_FORWARD, micro_batch, 0);
    emit_part(b, ZT_DO_GATHER_ACT, micro_batch, 0);
    if (first)
        emit_part(b, ZT_DO_FORWARD, micro_batch, 1);
    if (!training)
        return;
    if (first)
        emit_part(b, ZT_DO_BACKWARD, micro_batch, 1);
    emit_part(b, ZT_DO_SCATTER_GRAD, micro_batch, 0);
    emit_part(b, ZT_DO_BACKWARD, micro_batch, 0);
}

static void emit_forward(struct builder *b, int micro_batch) {
    bool first = b->shape.stage == 0, last = b->shape.stage == b->shape.stages - 1;
    if (first || last)
        emit(b, ZT_DO_LOAD, micro_batch);
    if (!first)
        emit(b, ZT_DO_RECV_ACT, micro_batch);
    emit(b, ZT_DO_FORWARD, micro_batch);
    if (!last)
        emit(b, ZT_DO_SEND_ACT, micro_batch);
}

static void emit_backward(struct builder *b, int micro_batch) {
    bool first = b->shape.stage == 0, last = b->shape.stage == b->shape.stages - 1;
    if (!last)
        emit(b, ZT_DO_RECV_GRAD, micro_batch);
    emit(b, ZT_DO_BACKWARD, micro_batch);
    if (!first)
        emit(b, ZT_DO_SEND_GRAD, micro_batch);
}

static void emit_step_end(struct builder *b) {
    for (enum zt_instruction_op op = ZT_DO_REDUCE; op <= ZT_DO_GATHER; op++)
        b->at[b->count++] = (struct zt_instruction){ .op = op, .micro_batch = -1, .chunk = 0, .slot = -1 };
}

/* `window` forwards, then one backward and one forward in turn: never more than `window` micro-batches in flight, and
 * the forward of micro-batch i + window takes the slot that the backward of i has just left. */
static void emit_window(struct builder *b, int window) {
    b->slots = window;
    for (int i = 0; i < window; i++)
        emit_forward(b, i);
    for (int i = 0; i < b->shape.micro_batches; i++) {
        emit_backward(b, i);
        if (window < b->shape.micro_batches - i)
            emit_forward(b, i + window);
    }
}

/* PipeDream-Flush (Narayanan et al., "Memory-efficient pipeline-parallel DNN training", ICML 2021): stage s needs no
 * more than S - s forwards before the first gradient comes back. */
static void emit_1f1b(struct builder *b) {
    int ahead = b->shape.stages - b->shape.stage;
    emit_window(b, ahead < b->shape.micro_batches ? ahead : b->shape.micro_batches);
}

/* Huang et al., "GPipe", NeurIPS 2019. One stage has nothing to wait for, and so keeps no more than one micro-batch. */
static void emit_gpipe(struct builder *b) {
    emit_window(b, b->shape.stages == 1 ? 1 : b->shape.micro_batches);
}

static const struct row rows[] = {
    { .name = "1f1b", .emit = emit_1f1b },
    { .name = "gpipe", .emit = emit_gpipe },
};

enum { ROWS = sizeof rows / sizeof *rows };

static const struct row *find_row(const char *name, struct zt_err *err) {
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    struct zt_text known = { 0 };
    for (int i = 0; i < ROWS; i++)
        zt_text_add(&known, "%s%s", i ? ", " : "", rows[i].name);
    zt_fail(err, ZT_EXIT_CONFIG, "pipeline schedule \"%s\" is not known, wants one of %s", name, known.at);
    zt_text_finish(&known);
    return NULL;
}

static bool start(struct builder *b, struct zt_arena *arena, const struct zt_schedule_shape *shape,
                  struct zt_err *err) {
    if (shape->micro_batches < 1 || shape->micro_batches > MOST_MICRO_BATCHES)
        return zt_fail(err, ZT_EXIT_CONFIG, "pipeline schedule: %d micro-batches a step, allowed 1..%d",
                       shape->micro_batches, MOST_MICRO_BATCHES);
    if (shape->stages < 1 || shape->stages > MOST_STAGES)
        return zt_fail(err, ZT_EXIT_CONFIG, "pipeline schedule: %d stages, allowed 1..%d", shape->stages, MOST_STAGES);
    if (shape->stage < 0 || shape->stage >= shape->stages)
        return zt_fail(err, ZT_EXIT_RUN, "pipeline schedule: stage %d, wants 0..%d", shape->stage, shape->stages - 1);
    if (shape->chunks != 1)
        return zt_fail(err, ZT_EXIT_CONFIG, "pipeline schedule: %d chunks a stage, wants 1", shape->chunks);
    *b = (struct builder){ .shape = *shape, .slots = 1 };
    b->at = ZT_NEW_N(arena, struct zt_instruction, PER_MICRO_BATCH * shape->micro_batches + AT_STEP_END);
    return true;
}

static void finish(const struct builder *b, struct zt_schedule *schedule) {
    *schedule = (struct zt_schedule){ .slots = b->slots, .count = b->count, .at = b->at };
}

bool zt_schedule_make(struct zt_arena *arena, const char *name, const struct zt_schedule_shape *shape,
                      struct zt_schedule *schedule, struct zt_err *err) {
    struct builder b;
    const struct row *row = find_row(name, err);
    if (!row || !start(&b, arena, shape, err))
        return false;
    row->emit(&b);
    emit_step_end(&b);
    finish(&b, schedule);
    return zt_schedule_check(schedule, shape, err); /* a row's mistake is named before any rank runs it */
}

bool zt_schedule_make_replicas(struct zt_arena *arena, int micro_batches, bool first, bool training,
                               struct zt_schedule *schedule, struct zt_err *err) {
    struct builder b;
    struct zt_schedule_shape shape = { micro_batches, 1, 1, 0 };
    if (!start(&b, arena, &shape, err))
        return false;
    b.slots = first ? 2 : 1;
    for (int i = 0; i < micro_batches; i++)
        emit_replica(&b, i, first, training);
    if (training)
        emit_step_end(&b);
    finish(&b, schedule);
    return true;
}

bool zt_schedule_make_forward(struct zt_arena *arena, const struct zt_schedule_shape *shape,
                              struct zt_schedule *schedule, struct zt_err *err) {
    struct builder b;
    if (!start(&b, arena, shape, err))
        return false;
    for (int i = 0; i < shape->micro_batches; i++)
        emit_forward(&b, i);
    finish(&b, schedule);
    return true;
}

/* `before` and `after` stand around the micro-batch in print; without a `before` the name does. */
static const struct {
    const char *name, *before, *after;
} ops[ZT_INSTRUCTION_OPS] = {
    [ZT_DO_LOAD] = { .name = "LOAD", .before = "L", .after = "" },
    [ZT_DO_RECV_ACT] = { .name = "RECV_ACT", .before = "<a", .after = "" },
    [ZT_DO_FORWARD] = { .name = "FORWARD", .before = "F", .after = "" },
    [ZT_DO_SEND_ACT] = { .name = "SEND_ACT", .before = "a", .after = ">" },
    [ZT_DO_RECV_GRAD] = { .name = "RECV_GRAD", .before = "<g", .after = "" },
    [ZT_DO_BACKWARD] = { .name = "BACKWARD", .before = "B", .after = "" },
    [ZT_DO_BACKWARD_INPUT] = { .name = "BACKWARD_INPUT", .before = "I", .after = "" },
    [ZT_DO_BACKWARD_WEIGHT] = { .name = "BACKWARD_WEIGHT", .before = "W", .after = "" },
    [ZT_DO_SEND_GRAD] = { .name = "SEND_GRAD", .before = "g", .after = ">" },
    [ZT_DO_SCATTER] = { .name = "SCATTER", .before = "S", .after = "" },
    [ZT_DO_GATHER_ACT] = { .name = "GATHER_ACT", .before = "G", .after = "" },
    [ZT_DO_SCATTER_GRAD] = { .name = "SCATTER_GRAD", .before = "D", .after = "" },
    [ZT_DO_REDUCE] = { .name = "REDUCE" },
    [ZT_DO_CLIP] = { .name = "CLIP" },
    [ZT_DO_STEP] = { .name = "STEP" },
    [ZT_DO_GATHER] = { .name = "GATHER" },
};

const char *zt_instruction_name(enum zt_instruction_op op) {
    return ops[op].name;
}

/* ---- checking ---- */

/* Returns the work that an instruction completes for a micro-batch, one bit per instruction. A whole backward is both
 * halves. */
static unsigned does(enum zt_instruction_op op) {
    return op == ZT_DO_BACKWARD ? 1u << ZT_DO_BACKWARD_INPUT | 1u << ZT_DO_BACKWARD_WEIGHT : 1u << op;
}

/* Returns the work that must precede an instruction of the same micro-batch. */
static unsigned needs(enum zt_instruction_op op, const struct zt_schedule_shape *shape) {
    bool first = shape->stage == 0, last = shape->stage == shape->stages - 1;
    switch (op) {
    case ZT_DO_FORWARD:
        return first ? does(ZT_DO_LOAD) : does(ZT_DO_RECV_ACT);
    case ZT_DO_SEND_ACT:
    case ZT_DO_RECV_GRAD:
        return does(ZT_DO_FORWARD);
    case ZT_DO_BACKWARD:
    case ZT_DO_BACKWARD_INPUT:
        return does(ZT_DO_FORWARD) | (last ? 0 : does(ZT_DO_RECV_GRAD));
    case ZT_DO_BACKWARD_WEIGHT:
    case ZT_DO_SEND_GRAD:
        return does(ZT_DO_BACKWARD_INPUT);
    default:
        return 0;
    }
}

/* All that a micro-batch has seen when its gradients are reduced. */
static unsigned whole(const struct zt_schedule_shape *shape) {
    bool first = shape->stage == 0, last = shape->stage == shape->stages - 1;
    return does(ZT_DO_FORWARD) | does(ZT_DO_BACKWARD) | (first || last ? does(ZT_DO_LOAD) : 0) |
           (first ? 0 : does(ZT_DO_RECV_ACT) | does(ZT_DO_SEND_GRAD)) |
           (last ? 0 : does(ZT_DO_SEND_ACT) | does(ZT_DO_RECV_GRAD));
}

static bool check_one(const struct zt_instruction *i, unsigned *done, const struct zt_schedule_shape *shape,
                      struct zt_err *err) {
    if (i->micro_batch < 0 || i->micro_batch >= shape->micro_batches)
        return zt_fail(err, ZT_EXIT_RUN, "stage %d: %s of micro-batch %d, wants 0..%d", shape->stage, ops[i->op].name,
                       i->micro_batch, shape->micro_batches - 1);
    unsigned *of = &done[i->micro_batch], missing = needs(i->op, shape) & ~*of;
    for (int op = 0; op < ZT_INSTRUCTION_OPS; op++)
        if (missing & 1u << op)
            return zt_fail(err, ZT_EXIT_RUN, "stage %d: %s of micro-batch %d stands before its %s", shape->stage,
                           ops[i->op].name, i->micro_batch, ops[op].name);
    if (*of & does(i->op) || does(i->op) & ~whole(shape))
        return zt_fail(err, ZT_EXIT_RUN, "stage %d: %s of micro-batch %d stands there %s", shape->stage,
                       ops[i->op].name, i->micro_batch, *of & does(i->op) ? "twice" : "for nothing");
    *of |= does(i->op);
    return true;
}

/* Fails if work of a micro-batch is left when the end of the step begins. */
static bool check_end(const unsigned *done, const struct zt_schedule_shape *shape, struct zt_err *err) {
    for (int i = 0; i < shape->micro_batches; i++)
        for (int op = 0; op < ZT_INSTRUCTION_OPS; op++)
            if (whole(shape) & ~done[i] & 1u << op)
                return zt_fail(err, ZT_EXIT_RUN, "stage %d: REDUCE stands before %s of micro-batch %d", shape->stage,
                               ops[op].name, i);
    return true;
}

bool zt_schedule_check(const struct zt_schedule *schedule, const struct zt_schedule_shape *shape, struct zt_err *err) {
    unsigned *done = zt_calloc((size_t)shape->micro_batches, sizeof *done);
    int at = 0;
    bool ok = true;
    for (; ok && at < schedule->count && schedule->at[at].op < ZT_DO_REDUCE; at++)
        ok = check_one(&schedule->at[at], done, shape, err);
    ok = ok && check_end(done, shape, err);
    free(done);
    for (enum zt_instruction_op op = ZT_DO_REDUCE; ok && op <= ZT_DO_GATHER; op++, at++)
        if (at >= schedule->count || schedule->at[at].op != op)
            ok = zt_fail(err, ZT_EXIT_RUN, "stage %d: no %s at the step's end", shape->stage, ops[op].name);
    return ok && (at == schedule->count || zt_fail(err, ZT_EXIT_RUN, "stage %d: %s stands behind the step's end",
                                                   shape->stage, ops[schedule->at[at].op].name));
}

/* ---- printing ---- */

static void print_range(struct zt_text *to, const struct zt_schedule *schedule, int first, int end) {
    for (int i = first; i < end; i++) {
        const struct zt_instruction *at = &schedule->at[i];
        if (ops[at->op].before)
            zt_text_add(to, " %s%d%s%s", ops[at->op].before, at->micro_batch, at->chunk ? ".1" : "", ops[at->op].after);
        else
            zt_text_add(to, " %s", ops[at->op].name);
    }
}

void zt_schedule_print(struct zt_text *to, const struct zt_schedule *schedule) {
    zt_text_add(to, "%d slot%s:", schedule->slots, zt_plural(schedule->slots));
    if (schedule->count <= SHOWN_WHOLE) {
        print_range(to, schedule, 0, schedule->count);
        return;
    }
    print_range(to, schedule, 0, SHOWN_HEAD);
    zt_text_add(to, " ... %d more ...", schedule->count - SHOWN_HEAD - SHOWN_TAIL);
    print_range(to, schedule, schedule->count - SHOWN_TAIL, schedule->count);
}
