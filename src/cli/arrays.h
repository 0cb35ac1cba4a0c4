/* Tensors on disk for predict and grad: the graph's inputs come from a folder of input_N.pb or an npz file with their
 * names, and the graph is run eagerly on them, as exported. */
#ifndef ZT_CLI_ARRAYS_H
#define ZT_CLI_ARRAYS_H

#include "data/npz.h"
#include "graph/passes/eval.h"
#include "graph/onnx/onnx.h"
#include "session/options.h"

/* A model that is being run on arrays. */
struct zt_arrays {
    const struct zt_options *options;
    struct zt_onnx *model;
    struct zt_graph *graph; /* the model's, rows resolved */
    struct zt_random random;
    struct zt_eval *eval;
    struct zt_npz npz;      /* SRC where that is a file */
    struct zt_arena *arena; /* contents of SRC where that is a folder */
    bool folder, split_aliases;
};

/* Reads model and inputs, and makes the output folder. split_aliases: copies of an initializer are tensors of their
 * own, as in training. Finish with zt_arrays_finish(), also after an error. */
bool zt_arrays_open(struct zt_arrays *a, const struct zt_options *options, bool split_aliases, struct zt_err *err);
/* `ok`: the outcome so far; one of false may be for a file that changed, which `err` then says instead. */
void zt_arrays_finish(struct zt_arrays *a, bool ok, struct zt_err *err);
/* Runs all nodes there are now from `first` on. */
bool zt_arrays_run(struct zt_arrays *a, int first, struct zt_err *err);

/* The array `name` of SRC, or number `index` of its kind in a folder: the file "KIND_INDEX.pb". *there tells whether
 * there is one. */
bool zt_arrays_read(struct zt_arrays *a, const char *kind, int index, const char *name, struct zt_tensor *tensor,
                    bool *there, struct zt_err *err);
/* Writes a value as KIND_INDEX.pb into the output folder. */
bool zt_arrays_write(const struct zt_arrays *a, const char *kind, int index, const char *name,
                     const struct zt_tensor *tensor, struct zt_err *err);
/* Writes values under their names as npz. */
bool zt_arrays_write_npz(const struct zt_arrays *a, const char *file, const char *const *names,
                         const struct zt_tensor *tensors, int count, struct zt_err *err);

/* A value's contents after the run. */
struct zt_tensor zt_arrays_value(const struct zt_arrays *a, int value);

#endif
