/* How two processes of a job prove to each other that they know its secret, over a connection that anybody may open or
 * listen at. Nothing here reads or writes a socket but zt_handshake_connect().
 *
 *     who dials                                   who listens
 *     hello {purpose, from, to, size, port,
 *            job, nonce}                ------->
 *                                       <-------  challenge {rank, size, job, nonce}
 *     proof MAC("dials", hello, challenge) ---->
 *                                       <-------  welcome {verdict, size, MAC("listens", hello, challenge, verdict,
 * size)}
 *
 * The MACs are HMAC-SHA256 under the job's key (secret.h). Each side's nonce is new, so that a record heard earlier
 * proves nothing; the labels differ, so that a proof is of no use in the other direction; ranks, purpose and job are
 * inside, so that it is of no use at another door. Who listens proves nothing to those who did not: a visitor learns no
 * MAC to guess secrets against. Lengths are fixed. The records travel as they lie in memory: both sides are the same
 * program. */
#ifndef ZT_PARALLEL_COMM_HANDSHAKE_H
#define ZT_PARALLEL_COMM_HANDSHAKE_H

#include "parallel/comm/mac.h"

#include <stdint.h>

enum zt_purpose { ZT_PURPOSE_RANKS = 1, ZT_PURPOSE_PARENT };
enum { ZT_JOB = 16, ZT_PARENT_RANK = -1 };

struct zt_hello {
    char magic[16];
    int32_t purpose, from, to, size;
    uint16_t port, unused[3]; /* where the one who dials listens, 0: nowhere */
    unsigned char job[ZT_JOB], nonce[ZT_MAC];
};
struct zt_challenge {
    char magic[16];
    int32_t rank, size;
    unsigned char job[ZT_JOB], nonce[ZT_MAC];
};
enum zt_handshake_result {
    ZT_WELCOME = 1,
    ZT_OTHER_SECRET,        /* the proof is false; says who listens, without a MAC */
    ZT_OTHER_SIZE,          /* the worlds differ in size */
    ZT_TAKEN,               /* another process has come with that rank */
    ZT_NOT_WANTED,          /* no such rank is awaited here */
    ZT_LISTENER_NOT_PROVEN, /* who listens does not know the secret */
    ZT_NOT_A_LISTENER,      /* who listens speaks another language */
    ZT_GONE,                /* the line ended, or the time */
};
struct zt_welcome {
    int32_t verdict, size;
    unsigned char mac[ZT_MAC];
};

/* What the one who listens knows. */
struct zt_door {
    const unsigned char *key;
    enum zt_purpose purpose;
    int rank, size; /* rank: ZT_PARENT_RANK, or the rank's */
    bool makes_job; /* `job` is its own, which who dials cannot know; else both know it */
    unsigned char job[ZT_JOB];
};

/* A connection at the door. Zero-initialise, and put random bytes in challenge.nonce. */
enum zt_visit_state {
    ZT_VISIT_HELLO,      /* its hello is awaited */
    ZT_VISIT_PROOF,      /* its proof is awaited; `challenge` has to be sent once */
    ZT_VISIT_PROVEN,     /* it knows the secret */
    ZT_VISIT_UNPROVEN,   /* it said a hello and a false proof */
    ZT_VISIT_IMPOSSIBLE, /* what it says is no hello for this door */
};
struct zt_visit {
    enum zt_visit_state state;
    size_t have; /* bytes of the record that is awaited */
    struct zt_hello hello;
    struct zt_challenge challenge;
    unsigned char proof[ZT_MAC];
};

/* The bytes that are still missing of the record that is awaited; 0: none is. */
size_t zt_visit_wants(const struct zt_visit *visit);
/* How far it has come, in bytes: who has to make room is the one that has said least. */
size_t zt_visit_said(const struct zt_visit *visit);
/* Takes `count` bytes that have come, at most zt_visit_wants(). A pure function of its arguments. */
enum zt_visit_state zt_visit_take(struct zt_visit *visit, const struct zt_door *door, const void *bytes, size_t count);
/* What a visitor that has shown its proof is told. */
struct zt_welcome zt_visit_answer(const struct zt_visit *visit, const struct zt_door *door,
                                  enum zt_handshake_result verdict);
/* A key that both sides of this line alone know. */
void zt_handshake_session(unsigned char to[ZT_MAC], const unsigned char key[ZT_MAC], const struct zt_hello *hello,
                          const struct zt_challenge *challenge);

/* The dialling side of the whole, until `end` by zt_now(), over a connected non-blocking socket. Fills magic and nonce
 * of the hello; `challenge` is that of who listens, believed where the verdict is neither ZT_OTHER_SECRET,
 * ZT_LISTENER_NOT_PROVEN, ZT_NOT_A_LISTENER nor ZT_GONE. */
enum zt_handshake_result zt_handshake_connect(int fd, const unsigned char key[ZT_MAC], struct zt_hello *hello,
                                              struct zt_challenge *challenge, struct zt_welcome *welcome, double end);

#endif
