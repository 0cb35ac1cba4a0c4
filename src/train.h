/* The main path of training: from the model and config files to a trained model. */
#ifndef ZT_TRAIN_H
#define ZT_TRAIN_H

#include "session/session.h"

struct zt_stop;

struct zt_train_request {
    const char *folder;           /* output folder of the run */
    const char *from;             /* checkpoint to resume from; NULL: train from the initial weights */
    const struct zt_err *unfound; /* why a run that resumes has no `from` on this host; NULL: others */
    struct zt_stop *stop;         /* signals that ask to stop or save */
};

/* Trains the model of the session and writes the files of the run into the folder. If a signal stops the run, returns
 * false with the exit code 128 + signal and no message. */
bool zt_train(struct zt_session *s, const struct zt_train_request *request, struct zt_err *err);

#endif
