/* Proofs of identity in the handshake (handshake.h), and records that are refused: replayed, reflected, meant for
 * another identity, changed or truncated. */
#include "parallel/comm/handshake.h"

#include "base/clock.h"

#include "tests/suite.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const unsigned char key[ZT_MAC] = "the key of the job", other[ZT_MAC] = "another key";

/* A listener's side of one connection, in a thread, as rendezvous.c and supervise_watch.c drive it; what was said on
 * the line is kept. */
struct listener {
    pthread_t thread;
    struct zt_listener_identity identity;
    struct zt_handshake handshake;
    enum zt_handshake_result result;
    int fd;
    unsigned char came[512];
    size_t bytes;
};

static void *serve(void *argument) {
    struct listener *l = argument;
    ck_assert(zt_random(l->handshake.challenge.nonce, sizeof l->handshake.challenge.nonce));
    while (zt_handshake_missing_bytes(&l->handshake)) {
        unsigned char *at = l->came + l->bytes;
        ssize_t n = recv(l->fd, at, zt_handshake_missing_bytes(&l->handshake), 0);
        if (n <= 0)
            return NULL;
        l->bytes += (size_t)n;
        const enum zt_handshake_state before = l->handshake.state,
                                      now = zt_handshake_receive(&l->handshake, &l->identity, at, (size_t)n);
        if (before == ZT_HANDSHAKE_AWAITS_HELLO && now == ZT_HANDSHAKE_AWAITS_PROOF)
            ck_assert(send(l->fd, &l->handshake.challenge, sizeof l->handshake.challenge, MSG_NOSIGNAL) > 0);
    }
    if (l->handshake.state == ZT_HANDSHAKE_MALFORMED)
        return NULL;
    struct zt_handshake_reply_record w = zt_handshake_reply(
        &l->handshake, &l->identity, l->handshake.state == ZT_HANDSHAKE_PROVEN ? l->result : ZT_SECRET_MISMATCH);
    ck_assert(send(l->fd, &w, sizeof w, MSG_NOSIGNAL) == sizeof w);
    return NULL;
}

static void open_pair(struct listener *l, int *dialler, const unsigned char *its_key) {
    int fd[2];
    ck_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
    *dialler = fd[0];
    *l = (struct listener){ .fd = fd[1], .result = ZT_HANDSHAKE_OK };
    l->identity = (struct zt_listener_identity){
        .key = its_key, .purpose = ZT_PURPOSE_RANKS, .rank = 0, .size = 3, .makes_job = true
    };
    memset(l->identity.job, 7, ZT_JOB);
}

static void begin(struct listener *l) {
    pthread_create(&l->thread, NULL, serve, l);
}

static void end(struct listener *l, int dialler) {
    pthread_join(l->thread, NULL);
    close(dialler);
    close(l->fd);
}

static struct zt_hello hello_of(int from, int to) {
    return (struct zt_hello){ .purpose = ZT_PURPOSE_RANKS, .from = from, .to = to, .size = 3, .port = 4711 };
}

static enum zt_handshake_result connect_with(int fd, const unsigned char *its_key, struct zt_hello *h,
                                             struct zt_challenge *c) {
    struct zt_handshake_reply_record w;
    return zt_handshake_connect(fd, its_key, h, c, &w, zt_now() + 2);
}

START_TEST(both_sides_with_the_secret_agree_on_rank_job_and_session) {
    struct listener l;
    struct zt_hello h = hello_of(2, 0);
    struct zt_challenge c;
    unsigned char here[ZT_MAC], there[ZT_MAC];
    int fd;
    open_pair(&l, &fd, key);
    begin(&l);
    ck_assert_int_eq(connect_with(fd, key, &h, &c), ZT_HANDSHAKE_OK);
    end(&l, fd);
    ck_assert_int_eq(l.handshake.state, ZT_HANDSHAKE_PROVEN);
    ck_assert(l.handshake.hello.from == 2 && l.handshake.hello.port == 4711 && c.job[0] == 7 && c.size == 3);
    zt_handshake_session(here, key, &h, &c);
    zt_handshake_session(there, key, &l.handshake.hello, &l.handshake.challenge);
    ck_assert(memcmp(here, there, ZT_MAC) == 0);
}
END_TEST

