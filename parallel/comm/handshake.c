#include "parallel/comm/handshake.h"

#include "parallel/comm/connect.h"

#include <string.h>

/* Two different texts, so that a record sent back to its sender is invalid. */
static const char dials[16] = "ztrain dials 2", listens[16] = "ztrain hears 2";

static void prove(unsigned char to[ZT_MAC], const unsigned char *key, const struct zt_hello *h,
                  const struct zt_challenge *c) {
    zt_mac(to, key, "dials", (struct zt_mac_part[]){ { h, sizeof *h }, { c, sizeof *c } }, 2);
}

static void prove_reply(unsigned char to[ZT_MAC], const unsigned char *key, const struct zt_hello *h,
                        const struct zt_challenge *c, const struct zt_handshake_reply_record *w) {
    const struct zt_mac_part parts[] = {
        { h, sizeof *h }, { c, sizeof *c }, { &w->result, sizeof w->result }, { &w->size, sizeof w->size }
    };
    zt_mac(to, key, "listens", parts, 4);
}

void zt_handshake_session(unsigned char to[ZT_MAC], const unsigned char key[ZT_MAC], const struct zt_hello *h,
                          const struct zt_challenge *c) {
    zt_mac(to, key, "session", (struct zt_mac_part[]){ { h, sizeof *h }, { c, sizeof *c } }, 2);
}

/* ---- listening side ---- */

static bool is_for(const struct zt_hello *h, const struct zt_listener_identity *d) {
    return memcmp(h->magic, dials, sizeof dials) == 0 && h->purpose == (int32_t)d->purpose && h->to == d->rank &&
           (d->makes_job || memcmp(h->job, d->job, ZT_JOB) == 0);
}

static enum zt_handshake_state make_challenge(struct zt_handshake *v, const struct zt_listener_identity *d) {
    if (!is_for(&v->hello, d))
        return ZT_HANDSHAKE_MALFORMED;
    memcpy(v->challenge.magic, listens, sizeof listens);
    memcpy(v->challenge.job, d->job, ZT_JOB);
    v->challenge.rank = d->rank;
    v->challenge.size = d->size;
    return ZT_HANDSHAKE_AWAITS_PROOF;
}

static enum zt_handshake_state decide(const struct zt_handshake *v, const struct zt_listener_identity *d) {
    unsigned char wanted[ZT_MAC];
    prove(wanted, d->key, &v->hello, &v->challenge);
    return zt_mac_equal(wanted, v->proof, ZT_MAC) ? ZT_HANDSHAKE_PROVEN : ZT_HANDSHAKE_FALSE_PROOF;
}

static size_t whole(const struct zt_handshake *v) {
    return v->state == ZT_HANDSHAKE_AWAITS_HELLO   ? sizeof v->hello
           : v->state == ZT_HANDSHAKE_AWAITS_PROOF ? sizeof v->proof
                                                   : 0;
}

size_t zt_handshake_missing_bytes(const struct zt_handshake *v) {
    return whole(v) - v->have;
}

size_t zt_handshake_received_bytes(const struct zt_handshake *v) {
    return v->have + (v->state == ZT_HANDSHAKE_AWAITS_HELLO ? 0 : sizeof v->hello);
}

enum zt_handshake_state zt_handshake_receive(struct zt_handshake *v, const struct zt_listener_identity *d,
                                             const void *bytes, size_t count) {
    unsigned char *record = v->state == ZT_HANDSHAKE_AWAITS_HELLO ? (unsigned char *)&v->hello : v->proof;
    if (count > zt_handshake_missing_bytes(v))
        return v->state = ZT_HANDSHAKE_MALFORMED;
    memcpy(record + v->have, bytes, count);
    v->have += count;
    if (zt_handshake_missing_bytes(v) || !whole(v))
        return v->state;
    v->state = v->state == ZT_HANDSHAKE_AWAITS_HELLO ? make_challenge(v, d) : decide(v, d);
    v->have = 0;
    return v->state;
}

struct zt_handshake_reply_record zt_handshake_reply(const struct zt_handshake *v, const struct zt_listener_identity *d,
                                                    enum zt_handshake_result result) {
    struct zt_handshake_reply_record w = { .result = (int32_t)result,
                                           .size = result == ZT_SECRET_MISMATCH ? 0 : d->size };
    if (result != ZT_SECRET_MISMATCH)
        prove_reply(w.mac, d->key, &v->hello, &v->challenge, &w);
    return w;
}

/* ---- connecting side ---- */

/* Checks the magic before it waits for the rest of the record. */
static enum zt_handshake_result receive_challenge(int fd, struct zt_challenge *c, double end) {
    if (!zt_connection_transfer(fd, c->magic, sizeof c->magic, false, end))
        return ZT_CONNECTION_LOST;
    if (memcmp(c->magic, listens, sizeof listens) != 0)
        return ZT_PROTOCOL_MISMATCH;
    return zt_connection_transfer(fd, (char *)c + sizeof c->magic, sizeof *c - sizeof c->magic, false, end)
               ? ZT_HANDSHAKE_OK
               : ZT_CONNECTION_LOST;
}

static enum zt_handshake_result check_reply(const struct zt_hello *h, const struct zt_challenge *c,
                                            const unsigned char *key, const struct zt_handshake_reply_record *w) {
    unsigned char wanted[ZT_MAC];
    if (w->result == ZT_SECRET_MISMATCH)
        return ZT_SECRET_MISMATCH;
    prove_reply(wanted, key, h, c, w);
    if (!zt_mac_equal(wanted, w->mac, ZT_MAC) || c->rank != h->to)
        return ZT_LISTENER_NOT_AUTHENTICATED;
    return w->result >= ZT_HANDSHAKE_OK && w->result <= ZT_RANK_NOT_EXPECTED ? (enum zt_handshake_result)w->result
                                                                             : ZT_PROTOCOL_MISMATCH;
}

enum zt_handshake_result zt_handshake_connect(int fd, const unsigned char key[ZT_MAC], struct zt_hello *h,
                                              struct zt_challenge *c, struct zt_handshake_reply_record *w, double end) {
    unsigned char proof[ZT_MAC];
    memcpy(h->magic, dials, sizeof dials);
    if (!zt_random(h->nonce, sizeof h->nonce) || !zt_connection_transfer(fd, h, sizeof *h, true, end))
        return ZT_CONNECTION_LOST;
    const enum zt_handshake_result heard = receive_challenge(fd, c, end);
    if (heard != ZT_HANDSHAKE_OK)
        return heard;
    prove(proof, key, h, c);
    if (!zt_connection_transfer(fd, proof, sizeof proof, true, end) ||
        !zt_connection_transfer(fd, w, sizeof *w, false, end))
        return ZT_CONNECTION_LOST;
    return check_reply(h, c, key, w);
}
