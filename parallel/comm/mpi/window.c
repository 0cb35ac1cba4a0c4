#include "parallel/comm/mpi/window.h"

#include "base/arena.h"
#include "base/clock.h"
#include "parallel/comm/comm.h"
#include "parallel/comm/mpi/shared_block.h"

#include <linux/futex.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    HALF = 512 << 10, /* bytes a rank gives in one round: two of them stay in a second-level cache */
    MOST_CONTEXTS = 64,
};

/* Entry of a rank into a round. All ranks must have the same function, bytes and root; the position of their data in
 * shared blocks may differ. */
struct entry {
    char function[24];
    size_t bytes;
    int root;
    int64_t offset; /* from the start of the shared block; -1: in the staging */
};

/* A rank's place in one communicator. Only the rank itself writes here. Rounds count from the communicator's start. */
struct desk {
    _Alignas(64) atomic_ullong posted;
    _Alignas(64) atomic_ullong consumed;
    _Alignas(64) struct entry entries[2]; /* by parity of the round, as the halves of the staging are */
};

struct segment {
    _Alignas(64) atomic_uint bell; /* changes when there may be something new to see */
    atomic_bool sleeps;
    _Alignas(64) struct desk desks[MOST_CONTEXTS];
    _Alignas(4096) char staging[2][HALF];
};

/* Beside the segment of the host's first rank. */
struct notice {
    _Alignas(64) atomic_bool taken, written;
    int failed_rank;
    char why[ZT_ERR_TEXT / 2];
};

struct window_segment {
    struct segment segment;
    struct notice notice; /* of the host's first rank alone */
};

struct zt_window {
    MPI_Win win;
    MPI_Comm host;
    int rank, size;            /* on this host */
    int *host_rank;            /* by world rank; -1: on another host */
    struct segment **segments; /* by host rank */
    struct notice *notice;
    bool announced; /* that this rank will sleep */
    unsigned seen;  /* the bell at that moment, or when it last rang */
    struct {
        const struct zt_window_group *group;
        unsigned long long round;
    } used[2]; /* who reads the halves of this rank's staging */
};

struct zt_window_group {
    struct zt_window *window;
    const int *world;
    int rank, size;
    struct segment **segments; /* by rank of the group */
    int context;
    unsigned long long round; /* rounds begun */
};

static struct desk *desk_of(const struct zt_window_group *g, int rank) {
    return &g->segments[rank]->desks[g->context];
}

/* By world rank, the world rank of the first rank of the host: equal on one host. */
static int *hosts_of_ranks(MPI_Comm host, int world_rank, int world_size) {
    int first = world_rank;
    MPI_Bcast(&first, 1, MPI_INT, 0, host);
    int *firsts = zt_malloc((size_t)world_size * sizeof *firsts);
    MPI_Allgather(&first, 1, MPI_INT, firsts, 1, MPI_INT, MPI_COMM_WORLD);
    int *host_rank = zt_malloc((size_t)world_size * sizeof *host_rank);
    for (int r = 0, next = 0; r < world_size; r++)
        host_rank[r] = firsts[r] == first ? next++ : -1;
    free(firsts);
    return host_rank;
}

enum { PAGE = _Alignof(struct window_segment) };

/* MPI puts a header before the memory. All ranks map whole pages, so this finds the same place for all of them. */
static struct segment *on_a_page(void *at) {
    return (struct segment *)(void *)(((uintptr_t)at + PAGE - 1) / PAGE * PAGE);
}

static bool map_segments(struct zt_window *w) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true"); /* own pages for every rank */
    void *own = NULL;
    MPI_Comm_set_errhandler(w->host, MPI_ERRORS_RETURN);
    int failed = MPI_Win_allocate_shared(sizeof(struct window_segment) + PAGE, 1, info, w->host, &own, &w->win);
    MPI_Info_free(&info);
    if (failed)
        return false;
    w->segments = zt_calloc((size_t)w->size, sizeof *w->segments);
    for (int r = 0; r < w->size; r++) {
        MPI_Aint bytes;
        int unit;
        void *at = NULL;
        MPI_Win_shared_query(w->win, r, &bytes, &unit, &at);
        w->segments[r] = on_a_page(at);
    }
    w->notice = &((struct window_segment *)(void *)w->segments[0])->notice;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, w->win);
    memset(w->segments[w->rank], 0, offsetof(struct segment, staging));
    if (w->rank == 0)
        memset(w->notice, 0, sizeof *w->notice);
    return true;
}

