/* Lists of strided copies from inputs to outputs: the whole work of ops that only move elements. zt_strided_copy_run
 * runs a copy on the host; other back ends read the same list. */
#ifndef ZT_OPS_KERNEL_STRIDED_COPIES_H
#define ZT_OPS_KERNEL_STRIDED_COPIES_H

#include "graph/ir/op.h"
#include "ops/kernel/strided_copy.h"

/* Calls `take` for each copy of a node, whose shapes and lists must be known. Copies of nothing may be among them. */
typedef void zt_strided_copy_take(void *arg, const struct zt_strided_copy *copy);
typedef bool zt_strided_copies(const struct zt_graph *g, int node, zt_strided_copy_take *take, void *arg,
                               struct zt_err *err);

/* The copy of all of input 0 to output 0, row-major on both sides; and a node that is this one copy. */
struct zt_strided_copy zt_strided_copy_whole(const struct zt_shape *shape);
zt_strided_copies zt_strided_copies_whole;

/* Runs the copies. The row zeroes outputs before, where the copies do not write every element. */
bool zt_strided_copies_run(const struct zt_call *call, zt_strided_copies *each, struct zt_err *err);

/* The copies as a list in the graph's arena: the description that rows of this kind give to other back ends. */
struct zt_strided_copy_list {
    int count;
    struct zt_strided_copy *copy;
    bool clears; /* output 0 is zeroed first */
};
bool zt_strided_copies_list(const struct zt_graph *g, int node, zt_strided_copies *each, bool clears,
                            struct zt_strided_copy_list *to, struct zt_err *err);

/* Defines a row's describe from its zt_strided_copies; a macro, as it defines a function. */
#define ZT_MOVES_DESCRIBE(id, clears)                                                                                  \
    static bool id##_describe(const struct zt_graph *g, int node, void *to, struct zt_err *err) {                      \
        return zt_strided_copies_list(g, node, id##_moves, clears, to, err);                                           \
    }

#endif
