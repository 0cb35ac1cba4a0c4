/* What ops that only move elements do, as strided copies from inputs to outputs: run on the host by zt_copy_strided, by
 * other back ends from the same list. */
#ifndef ZT_OPS_KERNEL_STRIDED_COPIES_H
#define ZT_OPS_KERNEL_STRIDED_COPIES_H

#include "graph/ir/op.h"

/* The elements of `shape`, walked in input `in` and output `out` from an element on with a step an axis (any sign in
 * the input, 0 too). */
struct zt_move {
    int in, out;
    struct zt_shape shape;
    int64_t from, to, from_step[ZT_MAX_RANK], to_step[ZT_MAX_RANK];
};

/* Calls `take` for each copy of a node, whose shapes and lists must be known. Copies of nothing may be among them. */
typedef void zt_move_take(void *arg, const struct zt_move *move);
typedef bool zt_moves(const struct zt_graph *g, int node, zt_move_take *take, void *arg, struct zt_err *err);

/* A move of everything from input 0 to output 0, row-major on both sides; and that as the one copy of a node. */
struct zt_move zt_move_whole(const struct zt_shape *shape);
zt_moves zt_moves_whole;

/* Runs the copies; outputs whose elements not all of them write are zeroed before that by the row. */
bool zt_moves_run(const struct zt_call *call, zt_moves *each, struct zt_err *err);

/* The copies as a list in the graph's arena: what rows of this kind tell other back ends. */
struct zt_move_list {
    int count;
    struct zt_move *move;
    bool clears; /* output 0 is zeroed first */
};
bool zt_moves_list(const struct zt_graph *g, int node, zt_moves *each, bool clears, struct zt_move_list *to,
                   struct zt_err *err);

/* A row's describe from its zt_moves. */
#define ZT_MOVES_DESCRIBE(id, clears)                                                                                  \
    static bool id##_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {                      \
        return zt_moves_list(g, node, id##_moves, clears, to, err);                                                    \
    }

#endif
