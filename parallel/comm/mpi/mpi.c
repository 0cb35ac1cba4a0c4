/* Ranks as processes over MPI.
 *
 * A family is the world and all communicators split off from it; they fail together. A communicator is a list of world
 * ranks and a number that keeps its traffic apart: after the world has been set up no collective call of MPI is made
 * again until all is destroyed, so that every wait in between can end with an abort. Collectives run as rounds
 * (rounds.h): through the window where all ranks of the communicator share a host, else as messages. */
#include "parallel/comm/mpi/shared_block.h"
#include "parallel/comm/mpi/message.h"
#include "parallel/comm/mpi/window.h"

#include "base/arena.h"
#include "base/clock.h"
#include "parallel/comm/comm.h"

#include <assert.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A wait spins for SPIN_S, without giving up its core, then sleeps: until a bell rings, or where MPI may bring what
 * rings none for pauses that grow from SHORTEST_US to LONGEST_US, by a GROWTH-th of the shortest each: by some percent
 * of the time waited. */
static const double SPIN_S = 100e-6;
enum {
    SLEEP_US = 50000, /* a bell ends it sooner */
    SHORTEST_US = 50,
    LONGEST_US = 1000,
    GROWTH = 32,
};

struct family {
    struct zt_messages *messages;
    struct zt_window *window; /* NULL: everything goes as messages */
    bool one_host;            /* and has a window */
    bool spins;               /* there is a core for every rank of this host */
    int rank, size;           /* of the world */
    int members;              /* communicators of this process */
    int next_context;
    struct zt_message_group **groups; /* of all communicators there ever were, in order of their creation */
    int next_group;
    struct zt_transfer_queue queue;
};

struct mpi_comm {
    struct zt_comm base;
    struct family *family;
    struct zt_part part;
    struct zt_window_group *near; /* NULL: ranks on several hosts */
    struct zt_message_group *far;
    const void **given; /* by rank, of the present round */
    struct zt_shared_block *blocks;
};

static const struct zt_comm_api mpi_api;

static struct mpi_comm *down(struct zt_comm *c) {
    assert(c->api == &mpi_api);
    return (struct mpi_comm *)c;
}

/* The call that hears of it fails, and from then on the buffers of all transfers are their owners' again. */
static bool is_aborted(struct family *f, struct zt_err *err) {
    bool aborted =
        (f->window && zt_window_aborted(f->window, err)) || (!f->one_host && zt_messages_aborted(f->messages, err));
    if (aborted)
        f->queue.first = NULL;
    return aborted;
}

/* Of one wait: wait_on() between looks at what is waited for, wait_over() at its end. */
struct wait {
    struct zt_rank_status *status; /* of the waiting rank; NULL: not watched */
    double began;                  /* to spin; 0: not yet */
    int pauses;
    bool for_message; /* MPI brings it */
};

/* Whether MPI still has something to send; no other call may come in which it could. */
static bool push_messages(struct family *f) {
    bool sending = false;
    for (int i = 0; i < f->next_group; i++)
        sending |= zt_message_sending(f->groups[i]);
    return sending;
}

/* The rank that misses one says so, and all that wait fail with it. */
static bool is_missed(struct family *f, const struct zt_rank_status *where, struct zt_err *err) {
    const struct zt_missed *missed = zt_comm_missed(where, err);
    if (!missed)
        return false;
    if (f->window)
        zt_window_abort(f->window, missed->rank, "stopped");
    if (!f->one_host)
        zt_messages_abort(f->messages, "a rank is stopped");
    f->queue.first = NULL;
    return true;
}

static bool spins(const struct family *f, struct wait *w) {
    const double now = f->spins ? zt_now() : 0;
    w->began = w->began > 0 ? w->began : now;
    return f->spins && now - w->began < SPIN_S;
}

static int next_pause_us(struct wait *w) {
    int us = SHORTEST_US + SHORTEST_US * w->pauses / GROWTH;
    w->pauses += us < LONGEST_US;
    return us < LONGEST_US ? us : LONGEST_US;
}

/* A message that has begun to move needs both sides for a while. */
static void rest(struct family *f, struct wait *w, bool by_message) {
    if (!zt_window_rest(f->window, by_message ? next_pause_us(w) : SLEEP_US) || !by_message)
        return;
    zt_window_woke(f->window);
    w->began = 0;
    w->pauses = 0;
}

static bool wait_on(struct family *f, struct wait *w, struct zt_err *err) {
    if (is_aborted(f, err) || is_missed(f, w->status, err))
        return false;
    bool by_message = push_messages(f) || w->for_message;
    if (spins(f, w))
        zt_comm_pause();
    else if (f->window)
        rest(f, w, by_message);
    else
        nanosleep(&(struct timespec){ .tv_nsec = next_pause_us(w) * 1000L }, NULL);
    return true;
}