START_TEST(a_false_secret_is_told_from_a_right_one_on_both_sides) {
    struct listener l;
    struct zt_hello h = hello_of(1, 0);
    struct zt_challenge c;
    int fd;
    open_pair(&l, &fd, key);
    begin(&l);
    ck_assert_int_eq(connect_with(fd, other, &h, &c), ZT_SECRET_MISMATCH);
    end(&l, fd);
    ck_assert_int_eq(l.handshake.state, ZT_HANDSHAKE_FALSE_PROOF);
}
END_TEST

/* It says that the proof was right, which it cannot know. */
START_TEST(who_listens_without_the_secret_is_found_out) {
    struct listener l;
    struct zt_hello h = hello_of(1, 0);
    struct zt_challenge c;
    struct zt_handshake_reply_record w;
    int fd;
    open_pair(&l, &fd, other);
    ck_assert(zt_random(l.handshake.challenge.nonce, ZT_MAC));
    w = zt_handshake_reply(&l.handshake, &l.identity, ZT_HANDSHAKE_OK);
    memcpy(l.handshake.challenge.magic, "ztrain hears 2", 15);
    ck_assert(send(l.fd, &l.handshake.challenge, sizeof l.handshake.challenge, 0) > 0 &&
              send(l.fd, &w, sizeof w, 0) > 0);
    ck_assert_int_eq(connect_with(fd, key, &h, &c), ZT_LISTENER_NOT_AUTHENTICATED);
    close(fd);
    close(l.fd);
}
END_TEST

START_TEST(what_was_said_earlier_proves_nothing_later) {
    struct listener first, second;
    struct zt_hello h = hello_of(1, 0);
    struct zt_challenge c;
    int fd;
    open_pair(&first, &fd, key);
    begin(&first);
    ck_assert_int_eq(connect_with(fd, key, &h, &c), ZT_HANDSHAKE_OK);
    end(&first, fd);
    ck_assert_uint_eq(first.bytes, sizeof(struct zt_hello) + ZT_MAC);
    open_pair(&second, &fd, key);
    begin(&second);
    ck_assert(send(fd, first.came, first.bytes, 0) == (ssize_t)first.bytes);
    pthread_join(second.thread, NULL);
    ck_assert_int_eq(second.handshake.state, ZT_HANDSHAKE_FALSE_PROOF);
    close(fd);
    close(second.fd);
}
END_TEST

/* Whoever listens sends back each record that it gets. */
START_TEST(records_sent_back_to_their_sender_are_no_answer) {
    struct zt_hello h = hello_of(1, 0), sent;
    struct zt_challenge c;
    int fd[2];
    ck_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
    sent = h;
    memcpy(sent.magic, "ztrain dials 2", 15);
    ck_assert(send(fd[1], &sent, sizeof sent, 0) > 0 && send(fd[1], &sent, sizeof sent, 0) > 0);
    ck_assert_int_eq(connect_with(fd[0], key, &h, &c), ZT_PROTOCOL_MISMATCH);
    close(fd[0]);
    close(fd[1]);
}
END_TEST

/* A proof for one listener, with the nonce of another put before it. */
START_TEST(a_proof_holds_at_one_door_in_one_role) {
    struct zt_handshake v[2] = { { 0 }, { 0 } };
    struct zt_listener_identity identity[2] = { { key, ZT_PURPOSE_RANKS, 1, 3, false, { 1 } },
                                                { key, ZT_PURPOSE_RANKS, 2, 3, false, { 1 } } };
    struct zt_hello h = hello_of(2, 1);
    struct zt_challenge c;
    unsigned char said[256];
    int fd[2];
    memcpy(h.job, identity[0].job, ZT_JOB);
    ck_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
    memcpy(v[0].challenge.magic, "ztrain hears 2", 15);
    v[0].challenge.rank = 1;
    v[0].challenge.size = 3;
    memcpy(v[0].challenge.job, identity[0].job, ZT_JOB);
    ck_assert(send(fd[1], &v[0].challenge, sizeof v[0].challenge, 0) > 0);
    struct zt_handshake_reply_record none = { .result = ZT_SECRET_MISMATCH };
    ck_assert(send(fd[1], &none, sizeof none, 0) > 0);
    ck_assert_int_eq(connect_with(fd[0], key, &h, &c), ZT_SECRET_MISMATCH);
    ck_assert(recv(fd[1], said, sizeof said, 0) == (ssize_t)(sizeof h + ZT_MAC));
    zt_handshake_receive(&v[0], &identity[0], said, sizeof h);
    ck_assert_int_eq(zt_handshake_receive(&v[0], &identity[0], said + sizeof h, ZT_MAC), ZT_HANDSHAKE_PROVEN);
    /* the same bytes, said to be for rank 2 */
    memcpy(&h, said, sizeof h);
    h.to = 2;
    ck_assert_int_eq(zt_handshake_receive(&v[1], &identity[1], said, sizeof h), ZT_HANDSHAKE_MALFORMED);
    v[1] = (struct zt_handshake){ 0 };
    zt_handshake_receive(&v[1], &identity[1], &h, sizeof h);
    ck_assert_int_eq(zt_handshake_receive(&v[1], &identity[1], said + sizeof h, ZT_MAC), ZT_HANDSHAKE_FALSE_PROOF);
    close(fd[0]);
    close(fd[1]);
}
END_TEST

