#include "parallel/comm_rounds.h"

#include "parallel/comm.h"

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
    float *own = (float *)(void *)piece_of_slice(op, round, op->rank);
    given[op->rank] = own;
    zt_comm_add_in_rank_order(own, given, op->size, 0,
                              (int64_t)(piece(op, round, slice_bytes(op, op->rank)) / sizeof *own));
}

const struct zt_rounds_kind zt_rounds_reduce_scatter = {
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

const struct zt_rounds_kind zt_rounds_all_gather = {
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

const struct zt_rounds_kind zt_rounds_broadcast = {
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

const struct zt_rounds_kind zt_rounds_sum = {
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

const struct zt_rounds_kind zt_rounds_barrier = {
    .name = "barrier",
    .same_for_all = true,
    .count = whole_rounds,
    .bytes = no_bytes,
    .give = give_piece,
    .take = take_nothing,
};