static void wait_over(struct family *f) {
    if (f->window)
        zt_window_woke(f->window);
}

static bool begin(struct mpi_comm *c, const struct zt_rounds *op, int64_t round) {
    if (c->near)
        return zt_window_begin(c->near, op, round);
    zt_message_begin(c->far, op, round);
    return true;
}

static bool arrived(struct mpi_comm *c, const struct zt_rounds *op, bool *ok, struct zt_err *err) {
    return c->near ? zt_window_arrived(c->near, op, c->given, ok, err) : zt_message_arrived(c->far, c->given, ok, err);
}

static struct zt_rounds rounds_of(struct mpi_comm *c, const struct zt_transfer *t) {
    struct zt_rounds op = zt_rounds_of(t);
    op.room = c->near ? zt_window_room(c->near, &op) : zt_message_room(c->far);
    return op;
}

/* The phases of a round. */
enum phase { TO_GIVE, TO_TAKE, TO_LEAVE };

/* One step of the first transfer. False: it must wait for other ranks, or it failed (an error was added). */
static bool advance(struct family *f, struct zt_err *err) {
    struct zt_transfer *t = f->queue.first;
    if (!t)
        return false;
    struct mpi_comm *c = down(t->row.comm);
    struct zt_rounds op = rounds_of(c, t);
    bool ok = true;
    if (t->row.phase == TO_GIVE) {
        if (!begin(c, &op, t->row.round))
            return false;
        t->row.phase = TO_TAKE;
        return true;
    }
    if (t->row.phase == TO_TAKE) {
        if (!arrived(c, &op, &ok, err))
            return false;
        if (ok)
            op.kind->take(&op, t->row.round, c->given);
        if (c->near)
            zt_window_finish(c->near);
        t->row.phase = ok && op.block ? TO_LEAVE : TO_GIVE;
        if (ok && (op.block || ++t->row.round < t->row.rounds))
            return true;
    } else if (!zt_window_group_idle(c->near)) { /* other ranks still read it */
        return false;
    }
    f->queue.first = t->row.next;
    return t->done = ok;
}

static bool poll_family(struct family *f, struct zt_err *err) {
    int before = err->count;
    while (advance(f, err))
        ;
    if (err->count == before && (!f->queue.first || !is_aborted(f, err)))
        return true;
    f->queue.first = NULL;
    return false;
}

static bool mpi_poll(struct zt_comm *c, struct zt_err *err) {
    struct family *f = down(c)->family;
    push_messages(f);
    return f->queue.first ? poll_family(f, err) : !is_aborted(f, err) && !is_missed(f, c->status, err);
}

static bool mpi_start(struct zt_comm *base, struct zt_transfer *t, struct zt_err *err) {
    struct mpi_comm *c = down(base);
    struct family *f = c->family;
    if (is_aborted(f, err) || (!c->near && !zt_message_prepare(c->far, err)))
        return false;
    zt_rounds_prepare(t, base);
    if (t->bound)
        t->row.block = zt_shared_block_find(c->blocks, t->data, t->row.bytes);
    struct zt_rounds op = rounds_of(c, t);
    t->row.rounds = op.kind->count(&op);
    zt_transfer_append(&f->queue, t);
    return poll_family(f, err);
}

static bool mpi_wait(struct zt_comm *base, struct zt_transfer *t, struct zt_err *err) {
    struct family *f = down(base)->family;
    const char *before = zt_rank_status_enter(base->status, t->row.kind->name);
    bool ok = true;
    while (ok && !t->done) {
        struct wait w = { .status = base->status };
        while (ok && !t->done) {
            struct zt_transfer *moving = f->queue.first;
            if (!moving)
                return zt_fail(err, ZT_EXIT_RUN, "wait: an earlier failure ended this transfer");
            w.for_message = !down(moving->row.comm)->near;
            int64_t round = moving->row.round;
            int phase = moving->row.phase;
            ok = poll_family(f, err);
            if (!ok || t->done || f->queue.first != moving || moving->row.round != round || moving->row.phase != phase)
                break;
            ok = wait_on(f, &w, err);
        }
        wait_over(f);
    }
    if (ok) /* else it says where it failed */
        zt_rank_status_leave(base->status, before);
    else
        f->queue.first = NULL;
    return ok;
}

/* For a rank of this group, which may sleep until there is a message or one is taken. */
static void ring(struct mpi_comm *c, int rank) {
    if (c->family->window)
        zt_window_ring(c->family->window, c->part.world[rank]);
}

