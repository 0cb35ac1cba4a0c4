/* What ops that only move elements do, as strided copies from inputs to outputs: run on the host by zt_copy_strided, by
 * other back ends from the same list. */
#ifndef ZT_OPS_KERNEL_STRIDED_COPIES_H
#define ZT_OPS_KERNEL_STRIDED_COPIES_H

#include "graph/ir/op.h"

/* The elements of `shape`, walked in input `in` and output `out` from an element on with a step an axis (any sign in
 * the input, 0 too). */
struct zt_strided_copy {
    int in, out;
    struct zt_shape shape;
    int64_t from, to, from_step[ZT_MAX_RANK], to_step[ZT_MAX_RANK];
};

/* Calls `take` for each copy of a node, whose shapes and lists must be known. Copies of nothing may be among them. */
typedef void zt_strided_copy_take(void *arg, const struct zt_strided_copy *move);
typedef bool zt_strided_copies(const struct zt_graph *g, int node, zt_strided_copy_take *take, void *arg,
                               struct zt_err *err);

/* A move of everything from input 0 to output 0, row-major on both sides; and that as the one copy of a node. */
struct zt_strided_copy zt_strided_copy_whole(const struct zt_shape *shape);
zt_strided_copies zt_strided_copies_whole;

/* Runs the copies; outputs whose elements not all of them write are zeroed before that by the row. */
bool zt_strided_copies_run(const struct zt_call *call, zt_strided_copies *each, struct zt_err *err);

/* The copies as a list in the graph's arena: what rows of this kind tell other back ends. */
struct zt_strided_copy_list {
    int count;
    struct zt_strided_copy *move;
    bool clears; /* output 0 is zeroed first */
};
bool zt_strided_copies_list(const struct zt_graph *g, int node, zt_strided_copies *each, bool clears,
                            struct zt_strided_copy_list *to, struct zt_err *err);

/* A row's describe from its zt_strided_copies. */
#define ZT_MOVES_DESCRIBE(id, clears)                                                                                  \
    static bool id##_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {                      \
        return zt_strided_copies_list(g, node, id##_moves, clears, to, err);                                           \
    }

#endif
