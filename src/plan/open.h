/* A session with the job and the data that its config names. */
#ifndef ZT_PLAN_OPEN_H
#define ZT_PLAN_OPEN_H

#include "plan/job/job.h"
#include "session/session.h"

enum zt_open_data { ZT_DATA_NONE = 0, ZT_DATA_TRAIN = 1, ZT_DATA_EVAL = 2, ZT_DATA_IF_THERE = 4 };

/* Opens the session, the job and the data asked for; ztrain.plan "auto" is settled where something is trained. With
 * ZT_DATA_IF_THERE a line names the data that cannot be opened, and the job goes on without them. Finish it also after
 * a failure. */
bool zt_open(struct zt_session *s, const struct zt_options *options, enum zt_onnx_weights weights, unsigned data,
             struct zt_err *err);
/* Steps of an epoch and of the run; a scheduler's total_num_steps that was "auto" becomes the latter. */
bool zt_open_length(struct zt_session *s, int64_t *per_epoch, int64_t *steps, struct zt_err *err);
void zt_open_finish(struct zt_session *s);

#endif
