/* Reduction of all events of the ranks to one error: the earliest and most specific one. */
#include "parallel/launch/supervise_watch.h"

#include "base/text.h"

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

/* The rank whose error becomes the run's: the lowest rank with an error of its own cause, else the lowest rank with an
 * error. */
static int find_error(const struct zt_parent *p) {
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < p->job->ranks; i++)
            if (p->ranks[i].error && (pass == 1 || p->ranks[i].error->code != ZT_EXIT_RANK))
                return i;
    return -1;
}

static bool is_gone(const struct zt_parent *p, int rank) {
    return p->ranks[rank].state == ZT_RANK_LOST || p->ranks[rank].state == ZT_RANK_STOPPED;
}

/* The lowest rank that has not connected, and nobody knows to have been first: all that were lost or stopped had been
 * told to end by mpirun, which said nothing more. -1: there is none. */
static int find_absent(const struct zt_parent *p) {
    int absent = -1, gone = 0;
    for (int i = p->job->ranks - 1; i >= 0; i--) {
        if (is_gone(p, i) && p->ranks[i].status.signal == 0)
            return -1;
        gone += is_gone(p, i);
        absent = p->ranks[i].state == ZT_RANK_ABSENT ? i : absent;
    }
    return gone ? absent : -1;
}

/* The rank that was lost or stopped first: one that ended before it had connected, of which only mpirun can tell, and
 * does not always; else the lowest that went although mpirun had not told it to, else the lowest. */
static int find_gone(const struct zt_parent *p) {
    int number, status, rank = zt_mpirun_cause(&p->mpirun, &number, &status), told = -1;
    if (rank < 0 && number == 0 && status < 0)
        rank = find_absent(p);
    if (rank >= 0 && rank < p->job->ranks && p->ranks[rank].state == ZT_RANK_ABSENT)
        return rank;
    for (int i = 0; i < p->job->ranks; i++) {
        if (is_gone(p, i) && p->ranks[i].status.signal == 0)
            return i;
        told = is_gone(p, i) && told < 0 ? i : told;
    }
    return told;
}

/* "rank 1, 2 or 5": those that never connected, of which mpirun has not said who went first. */
static void say_absent(const struct zt_parent *p, char *to, size_t room) {
    size_t length = 0;
    int left = zt_parent_count(p, ZT_RANK_ABSENT), first = left;
    for (int i = 0; i < p->job->ranks && length + 16 < room; i++)
        if (p->ranks[i].state == ZT_RANK_ABSENT) {
            const char *before = left == first ? "rank " : left == 1 ? " or " : ", ";
            length += (size_t)snprintf(to + length, room - length, "%s%d", before, i);
            left--;
        }
}

/* Describes the position of the run at the loss of a rank. The last status of that rank is up to a second old; the
 * ranks that waited for it were asked afterwards. */
