/* What a manifest says of the run that wrote it, and whether another one may go on. */
#ifndef ZT_CHECKPOINT_RECORD_H
#define ZT_CHECKPOINT_RECORD_H

#include "base/log.h"
#include "checkpoint/format.h"
#include "session/session.h"

/* Fills what a manifest says of model, data and configuration. It takes the time to read the model's files, and so is
 * done when it is needed: by all ranks that load, and by rank 0 when the first checkpoint is saved. */
bool zt_record_make(const struct zt_session *session, struct zt_arena *arena, struct zt_manifest *to,
                    struct zt_err *err);
/* Whether a run that `now` was recorded of may go on from `stored`. */
bool zt_record_fits(const struct zt_session *session, const struct zt_manifest *stored, const struct zt_manifest *now,
                    struct zt_err *err);
/* Logs a row for every key whose value has changed, of those that may change. `table`: the keys of the config. */
void zt_record_report(const struct zt_manifest *stored, const struct zt_manifest *now, const struct zt_key_table *table,
                      const struct zt_log *log);

#endif
