/* The fast CPU kernels: the [ZT_CPU] column of a row.
 *
 *     .kernel = { [ZT_REF] = { .run = conv_ref }, [ZT_CPU] = ZT_IF_DNNL(zt_conv_cpu) },
 *
 * Each name stands for the four functions of a struct zt_kernel. Builds without oneDNN get an empty column and run the
 * reference kernels, but for rows that say ZT_ON_CPU, whose kernels are there in every build. Which types each takes is
 * its own matter; no sum is cut by threads, so all give the same bits at any thread count. */
#ifndef ZT_OPS_CPU_CPU_H
#define ZT_OPS_CPU_CPU_H

#include "graph/ir/op.h"

#define ZT_CPU_KERNEL(id)                                                                                              \
    bool id##_supports(const struct zt_graph *g, int node);                                                            \
    bool id##_prepare(struct zt_prepare *p, struct zt_err *err);                                                       \
    bool id##_run(const struct zt_call *call, struct zt_err *err);                                                     \
    void id##_release(void *state);

#define ZT_ON_CPU(id)                                                                                                  \
    { .supports = id##_supports, .prepare = id##_prepare, .run = id##_run, .release = id##_release }
/* With further members of struct zt_kernel. */
#define ZT_ON_CPU_WITH(id, ...)                                                                                        \
    { .supports = id##_supports, .prepare = id##_prepare, .run = id##_run, .release = id##_release, __VA_ARGS__ }
#ifdef HAVE_DNNL
#define ZT_IF_DNNL(id)           ZT_ON_CPU(id)
#define ZT_IF_DNNL_WITH(id, ...) ZT_ON_CPU_WITH(id, __VA_ARGS__)
#else
#define ZT_IF_DNNL_WITH(id, ...)                                                                                       \
    { 0 }
#define ZT_IF_DNNL(id)                                                                                                 \
    { 0 }
#endif

/* Whether this CPU has no products of bfloat16: `prefers_float` of kernels that are faster in bfloat16 where it has. */
bool zt_cpu_lacks_bf16(const struct zt_graph *g, int node);

/* The version of oneDNN, "" where the build has none; static text. */
const char *zt_cpu_onednn(void);

#endif
