/* The supervisor: starts the ranks, watches them until they have ended, and cleans up behind those that were killed. */
#include "parallel/launch/supervise_watch.h"

#include "base/arena.h"
#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUND_MS = 500, LINGER_MS = 10000 }; /* LINGER_MS: for mpirun to end when all ranks are done */

static void run(struct zt_parent *p) {
    for (bool released = false; !zt_parent_is_over(p);) {
        zt_parent_take(p, ROUND_MS);
        if (!released && zt_parent_count(p, ZT_RANK_DONE) == p->job->ranks) {
            /* one that left sooner with a code would have mpirun kill others */
            zt_parent_tell(p, ZT_CONTROL_QUIT, NULL, 0);
            released = true;
            zt_parent_take_until(p, LINGER_MS, zt_parent_nobody_left);
        }
        if (p->first_bad >= 0 || p->stop_at_once || (released && !zt_parent_nobody_left(p))) {
            zt_parent_end(p);
            return;
        }
        /* ranks that left with what they started have their output open for no one to hear */
        if (zt_parent_nobody_left(p))
            zt_parent_take_until(p, ROUND_MS, zt_parent_is_over);
        if (zt_parent_nobody_left(p))
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

/* A folder of this user's, which is no link to another; NULL: there is none. */
static DIR *open_own(int in, const char *name) {
    struct stat is;
    const int at = openat(in, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = at >= 0 && fstat(at, &is) == 0 && is.st_uid == geteuid() ? fdopendir(at) : NULL;
    if (at >= 0 && !folder)
        close(at);
    return folder;
}

static void remove_own(int in, const char *name, int deep) {
    DIR *folder = deep > 0 ? open_own(in, name) : NULL;
    const int flags = folder ? AT_REMOVEDIR : 0;
    for (const struct dirent *at; folder && (at = readdir(folder));)
        if (strcmp(at->d_name, ".") != 0 && strcmp(at->d_name, "..") != 0)
            remove_own(dirfd(folder), at->d_name, deep - 1);
    if (folder)
        closedir(folder);
    unlinkat(in, name, flags);
}

/* Open MPI's folder ompi.HOST.USER/pid.MPIRUN, which mpirun leaves where it ends ranks that are still in MPI_Init. */
static void clean_session(const struct zt_parent *p) {
    const char *const variables[] = { "TMPDIR", "TEMP", "TMP" }, *base = NULL;
    char owner[16], session[24];
    for (size_t i = 0; i < sizeof variables / sizeof *variables && !base; i++)
        base = getenv(variables[i]);
    snprintf(owner, sizeof owner, ".%u", (unsigned)geteuid());
    snprintf(session, sizeof session, "pid.%d", (int)p->mpirun.started);
    DIR *folder = p->mpirun.pid == 0 ? opendir(base ? base : "/tmp") : NULL;
    for (const struct dirent *at; folder && (at = readdir(folder));) {
        DIR *of = strncmp(at->d_name, "ompi.", 5) == 0 && zt_text_ends(at->d_name, owner)
                      ? open_own(dirfd(folder), at->d_name)
                      : NULL;
        if (!of)
            continue;
        if (faccessat(dirfd(of), session, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
            remove_own(dirfd(of), session, 4);
            unlinkat(dirfd(folder), at->d_name, AT_REMOVEDIR); /* fails where another run has one in it */
        }
        closedir(of);
    }
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

/* mpirun hangs where it gets no more descriptors in the middle of its start. */
static bool raise_open_files(const struct zt_supervise *job, struct zt_err *err) {
    const rlim_t here = job->hosts ? 0 : (rlim_t)job->ranks, least = 32 + 4 * here, enough = 64 + 8 * here;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= enough)
        return true;
    const rlim_t had = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max < enough ? limit.rlim_max : enough;
    if (limit.rlim_cur >= least && (limit.rlim_cur == had || setrlimit(RLIMIT_NOFILE, &limit) == 0))
        return true;
    zt_fail(err, ZT_EXIT_RUN, "%d ranks need %llu open files, %llu are allowed", job->ranks, (unsigned long long)least,
            (unsigned long long)had);
    return zt_hint(err, "`ulimit -n 1024` sets the usual limit");
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
    bool ok = raise_open_files(job, err) && zt_parent_listen(&p, variable, sizeof variable, err) &&
              zt_mpirun_start(&p.mpirun, job, variable, err);
    if (ok) {
        run(&p);
        for (const char *const *folder = job->clean; *folder; folder++)
            clean_folder(&p, *folder);
        clean_shared_memory(&p);
        clean_session(&p);
        ok = zt_parent_result(&p, err);
        zt_parent_end_line(&p);
    }
    zt_parent_finish(&p);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return ok;
}
