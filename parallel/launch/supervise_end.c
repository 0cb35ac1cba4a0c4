/* The end of all ranks: they are asked where they are, told to quit, and killed. */
#include "parallel/launch/supervise_watch.h"

#include <signal.h>
#include <unistd.h>

enum {
    COLLECT_MS = 300,    /* for other ranks' errors, and where they are */
    QUIT_MS = 2000,      /* for ranks to quit by themselves */
    TERMINATE_MS = 3000, /* for mpirun to end the rest */
    KILL_MS = 1500,
    CAUSE_MS = 4000, /* for mpirun, whose ranks have ended, to say how: on a busy host it is slow */
};

static bool all_answered(const struct zt_parent *p) {
    for (int i = 0; i < p->job->ranks; i++)
        if (p->ranks[i].state == ZT_RANK_RUNNING && !p->ranks[i].answered && !p->ranks[i].error)
            return false;
    return true;
}

static bool never(const struct zt_parent *p) {
    (void)p;
    return false;
}

static void kill_here(const struct zt_parent *p) {
    for (int i = 0; i < p->job->ranks; i++)
        if (p->ranks[i].here && p->ranks[i].fd >= 0) /* connected, so that the number is still this process' */
            kill(p->ranks[i].pid, SIGKILL);
}

void zt_parent_end(struct zt_parent *p) {
    for (int i = 0; i < p->job->ranks; i++)
        p->ranks[i].answered = false;
    zt_parent_tell(p, ZT_CONTROL_ASK, NULL, 0);
    bool errors = p->first_bad >= 0 && p->ranks[p->first_bad].error;
    if (!p->stop_at_once)
        zt_parent_take_until(p, COLLECT_MS, errors ? never : all_answered);
    p->ending = true;
    zt_parent_tell(p, ZT_CONTROL_QUIT, NULL, 0);
    if (!p->stop_at_once)
        zt_parent_take_until(p, QUIT_MS, zt_parent_nobody_left);
    const bool left = !zt_parent_nobody_left(p);
    if (left) {
        /* mpirun wakes a stopped rank before it kills it: one that has not come yet shall not begin with MPI, whose
         * files in shared memory it may leave behind */
        close(p->listener);
        p->listener = -1;
        kill_here(p);
        zt_mpirun_kill(&p->mpirun, SIGTERM);
        zt_parent_take_until(p, TERMINATE_MS, zt_parent_nobody_left);
        zt_mpirun_kill(&p->mpirun, SIGKILL);
    }
    zt_parent_take_until(p, left || p->stop_at_once ? KILL_MS : CAUSE_MS, zt_parent_is_over);
}