static bool mpi_send(struct zt_comm *base, const void *data, size_t bytes, int to, struct zt_err *err) {
    struct mpi_comm *c = down(base);
    if (!zt_comm_check_peer(base, "send", to, err) || is_aborted(c->family, err))
        return false;
    struct wait w = { .status = base->status, .for_message = true };
    const char *before = zt_rank_status_enter(base->status, "send");
    bool sent = false, ok = zt_message_send(c->far, data, bytes, to, &sent, err);
    while (ok && !sent)
        ok = wait_on(c->family, &w, err) && zt_message_send(c->far, data, bytes, to, &sent, err);
    wait_over(c->family);
    if (ok)
        ring(c, to);
    if (ok)
        zt_rank_status_leave(base->status, before);
    return ok;
}

static bool mpi_recv(struct zt_comm *base, void *data, size_t bytes, int from, struct zt_err *err) {
    struct mpi_comm *c = down(base);
    if (!zt_comm_check_peer(base, "recv", from, err) || is_aborted(c->family, err))
        return false;
    struct wait w = { .status = base->status, .for_message = true };
    const char *before = zt_rank_status_enter(base->status, "recv");
    size_t come = 0;
    bool ok = true;
    while (ok && !zt_message_waiting(c->far, from, &come))
        ok = wait_on(c->family, &w, err);
    if (ok && come != bytes)
        ok = zt_fail(err, ZT_EXIT_RUN, "rank %d sent %zu bytes, rank %d wants %zu bytes", c->part.world[from], come,
                     c->part.world[base->rank], bytes);
    if (ok)
        zt_message_receive(c->far, data, bytes, from);
    while (ok && !zt_message_received(c->far)) {
        ring(c, from);
        ok = wait_on(c->family, &w, err);
    }
    wait_over(c->family);
    ring(c, from);
    if (ok)
        zt_rank_status_leave(base->status, before);
    return ok;
}

/* Takes over the part's list. */
static struct zt_comm *comm_create(struct family *f, struct zt_part part, struct zt_err *err) {
    struct mpi_comm *c = zt_calloc(1, sizeof *c);
    c->base = (struct zt_comm){ .api = &mpi_api, .rank = part.rank, .size = part.size };
    c->family = f;
    c->part = part;
    c->given = zt_calloc((size_t)part.size, sizeof *c->given);
    bool one_host = f->window;
    for (int r = 0; r < part.size && one_host; r++)
        one_host = zt_window_holds(f->window, part.world[r]);
    if (one_host)
        c->near = zt_window_group_create(f->window, part.world, part.rank, part.size, part.context, err);
    if (one_host && !c->near) {
        free(c->given);
        free(part.world);
        free(c);
        return NULL;
    }
    c->far = zt_message_group_create(f->messages, part.world, part.rank, part.size, part.context);
    f->groups = zt_realloc(f->groups, (size_t)(f->next_group + 1) * sizeof(struct zt_message_group *));
    f->groups[f->next_group++] = c->far;
    f->members++;
    return &c->base;
}

static struct zt_comm *mpi_split(struct zt_comm *base, int color, struct zt_err *err) {
    struct mpi_comm *c = down(base);
    struct zt_part part;
    return zt_part_split(base, c->part.world, color, &c->family->next_context, &part, err)
               ? comm_create(c->family, part, err)
               : NULL;
}

static bool mpi_share(struct zt_comm *base, void *memory, size_t bytes, struct zt_err *err) {
    struct mpi_comm *c = down(base);
    if (!c->near || base->size == 1)
        return true;
    struct zt_block_card *cards = zt_calloc((size_t)base->size, sizeof *cards);
    struct zt_shared_block *b = zt_shared_block_create(memory, bytes, &cards[base->rank]);
    bool ok = zt_comm_exchange(base, cards, sizeof *cards, err);
    double opened = ok && zt_shared_block_open(b, cards, base->rank, base->size);
    ok = ok && zt_rounds_sum(base, &opened, 1, err);
    zt_shared_block_begin(b);
    if (ok && opened == base->size) {
        b->next = c->blocks;
        c->blocks = b;
    } else {
        zt_shared_block_destroy(b);
    }
    free(cards);
    return ok;
}

static void mpi_unshare(struct zt_comm *base, void *memory) {
    struct zt_shared_block **at = &down(base)->blocks;
    while (*at && (*at)->own != memory)
        at = &(*at)->next;
    struct zt_shared_block *b = *at;
    if (!b)
        return;
    *at = b->next;
    zt_shared_block_destroy(b);
}

static void mpi_abort(struct zt_comm *base, const char *why) {
    struct family *f = down(base)->family;
    struct zt_err first = { 0 };
    f->queue.first = NULL; /* buffers are their owners' again */
    if (is_aborted(f, &first))
        return;
    if (f->window)
        zt_window_abort(f->window, f->rank, why);
    if (!f->one_host)
        zt_messages_abort(f->messages, why);
}