struct zt_window *zt_window_create(int world_rank, int world_size, struct zt_err *err) {
    struct zt_window *w = zt_calloc(1, sizeof *w);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world_rank, MPI_INFO_NULL, &w->host);
    MPI_Comm_rank(w->host, &w->rank);
    MPI_Comm_size(w->host, &w->size);
    w->host_rank = hosts_of_ranks(w->host, world_rank, world_size);
    int mapped = map_segments(w), all = 0;
    MPI_Allreduce(&mapped, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD); /* and all segments are zero from here on */
    if (all)
        return w;
    zt_fail(err, ZT_EXIT_RUN, "communicator mpi: no shared memory of %zu bytes a rank on %s", sizeof *w->segments[0],
            mapped ? "another host" : "this host");
    zt_hint(err, "/dev/shm needs room for all ranks of the host (in a container: --shm-size)");
    if (mapped)
        zt_window_destroy(w, false);
    else {
        free(w->host_rank);
        free(w);
    }
    return NULL;
}

void zt_window_destroy(struct zt_window *w, bool leave) {
    if (!w)
        return;
    if (!leave) {
        MPI_Win_unlock_all(w->win);
        MPI_Win_free(&w->win);
        MPI_Comm_free(&w->host);
    }
    free(w->segments);
    free(w->host_rank);
    free(w);
}

bool zt_window_holds(const struct zt_window *w, int r) {
    return w->host_rank[r] >= 0;
}