/* A handshake that succeeds; the listener keeps what came. */
static void record_handshake(struct listener *l) {
    struct zt_hello h = hello_of(1, 0);
    struct zt_challenge c;
    int fd;
    open_pair(l, &fd, key);
    begin(l);
    ck_assert_int_eq(connect_with(fd, key, &h, &c), ZT_HANDSHAKE_OK);
    end(l, fd);
}

/* Every bit of what the connecting side sends, one at a time: each change is refused. */
START_TEST(no_changed_bit_is_accepted) {
    struct listener l;
    record_handshake(&l);
    for (size_t bit = 0; bit < 8 * l.bytes; bit++) {
        struct zt_handshake v = { 0 };
        unsigned char said[512];
        memcpy(v.challenge.nonce, l.handshake.challenge.nonce, ZT_MAC);
        memcpy(said, l.came, l.bytes);
        said[bit / 8] ^= (unsigned char)(1 << bit % 8);
        for (size_t at = 0, n; at < l.bytes && (n = zt_handshake_missing_bytes(&v)); at += n)
            zt_handshake_receive(&v, &l.identity, said + at, n);
        ck_assert_msg(v.state == ZT_HANDSHAKE_FALSE_PROOF || v.state == ZT_HANDSHAKE_MALFORMED, "bit %zu", bit);
    }
}
END_TEST

START_TEST(bytes_come_in_any_pieces_and_never_more_than_are_wanted) {
    struct listener l;
    record_handshake(&l);
    struct zt_handshake v = { 0 };
    memcpy(v.challenge.nonce, l.handshake.challenge.nonce, ZT_MAC);
    for (size_t at = 0; at < l.bytes; at++)
        zt_handshake_receive(&v, &l.identity, l.came + at, 1);
    ck_assert_int_eq(v.state, ZT_HANDSHAKE_PROVEN);
    ck_assert_uint_eq(zt_handshake_missing_bytes(&v), 0);
    ck_assert_int_eq(zt_handshake_receive(&v, &l.identity, l.came, 1), ZT_HANDSHAKE_MALFORMED);
    v = (struct zt_handshake){ 0 };
    ck_assert_int_eq(zt_handshake_receive(&v, &l.identity, l.came, sizeof(struct zt_hello) + 1),
                     ZT_HANDSHAKE_MALFORMED);
}
END_TEST

int main(void) {
    TCase *test = tcase_create("handshake");
    tcase_add_test(test, both_sides_with_the_secret_agree_on_rank_job_and_session);
    tcase_add_test(test, a_false_secret_is_told_from_a_right_one_on_both_sides);
    tcase_add_test(test, who_listens_without_the_secret_is_found_out);
    tcase_add_test(test, what_was_said_earlier_proves_nothing_later);
    tcase_add_test(test, records_sent_back_to_their_sender_are_no_answer);
    tcase_add_test(test, a_proof_holds_at_one_door_in_one_role);
    tcase_add_test(test, no_changed_bit_is_accepted);
    tcase_add_test(test, bytes_come_in_any_pieces_and_never_more_than_are_wanted);
    return run_suite("handshake", test, CK_FORK);
}
