/* Mutual authentication of two processes of one job over a connection that anybody may open or accept. Only
 * zt_handshake_connect() uses a socket.
 *
 *     connecting side                             listening side
 *     hello {purpose, from, to, size, port,
 *            job, nonce}                ------->
 *                                       <-------  challenge {rank, size, job, nonce}
 *     proof MAC("dials", hello, challenge) ---->
 *                                       <-------  reply {result, size, MAC("listens", hello, challenge, result, size)}
 *
 * The MACs are HMAC-SHA256 under the job's key (secret.h). Both nonces are new for each connection, so an old record
 * proves nothing. The labels differ, so a proof is useless in the other direction. Ranks, purpose and job are part of
 * the MAC, so a proof is useless at another listener. The listening side sends no MAC to a peer that has not proved the
 * secret, so an attacker gets no data to guess secrets against. All records have fixed lengths and are sent as they are
 * in memory: both sides are the same program. */
#ifndef ZT_PARALLEL_COMM_HANDSHAKE_H
#define ZT_PARALLEL_COMM_HANDSHAKE_H

#include "parallel/comm/mac.h"

#include <stdint.h>

enum zt_purpose { ZT_PURPOSE_RANKS = 1, ZT_PURPOSE_PARENT };
enum { ZT_JOB = 16, ZT_PARENT_RANK = -1 };

struct zt_hello {
    char magic[16];
    int32_t purpose, from, to, size;
    uint16_t port; /* where the connecting side listens; 0: nowhere */
    uint16_t unused[3];
    unsigned char job[ZT_JOB], nonce[ZT_MAC];
};
struct zt_challenge {
    char magic[16];
    int32_t rank, size;
    unsigned char job[ZT_JOB], nonce[ZT_MAC];
};

/* The first five results are sent in the reply. */
enum zt_handshake_result {
    ZT_HANDSHAKE_OK = 1,
    ZT_SECRET_MISMATCH,            /* the connecting side's proof is false; this reply has no MAC */
    ZT_WORLD_SIZE_MISMATCH,        /* the two sides have different world sizes */
    ZT_RANK_TAKEN,                 /* another process has connected with this rank */
    ZT_RANK_NOT_EXPECTED,          /* the listener expects no such rank */
    ZT_LISTENER_NOT_AUTHENTICATED, /* the listener does not know the secret */
    ZT_PROTOCOL_MISMATCH,          /* the listener uses another protocol */
    ZT_CONNECTION_LOST,            /* the connection was closed, or the time is over */
};
struct zt_handshake_reply_record {
    int32_t result, size;
    unsigned char mac[ZT_MAC];
};

/* The listening side. */
struct zt_listener_identity {
    const unsigned char *key;
    enum zt_purpose purpose;
    int rank, size; /* rank: ZT_PARENT_RANK for the parent */
    bool makes_job; /* the listener chose `job`, and the connecting side does not know it yet; false: both know it */
    unsigned char job[ZT_JOB];
};

/* The listening side's state of one connection. Zero-initialise, and fill challenge.nonce with random bytes. */
enum zt_handshake_state {
    ZT_HANDSHAKE_AWAITS_HELLO,
    ZT_HANDSHAKE_AWAITS_PROOF, /* the caller must send `challenge` once */
    ZT_HANDSHAKE_PROVEN,       /* the peer knows the secret */
    ZT_HANDSHAKE_FALSE_PROOF,  /* the peer sent a hello and a false proof */
    ZT_HANDSHAKE_MALFORMED,    /* the peer sent no valid hello for this listener */
};
struct zt_handshake {
    enum zt_handshake_state state;
    size_t have; /* bytes received of the current record */
    struct zt_hello hello;
    struct zt_challenge challenge;
    unsigned char proof[ZT_MAC];
};

/* Bytes missing from the current record; 0: no record is expected. */
size_t zt_handshake_missing_bytes(const struct zt_handshake *handshake);
/* Bytes received in total. When connections must be closed, the one with the fewest is closed first. */
size_t zt_handshake_received_bytes(const struct zt_handshake *handshake);
/* Processes `count` received bytes, at most zt_handshake_missing_bytes(). A pure function of its arguments. */
enum zt_handshake_state zt_handshake_receive(struct zt_handshake *handshake,
                                             const struct zt_listener_identity *identity, const void *bytes,
                                             size_t count);
/* The reply to a peer that has sent its proof. */
struct zt_handshake_reply_record zt_handshake_reply(const struct zt_handshake *handshake,
                                                    const struct zt_listener_identity *identity,
                                                    enum zt_handshake_result result);
/* A session key that only the two sides of this connection know. */
void zt_handshake_session(unsigned char to[ZT_MAC], const unsigned char key[ZT_MAC], const struct zt_hello *hello,
                          const struct zt_challenge *challenge);

/* The whole handshake of the connecting side, over a connected non-blocking socket, until `end` (zt_now() time). Fills
 * magic and nonce of the hello. `challenge` is authentic unless the result is ZT_SECRET_MISMATCH,
 * ZT_LISTENER_NOT_AUTHENTICATED, ZT_PROTOCOL_MISMATCH or ZT_CONNECTION_LOST. */
enum zt_handshake_result zt_handshake_connect(int fd, const unsigned char key[ZT_MAC], struct zt_hello *hello,
                                              struct zt_challenge *challenge, struct zt_handshake_reply_record *reply,
                                              double end);

#endif
