/* Opens a session with the job and the data of its config. */
#ifndef ZT_PLAN_OPEN_H
#define ZT_PLAN_OPEN_H

#include "data/epochs.h"
#include "plan/job/job.h"
#include "session/session.h"

enum zt_open_data { ZT_DATA_NONE = 0, ZT_DATA_TRAIN = 1, ZT_DATA_EVAL = 2, ZT_DATA_IF_THERE = 4 };

/* Opens the session, the job and the data selected by the enum zt_open_data bits `data`. For training, resolves
 * ztrain.plan "auto". With ZT_DATA_IF_THERE, data that cannot be opened are reported in a message and the job has no
 * data. Free with zt_open_finish(), also after an error. */
bool zt_open(struct zt_session *s, const struct zt_options *options, enum zt_onnx_weights weights, unsigned data,
             struct zt_err *err);
/* Computes the epochs and the number of steps of the run. Sets a scheduler's total_num_steps of "auto" to the latter.
 */
bool zt_open_length(struct zt_session *s, struct zt_epochs *epochs, int64_t *steps, struct zt_err *err);
/* Frees everything that zt_open() has opened. */
void zt_open_finish(struct zt_session *s);

#endif
