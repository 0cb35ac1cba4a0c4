/* Runs a case's graph on a back end: kernels chosen and prepared as for training, a buffer a value. */
#ifndef ZT_TESTS_OPS_MACHINE_H
#define ZT_TESTS_OPS_MACHINE_H

#include "device/device.h"
#include "graph/passes/assign/assign.h"
#include "tests/ops/cases.h"

struct options {
    enum zt_backend backend;
    const char *only, *family;
    int threads, from;
    bool json, ask, bf16, tf32;
    bool fp16;   /* the cases of bfloat16, and these alone, in float16 */
    bool rows;   /* inputs that are matrices come with filled rows, on a device of its own */
    bool last;   /* inputs of rank 3 to 5 come channels last; on the host floats alone */
    int blocked; /* these come in blocks of so many channels, on the host; 0: they do not */
    bool mixed;  /* but every second of them */
    bool small;  /* check leaves cases of training sizes out */
    bool views;  /* nodes whose output holds its input's bytes share its memory and need no run */
    struct zt_device *device;
};

struct machine {
    struct zt_graph *g;
    struct zt_prepared *prepared;
    struct zt_device *device;
    void **buffer; /* in the device's memory */
    bool *shared;  /* by value: a view of another's */
    void *workspace;
    size_t workspace_bytes;
    int threads;
};

/* Infers node 0 with the contents of all inputs in sight, so that shapes that depend on data are known too. */
bool machine_infer(struct zt_case_graph *made, struct zt_err *err);
/* Assigns back ends (values in `plain` come out plain) and gives every value memory; all values are inferred. Finish
 * also after a failure. */
bool machine_start(struct machine *m, struct zt_graph *g, int *plain, int plain_count, const struct options *o,
                   struct zt_err *err);
void machine_finish(struct machine *m);
/* Copies `tensor` into the memory of `value`. */
bool machine_feed(const struct machine *m, int value, const struct zt_tensor *tensor, struct zt_err *err);
/* A result in host memory, in the graph's arena. */
bool machine_fetch(const struct machine *m, int value, struct zt_tensor *to, struct zt_err *err);
/* Whether the node's output shares its input's memory. */
bool machine_is_view(const struct machine *m, int node);
bool machine_run_node(const struct machine *m, int node, struct zt_err *err);
/* The same, added to what output 0 holds; for nodes whose preparing said can_accumulate. */
bool machine_add_node(const struct machine *m, int n, struct zt_err *err);
/* A back end with memory of its own runs only what it has kernels for; elsewhere reference kernels fill in. */
bool machine_runs_here(const struct machine *m);

#endif
