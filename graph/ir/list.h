/* Values that are no tensors: sequences and optionals (ONNX SequenceProto and OptionalProto).
 *
 * A list holds no memory. Its elements are values of the same graph, so a sequence whose length is known is a list of
 * graph values, and the nodes that build or read it disappear when they are expanded (ops/sequence/). Supported are
 * sequences of tensors, optional tensors and optional sequences of tensors. The tensors of a sequence have one dtype;
 * their shapes may differ. */
#ifndef ZT_GRAPH_IR_LIST_H
#define ZT_GRAPH_IR_LIST_H

#include "graph/ir/graph.h"

enum zt_list_kind { ZT_SEQUENCE, ZT_OPTIONAL };

/* Ids that lists of one graph share, each of them a beginning of `ids`: a sequence that grows by one element at its end
 * needs no copy, as long as no other has grown from the same list. */
struct zt_list_room {
    int *ids;
    int used, room;
};

struct zt_list {
    enum zt_list_kind kind;
    bool of_sequence;          /* the element of an optional is a sequence, not a tensor */
    enum zt_dtype dtype;       /* of the tensors; ZT_UNDEFINED: not declared */
    int count;                 /* number of elements, at most 1 of an optional; -1: not known yet */
    const int *at;             /* value ids of the elements */
    struct zt_list_room *room; /* that `at` lies in; NULL: `at` is the list's own */
};

/* Makes a value a list: its dtype becomes ZT_UNDEFINED and its rank -1. `list` is copied into the graph's arena. */
void zt_list_set(struct zt_graph *g, int value, const struct zt_list *list);
/* The same without a copy, for a list of the same graph: lists do not change. */
void zt_list_share(struct zt_graph *g, int value, const struct zt_list *list);
/* Makes a value the list with one more element at the end. Returns the ids allocated for it, 0 where there was room. */
int zt_list_append(struct zt_graph *g, int value, const struct zt_list *list, int element);
/* Adds a copy of `value`, a tensor or list of `from`, to another graph. Tensors get `origin`; their data are borrowed.
 * Returns its id. */
int zt_list_copy(struct zt_graph *to, const struct zt_graph *from, int value, enum zt_origin origin);
/* The tensor at `index` in the order of all tensors in a value, elements of elements included; -1: there are fewer. A
 * tensor has one, itself. Elements of a list must be known. */
int zt_list_tensor(const struct zt_graph *g, int value, int index);
/* Number of these tensors. */
int zt_list_tensor_count(const struct zt_graph *g, int value);

/* Writes "sequence of float", "optional of float" or "optional sequence of int64" to `to`, which has room for
 * ZT_LIST_TEXT bytes, and returns `to`. */
enum { ZT_LIST_TEXT = 64 };
char *zt_list_text(const struct zt_list *list, char *to);

#endif
