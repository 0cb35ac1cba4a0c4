/* Sequences and optionals. No node of this family ever runs: each is replaced as soon as it is reached
 * (graph/passes/lower.h), when the lengths of the sequences that it reads are known. The output of a node is a list of
 * values of the graph (graph/ir/list.h), so gradients flow through the tensors alone.
 *
 *     s = SequenceConstruct(a, b)       s is the list a, b
 *     t = SequenceInsert(s, c)          t is the list a, b, c
 *     y = SequenceAt(t, 2)              y = Identity(c)
 *     z = ConcatFromSequence(t)         z = Concat(a, b, c)
 *     n = SequenceLength(t)             n is the constant 3
 *
 * Positions and lengths must be known then: in training before the first step, in an eager run when the node is
 * reached. */
#ifndef ZT_OPS_SEQUENCE_SEQUENCE_H
#define ZT_OPS_SEQUENCE_SEQUENCE_H

#include "graph/ir/list.h"
#include "graph/passes/lower.h"

/* Input i as a sequence of known length; NULL with an error where it is none. */
const struct zt_list *zt_sequence_in(const struct zt_expansion *x, int i, struct zt_err *err);
/* Input i as a tensor; NULL with an error where it is none. */
const struct zt_value *zt_sequence_tensor(const struct zt_expansion *x, int i, struct zt_err *err);
/* The positions that a node may name. */
struct zt_sequence_range {
    int count; /* elements of the sequence */
    bool end;  /* the position behind the last element is one too */
};
/* The position in input i, which counts from the end where it is negative; the last one where the node has no such
 * input. Fails where the position depends on data or is out of range. */
bool zt_sequence_position(const struct zt_expansion *x, int i, const struct zt_sequence_range *range, int *to,
                          struct zt_err *err);
/* Fails where the dtype of a tensor is not that of the sequence's tensors. */
bool zt_sequence_same_type(const struct zt_expansion *x, enum zt_dtype sequence, const struct zt_value *tensor,
                           struct zt_err *err);
/* Makes output 0 a list and the expansion done. Its ids count as lowered nodes do (graph/passes/lower_count.h): a small
 * file can make many long lists. */
bool zt_sequence_done(struct zt_expansion *x, const struct zt_list *list, struct zt_err *err);
/* The same with one more element at the end of `list`, an input of the node. */
bool zt_sequence_append(struct zt_expansion *x, const struct zt_list *list, int element, struct zt_err *err);
/* Output `out` of the node becomes a copy of `value`: of a tensor by an Identity node, of a list as the same list. */
bool zt_sequence_hand_out(struct zt_expansion *x, int out, int value, struct zt_err *err);
/* Expands an Identity of a list to the same list. The row is that of tensors (ops/movement/reshape.c). */
bool zt_sequence_identity(struct zt_expansion *x, struct zt_err *err);

#endif