static void say_where(const struct zt_parent *p, int rank, char *to, size_t room) {
    const struct zt_control_status *own = &p->ranks[rank].status, *last = own;
    const char *inside = "";
    for (int i = 0; i < p->job->ranks; i++) {
        const struct zt_control_status *s = &p->ranks[i].status;
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

/* The last line a rank wrote itself before it ended, or MPI's that names the signal; "" where there is none. */
static void last_line(const struct zt_rank_seen *r, char *to, size_t room) {
    const char *mpi = strstr(r->words, "] Signal: ");
    size_t end = mpi ? (size_t)(mpi - r->words) + strcspn(mpi, "\n") : strlen(r->words);
    while (end && (r->words[end - 1] == '\n' || r->words[end - 1] == '\r'))
        end--;
    size_t first = end;
    while (first && r->words[first - 1] != '\n')
        first--;
    snprintf(to, room, "%.*s", (int)(end - first), r->words + first);
    zt_control_clean(to, room);
}

/* Whether a paragraph only tells that some rank has ended, and how mpirun ends the others, or that mpirun has crashed
 * of that: Open MPI 4.1 does where ranks end at the same time. */
static bool says_nothing(const char *paragraph) {
    static const char *const starts[] = { "Primary job ", "mpirun noticed ", "mpirun detected ", "mpirun: abort is " };
    bool nothing = strstr(paragraph, "] *** Process received signal ***") != NULL;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        nothing |= zt_text_begins(paragraph, starts[i]);
    return nothing;
}

/* The first paragraph that mpirun said itself and that says something; "" where there is none. */
static void mpirun_words(const struct zt_parent *p, char *to, size_t room) {
    size_t length = 0;
    to[0] = 0;
    for (const char *at = p->mpirun.said; *at && length + 1 < room;) {
        const size_t n = strcspn(at, "\n");
        if (strspn(at, "- ") < n)
            length += (size_t)snprintf(to + length, room - length, "%s%.*s", length ? " " : "", (int)n, at);
        else if (length && !says_nothing(to))
            break;
        else
            length = 0;
        at += at[n] ? n + 1 : n;
    }
    if (says_nothing(to))
        to[0] = 0;
    zt_control_clean(to, room);
}

/* Each rank waits for all others in MPI_Init, so the cause is unknown. */
static bool report_mpi(const struct zt_parent *p, struct zt_err *err) {
    char line[200];
    err->place[0] = 0;
    mpirun_words(p, line, sizeof line);
    zt_fail(err, ZT_EXIT_RANK, "MPI does not start: rank 0 to %d have been in MPI_Init for twenty seconds",
            p->job->ranks - 1);
    return line[0] ? zt_hint(err, "MPI said: %s", line) : false;
}

static bool report_gone(const struct zt_parent *p, int rank, struct zt_err *err) {
    const struct zt_rank_seen *r = &p->ranks[rank];
    char where[256], line[200], how[64] = "";
    int number, status;
    say_place(p, rank, err->place, sizeof err->place);
    say_where(p, rank, where, sizeof where);
    last_line(r, line, sizeof line);
    if (zt_mpirun_cause(&p->mpirun, &number, &status) < 0 && number == 0 && status < 0 && r->state == ZT_RANK_ABSENT)
        say_absent(p, err->place, sizeof err->place);
    if (p->no_mpi)
        return report_mpi(p, err);
    if (r->state == ZT_RANK_STOPPED && !r->in)
        return zt_fail(err, ZT_EXIT_RANK, "stopped (start-up): it has not connected in fifteen seconds");
    if (r->state == ZT_RANK_STOPPED)
        return zt_fail(err, ZT_EXIT_RANK, "stopped%s: no heartbeat for five seconds", where);
    if (strncmp(line, ZT_ERR_MARK, strlen(ZT_ERR_MARK)) == 0 && number == 0)
        return zt_fail(err, ZT_EXIT_RUN, "%s%s", line + strlen(ZT_ERR_MARK), where);
    if (number)
        snprintf(how, sizeof how, ": killed by signal %d (%s)", number, strsignal(number));
    else if (status >= 0)
        snprintf(how, sizeof how, ": it ended with status %d", status);
    zt_fail(err, ZT_EXIT_RANK, "lost%s%s", where, how);
    if (number == SIGKILL)
        return zt_hint(err, "the system kills processes when its memory runs out: dmesg shows whether it did");
    if (rank > 0 && line[0])
        return zt_hint(err, "its last output: %s", line);
    if (number == 0 && status < 0)
        mpirun_words(p, line, sizeof line);
    return number == 0 && status < 0 && line[0] ? zt_hint(err, "MPI said: %s", line) : false;
}

/* mpirun ended before all ranks were there. */
static bool report_start(const struct zt_parent *p, struct zt_err *err) {
    char line[200];
    mpirun_words(p, line, sizeof line);
    return zt_fail(err, ZT_EXIT_RUN, "mpirun ended with status %d when %d of %d ranks had started%s%s",
                   WIFEXITED(p->mpirun.status) ? WEXITSTATUS(p->mpirun.status) : 128 + WTERMSIG(p->mpirun.status),
                   p->job->ranks - zt_parent_count(p, ZT_RANK_ABSENT), p->job->ranks, line[0] ? ": " : "", line);
}

bool zt_parent_result(const struct zt_parent *p, struct zt_err *err) {
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
