/* Timers of the instructions of a step. They divide the step without gaps: an instruction begins where the previous one
 * ended, and what follows the last instruction is ZT_TIMER_END. Parts within an instruction have timers of their own.
 *
 *     step      |--- load ---|------ forward ------|-------- backward --------|- clip -|-- step --|- end -|
 *     parts                  |derive|node|node|          |node|reduce|node|reduce|
 *
 * On the host the times come from the clock. On a device they come from events in its queue, and the end of a step
 * waits for the device. */
#ifndef ZT_RUN_TIMERS_TIMERS_H
#define ZT_RUN_TIMERS_TIMERS_H

#include "base/err.h"
#include "device/device.h"

#include <stdbool.h>
#include <stdint.h>

/* Kinds beside those of enum zt_instruction_op (parallel/schedule/schedule.h), which come first. */
enum { ZT_TIMER_END = 64, ZT_TIMER_DERIVE, ZT_TIMER_REDUCE, ZT_TIMER_GATHER, ZT_TIMER_NODE };
/* Kinds of offloading (run/rank/offload.h): a sub-group comes into memory and leaves it; parts of that and of gathers.
 */
enum {
    ZT_TIMER_SWAP_IN = ZT_TIMER_NODE + 1,
    ZT_TIMER_SWAP_OUT,
    ZT_TIMER_PARAMS_IN, /* waits for parameters that are read from a file */
    ZT_TIMER_PARAMS_OUT,
    ZT_TIMER_GRADIENTS_IN, /* waits for copies from a GPU */
    ZT_TIMER_STATES_IN,    /* waits for optimizer states that are read from a file */
    ZT_TIMER_STATES_OUT,
    ZT_TIMER_START_IN, /* starts to read */
    ZT_TIMER_START_OUT,
    ZT_TIMER_SWAPS_END,
    ZT_TIMER_SWAPS = ZT_TIMER_SWAPS_END - ZT_TIMER_SWAP_IN
};

/* Granularity of the timers. */
enum zt_timers_level { ZT_TIMERS_OFF, ZT_TIMERS_INSTRUCTIONS, ZT_TIMERS_NODES };

struct zt_timer {
    int kind;
    int micro_batch;       /* -1: none */
    bool part;             /* a part of the instruction that follows it in the list */
    bool host;             /* a part whose times are those of the host, while all others are those of a device */
    const char *name, *op; /* of a node; NULL: none */
    double start, end;     /* seconds since the step began */
};

/* The timers of one step. */
struct zt_step_timers {
    int64_t step;   /* from 0; -1: none yet */
    double began;   /* zt_now() at its beginning */
    double seconds; /* of the whole step */
    const struct zt_timer *at;
    int count;
};

struct zt_timers;

/* The timers are off at first. `device` is borrowed. */
struct zt_timers *zt_timers_create(struct zt_device *device);
void zt_timers_destroy(struct zt_timers *timers); /* accepts NULL */
/* Sets what is timed in the following steps. */
void zt_timers_turn(struct zt_timers *timers, enum zt_timers_level level);
/* Whether the timers are on. Accepts NULL, as all functions below. */
bool zt_timers_on(const struct zt_timers *timers);

/* The functions of a running step. They do nothing while the timers are off. */
void zt_timers_begin(struct zt_timers *timers, int64_t step);
void zt_timers_next(struct zt_timers *timers, int kind, int micro_batch); /* the instruction has ended */
/* A part begins, and ends; parts may contain parts. zt_timers_leave() gets what zt_timers_enter() returned. */
int zt_timers_enter(struct zt_timers *timers);
void zt_timers_leave(struct zt_timers *timers, int entered, int kind);
/* The same for work of the host, which takes the clock also beside a device. */
int zt_timers_enter_host(struct zt_timers *timers);
void zt_timers_leave_host(struct zt_timers *timers, int entered, int kind);
/* The same for a node, at level ZT_TIMERS_NODES. The names are borrowed. */
int zt_timers_enter_node(struct zt_timers *timers);
void zt_timers_leave_node(struct zt_timers *timers, int entered, const char *name, const char *op);
bool zt_timers_end(struct zt_timers *timers, struct zt_err *err);

/* Returns the timers of the latest step that ended. Valid until the next step ends. */
struct zt_step_timers zt_timers_of_step(const struct zt_timers *timers);

#endif