static void ring(struct segment *s) {
    if (!atomic_load(&s->sleeps))
        return;
    atomic_fetch_add(&s->bell, 1);
    syscall(SYS_futex, &s->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void ring_peers(const struct zt_window_group *g) {
    for (int r = 0; r < g->size; r++)
        if (r != g->rank)
            ring(g->segments[r]);
}

void zt_window_abort(struct zt_window *w, int world_rank, const char *why) {
    if (atomic_exchange(&w->notice->taken, true))
        return;
    w->notice->failed_rank = world_rank;
    snprintf(w->notice->why, sizeof w->notice->why, "%s", why);
    atomic_store(&w->notice->written, true);
    for (int r = 0; r < w->size; r++)
        ring(w->segments[r]);
}

bool zt_window_aborted(const struct zt_window *w, struct zt_err *err) {
    return atomic_load(&w->notice->written) &&
           !zt_fail(err, ZT_EXIT_RANK, "rank %d: %s", w->notice->failed_rank, w->notice->why);
}

/* To sleep, a rank first announces it and checks once more: a rank that changes something after that check rings the
 * bell. */
bool zt_window_rest(struct zt_window *w, int most_us) {
    struct segment *own = w->segments[w->rank];
    if (!w->announced) {
        w->announced = true;
        w->seen = atomic_load(&own->bell);
        atomic_store(&own->sleeps, true);
        return false;
    }
    struct timespec limit = { .tv_nsec = most_us * 1000L };
    syscall(SYS_futex, &own->bell, FUTEX_WAIT, w->seen, &limit, NULL, 0);
    unsigned before = w->seen;
    w->seen = atomic_load(&own->bell);
    return w->seen != before;
}

void zt_window_woke(struct zt_window *w) {
    if (w->announced)
        atomic_store(&w->segments[w->rank]->sleeps, false);
    w->announced = false;
}

/* The fence: what MPI wrote before is to be seen by a rank whose sleep this does not see. */
void zt_window_ring(struct zt_window *w, int r) {
    atomic_thread_fence(memory_order_seq_cst);
    if (zt_window_holds(w, r))
        ring(w->segments[w->host_rank[r]]);
}

struct zt_window_group *zt_window_group_create(struct zt_window *w, const int *world, int rank, int size, int context,
                                               struct zt_err *err) {
    if (context >= MOST_CONTEXTS) {
        zt_fail(err, ZT_EXIT_RUN, "communicator mpi: more than %d communicators were split off", MOST_CONTEXTS);
        return NULL;
    }
    struct zt_window_group *g = zt_calloc(1, sizeof *g);
    *g = (struct zt_window_group){ .window = w, .world = world, .rank = rank, .size = size, .context = context };
    g->segments = zt_calloc((size_t)size, sizeof *g->segments);
    for (int r = 0; r < size; r++)
        g->segments[r] = w->segments[w->host_rank[world[r]]];
    return g;
}

void zt_window_group_destroy(struct zt_window_group *g) {
    if (!g)
        return;
    for (int half = 0; half < 2; half++)
        if (g->window->used[half].group == g)
            g->window->used[half].group = NULL;
    free(g->segments);
    free(g);
}

/* Whether every peer consumed the first `rounds` rounds. */
static bool all_consumed(const struct zt_window_group *g, unsigned long long rounds) {
    for (int r = 0; r < g->size; r++)
        if (r != g->rank && atomic_load(&desk_of(g, r)->consumed) < rounds)
            return false;
    return true;
}

bool zt_window_group_idle(const struct zt_window_group *g) {
    return all_consumed(g, g->round);
}

size_t zt_window_room(const struct zt_window_group *g, const struct zt_rounds *op) {
    if (op->block)
        return SIZE_MAX / 4 + 1; /* all in one round; a multiple of 64 */
    return op->kind->same_for_all ? HALF : HALF / (size_t)g->size / 64 * 64;
}

/* The part of begin that shared blocks have no need of. False: the half is still read. */
static bool fill_staging(struct zt_window_group *g, const struct zt_rounds *op, int64_t round) {
    struct zt_window *w = g->window;
    int half = (int)(g->round % 2);
    if (w->used[half].group && !all_consumed(w->used[half].group, w->used[half].round + 1))
        return false;
    w->used[half].group = g;
    w->used[half].round = g->round;
    struct segment *own = g->segments[g->rank];
    for (int r = 0; r < g->size; r++) {
        size_t bytes = r == g->rank ? 0 : op->kind->bytes(op, round, g->rank, r);
        if (!bytes)
            continue;
        memcpy(own->staging[half] + (op->kind->same_for_all ? 0 : (size_t)r * op->room), op->kind->give(op, round, r),
               bytes);
        if (op->kind->same_for_all)
            break;
    }
    return true;
}

bool zt_window_begin(struct zt_window_group *g, const struct zt_rounds *op, int64_t round) {
    int half = (int)(g->round % 2);
    if (g->round >= 2 && !all_consumed(g, g->round - 1))
        return false;
    if (!op->block && !fill_staging(g, op, round))
        return false;
    struct desk *desk = desk_of(g, g->rank);
    desk->entries[half] = (struct entry){ .bytes = op->bytes,
                                          .root = op->root,
                                          .offset = op->block ? (char *)op->data - op->block->own : -1 };
    snprintf(desk->entries[half].function, sizeof desk->entries[half].function, "%s", op->kind->name);
    atomic_store(&desk->posted, ++g->round);
    ring_peers(g);
    return true;
}

static bool entries_agree(const struct zt_window_group *g, int half, struct zt_err *err) {
    const struct entry *own = &desk_of(g, g->rank)->entries[half];
    for (int r = 0; r < g->size; r++) {
        const struct entry *e = &desk_of(g, r)->entries[half];
        if (strncmp(e->function, own->function, sizeof e->function) || e->bytes != own->bytes || e->root != own->root ||
            e->offset != own->offset)
            return zt_fail(err, ZT_EXIT_RUN,
                           "rank %d calls %.23s (%zu bytes, root %d) where rank %d calls %.23s (%zu bytes, root %d)",
                           g->world[g->rank], own->function, own->bytes, own->root, g->world[r], e->function, e->bytes,
                           e->root);
    }
    return true;
}

/* Returns the address from which rank r gives its data to this rank, in the shared block. */
static const void *given_in_place(const struct zt_window_group *g, const struct zt_rounds *op, int r) {
    struct zt_rounds theirs = *op;
    theirs.rank = r;
    theirs.data = (void *)(uintptr_t)(op->block->at[r] + ((char *)op->data - op->block->own)); /* only read */
    return op->kind->give(&theirs, 0, g->rank);
}

bool zt_window_arrived(struct zt_window_group *g, const struct zt_rounds *op, const void **given, bool *agree,
                       struct zt_err *err) {
    for (int r = 0; r < g->size; r++)
        if (r != g->rank && atomic_load(&desk_of(g, r)->posted) < g->round)
            return false;
    int half = (int)((g->round - 1) % 2);
    *agree = entries_agree(g, half, err);
    for (int r = 0; r < g->size; r++)
        given[r] = op->block
                       ? given_in_place(g, op, r)
                       : g->segments[r]->staging[half] + (op->kind->same_for_all ? 0 : (size_t)g->rank * op->room);
    return true;
}

void zt_window_finish(struct zt_window_group *g) {
    atomic_store(&desk_of(g, g->rank)->consumed, g->round);
    ring_peers(g);
}
