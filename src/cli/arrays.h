/* Input and output arrays of predict and grad. Inputs come from a folder of input_N.pb or from an npz file with their
 * names; the graph runs eagerly on them, as exported. */
#ifndef ZT_CLI_ARRAYS_H
#define ZT_CLI_ARRAYS_H

#include "data/npz.h"
#include "graph/passes/eval.h"
#include "graph/ir/list.h"
#include "graph/onnx/onnx.h"
#include "session/options.h"

/* A model that runs on arrays. */
struct zt_arrays {
    const struct zt_options *options;
    struct zt_onnx *model;
    struct zt_graph *graph; /* graph of the model with resolved operators */
    struct zt_random random;
    struct zt_eval *eval;
    struct zt_npz npz;      /* SRC if it is a file */
    struct zt_arena *arena; /* contents of SRC if it is a folder */
    bool folder, split_aliases;
};

/* Reads model and inputs and creates the output folder. split_aliases: copies of an initializer are separate tensors,
 * as in training. Free with zt_arrays_finish(), also after an error. */
bool zt_arrays_open(struct zt_arrays *a, const struct zt_options *options, bool split_aliases, struct zt_err *err);
/* Frees `a`. `ok` is the outcome so far. If an input file has changed meanwhile, `err` reports that instead. */
void zt_arrays_finish(struct zt_arrays *a, bool ok, struct zt_err *err);
/* Runs all nodes from index `first` on. */
bool zt_arrays_run(struct zt_arrays *a, int first, struct zt_err *err);

/* An array: "KIND_INDEX.pb" in a folder, `name` in an npz file. */
struct zt_array_key {
    const char *kind;
    int index;
    const char *name;
};

/* Reads an array of SRC. *there says whether it exists. */
bool zt_arrays_read(struct zt_arrays *a, const struct zt_array_key *key, struct zt_tensor *tensor, bool *there,
                    struct zt_err *err);
/* The same of a sequence or optional of this type, which only a folder can hold. */
bool zt_arrays_read_list(struct zt_arrays *a, const struct zt_array_key *key, const struct zt_list *type,
                         struct zt_onnx_list *list, bool *there, struct zt_err *err);
/* Returns false with an error if SRC has an array that is named like outputs of the kind of `end`, but has another
 * number than 0..end->index-1. */
bool zt_arrays_none_beyond(const struct zt_arrays *a, const struct zt_array_key *end, struct zt_err *err);
/* Writes a value as KIND_INDEX.pb to the output folder. */
bool zt_arrays_write(const struct zt_arrays *a, const struct zt_array_key *key, const struct zt_tensor *tensor,
                     struct zt_err *err);
/* The same for a list with the structure of `value`, which holds `tensors` in order. */
bool zt_arrays_write_list(const struct zt_arrays *a, const struct zt_array_key *key, int value,
                          const struct zt_tensor *tensors, struct zt_err *err);
/* Writes values to an npz file with their names. */
bool zt_arrays_write_npz(const struct zt_arrays *a, const char *file, const char *const *names,
                         const struct zt_tensor *tensors, int count, struct zt_err *err);

/* Returns the contents of a value after the run. */
struct zt_tensor zt_arrays_value(const struct zt_arrays *a, int value);

#endif
