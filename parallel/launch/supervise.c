#include "parallel/launch/supervise_ranks.h"

#include "base/arena.h"
#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    ROUND_MS = 500,
    COLLECT_MS = 300,    /* for other ranks' errors, and where they are */
    QUIT_MS = 2000,      /* for ranks to quit by themselves */
    TERMINATE_MS = 3000, /* for mpirun to end the rest */
    KILL_MS = 1500,
    LINGER_MS = 10000, /* for mpirun to end when all ranks are done */
};

static bool is_over(const struct zt_parent *p) {
    return p->mpirun.pid == 0 && p->mpirun.output < 0 && !zt_parent_streams_open(p);
}

static bool nobody_left(const struct zt_parent *p) {
    return p->mpirun.pid == 0 && zt_parent_count(p, ZT_RANK_RUNNING) == 0;
}

/* Takes what comes until `until` says so, `ms` at most. */
static void take_until(struct zt_parent *p, int ms, bool (*until)(const struct zt_parent *p)) {
    double end = zt_now() + 1e-3 * ms;
    for (int left = ms; left > 0 && !until(p); left = (int)(1e3 * (end - zt_now())))
        zt_parent_take(p, left < 50 ? left : 50);
}

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

/* After the first rank that was lost, or a second stop signal. */
static void end_all(struct zt_parent *p) {
    for (int i = 0; i < p->job->ranks; i++)
        p->ranks[i].answered = false;
    zt_parent_tell(p, ZT_CONTROL_ASK, NULL, 0);
    bool errors = p->first_bad >= 0 && p->ranks[p->first_bad].error;
    if (!p->stop_at_once)
        take_until(p, COLLECT_MS, errors ? never : all_answered);
    p->ending = true;
    zt_parent_tell(p, ZT_CONTROL_QUIT, NULL, 0);
    if (!p->stop_at_once)
        take_until(p, QUIT_MS, nobody_left);
    if (!nobody_left(p)) {
        /* mpirun wakes a stopped rank before it kills it: one that has not come yet shall not begin with MPI, whose
         * files in shared memory it may leave behind */
        close(p->listener);
        p->listener = -1;
        kill_here(p);
        zt_mpirun_kill(&p->mpirun, SIGTERM);
        take_until(p, TERMINATE_MS, nobody_left);
        zt_mpirun_kill(&p->mpirun, SIGKILL);
    }
    take_until(p, KILL_MS, is_over);
}

static void run(struct zt_parent *p) {
    for (bool released = false; !is_over(p);) {
        zt_parent_take(p, ROUND_MS);
        if (!released && zt_parent_count(p, ZT_RANK_DONE) == p->job->ranks) {
            /* one that left sooner with a code would have mpirun kill others */
            zt_parent_tell(p, ZT_CONTROL_QUIT, NULL, 0);
            released = true;
            take_until(p, LINGER_MS, nobody_left);
        }
        if (p->first_bad >= 0 || p->stop_at_once || (released && !nobody_left(p))) {
            end_all(p);
            return;
        }
        /* ranks that left with what they started have their output open for no one to hear */
        if (nobody_left(p))
            take_until(p, ROUND_MS, is_over);
        if (nobody_left(p))
            return;
    }
}

/* Shared memory of ranks that were killed while mpirun itself was told to end, which leaves some of it behind. */
static void clean_shared_memory(const struct zt_parent *p) {
    char mark[16];
    DIR *folder = p->job_number ? opendir("/dev/shm") : NULL;
    snprintf(mark, sizeof mark, ".%x.", p->job_number);
    for (const struct dirent *at; folder && (at = readdir(folder));)
        if (strncmp(at->d_name, "vader_segment.", 14) == 0 && strstr(at->d_name, mark))
            unlinkat(dirfd(folder), at->d_name, 0);
    if (folder)
        closedir(folder);
}

/* Unfinished files of a rank that was killed (file.h): NAME.tmp-PID. */
static void clean_folder(const struct zt_parent *p, const char *path) {
    DIR *folder = opendir(path);
    for (const struct dirent *at; folder && (at = readdir(folder));) {
        const char *mark = strstr(at->d_name, ".tmp-");
        for (int i = 0; mark && i < p->job->ranks; i++)
            if (p->ranks[i].here && p->ranks[i].pid == (int)strtol(mark + 5, NULL, 10))
                unlinkat(dirfd(folder), at->d_name, 0);
    }
    if (folder)
        closedir(folder);
}

static void watch_signals(struct zt_parent *p, sigset_t *old) {
    static const int passed_on[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
    sigset_t taken;
    sigemptyset(&taken);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++) {
        struct sigaction now;
        if (sigaction(passed_on[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) /* nohup */
            sigaddset(&taken, passed_on[i]);
    }
    sigaddset(&taken, SIGCHLD);
    sigprocmask(SIG_BLOCK, &taken, old);
    p->signals = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
}

bool zt_supervise(const struct zt_supervise *job, struct zt_err *err) {
    struct zt_parent p = { .job = job, .listener = -1, .first_bad = -1, .mpirun = { .output = -1 } };
    char variable[600];
    sigset_t old;
    p.ranks = zt_calloc((size_t)job->ranks, sizeof *p.ranks);
    for (int i = 0; i < job->ranks; i++)
        p.ranks[i].fd = p.ranks[i].stream[0] = p.ranks[i].stream[1] = -1;
    gethostname(p.host, sizeof p.host - 1);
    watch_signals(&p, &old);
    bool ok = zt_parent_listen(&p, variable, sizeof variable, err) && zt_mpirun_start(&p.mpirun, job, variable, err);
    if (ok) {
        run(&p);
        for (const char *const *folder = job->clean; *folder; folder++)
            clean_folder(&p, *folder);
        clean_shared_memory(&p);
        ok = zt_parent_result(&p, err);
    }
    zt_parent_finish(&p);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return ok;
}
