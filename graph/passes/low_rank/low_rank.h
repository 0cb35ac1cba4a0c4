/* Low-rank adaptation of weights: a weight W becomes W + s B A, where A and B are small matrices that train.
 *
 * Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022. The change is never added to the weight.
 * A node y = x W gets a second path of two small products:
 *
 *     x ---- MatMul W ------------------------- Add -- y
 *      \---- (Dropout) - MatMul P - Mul s - MatMul Q ---/
 *
 * A has the shape [rank, in] and B the shape [out, rank], as in Hugging Face's PEFT. `in` is the axis of the weight
 * that the node sums over. For a convolution A is [rank, in / group, kernel ...] and B is [out, rank, 1 ...]: the
 * change of its weight is the product of B and A as matrices [out, rank] and [rank, rest].
 *
 * If nodes need the changed weight itself, as those that quantize it, it is computed, and all nodes read it:
 *
 *     B, A, W ---- Gemm -- W + s B A
 *
 * A node may read the weight transposed, so its row is given the factors P Q of the matrix that the node reads.
 *
 * Readers may stand in the bodies of If, Loop and Scan and in functions. Lowering has written most of them out before
 * the second path is added; a loop that runs as a loop gets the path in its body, with A and B as values from outside.
 */
#ifndef ZT_GRAPH_PASSES_LOW_RANK_LOW_RANK_H
#define ZT_GRAPH_PASSES_LOW_RANK_LOW_RANK_H

#include "graph/ir/graph.h"
#include "graph/ir/op.h"

/* The adapter of one weight. Tensors are float. */
struct zt_adapter {
    const char *weight;       /* initializer */
    const char *name[2];      /* of A and B */
    struct zt_shape shape[2]; /* of A and B */
    const float *initial[2];  /* contents of A and B */
    bool train[2];            /* A and B train */
    bool transposed;          /* the weight is stored as [in, out]: its change is the transpose of s B A */
    bool formed;              /* W + s B A is formed, in fp32; excludes dropout */
    double scale;             /* s */
    double dropout;           /* probability; 0: none */
};

/* A node that reads a weight. */
struct zt_weight_reader {
    const struct zt_node *of;
    const struct zt_low_rank_row *row; /* of its op */
    int node, in;                      /* in its graph; the input that is the weight */
    bool transposed;                   /* the node reads the transpose of the stored matrix */
    bool inside;                       /* it is in a graph that a node holds */
    const char *name;                  /* "loop/inner/name", as lowering names nodes of bodies that are copied once */
};
/* A node that runs a graph in which the weight is read (struct zt_low_rank_body). */
struct zt_weight_door {
    int node, in;    /* the input that is the weight */
    bool transposed; /* it is the transpose of the stored matrix */
};
/* The nodes that read a weight. */
struct zt_weight_readers {
    struct zt_weight_reader *at; /* in the graph's arena */
    int count;
    struct zt_weight_door *doors; /* of the graph itself, not of graphs in it */
    int door_count;
    const char *other; /* what excludes a low-rank change, and the node, to follow the weight's name; NULL: nothing */
    bool transposed;   /* the first reader sums over axis 0 of the stored matrix */
};
/* Finds the readers of `weight`: also those behind Transpose, Cast and Identity nodes, and those in bodies of If, Loop
 * and Scan, in functions that bodies call, and in loops that run as loops. Rows of the graph's own nodes must be
 * resolved. */
void zt_weight_readers_find(struct zt_graph *g, int weight, struct zt_weight_readers *to);

/* A value that holds a weight or its transpose. */
struct zt_weight_seen {
    int value;
    bool transposed, windows; /* windows: the weight has the shape [out, in, kernel ...] */
};
/* zt_weight_readers_find() for such a value. */
void zt_weight_readers_of(struct zt_graph *g, const struct zt_weight_seen *seen, struct zt_weight_readers *to);

/* Adds the adapter's A and B as initializers, and the second path at every reader of the weight, or W + s B A. In a
 * loop that runs as a loop A and B are values from outside, which all iterations read, so that their gradients are sums
 * over iterations. The graph must be inferred and all values on the path float; new nodes are inferred. *readers: nodes
 * with a second path, or that read W + s B A; with 0 the graph is as it was. A dropout in such a loop is an error. */
bool zt_pass_low_rank(struct zt_graph *g, const struct zt_op_table *table, const struct zt_adapter *adapter,
                      int *readers, struct zt_err *err);

/* ---- for rows ---- */

/* The second path of one node, while it is emitted. */
struct zt_low_rank {
    struct zt_graph *g;
    const struct zt_op_table *table;
    struct zt_err *err;
    int node, in;     /* the adapted node, and its input that is the weight */
    const char *name; /* of the adapted node, or of a weight that is formed: new nodes have it in front */
    int x;            /* value of the other input, or its Dropout */
    int p, q;         /* the change of the matrix that the node reads is s P Q; for convolutions B and A */
    double scale;     /* s */
};

/* A node that runs one graph for each of several iterations. Input i of the node from first_shared() on is read by all
 * iterations, as input i + before of the graph, and such inputs are the last ones of both. */
struct zt_low_rank_body {
    const char *attr; /* the attribute with the graph */
    int (*first_shared)(const struct zt_node *node);
    int before;
};

/* A row's knowledge of its weights. */
struct zt_low_rank_row {
    unsigned weight_in; /* inputs that can be a weight (bitmask) */
    bool windows;       /* the weight has the shape [out, in, kernel ...]; false: a matrix */
    /* The axis of the matrix in input `in` that the node sums over: 0 or 1. NULL: axis 1. */
    int (*summed)(const struct zt_node *node, int in);
    /* Emits the second path and returns the value to add to output 0; -1 on failure. NULL: the row has no weights. */
    int (*emit)(struct zt_low_rank *l);
    /* Whether output 0 is the transpose of the matrix in input 0. NULL: no. */
    bool (*transposes)(const struct zt_node *node);
    const struct zt_low_rank_body *body; /* NULL: the node runs no graph */
};

/* A node of the second path. */
struct zt_low_rank_node {
    const char *part; /* its name is that of the adapted node, a point, and this */
    const char *op_type;
    const int *in;
    int in_count;
    const struct zt_attr *attrs;
    int attr_count;
};
/* Emits a node of ONNX's own domain with one output in front of the adapted node, resolved and inferred. Returns the
 * output; -1 on failure. Inputs -1 are failures of earlier nodes. */
int zt_low_rank_emit(struct zt_low_rank *l, const struct zt_low_rank_node *node);
/* s `value`, or `value` where s is 1. */
int zt_low_rank_scale(struct zt_low_rank *l, int value);

#endif
