#include "parallel/comm/rounds.h"

#include "base/align.h"
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

/* Rounds that `bytes` take in pieces of the room; none still take one. */
static int64_t rounds_of(const struct zt_rounds *op, size_t bytes) {
    return bytes ? (int64_t)((bytes + op->room - 1) / op->room) : 1;
}

static size_t slice_bytes(const struct zt_rounds *op, int rank) {
    return (size_t)(op->bound[rank + 1] - op->bound[rank]) * op->width;
}

static int64_t longest_slice_rounds(const struct zt_rounds *op) {
    size_t longest = 0;
    for (int r = 0; r < op->size; r++)
        longest = slice_bytes(op, r) > longest ? slice_bytes(op, r) : longest;
    return rounds_of(op, longest);
}

/* Bytes of piece `round` of a whole of `bytes`. */
static size_t piece(const struct zt_rounds *op, int64_t round, size_t bytes) {
    size_t at = (size_t)round * op->room;
    return at >= bytes ? 0 : bytes - at < op->room ? bytes - at : op->room;
}

static char *piece_of_slice(const struct zt_rounds *op, int64_t round, int rank) {
    return (char *)op->data + (size_t)op->bound[rank] * op->width + (size_t)round * op->room;
}

static size_t addend_bytes(const struct zt_rounds *op, int64_t round, int from, int to) {
    (void)from;
    return piece(op, round, slice_bytes(op, to));
}

static const void *give_addend(const struct zt_rounds *op, int64_t round, int to) {
    return piece_of_slice(op, round, to);
}

static void take_addends(const struct zt_rounds *op, int64_t round, const void **given) {
    char *own = piece_of_slice(op, round, op->rank);
    given[op->rank] = own;
    zt_comm_sum_in_rank_order(op->dtype, own, given, op->size, 0,
                              (int64_t)(piece(op, round, slice_bytes(op, op->rank)) / op->width));
}

static const struct zt_rounds_kind reduce_scatter = {
    .name = "reduce_scatter",
    .count = longest_slice_rounds,
    .bytes = addend_bytes,
    .give = give_addend,
    .take = take_addends,
};

static size_t own_piece_bytes(const struct zt_rounds *op, int64_t round, int from, int to) {
    (void)to;
    return piece(op, round, slice_bytes(op, from));
}

static const void *give_own_piece(const struct zt_rounds *op, int64_t round, int to) {
    (void)to;
    return piece_of_slice(op, round, op->rank);
}

/* Starting behind itself, so that the ranks do not all read the same peer at once. */
static void take_slices(const struct zt_rounds *op, int64_t round, const void **given) {
    for (int i = 1; i < op->size; i++) {
        int r = (op->rank + i) % op->size;
        size_t bytes = piece(op, round, slice_bytes(op, r));
        if (bytes)
            memcpy(piece_of_slice(op, round, r), given[r], bytes);
    }
}

static const struct zt_rounds_kind all_gather = {
    .name = "all_gather",
    .same_for_all = true,
    .count = longest_slice_rounds,
    .bytes = own_piece_bytes,
    .give = give_own_piece,
    .take = take_slices,
};

static int64_t whole_rounds(const struct zt_rounds *op) {
    return rounds_of(op, op->bytes);
}

static size_t root_bytes(const struct zt_rounds *op, int64_t round, int from, int to) {
    (void)to;
    return from == op->root ? piece(op, round, op->bytes) : 0;
}

static const void *give_piece(const struct zt_rounds *op, int64_t round, int to) {
    (void)to;
    return (const char *)op->data + (size_t)round * op->room;
}

static void take_from_root(const struct zt_rounds *op, int64_t round, const void **given) {
    size_t bytes = piece(op, round, op->bytes);
    if (op->rank != op->root && bytes)
        memcpy((char *)op->data + (size_t)round * op->room, given[op->root], bytes);
}

static const struct zt_rounds_kind broadcast = {
    .name = "broadcast",
    .same_for_all = true,
    .count = whole_rounds,
    .bytes = root_bytes,
    .give = give_piece,
    .take = take_from_root,
};

static size_t scalar_bytes(const struct zt_rounds *op, int64_t round, int from, int to) {
    (void)from, (void)to;
    return piece(op, round, op->bytes);
}

static void take_scalars(const struct zt_rounds *op, int64_t round, const void **given) {
    double *own = (double *)op->data + (size_t)round * op->room / sizeof *own;
    given[op->rank] = own;
    size_t count = piece(op, round, op->bytes) / sizeof *own;
    for (size_t i = 0; i < count; i++) {
        double total = ((const double *)given[0])[i];
        for (int r = 1; r < op->size; r++)
            total += ((const double *)given[r])[i];
        own[i] = total;
    }
}

