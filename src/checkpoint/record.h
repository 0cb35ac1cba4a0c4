/* The record of a run in a manifest (model, data, config), and the check whether another run may resume from it. */
#ifndef ZT_CHECKPOINT_RECORD_H
#define ZT_CHECKPOINT_RECORD_H

#include "base/log.h"
#include "checkpoint/format.h"
#include "session/session.h"

/* Fills the manifest's fields about model, data and configuration. It reads the model's files, which takes time, so it
 * is called only when needed: by all ranks that load, and by rank 0 when the first checkpoint is saved. */
bool zt_record_make(const struct zt_session *session, struct zt_arena *arena, struct zt_manifest *to,
                    struct zt_err *err);
/* Checks whether a run with the record `now` may resume from `stored`; otherwise reports errors. */
bool zt_record_fits(const struct zt_session *session, const struct zt_manifest *stored, const struct zt_manifest *now,
                    struct zt_err *err);
/* Logs a row for every key whose value has changed, of those that may change. `table`: the keys of the config. */
void zt_record_report(const struct zt_manifest *stored, const struct zt_manifest *now, const struct zt_key_table *table,
                      const struct zt_log *log);

/* Hints at the key by which the two runs have different tensors, if there is one. Returns false. */
bool zt_record_hint_tensors(const struct zt_session *session, const struct zt_manifest *stored,
                            const struct zt_manifest *now, struct zt_err *err);

#endif
