#include "report/wall_clock.h"

#include "base/text.h"
#include "parallel/schedule/collectives.h"
#include "parallel/schedule/schedule.h"

struct field {
    const char *name;
    double seconds;
};

/* ---- sums ---- */

/* Returns where the time of an instruction or part is added; NULL: nowhere. */
static double *field_of(struct zt_wall_clock *w, int kind) {
    switch (kind) {
    case ZT_DO_LOAD:
        return &w->load;
    case ZT_DO_FORWARD:
        return &w->forward;
    case ZT_DO_BACKWARD:
    case ZT_DO_BACKWARD_INPUT:
    case ZT_DO_BACKWARD_WEIGHT:
        return &w->backward;
    case ZT_DO_SEND_ACT:
    case ZT_DO_GATHER_ACT:
        return &w->send_act;
    case ZT_DO_SEND_GRAD:
    case ZT_DO_SCATTER_GRAD:
        return &w->send_grad;
    case ZT_DO_RECV_ACT:
    case ZT_DO_SCATTER:
        return &w->recv_act;
    case ZT_DO_RECV_GRAD:
        return &w->recv_grad;
    case ZT_DO_REDUCE:
    case ZT_TIMER_REDUCE:
        return &w->backward_reduce;
    case ZT_DO_CLIP:
        return &w->gradients;
    case ZT_DO_STEP:
        return &w->update;
    case ZT_DO_GATHER:
        return &w->gather;
    case ZT_TIMER_DERIVE:
        return &w->derive;
    default:
        return kind >= ZT_TIMER_SWAP_IN ? &w->swaps[kind - ZT_TIMER_SWAP_IN].seconds : NULL;
    }
}

struct zt_wall_clock zt_wall_clock_of(const struct zt_step_timers *t, int micro_batch, int micro_batches) {
    struct zt_wall_clock w = { .seconds = t->seconds };
    for (int i = 0; i < t->count; i++) {
        const struct zt_timer *timer = &t->at[i];
        const int of = timer->micro_batch < 0 ? micro_batches - 1 : timer->micro_batch;
        double *to = field_of(&w, timer->kind);
        if (timer->kind >= ZT_TIMER_SWAP_IN && (micro_batch < 0 || of == micro_batch))
            w.swaps[timer->kind - ZT_TIMER_SWAP_IN].count++;
        if (to && (micro_batch < 0 || of == micro_batch))
            *to += timer->end - timer->start;
        if (to && timer->kind == ZT_DO_REDUCE && (micro_batch < 0 || of == micro_batch))
            w.backward += timer->end - timer->start;
    }
    w.backward_inner = w.backward - w.backward_reduce;
    w.step = w.gradients + w.update + w.gather;
    return w;
}

/* ---- intervals ---- */

/* Adds `weight` times the times of `w`. */
static void add(struct zt_wall_clock *to, const struct zt_wall_clock *w, double weight) {
    to->load += weight * w->load;
    to->forward += weight * w->forward;
    to->backward += weight * w->backward;
    to->backward_inner += weight * w->backward_inner;
    to->backward_reduce += weight * w->backward_reduce;
    to->step += weight * w->step;
    to->gradients += weight * w->gradients;
    to->update += weight * w->update;
    to->gather += weight * w->gather;
    to->derive += weight * w->derive;
    to->send_act += weight * w->send_act;
    to->send_grad += weight * w->send_grad;
    to->recv_act += weight * w->recv_act;
    to->recv_grad += weight * w->recv_grad;
    to->seconds += weight * w->seconds;
    for (int i = 0; i < ZT_TIMER_SWAPS; i++) {
        to->swaps[i].seconds += weight * w->swaps[i].seconds;
        to->swaps[i].count += w->swaps[i].count;
    }
}

static struct zt_wall_clock mean_of(const struct zt_wall_clock_interval *interval) {
    struct zt_wall_clock mean = { 0 };
    add(&mean, &interval->sum, 1. / interval->steps);
    return mean;
}

/* ---- lines ---- */

static void say(const struct field *fields, int count, const struct zt_log *log) {
    struct zt_text text = { 0 };
    zt_text_add(&text, "time (ms)");
    for (int i = 0; i < count; i++)
        zt_text_add(&text, " | %s: %.2f", fields[i].name, 1e3 * fields[i].seconds);
    zt_say(log, ZT_LOG_INFO, "%s", text.at);
    zt_text_finish(&text);
}

#define SAY(...)                                                                                                       \
    say((const struct field[]){ __VA_ARGS__ }, (int)(sizeof((struct field[]){ __VA_ARGS__ }) / sizeof(struct field)),  \
        log)

static bool swapped(const struct zt_wall_clock *w, int kind) {
    return w->swaps[kind - ZT_TIMER_SWAP_IN].count > 0;
}

static double swap_seconds(const struct zt_wall_clock *w, int kind) {
    return w->swaps[kind - ZT_TIMER_SWAP_IN].seconds;
}