static const struct zt_rounds_kind sum = {
    .name = "sum",
    .same_for_all = true,
    .count = whole_rounds,
    .bytes = scalar_bytes,
    .give = give_piece,
    .take = take_scalars,
};

static size_t no_bytes(const struct zt_rounds *op, int64_t round, int from, int to) {
    (void)op, (void)round, (void)from, (void)to;
    return 0;
}

static void take_nothing(const struct zt_rounds *op, int64_t round, const void **given) {
    (void)op, (void)round, (void)given;
}

static const struct zt_rounds_kind barrier = {
    .name = "barrier",
    .same_for_all = true,
    .count = whole_rounds,
    .bytes = no_bytes,
    .give = give_piece,
    .take = take_nothing,
};

static const struct zt_rounds_kind *const kinds[] = {
    [ZT_REDUCE_SCATTER] = &reduce_scatter,
    [ZT_ALL_GATHER] = &all_gather,
    [ZT_BROADCAST] = &broadcast,
    [ZT_SUM] = &sum,
    [ZT_BARRIER] = &barrier,
};

void zt_rounds_prepare(struct zt_transfer *t, struct zt_comm *c) {
    t->done = false;
    t->row.comm = c;
    t->row.block = NULL;
    t->row.kind = kinds[t->kind];
    if (t->bound) {
        t->row.bytes = (size_t)t->bound[c->size] * t->bytes_per_element;
        t->row.root = 0;
    }
    t->row.phase = 0;
    t->row.round = 0;
}

struct zt_rounds zt_rounds_of(const struct zt_transfer *t) {
    return (struct zt_rounds){ .kind = t->row.kind,
                               .rank = t->row.comm->rank,
                               .size = t->row.comm->size,
                               .data = t->data,
                               .bound = t->bound,
                               .width = t->bytes_per_element,
                               .dtype = t->dtype,
                               .bytes = t->row.bytes,
                               .root = t->row.root,
                               .block = t->row.block };
}

size_t zt_rounds_room(int size) {
    enum { ROUND = 1 << 20 };
    return zt_align_64(ROUND / (size_t)size);
}

static bool run(struct zt_comm *c, struct zt_transfer t, struct zt_err *err) {
    return c->api->start(c, &t, err) && c->api->wait(c, &t, err);
}

bool zt_rounds_broadcast(struct zt_comm *c, void *data, size_t bytes, int root, struct zt_err *err) {
    return zt_comm_check_root(c, root, err) &&
           run(c, (struct zt_transfer){ .kind = ZT_BROADCAST, .data = data, .row = { .bytes = bytes, .root = root } },
               err);
}

bool zt_rounds_sum(struct zt_comm *c, double *values, int count, struct zt_err *err) {
    size_t bytes = count > 0 ? (size_t)count * sizeof *values : 0;
    return run(c, (struct zt_transfer){ .kind = ZT_SUM, .data = values, .row.bytes = bytes }, err);
}

bool zt_rounds_barrier(struct zt_comm *c, struct zt_err *err) {
    return run(c, (struct zt_transfer){ .kind = ZT_BARRIER }, err);
}

struct zt_part zt_part_whole(int rank, int size) {
    struct zt_part whole = { .world = zt_calloc((size_t)size, sizeof *whole.world), .rank = rank, .size = size };
    for (int r = 0; r < size; r++)
        whole.world[r] = r;
    return whole;
}

bool zt_part_split(struct zt_comm *c, const int *world, int color, int *next_context, struct zt_part *part,
                   struct zt_err *err) {
    struct wish {
        int color, next_context;
    } *wishes = zt_calloc((size_t)c->size, sizeof *wishes);
    wishes[c->rank] = (struct wish){ .color = color, .next_context = *next_context };
    bool ok = zt_comm_exchange(c, wishes, sizeof *wishes, err);
    if (ok) {
        *part = (struct zt_part){ .world = zt_calloc((size_t)c->size, sizeof *part->world) };
        for (int r = 0; r < c->size; r++) {
            part->context = wishes[r].next_context > part->context ? wishes[r].next_context : part->context;
            if (wishes[r].color != color)
                continue;
            part->rank += r < c->rank;
            part->world[part->size++] = world[r];
        }
        *next_context = part->context + 1;
    }
    free(wishes);
    return ok;
}
