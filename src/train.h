/* The main path: from files to a trained model. */
#ifndef ZT_TRAIN_H
#define ZT_TRAIN_H

#include "session/session.h"

/* Trains, from the checkpoint `from` on (NULL: from the beginning), and leaves the run's files in `folder`. A run that
 * a signal stopped returns false with that exit code and no message. */
bool zt_train(struct zt_session *s, const char *folder, const char *from, struct zt_err *err);

#endif
