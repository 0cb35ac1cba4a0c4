#include "parallel/comm/handshake.h"

#include "parallel/comm/connect.h"

#include <string.h>

/* Two, so that a record sent back to its sender is none. */
static const char dials[16] = "ztrain dials 2", listens[16] = "ztrain hears 2";

static void prove(unsigned char to[ZT_MAC], const unsigned char *key, const struct zt_hello *h,
                  const struct zt_challenge *c) {
    zt_mac(to, key, "dials", (struct zt_mac_part[]){ { h, sizeof *h }, { c, sizeof *c } }, 2);
}

static void prove_welcome(unsigned char to[ZT_MAC], const unsigned char *key, const struct zt_hello *h,
                          const struct zt_challenge *c, const struct zt_welcome *w) {
    const struct zt_mac_part parts[] = {
        { h, sizeof *h }, { c, sizeof *c }, { &w->verdict, sizeof w->verdict }, { &w->size, sizeof w->size }
    };
    zt_mac(to, key, "listens", parts, 4);
}

void zt_handshake_session(unsigned char to[ZT_MAC], const unsigned char key[ZT_MAC], const struct zt_hello *h,
                          const struct zt_challenge *c) {
    zt_mac(to, key, "session", (struct zt_mac_part[]){ { h, sizeof *h }, { c, sizeof *c } }, 2);
}

/* ---- who listens ---- */

static bool is_for(const struct zt_hello *h, const struct zt_door *d) {
    return memcmp(h->magic, dials, sizeof dials) == 0 && h->purpose == (int32_t)d->purpose && h->to == d->rank &&
           (d->makes_job || memcmp(h->job, d->job, ZT_JOB) == 0);
}

static enum zt_visit_state greet(struct zt_visit *v, const struct zt_door *d) {
    if (!is_for(&v->hello, d))
        return ZT_VISIT_IMPOSSIBLE;
    memcpy(v->challenge.magic, listens, sizeof listens);
    memcpy(v->challenge.job, d->job, ZT_JOB);
    v->challenge.rank = d->rank;
    v->challenge.size = d->size;
    return ZT_VISIT_PROOF;
}

static enum zt_visit_state judge(const struct zt_visit *v, const struct zt_door *d) {
    unsigned char wanted[ZT_MAC];
    prove(wanted, d->key, &v->hello, &v->challenge);
    return zt_mac_equal(wanted, v->proof, ZT_MAC) ? ZT_VISIT_PROVEN : ZT_VISIT_UNPROVEN;
}

static size_t whole(const struct zt_visit *v) {
    return v->state == ZT_VISIT_HELLO ? sizeof v->hello : v->state == ZT_VISIT_PROOF ? sizeof v->proof : 0;
}

size_t zt_visit_wants(const struct zt_visit *v) {
    return whole(v) - v->have;
}

size_t zt_visit_said(const struct zt_visit *v) {
    return v->have + (v->state == ZT_VISIT_HELLO ? 0 : sizeof v->hello);
}

enum zt_visit_state zt_visit_take(struct zt_visit *v, const struct zt_door *d, const void *bytes, size_t count) {
    unsigned char *record = v->state == ZT_VISIT_HELLO ? (unsigned char *)&v->hello : v->proof;
    if (count > zt_visit_wants(v))
        return v->state = ZT_VISIT_IMPOSSIBLE;
    memcpy(record + v->have, bytes, count);
    v->have += count;
    if (zt_visit_wants(v) || !whole(v))
        return v->state;
    v->state = v->state == ZT_VISIT_HELLO ? greet(v, d) : judge(v, d);
    v->have = 0;
    return v->state;
}

struct zt_welcome zt_visit_answer(const struct zt_visit *v, const struct zt_door *d, enum zt_handshake_result verdict) {
    struct zt_welcome w = { .verdict = (int32_t)verdict, .size = verdict == ZT_OTHER_SECRET ? 0 : d->size };
    if (verdict != ZT_OTHER_SECRET)
        prove_welcome(w.mac, d->key, &v->hello, &v->challenge, &w);
    return w;
}

/* ---- who dials ---- */

/* Whoever says nothing of the language in time is not waited for to say more. */
static enum zt_handshake_result hear_challenge(int fd, struct zt_challenge *c, double end) {
    if (!zt_strided_copy_all(fd, c->magic, sizeof c->magic, false, end))
        return ZT_GONE;
    if (memcmp(c->magic, listens, sizeof listens) != 0)
        return ZT_NOT_A_LISTENER;
    return zt_strided_copy_all(fd, (char *)c + sizeof c->magic, sizeof *c - sizeof c->magic, false, end) ? ZT_WELCOME
                                                                                                         : ZT_GONE;
}

static enum zt_handshake_result weigh(const struct zt_hello *h, const struct zt_challenge *c, const unsigned char *key,
                                      const struct zt_welcome *w) {
    unsigned char wanted[ZT_MAC];
    if (w->verdict == ZT_OTHER_SECRET)
        return ZT_OTHER_SECRET;
    prove_welcome(wanted, key, h, c, w);
    if (!zt_mac_equal(wanted, w->mac, ZT_MAC) || c->rank != h->to)
        return ZT_LISTENER_NOT_PROVEN;
    return w->verdict >= ZT_WELCOME && w->verdict <= ZT_NOT_WANTED ? (enum zt_handshake_result)w->verdict
                                                                   : ZT_NOT_A_LISTENER;
}

enum zt_handshake_result zt_handshake_connect(int fd, const unsigned char key[ZT_MAC], struct zt_hello *h,
                                              struct zt_challenge *c, struct zt_welcome *w, double end) {
    unsigned char proof[ZT_MAC];
    memcpy(h->magic, dials, sizeof dials);
    if (!zt_random(h->nonce, sizeof h->nonce) || !zt_strided_copy_all(fd, h, sizeof *h, true, end))
        return ZT_GONE;
    const enum zt_handshake_result heard = hear_challenge(fd, c, end);
    if (heard != ZT_WELCOME)
        return heard;
    prove(proof, key, h, c);
    if (!zt_strided_copy_all(fd, proof, sizeof proof, true, end) || !zt_strided_copy_all(fd, w, sizeof *w, false, end))
        return ZT_GONE;
    return weigh(h, c, key, w);
}