/* Messages may arrive after their sender has left its communicator, so they live as long as the family. */
static void end_family(struct family *f, bool leave) {
    for (int i = 0; i < f->next_group; i++)
        zt_message_group_destroy(f->groups[i]);
    free(f->groups);
    zt_window_destroy(f->window, leave);
    zt_messages_destroy(f->messages, leave);
    free(f);
}

static void mpi_destroy(struct zt_comm *base) {
    if (!base)
        return;
    struct mpi_comm *c = down(base);
    struct family *f = c->family;
    struct zt_err failed = { 0 };
    struct wait w = { 0 };
    while (c->near && !zt_window_group_idle(c->near) && wait_on(f, &w, &failed))
        ;
    wait_over(f);
    /* One rank must not wait for all others while these leave: all ranks pass this barrier, or an abort stops them all.
     */
    bool last = --f->members == 0, leave = last && !zt_rounds_barrier(base, &failed);
    zt_window_group_destroy(c->near);
    free(c->given);
    free(c->part.world);
    free(c);
    if (last)
        end_family(f, leave);
}

static const struct zt_comm_api mpi_api = {
    .name = "mpi",
    .reduce_scatter = zt_comm_reduce_scatter,
    .all_gather = zt_comm_all_gather,
    .start = mpi_start,
    .poll = mpi_poll,
    .wait = mpi_wait,
    .share = mpi_share,
    .unshare = mpi_unshare,
    .broadcast = zt_rounds_broadcast,
    .sum = zt_rounds_sum,
    .barrier = zt_rounds_barrier,
    .send = mpi_send,
    .recv = mpi_recv,
    .all_to_all = zt_comm_all_to_all,
    .split = mpi_split,
    .abort = mpi_abort,
    .destroy = mpi_destroy,
};

static bool start_mpi(struct zt_err *err) {
    int started = 0, ended = 0, provided = MPI_THREAD_SINGLE;
    MPI_Finalized(&ended);
    MPI_Initialized(&started);
    if (ended)
        return zt_fail(err, ZT_EXIT_RUN, "communicator mpi: MPI has been finalized");
    if (!started && MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
        return zt_fail(err, ZT_EXIT_RUN, "communicator mpi: MPI does not start");
    MPI_Query_thread(&provided);
    if (provided < MPI_THREAD_FUNNELED)
        return zt_fail(err, ZT_EXIT_RUN, "communicator mpi: this MPI works in programs of one thread only");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return true;
}

/* On this host, as far as is known. */
static int ranks_here(const struct family *f) {
    int count = 0;
    for (int r = 0; r < f->size; r++)
        count += !f->window || zt_window_holds(f->window, r);
    return count;
}

struct zt_comm *zt_comm_mpi_create(enum zt_comm_mpi_paths paths, struct zt_err *err) {
    if (!start_mpi(err))
        return NULL;
    struct family *f = zt_calloc(1, sizeof *f);
    MPI_Comm_rank(MPI_COMM_WORLD, &f->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &f->size);
    f->next_context = 1;
    if (paths == ZT_MPI_WINDOW_AND_MESSAGES && !(f->window = zt_window_create(f->rank, f->size, err))) {
        free(f);
        return NULL;
    }
    f->messages = zt_messages_create();
    f->one_host = f->window;
    for (int r = 0; r < f->size && f->one_host; r++)
        f->one_host = zt_window_holds(f->window, r);
    f->spins = zt_comm_core_each(ranks_here(f));
    return comm_create(f, zt_part_whole(f->rank, f->size), err);
}

/* After a failure some ranks may have ended, and MPI_Finalize would wait for them for ever. */
void zt_comm_mpi_finalize(int exit_code) {
    enum { GRACE_MS = 2000 };
    int started = 0, ended = 0, all = exit_code == 0;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    if (!started || ended)
        return;
    if (!all) {
        MPI_Request request;
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
        for (int ms = 0; ms < GRACE_MS && !all; ms++) {
            MPI_Test(&request, &all, MPI_STATUS_IGNORE);
            nanosleep(&(struct timespec){ .tv_nsec = all ? 0 : 1000000L }, NULL);
        }
    }
    /* Open MPI's mpirun ends the other ranks where one leaves with such a code; MPI_Abort would have it show a message
     * on the way, of which mpirun 4.1 was once seen to die (pmix_server_log_fn) before it had told the code. */
    if (!all && getenv("OMPI_MCA_orte_launch"))
        _exit(exit_code);
    if (!all)
        MPI_Abort(MPI_COMM_WORLD, exit_code);
    MPI_Finalize();
}

const struct zt_mpi_kind *zt_comm_mpi_kind(void) {
#ifdef OPEN_MPI
    static const struct zt_mpi_kind kind = { .srun = "pmix", .variable = "PMIX_RANK", .pass = "-x" };
#else /* MPICH and what was made from it */
    static const struct zt_mpi_kind kind = { .srun = "pmi2", .variable = "PMI_RANK" };
#endif
    return &kind;
}
