/* The trained model as a file. */
#ifndef ZT_CHECKPOINT_EXPORT_H
#define ZT_CHECKPOINT_EXPORT_H

#include "plan/job/job.h"
#include "session/session.h"

/* model.onnx from collected tensors; the hash goes to *hash. */
bool zt_export_model(const struct zt_session *s, const char *folder, const struct zt_onnx_payload *payloads,
                     const int64_t *elements, int count, uint64_t *hash, struct zt_err *err);

#endif
