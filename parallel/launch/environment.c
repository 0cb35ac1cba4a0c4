#include "parallel/launch/environment.h"

#include "parallel/launch/error_once.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* A launcher's variables; those of this host may be missing. `other_size`: the name of another launcher for
 * local_size. `step`: also wanted, since Slurm sets the others for
 * every process of a batch script, ranks or not. */
struct row {
    const char *launcher, *rank, *size, *local_rank, *local_size, *other_size, *step;
};

static const struct row rows[] = {
    { "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, NULL },
    { "PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, NULL },
    { "srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL, NULL, "SLURM_STEP_ID" },
};
/* the deepspeed launcher sets LOCAL_SIZE */
static const struct row torchrun = { "torchrun",         "RANK",       "WORLD_SIZE", "LOCAL_RANK",
                                     "LOCAL_WORLD_SIZE", "LOCAL_SIZE", NULL };

/* The number a variable holds; `otherwise` where it is not set. Anything but decimal digits is an error. */
static bool read_number(const char *name, int otherwise, int *to, struct zt_err *err) {
    const char *text = name ? getenv(name) : NULL;
    *to = otherwise;
    if (!text)
        return true;
    char *end;
    long value = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || value > INT_MAX)
        return zt_fail(err, ZT_EXIT_CONFIG, "environment: %s=%s is not a whole number", name, text);
    *to = (int)value;
    return true;
}

/* Whether `number` of `name` is below `limit` of `limit_name`; a limit of 0 is unknown. */
static bool is_below(const char *name, int number, const char *limit_name, int limit, struct zt_err *err) {
    return limit == 0 || number < limit ||
           zt_fail(err, ZT_EXIT_CONFIG, "environment: %s=%d, but %s=%d", name, number, limit_name, limit);
}

/* Ranks are numbered from 0 in the world and on their host. A world of one rank may have any LOCAL_RANK, which is the
 * number of its GPU. */
static bool fits(const struct row *row, const struct zt_launched *l, struct zt_err *err) {
    const char *local_size = row->other_size && !getenv(row->local_size) ? row->other_size : row->local_size;
    if (!is_below(row->rank, l->rank, row->size, l->size, err))
        return false;
    if (l->size == 1)
        return true;
    if (l->local_size > l->size)
        return zt_fail(err, ZT_EXIT_CONFIG, "environment: %s=%d, but %s=%d", local_size, l->local_size, row->size,
                       l->size);
    return is_below(row->local_rank, l->local_rank, local_size, l->local_size, err) &&
           is_below(row->local_rank, l->local_rank, row->size, l->size, err);
}

/* *there: whether the launcher started this process as one of several ranks. */
static bool read_row(const struct row *row, struct zt_launched *to, bool *there, struct zt_err *err) {
    *there = getenv(row->rank) && getenv(row->size) && (!row->step || getenv(row->step));
    if (!*there)
        return true;
    to->launcher = row->launcher;
    if (!read_number(row->rank, 0, &to->rank, err) || !read_number(row->size, 1, &to->size, err) ||
        !read_number(row->local_rank, -1, &to->local_rank, err) ||
        !read_number(row->other_size, 0, &to->local_size, err) ||
        !read_number(row->local_size, to->local_size, &to->local_size, err))
        return false;
    *there = to->size > 1;
    return fits(row, to, err);
}

/* torchrun sets RANK and WORLD_SIZE together; without MASTER_ variables they may have another meaning. */
static bool check_pair(struct zt_err *err) {
    const char *rank = getenv("RANK"), *size = getenv("WORLD_SIZE");
    if (!rank == !size || !(getenv("MASTER_ADDR") || getenv("MASTER_PORT")))
        return true;
    return zt_fail(err, ZT_EXIT_CONFIG, "environment: %s=%s, but %s is not set", rank ? "RANK" : "WORLD_SIZE",
                   rank ? rank : size, rank ? "WORLD_SIZE" : "RANK");
}

bool zt_launched_meeting(const struct zt_launched *launched, struct zt_meeting *meeting, struct zt_err *err) {
    enum { PATIENCE_SECONDS = 60 };
    static const char *const wanted[] = { "MASTER_ADDR", "MASTER_PORT" };
    for (int i = 0; i < 2; i++) {
        const char *text = getenv(wanted[i]);
        if (!text || !*text)
            return zt_fail(err, ZT_EXIT_CONFIG, "environment: WORLD_SIZE=%d and RANK=%d, but %s is not set",
                           launched->size, launched->rank, wanted[i]);
    }
    *meeting = (struct zt_meeting){ .address = getenv(wanted[0]),
                                    .rank = launched->rank,
                                    .size = launched->size,
                                    .seconds = PATIENCE_SECONDS,
                                    .one_host = launched->local_size == launched->size };
    if (!read_number(wanted[1], 0, &meeting->port, err))
        return false;
    if (meeting->port <= 0 || meeting->port > 65535)
        return zt_fail(err, ZT_EXIT_CONFIG, "environment: MASTER_PORT=%d, wants a port of 1..65535", meeting->port);
    return zt_secret_find(&meeting->secret, err);
}

bool zt_launched_find(struct zt_launched *launched, struct zt_err *err) {
    struct zt_launched found = { .size = 1, .local_rank = -1 }, other = { 0 };
    const struct row *by = NULL;
    *launched = found;
    for (size_t i = 0; i <= sizeof rows / sizeof *rows; i++) {
        const struct row *row = i < sizeof rows / sizeof *rows ? &rows[i] : &torchrun;
        bool there;
        if (!read_row(row, &other, &there, err))
            return false;
        if (row == &torchrun && !by && !check_pair(err))
            return false;
        /* inside a batch job mpirun's ranks also have Slurm's variables, of the daemons that Slurm started */
        if (there && by && row == &torchrun && (other.rank != found.rank || other.size != found.size))
            return zt_fail(err, ZT_EXIT_CONFIG, "environment: %s=%d and %s=%d, but %s=%d and %s=%d", by->rank,
                           found.rank, by->size, found.size, row->rank, other.rank, row->size, other.size);
        if (there && !by) {
            by = row;
            found = other;
        }
    }
    *launched = found;
    return true;
}

bool zt_launched_place(bool trains, struct zt_err *err, int *claim) {
    enum { PATIENCE_MS = 2000 };
    struct zt_launched launched;
    struct zt_err ignored = { 0 };
    *claim = -1;
    if (err->place[0] || !zt_launched_find(&launched, &ignored) || launched.size == 1)
        return true;
    if (!trains && strcmp(launched.launcher, torchrun.launcher) == 0)
        return true;
    snprintf(err->place, sizeof err->place, "rank %d", launched.rank);
    if (strcmp(launched.launcher, "srun") == 0) {
        const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
        char name[64];
        snprintf(name, sizeof name, "%s.%s", job ? job : "", step ? step : "");
        return zt_error_claim(err, name, launched.rank, PATIENCE_MS, claim);
    }
    if (launched.rank > 0)
        poll(NULL, 0, PATIENCE_MS);
    return true;
}