/* The parts of offloading that occurred. */
static void say_swaps(const struct zt_wall_clock *w, const struct zt_log *log) {
    static const struct {
        int kind;
        const char *name;
    } parts[] = {
        { ZT_TIMER_PARAMS_IN, "swap_in_param" },        { ZT_TIMER_PARAMS_OUT, "swap_out_param" },
        { ZT_TIMER_GRADIENTS_IN, "swap_in_gradient" },  { ZT_TIMER_STATES_IN, "swap_in_state" },
        { ZT_TIMER_STATES_OUT, "swap_out_state" },      { ZT_TIMER_START_IN, "async_swap_in_state" },
        { ZT_TIMER_START_OUT, "async_swap_out_state" },
    };
    struct field fields[ZT_TIMER_SWAPS];
    int count = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (swapped(w, parts[i].kind))
            fields[count++] = (struct field){ parts[i].name, swap_seconds(w, parts[i].kind) };
    if (count)
        say(fields, count, log);
}

/* The timers of the optimizer: of offloading, of ZeRO 1 and 2, of ZeRO 3, of fp16 without ZeRO. One pass over the
 * gradients computes norm and overflow, and the update unscales and clips. */
static void say_optimizer(const struct zt_config *config, const struct zt_wall_clock *w, const struct zt_log *log) {
    const struct zt_sharding *asked = zt_sharding_of(config->zero.stage);
    const bool gathers_for_use = zt_sharding_gathers_for_use(asked);
    say_swaps(w, log);
    if (zt_sharding_gathers_after_step(asked))
        SAY({ "optimizer_allgather", w->gather }, { "optimizer_gradients", w->gradients },
            { "optimizer_step", w->update });
    else if (gathers_for_use && (swapped(w, ZT_TIMER_SWAP_IN) || swapped(w, ZT_TIMER_SWAP_OUT)))
        SAY({ "optimizer_swap_in_state", swap_seconds(w, ZT_TIMER_SWAP_IN) },
            { "optimizer_swap_out_state", swap_seconds(w, ZT_TIMER_SWAP_OUT) }, { "optimizer_step", w->step });
    else if (gathers_for_use)
        SAY({ "optimizer_step", w->step });
    else if (config->fp16.enabled)
        SAY({ "compute_norm", w->gradients }, { "overflow_check", 0 }, { "unscale_and_clip", 0 },
            { "basic_step", w->update }, { "update_fp16", w->derive });
}

static void say_micro_batch(const struct zt_wall_clock *w, bool load, const struct zt_log *log) {
    if (load)
        SAY({ "batch_input", w->load }, { "forward_microstep", w->forward }, { "backward_microstep", w->backward },
            { "backward_inner_microstep", w->backward_inner }, { "backward_allreduce_microstep", w->backward_reduce },
            { "step_microstep", w->step });
    else
        SAY({ "fwd_microstep", w->forward }, { "bwd_microstep", w->backward },
            { "bwd_inner_microstep", w->backward_inner }, { "bwd_allreduce_microstep", w->backward_reduce },
            { "step_microstep", w->step });
}

static void say_step(const struct zt_wall_clock *w, const struct zt_log *log) {
    SAY({ "fwd", w->forward }, { "bwd", w->backward }, { "bwd_inner", w->backward_inner },
        { "bwd_allreduce", w->backward_reduce }, { "step", w->step });
}

static void say_pipeline(const struct zt_wall_clock *w, const struct zt_log *log) {
    say_micro_batch(w, true, log);
    say_step(w, log);
    SAY({ "pipe_send_output", w->send_act }, { "pipe_send_grad", w->send_grad }, { "pipe_recv_input", w->recv_act },
        { "pipe_recv_grad", w->recv_grad });
    SAY({ "train_batch", w->seconds });
}

static void say_interval(struct zt_wall_clock_interval *interval, const struct zt_config *config,
                         const struct zt_log *log) {
    const struct zt_wall_clock mean = mean_of(interval);
    say_optimizer(config, &mean, log);
    say_pipeline(&mean, log);
    *interval = (struct zt_wall_clock_interval){ 0 };
}

void zt_wall_clock_say(struct zt_wall_clock_interval *interval, const struct zt_config *config,
                       const struct zt_step_timers *timers, int64_t step, int micro_batches, const struct zt_log *log) {
    const struct zt_wall_clock whole = zt_wall_clock_of(timers, -1, micro_batches);
    if (config->parallel.stages > 1) {
        add(&interval->sum, &whole, 1);
        interval->steps++;
        if (config->steps_per_print > 0 && step % config->steps_per_print == 0)
            say_interval(interval, config, log);
        return;
    }
    for (int m = 0; m < micro_batches; m++) {
        const struct zt_wall_clock w = zt_wall_clock_of(timers, m, micro_batches);
        if (m == micro_batches - 1)
            say_optimizer(config, &whole, log);
        say_micro_batch(&w, false, log);
    }
    say_step(&whole, log);
}
