/* The kernel contract: how one back end runs the nodes of an op.
 *
 * A kernel is a struct zt_kernel in the op's row (op.h). `supports` and `prepare` are called once per node before the
 * memory plan; `run` is called for every execution and allocates nothing. */
#ifndef ZT_GRAPH_IR_KERNEL_H
#define ZT_GRAPH_IR_KERNEL_H

#include "base/backend.h"
#include "base/err.h"
#include "base/rng.h"
#include "graph/ir/graph.h"

struct zt_device;

/* A memory layout other than plain row-major (a vendor's blocked format). Static, or owned by the graph's arena. */
struct zt_layout {
    const char *name; /* the vendor's name, such as "nChw16c" */
    size_t bytes;     /* of storage, padding included */
    bool (*equal)(const struct zt_layout *a, const struct zt_layout *b);
    const void *descriptor; /* the vendor's */
};

/* A tensor that a kernel reads or writes. */
struct zt_view {
    enum zt_dtype dtype;
    struct zt_shape shape;
    void *data;                     /* NULL: omitted optional input or output */
    const struct zt_layout *layout; /* NULL: plain row-major */
};

/* The data-parallel ranks that run a node together. */
struct zt_group {
    void *with; /* first argument of the functions */
    /* Sums `values` over the ranks, in rank order. On return every rank has the sums. Collective. */
    bool (*sum)(void *with, double *values, int count, struct zt_err *err);
    /* The largest of each of `values` over the ranks, at most ZT_GROUP_VALUES; NaN where a rank has NaN. Else as sum.
     */
    bool (*max)(void *with, double *values, int count, struct zt_err *err);
};
enum { ZT_GROUP_VALUES = 2 };

/* The implementation that a back end uses for a node, for reports. Strings are constants or in the graph's arena. */
struct zt_path {
    const char *name; /* ZT_PATH_OWN or a library: "cuDNN", "cuBLASLt"; NULL: the back end has one implementation */
    const char *note; /* own kernel: why no library is used; library: which part other kernels do, or NULL */
};
#define ZT_PATH_OWN "own kernel"

/* One execution of a node. in[i] and out[i] exist for i < in_count and i < out_count. The kernel owns nothing here. */
struct zt_call {
    const struct zt_graph *graph;
    const struct zt_node *node;
    const struct zt_view *in, *out;
    int in_count, out_count;
    void *state;     /* from prepare; NULL without prepare */
    void *workspace; /* `workspace_bytes` of prepare, aligned to 64 bytes; contents undefined */
    int threads;     /* maximum number of compute threads; results must not depend on it */
    bool accumulate; /* out[0] += result; only set when prepare reported can_accumulate */
    const struct zt_random *random;
    const struct zt_random *device_random; /* `random` in device memory; NULL on the host */
    const struct zt_group *group;          /* data-parallel ranks, for ZT_OP_GROUP; NULL: one rank */
    struct zt_device *device;              /* CUDA: the device, whose stream is used; NULL on the host */
    struct zt_path *path; /* set by a kernel that uses another path than prepare reported, because of the tensors'
                             addresses; NULL: not requested */
};

/* Preparation of a node. Arrays have the node's in_count or out_count entries. */
struct zt_prepare {
    struct zt_graph *graph; /* prepare may use its arena and must not change the graph */
    int node;
    enum zt_backend backend;             /* whose kernel this is */
    int threads;                         /* maximum number of compute threads; batch blocks must not depend on it */
    const struct zt_layout **in_layout;  /* in: layouts from the producers; out: layouts that the kernel wants (NULL:
                                            plain). A reorder node is inserted where they differ */
    const struct zt_layout **out_layout; /* out: layouts that the kernel writes */
    size_t workspace_bytes;              /* out */
    bool can_accumulate;                 /* out: the kernel implements zt_call.accumulate */
    /* out: inputs and outputs (bitmasks; tensors 0 to 31) for which the kernel also takes the back end's other layout,
     * independently of the others. Where that removes a reorder node the kernel is prepared again with `settled`. */
    unsigned free_in, free_out;
    bool settled; /* in: in_layout and out_layout are final; prepare must not change them */
    void *state;  /* out: for zt_call.state; freed by release */
    struct zt_device *device;
    struct zt_path path; /* out */
};

struct zt_kernel {
    /* The kernel's position in the device module's array (device/module.h). NULL: a kernel of the program itself. */
    const int *module_kernel;
    /* Whether the back end can run this node with its dtypes, shapes and attributes. NULL: it can run every node. */
    bool (*supports)(const struct zt_graph *g, int node);
    /* CUDA: fills the description of a node, a struct of the op's family, for a launcher in the CUDA module
     * (device/module.h). NULL: the launcher reads the node itself. */
    bool (*describe)(const struct zt_graph *g, int node, void *to, struct zt_err *err);
    /* Chooses layouts, workspace and algorithm. NULL: plain layouts, no workspace, no state. Reference kernels always
     * get plain layouts. */
    bool (*prepare)(struct zt_prepare *p, struct zt_err *err);
    bool layouts; /* CUDA: prepare chooses among layouts; false: all are plain */
    bool rows;    /* CUDA, with `layouts`: also matrices with padded rows (ops/kernel/layout.h) */
    /* The share of the node's FLOPs that the kernel computes, where an algorithm needs fewer, for estimates of time.
     * NULL: all. */
    double (*share)(const struct zt_graph *g, int node);
    /* Whether a node with float inputs is faster in float than in bfloat16 with its casts. NULL: no node is. */
    bool (*prefers_float)(const struct zt_graph *g, int node);
    bool (*run)(const struct zt_call *call, struct zt_err *err); /* NULL: the op has no kernel for this back end */
    void (*release)(void *state);                                /* frees what prepare allocated; NULL: nothing */
};

#endif
