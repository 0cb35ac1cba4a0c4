/* Automatic planning (ztrain.plan "auto") and the candidates of autotuning. */
#ifndef ZT_PLAN_AUTO_H
#define ZT_PLAN_AUTO_H

#include "base/vec.h"
#include "session/session.h"

/* A layout and what its plan says. */
struct zt_auto_candidate {
    int stages, zero;
    int64_t micro_batch, accumulation;
    bool fits;
    double seconds; /* of a step */
    int64_t bytes;  /* of the rank with the most */
    int recomputed; /* recomputed segments of all stages */
    char why[240];  /* the reason why it is not possible */
};
struct zt_auto_list {
    struct zt_auto_candidate *at;
    int count, room;
};

/* Writes the fastest plan that fits into the session's config and describes the choice in job->chosen. The session must
 * have job and data. */
bool zt_auto_choose(struct zt_session *s, struct zt_err *err);
/* The layouts that autotuning may choose from: micro-batch sizes and ZeRO stages that the config does not give as
 * numbers, within the limits of config->tuning. Those that fit come first, the one with the most samples a second at
 * the top. Free with zt_vec_finish(). */
bool zt_auto_candidates(struct zt_session *s, struct zt_auto_list *to, struct zt_err *err);

#endif
