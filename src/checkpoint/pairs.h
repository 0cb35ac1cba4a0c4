/* The pairs of QuantizeLinear and DequantizeLinear that ztrain.qat adds to the trained model. */
#ifndef ZT_CHECKPOINT_PAIRS_H
#define ZT_CHECKPOINT_PAIRS_H

#include "run/collect.h"
#include "session/session.h"

/* Adds the pairs to `changes`, with the scales of the contents that the model gets: those of `changes` where they have
 * some, else those of the file's graph `g`. States and learned scales are in `weights`. A state that has seen no step
 * gives no pair. Everything is allocated in g's arena. */
void zt_pairs_add(const struct zt_session *s, struct zt_graph *g, const struct zt_collected *weights,
                  struct zt_onnx_changes *changes);

#endif
