/* --load PATH --weights-only: a run that starts from the weights of a checkpoint or of another file.
 *
 * Tensors are matched by name and shape. Sources are a checkpoint (its folder, a run's folder, or a file `latest` or
 * `best`), an ONNX model, and a safetensors file of fp32 tensors, such as the adapters that ztrain.lora exports. Other
 * types are converted. Optimizer, step, data position and random numbers start anew. */
#ifndef ZT_CHECKPOINT_LOAD_WEIGHTS_H
#define ZT_CHECKPOINT_LOAD_WEIGHTS_H

#include "session/session.h"

struct zt_weights;

/* Replaces the initial contents of the session's parameters, frozen ones and running statistics included, and prints
 * the table of what matched on rank 0. Errors: a damaged source, no match at all, with --strict any tensor without a
 * match on either side, but for constants of the model and for what neither trains nor is in a checkpoint. Must be
 * called after zt_open(). The contents belong to the result: free it with zt_weights_close() after the job. */
struct zt_weights *zt_weights_load(const struct zt_session *s, const char *path, struct zt_err *err);
void zt_weights_close(struct zt_weights *weights); /* accepts NULL */

#endif
