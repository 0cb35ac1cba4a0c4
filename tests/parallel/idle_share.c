/* The idle share of a pipeline, measured: thread ranks run the instruction lists of a schedule with kernels that sleep,
 * and exchange real messages. A stage is idle from the first forward of the step to the last backward of the step, over
 * all stages, whenever it does not sleep. With forward and backward alike on every stage both schedules should come to
 *
 *     (stages - 1) / (micro_batches + stages - 1)
 *
 *     idle_share [MILLISECONDS OF A FORWARD]         40 without
 *
 * A tool: threads that sleep need no core each, but wake late on a busy machine, so no test depends on what it prints.
 * Exit status 0 where every row is within 2 points. */
#include "base/clock.h"
#include "parallel/comm/comm.h"
#include "parallel/schedule/schedule.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_STAGES = 8, ACTIVATION_BYTES = 64 << 10 };

struct stage {
    struct zt_comm *comm;
    const char *schedule;
    int stages, micro_batches;
    double forward, backward; /* seconds that a kernel sleeps */
    double busy, first, last; /* seconds asleep; when the first kernel began and the last ended */
    bool ok;
    pthread_t thread;
};

static void kernel(struct stage *s, double seconds) {
    double start = zt_now(), end = start + seconds;
    struct timespec until = { (time_t)end, (long)((end - floor(end)) * 1e9) };
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    s->last = zt_now();
    s->busy += s->last - start;
    s->first = s->first > 0 ? s->first : start;
}

static bool instruct(struct stage *s, const struct zt_instruction *i, void *message, struct zt_err *err) {
    struct zt_comm *c = s->comm;
    switch (i->op) {
    case ZT_DO_FORWARD:
        kernel(s, s->forward);
        return true;
    case ZT_DO_BACKWARD:
        kernel(s, s->backward);
        return true;
    case ZT_DO_RECV_ACT:
        return c->api->recv(c, message, ACTIVATION_BYTES, c->rank - 1, err);
    case ZT_DO_SEND_ACT:
        return c->api->send(c, message, ACTIVATION_BYTES, c->rank + 1, err);
    case ZT_DO_RECV_GRAD:
        return c->api->recv(c, message, ACTIVATION_BYTES, c->rank + 1, err);
    case ZT_DO_SEND_GRAD:
        return c->api->send(c, message, ACTIVATION_BYTES, c->rank - 1, err);
    case ZT_DO_CLIP:
        return c->api->barrier(c, err);
    default: /* nothing to load, reduce, step or gather */
        return true;
    }
}

static void *run(void *arg) {
    struct stage *s = arg;
    struct zt_arena *arena = zt_arena_create();
    struct zt_schedule_shape shape = { s->micro_batches, s->stages, 1, s->comm->rank };
    struct zt_schedule schedule;
    struct zt_err err = { 0 };
    void *message = calloc(1, ACTIVATION_BYTES);
    s->ok = message && zt_schedule_make(arena, s->schedule, &shape, &schedule, &err) &&
            s->comm->api->barrier(s->comm, &err);
    for (int i = 0; s->ok && i < schedule.count; i++)
        s->ok = instruct(s, &schedule.at[i], message, &err);
    if (!s->ok)
        s->comm->api->abort(s->comm, err.text[0]);
    free(message);
    zt_arena_destroy(arena);
    return NULL;
}

/* Idle share of one step; below 0: it could not be run. */
static double measure(const char *schedule, int stages, int micro_batches, double forward, double backward) {
    struct stage stage[MOST_STAGES] = { 0 };
    struct zt_comm *comms[MOST_STAGES];
    struct zt_err err = { 0 };
    double first = 1e300, last = 0, busy = 0;
    bool ok = true;
    if (!zt_comm_thread_create(stages, comms, &err))
        return -1;
    for (int s = 0; s < stages; s++) {
        stage[s] = (struct stage){ .comm = comms[s],
                                   .schedule = schedule,
                                   .stages = stages,
                                   .micro_batches = micro_batches,
                                   .forward = forward,
                                   .backward = backward };
        if (pthread_create(&stage[s].thread, NULL, run, &stage[s]) != 0) {
            fputs("no thread\n", stderr);
            exit(1);
        }
    }
    for (int s = 0; s < stages; s++) {
        pthread_join(stage[s].thread, NULL);
        ok &= stage[s].ok;
        first = stage[s].first < first ? stage[s].first : first;
        last = stage[s].last > last ? stage[s].last : last;
        busy += stage[s].busy;
    }
    for (int s = 0; s < stages; s++)
        comms[s]->api->destroy(comms[s]);
    return ok ? 1 - busy / ((last - first) * stages) : -1;
}

int main(int argc, char **argv) {
    static const char *const schedules[] = { "1f1b", "gpipe" };
    static const int shapes[][2] = { { 2, 1 }, { 2, 4 }, { 2, 8 }, { 3, 6 }, { 4, 4 }, { 4, 8 }, { 4, 16 }, { 6, 12 } };
    double milliseconds = argc > 1 ? strtod(argv[1], NULL) : 40, worst = 0;
    if (!(milliseconds > 0 && milliseconds < 1e4)) {
        fputs("usage: idle_share [MILLISECONDS OF A FORWARD]\n", stderr);
        return 2;
    }
    printf("%-8s %7s %14s %10s %10s\n", "schedule", "stages", "micro-batches", "measured", "formula");
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            int p = shapes[i][0], m = shapes[i][1];
            double idle = measure(schedules[k], p, m, 1e-3 * milliseconds, 2e-3 * milliseconds);
            double formula = (double)(p - 1) / (m + p - 1);
            printf("%-8s %7d %14d %8.1f %% %8.1f %%\n", schedules[k], p, m, 100 * idle, 100 * formula);
            worst = fabs(idle - formula) > worst ? fabs(idle - formula) : worst;
        }
    }
    printf("worst difference %.1f points\n", 100 * worst);
    return worst > 0.02;
}
