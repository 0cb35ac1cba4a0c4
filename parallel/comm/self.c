/* One rank alone: every collective is already done when it is called. After an abort its calls fail as those of any
 * other row do, so that a caller behaves alike on one rank and on many. */
#include "base/arena.h"
#include "parallel/comm/comm.h"

#include <stdio.h>
#include <stdlib.h>

struct self_comm {
    struct zt_comm base;
    struct self_comm *root; /* holds the abort of a communicator and its splits */
    bool aborted;
    char why[ZT_ERR_TEXT / 2];
};

static bool alive(const struct zt_comm *base, struct zt_err *err) {
    const struct self_comm *root = ((const struct self_comm *)base)->root;
    return !root->aborted || zt_fail(err, ZT_EXIT_RANK, "rank 0: %s", root->why);
}

static bool self_start(struct zt_comm *c, struct zt_transfer *t, struct zt_err *err) {
    return t->done = alive(c, err);
}

static bool self_poll(struct zt_comm *c, struct zt_err *err) {
    return alive(c, err);
}

static bool self_wait(struct zt_comm *c, struct zt_transfer *t, struct zt_err *err) {
    (void)t;
    return alive(c, err);
}

static bool self_broadcast(struct zt_comm *c, void *data, size_t bytes, int root, struct zt_err *err) {
    (void)data, (void)bytes;
    return zt_comm_check_root(c, root, err) && alive(c, err);
}

static bool self_sum(struct zt_comm *c, double *values, int count, struct zt_err *err) {
    (void)values, (void)count;
    return alive(c, err);
}

static bool self_barrier(struct zt_comm *c, struct zt_err *err) {
    return alive(c, err);
}

static bool self_send(struct zt_comm *c, const void *data, size_t bytes, int to, struct zt_err *err) {
    (void)data, (void)bytes;
    return zt_comm_check_peer(c, "send", to, err);
}

static bool self_recv(struct zt_comm *c, void *data, size_t bytes, int from, struct zt_err *err) {
    (void)data, (void)bytes;
    return zt_comm_check_peer(c, "recv", from, err);
}

static struct zt_comm *self_split(struct zt_comm *c, int color, struct zt_err *err) {
    (void)color;
    if (!alive(c, err))
        return NULL;
    struct self_comm *part = (struct self_comm *)zt_comm_self_create();
    part->root = ((struct self_comm *)c)->root;
    return &part->base;
}

static void self_abort(struct zt_comm *c, const char *why) {
    struct self_comm *root = ((struct self_comm *)c)->root;
    if (!root->aborted)
        snprintf(root->why, sizeof root->why, "%s", why);
    root->aborted = true;
}

static void self_destroy(struct zt_comm *c) {
    free(c);
}

static const struct zt_comm_api self_api = {
    .name = "self",
    .reduce_scatter = zt_comm_reduce_scatter,
    .all_gather = zt_comm_all_gather,
    .start = self_start,
    .poll = self_poll,
    .wait = self_wait,
    .share = zt_comm_share_nothing,
    .unshare = zt_comm_unshare_nothing,
    .broadcast = self_broadcast,
    .sum = self_sum,
    .barrier = self_barrier,
    .send = self_send,
    .recv = self_recv,
    .all_to_all = zt_comm_all_to_all,
    .split = self_split,
    .abort = self_abort,
    .destroy = self_destroy,
};

struct zt_comm *zt_comm_self_create(void) {
    struct self_comm *c = zt_calloc(1, sizeof *c);
    c->base = (struct zt_comm){ .api = &self_api, .rank = 0, .size = 1 };
    c->root = c;
    return &c->base;
}
