/* What happened, as one error: of all that ranks said and did, what came first and says most. */
#include "parallel/supervise_ranks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* "rank 2 (stage 1) on host-b" */
static void say_place(const struct zt_parent *p, int rank, char *to, size_t room) {
    const struct zt_rank_seen *r = &p->ranks[rank];
    char plain[20];
    snprintf(plain, sizeof plain, "rank %d", rank);
    const char *place = r->error && r->error->place[0] ? r->error->place : r->status.place;
    snprintf(to, room, "%.80s%s%.63s", place[0] ? place : plain, r->host[0] ? " on " : "", r->host);
}

/* The rank whose error is the run's: of the lowest rank that has one of its own, else of the lowest that has one. */
static int find_error(const struct zt_parent *p) {
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < p->job->ranks; i++)
            if (p->ranks[i].error && (pass == 1 || p->ranks[i].error->code != ZT_EXIT_RANK))
                return i;
    return -1;
}

/* The one rank that never connected where all others were lost; -1: there are several, or there is none. */
static int find_missing(const struct zt_parent *p) {
    if (zt_parent_count(p, ZT_RANK_ABSENT) != 1 || zt_parent_count(p, ZT_RANK_LOST) != p->job->ranks - 1)
        return -1;
    int rank = 0;
    while (p->ranks[rank].state != ZT_RANK_ABSENT)
        rank++;
    return rank;
}

/* The lowest rank that was lost or stopped; before them one of which only mpirun can tell, since it ended before it had
 * connected, and the others for that. Open MPI does not always say which that was. */
static int find_gone(const struct zt_parent *p) {
    int number, status, rank = zt_mpirun_cause(&p->mpirun, &number, &status);
    if (rank < 0 && number == 0 && status < 0)
        rank = find_missing(p);
    if (rank >= 0 && rank < p->job->ranks && p->ranks[rank].state == ZT_RANK_ABSENT)
        return rank;
    for (int i = 0; i < p->job->ranks; i++)
        if (p->ranks[i].state == ZT_RANK_LOST || p->ranks[i].state == ZT_RANK_STOPPED)
            return i;
    return -1;
}

/* Where the run was when it lost a rank: that rank's last word on it is up to a second old, those that waited for it
 * have been asked since. */
static void say_where(const struct zt_parent *p, int rank, char *to, size_t room) {
    const struct zt_talk_status *own = &p->ranks[rank].status, *last = own;
    const char *inside = "";
    for (int i = 0; i < p->job->ranks; i++) {
        const struct zt_talk_status *s = &p->ranks[i].status;
        if (i == rank || !p->ranks[i].answered)
            continue;
        if (s->inside[0] && !inside[0])
            inside = s->inside;
        if (s->step >= last->step)
            last = s;
    }
    char step[48] = "", waiting[96] = "";
    if (last->step > 0)
        snprintf(step, sizeof step, " at step %lld", (long long)last->step);
    if (inside[0])
        snprintf(waiting, sizeof waiting, ", the others waited for it in %s", inside);
    else if (own->inside[0])
        snprintf(waiting, sizeof waiting, ", last seen in %s", own->inside);
    snprintf(to, room, "%s (%s)%s", step, last->phase[0] ? last->phase : "start-up", waiting);
}

/* The last line a rank wrote itself before it ended; "" where there is none. */
static void last_line(const struct zt_rank_seen *r, char *to, size_t room) {
    size_t end = strlen(r->words);
    while (end && (r->words[end - 1] == '\n' || r->words[end - 1] == '\r'))
        end--;
    size_t first = end;
    while (first && r->words[first - 1] != '\n')
        first--;
    snprintf(to, room, "%.*s", (int)(end - first), r->words + first);
    zt_talk_clean(to, room);
}

/* The first line of words that mpirun said itself; "" where there is none. */
static void mpirun_line(const struct zt_parent *p, char *to, size_t room) {
    to[0] = 0;
    for (const char *at = p->mpirun.said; *at && !to[0];) {
        size_t n = strcspn(at, "\n");
        if (strspn(at, "- ") < n)
            snprintf(to, room, "%.*s", (int)n, at);
        at += at[n] ? n + 1 : n;
    }
    zt_talk_clean(to, room);
}

static bool report_gone(const struct zt_parent *p, int rank, struct zt_err *err) {
    const struct zt_rank_seen *r = &p->ranks[rank];
    char where[256], line[200], how[64] = "";
    int number, status;
    say_place(p, rank, err->place, sizeof err->place);
    say_where(p, rank, where, sizeof where);
    last_line(r, line, sizeof line);
    zt_mpirun_cause(&p->mpirun, &number, &status);
    if (r->state == ZT_RANK_STOPPED && !r->in)
        return zt_fail(err, ZT_EXIT_RANK, "stopped (start-up): it has not connected in fifteen seconds");
    if (r->state == ZT_RANK_STOPPED)
        return zt_fail(err, ZT_EXIT_RANK, "stopped%s: no sign of life for five seconds", where);
    if (strncmp(line, ZT_ERR_MARK, strlen(ZT_ERR_MARK)) == 0 && number == 0)
        return zt_fail(err, ZT_EXIT_RUN, "%s%s", line + strlen(ZT_ERR_MARK), where);
    if (number)
        snprintf(how, sizeof how, ": killed by signal %d (%s)", number, strsignal(number));
    else if (status >= 0)
        snprintf(how, sizeof how, ": it ended with status %d", status);
    zt_fail(err, ZT_EXIT_RANK, "lost%s%s", where, how);
    if (number == SIGKILL)
        return zt_hint(err, "the system kills processes when its memory runs out: dmesg would say so");
    if (rank > 0 && line[0])
        return zt_hint(err, "its last words: %s", line);
    if (number == 0 && status < 0)
        mpirun_line(p, line, sizeof line);
    return number == 0 && status < 0 && line[0] ? zt_hint(err, "MPI said: %s", line) : false;
}

/* mpirun ended before all ranks were there. */
static bool report_start(const struct zt_parent *p, struct zt_err *err) {
    char line[200];
    mpirun_line(p, line, sizeof line);
    return zt_fail(err, ZT_EXIT_RUN, "mpirun ended with status %d when %d of %d ranks had started%s%s",
                   WIFEXITED(p->mpirun.status) ? WEXITSTATUS(p->mpirun.status) : 128 + WTERMSIG(p->mpirun.status),
                   p->job->ranks - zt_parent_count(p, ZT_RANK_ABSENT), p->job->ranks, line[0] ? ": " : "", line);
}

bool zt_parent_verdict(const struct zt_parent *p, struct zt_err *err) {
    int with_error = find_error(p), gone = find_gone(p), code = 0;
    if (p->stop_at_once || (gone >= 0 && with_error < 0 && p->stop_signal)) {
        err->code = 128 + p->stop_signal;
        return false;
    }
    if (with_error >= 0 && (p->ranks[with_error].error->code != ZT_EXIT_RANK || gone < 0)) {
        *err = *p->ranks[with_error].error;
        say_place(p, with_error, err->place, sizeof err->place);
        return false;
    }
    if (gone >= 0)
        return report_gone(p, gone, err);
    for (int i = 0; i < p->job->ranks; i++)
        if (p->ranks[i].state == ZT_RANK_DONE && p->ranks[i].code > code)
            code = p->ranks[i].code;
    err->code = code;
    if (code)
        return false;
    return zt_parent_count(p, ZT_RANK_DONE) == p->job->ranks || report_start(p, err);
}
