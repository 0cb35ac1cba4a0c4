/* The choice of nodes to recompute: by name, in equal segments, or the cheapest that fits a memory limit. */
#ifndef ZT_GRAPH_PASSES_RECOMPUTE_CHOOSE_H
#define ZT_GRAPH_PASSES_RECOMPUTE_CHOOSE_H

#include "graph/passes/recompute/apply_choice.h"
#include "graph/passes/recompute/peak.h"

/* The requested recomputation; all zero: none. Several fields may be set: `names` takes precedence, then `layers`,
 * `segments` and `room`. */
struct zt_recompute {
    /* Globs over node names. Adjacent forward nodes whose names fit one glob form a segment. Where the glob has a `*`,
     * a segment ends where the text matched by the `*`, up to the next '/', changes: "/blocks.*" makes one segment per
     * block. A segment of one node drops all its outputs; a longer segment keeps the outputs that other nodes read. */
    const char *const *names;
    int name_count;
    int segments; /* number of segments of about equal bytes over the whole forward phase; the last one is not
                     recomputed. Negative: the square root of the number of nodes with parameters */
    int layers;   /* > 0: number of nodes with parameters in each segment; replaces `segments` */
    int64_t room; /* limit in bytes for the activations of a micro-batch: of the choices that fit, the one with the
                     fewest FLOPs is taken; if none fits, the one with the smallest peak */
};

/* The choice that `how` asks for. The caller frees its arrays with free(). */
bool zt_choose(const struct zt_forward *f, const struct zt_recompute *how, const struct zt_graph_roots *roots,
               struct zt_choice *to, struct zt_err *err);

#endif
