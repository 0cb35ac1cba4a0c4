/* Ranks that meet at an address, and who else comes there: ranks that are late, doubled, of another world or missing,
 * and strangers. */
#include "comm_fixture.h"

#include "base/clock.h"
#include "parallel/comm/addresses.h"
#include "parallel/comm/tcp/link.h"
#include "parallel/comm/tcp/rendezvous.h"
#include "parallel/comm/connect.h"
#include "parallel/comm/handshake.h"
#include "tests/suite.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct rank {
    pthread_t thread;
    struct zt_meeting meeting;
    int late_ms;
    _Atomic bool over; /* it has come, or failed */
    struct zt_comm *comm;
    struct zt_err err;
};

static void *come(void *argument) {
    struct rank *r = argument;
    usleep((useconds_t)r->late_ms * 1000);
    r->comm = zt_comm_tcp_create(&r->meeting, &r->err);
    r->over = true;
    return NULL;
}

static void begin(struct rank *r, int port, int rank, int size, int seconds, int late_ms) {
    *r = (struct rank){ .meeting = { "127.0.0.1", port, rank, size, seconds }, .late_ms = late_ms };
    pthread_create(&r->thread, NULL, come, r);
}

static void begin_with(struct rank *r, int port, int rank, int size, int seconds, const char *secret) {
    *r = (struct rank){ .meeting = { "127.0.0.1", port, rank, size, seconds, .secret = { .given = true } } };
    zt_mac_key(r->meeting.secret.key, secret, strlen(secret));
    pthread_create(&r->thread, NULL, come, r);
}

static void *leave(void *argument) {
    struct zt_comm *c = argument;
    c->api->destroy(c);
    return NULL;
}

/* Whether all came; they then part, which they do together. */
static bool end(struct rank *ranks, int count) {
    pthread_t leaving[FIXTURE_RANKS];
    bool all = true;
    for (int i = 0; i < count; i++) {
        pthread_join(ranks[i].thread, NULL);
        all = all && ranks[i].comm;
    }
    for (int i = 0; i < count && all; i++)
        pthread_create(&leaving[i], NULL, leave, ranks[i].comm);
    for (int i = 0; i < count && all; i++)
        pthread_join(leaving[i], NULL);
    return all;
}

static void expect(const struct rank *r, enum zt_exit code, const char *words) {
    ck_assert_ptr_null(r->comm);
    ck_assert_msg(r->err.count == 1 && r->err.code == code, "%d errors, code %d: %s", r->err.count, r->err.code,
                  r->err.text[0]);
    ck_assert_msg(strstr(r->err.text[0], words) != NULL, "%s", r->err.text[0]);
}

START_TEST(ranks_come_in_any_order) {
    static const int late[][3] = { { 0, 200, 400 }, { 400, 0, 200 }, { 300, 300, 0 } };
    for (size_t k = 0; k < 3; k++) {
        struct rank ranks[3];
        int port = comm_fixture_free_port();
        for (int r = 0; r < 3; r++)
            begin(&ranks[r], port, r, 3, 20, late[k][r]);
        ck_assert_msg(end(ranks, 3), "%s", ranks[0].err.text[0]);
    }
}
END_TEST

START_TEST(a_port_that_is_taken_is_named) {
    char words[96];
    int port, fd = comm_fixture_bind(&port);
    ck_assert(port && listen(fd, 1) == 0);
    struct rank r;
    begin(&r, port, 0, 2, 5, 0);
    ck_assert(!end(&r, 1));
    snprintf(words, sizeof words, "MASTER_PORT=%d: rank 0 cannot listen there: Address already in use", port);
    expect(&r, ZT_EXIT_RUN, words);
    close(fd);
}
END_TEST

START_TEST(ranks_that_do_not_come_are_named) {
    struct rank ranks[2];
    int port = comm_fixture_free_port();
    begin(&ranks[0], port, 0, 4, 2, 0);
    begin(&ranks[1], port, 2, 4, 10, 0);
    ck_assert(!end(ranks, 2));
    expect(&ranks[0], ZT_EXIT_RANK, "lost rank 1, 3: 2 of WORLD_SIZE=4 ranks connected to MASTER_PORT=");
    expect(&ranks[1], ZT_EXIT_RANK, "rank 0: not all ranks have connected");
}
END_TEST

START_TEST(rank_0_that_does_not_come_is_named) {
    struct rank r;
    begin(&r, comm_fixture_free_port(), 1, 2, 1, 0);
    ck_assert(!end(&r, 1));
    expect(&r, ZT_EXIT_RANK, "lost rank 0: no answer from MASTER_ADDR=127.0.0.1, MASTER_PORT=");
}
END_TEST

START_TEST(a_rank_of_another_world_or_a_second_of_one_is_refused_and_disturbs_nobody) {
    struct rank ranks[3], other, second;
    int port = comm_fixture_free_port();
    begin(&ranks[0], port, 0, 3, 20, 0);
    begin(&ranks[1], port, 1, 3, 20, 0);
    begin(&other, port, 1, 5, 20, 300);
    begin(&second, port, 1, 3, 20, 300);
    begin(&ranks[2], port, 2, 3, 20, 900);
    bool all = end(ranks, 3);
    end(&other, 1);
    end(&second, 1);
    ck_assert_msg(all, "%s", ranks[0].err.text[0]);
    expect(&other, ZT_EXIT_CONFIG, "WORLD_SIZE=5, but rank 0 at MASTER_ADDR=127.0.0.1 has WORLD_SIZE=3");
    expect(&second, ZT_EXIT_CONFIG, "RANK=1: another process has already connected");
}
END_TEST

static int open_connection(int port) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int tries = 0; tries < 100; tries++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
            return fd;
        close(fd);
        usleep(20000);
    }
    return -1;
}

/* Those that say nothing, and as many as are heard at once; those that say something else; those that go. */
START_TEST(strangers_at_the_port_change_nothing) {
    struct rank ranks[2];
    int port = comm_fixture_free_port(), silent[70];
    char noise[4096], hello[sizeof(struct zt_hello)] = "ztrain dials 2";
    begin(&ranks[0], port, 0, 2, 20, 0);
    for (int i = 0; i < 70; i++)
        silent[i] = open_connection(port);
    memset(noise, 0xff, sizeof noise);
    memset(hello + 16, 0xff, sizeof hello - 16); /* ranks and sizes below zero */
    for (int i = 0; i < 4; i++) {
        const void *words = i % 2 ? (const void *)noise : hello;
        int fd = open_connection(port);
        ck_assert(send(fd, words, i < 2 ? sizeof hello : 5, MSG_NOSIGNAL) > 0);
        close(fd);
    }
    begin(&ranks[1], port, 1, 2, 20, 0);
    ck_assert_msg(end(ranks, 2), "%s", ranks[0].err.text[0]);
    for (int i = 0; i < 70; i++)
        close(silent[i]);
}
END_TEST

/* Whoever listens there, it is not rank 0. */
START_TEST(an_answer_that_is_no_rank_0s_is_refused) {
    char noise[64];
    int port, fd = comm_fixture_bind(&port);
    ck_assert(port && listen(fd, 1) == 0);
    struct rank r;
    begin(&r, port, 1, 2, 5, 0);
    int visitor = accept(fd, NULL, NULL);
    memset(noise, 'H', sizeof noise);
    ck_assert(send(visitor, noise, sizeof noise, MSG_NOSIGNAL) == sizeof noise);
    ck_assert(!end(&r, 1));
    expect(&r, ZT_EXIT_RUN, "the process that answers there is not rank 0 of ztrain");
    close(visitor);
    close(fd);
}
END_TEST

/* The first hello is an impostor's, which knows all but the secret. */
START_TEST(who_says_hello_first_is_no_rank_without_the_secret) {
    struct rank ranks[2];
    struct zt_hello hello = { .purpose = ZT_PURPOSE_RANKS, .from = 1, .to = 0, .size = 2, .port = 1 };
    struct zt_challenge challenge;
    struct zt_handshake_reply_record reply;
    unsigned char guessed[ZT_MAC] = { 0 };
    int port = comm_fixture_free_port();
    begin_with(&ranks[0], port, 0, 2, 20, "a text of the job");
    int fd = open_connection(port);
    ck_assert_int_eq(zt_handshake_connect(fd, guessed, &hello, &challenge, &reply, zt_now() + 5), ZT_SECRET_MISMATCH);
    close(fd);
    begin_with(&ranks[1], port, 1, 2, 20, "a text of the job");
    ck_assert_msg(end(ranks, 2), "%s", ranks[0].err.text[0]);
}
END_TEST

START_TEST(another_secret_is_named_on_both_sides) {
    struct rank ranks[2];
    int port = comm_fixture_free_port();
    begin_with(&ranks[0], port, 0, 2, 2, "a text of the job");
    begin_with(&ranks[1], port, 1, 2, 2, "a text of another job");
    ck_assert(!end(ranks, 2));
    expect(&ranks[0], ZT_EXIT_RANK, "; connected with another secret: rank 1 from 127.0.0.1");
    expect(&ranks[1], ZT_EXIT_CONFIG, "has another secret");
    for (int r = 0; r < 2; r++)
        ck_assert_msg(strstr(ranks[r].err.hint[0], "ZTRAIN_SECRET=$(openssl rand -hex 32)") != NULL, "%s",
                      ranks[r].err.hint[0]);
}
END_TEST

START_TEST(beyond_loopback_a_secret_is_needed_and_the_hint_says_how) {
    for (int rank = 0; rank < 2; rank++) {
        struct zt_meeting m = { "192.0.2.7", 29500, rank, 2, 5 };
        struct rank r = { .meeting = m };
        r.comm = zt_comm_tcp_create(&m, &r.err);
        expect(&r, ZT_EXIT_CONFIG, "MASTER_ADDR=192.0.2.7 (192.0.2.7) is on a network, where ranks need a secret");
        ck_assert(strstr(r.err.hint[0], "ZTRAIN_SECRET_FILE") != NULL);
    }
}
END_TEST

START_TEST(an_address_of_another_host_is_refused_by_rank_0) {
    struct zt_meeting m = { "192.0.2.7", 29500, 0, 2, 5, .secret = { .given = true } };
    struct rank r = { .meeting = m };
    r.comm = zt_comm_tcp_create(&r.meeting, &r.err);
    expect(&r, ZT_EXIT_CONFIG, "MASTER_ADDR=192.0.2.7, MASTER_PORT=29500: rank 0 cannot listen there");
}
END_TEST

/* No address but the one that MASTER_ADDR names answers. */
START_TEST(rank_0_listens_at_the_address_that_is_named_alone) {
    struct rank ranks[2];
    const struct in6_addr elsewhere = zt_address_of_ipv4((struct in_addr){ htonl(INADDR_LOOPBACK + 8) });
    int port = comm_fixture_free_port();
    begin_with(&ranks[0], port, 0, 2, 20, "a text of the job");
    close(open_connection(port));
    struct zt_sockaddr to = zt_sockaddr_of(&elsewhere, (uint16_t)port);
    ck_assert_int_eq(zt_connect_at((struct sockaddr *)&to.at, to.bytes, 1000), -1);
    begin_with(&ranks[1], port, 1, 2, 20, "a text of the job");
    ck_assert(end(ranks, 2));
}
END_TEST

/* 500 that stay and say nothing, half a hello, or a hello and no proof; new ones come all the time. */
struct crowd {
    pthread_t thread;
    int port, fd[500];
    _Atomic bool over;
};

static void *crowd_in(void *argument) {
    struct crowd *c = argument;
    struct zt_hello hello = { .purpose = ZT_PURPOSE_RANKS, .from = 1, .to = 0, .size = 2 };
    memcpy(hello.magic, "ztrain dials 2", 15);
    for (int i = 0; !c->over; i++) {
        int *fd = &c->fd[i % 500];
        if (*fd > 0)
            close(*fd);
        *fd = open_connection(c->port);
        if (*fd > 0 && i % 3)
            send(*fd, &hello, i % 3 == 1 ? sizeof hello / 2 : sizeof hello, MSG_NOSIGNAL);
        if (i > 500)
            usleep(500);
    }
    return NULL;
}

START_TEST(a_rank_comes_in_through_a_crowd) {
    static struct crowd c;
    struct rank ranks[2];
    c.port = comm_fixture_free_port();
    begin_with(&ranks[0], c.port, 0, 2, 30, "a text of the job");
    pthread_create(&c.thread, NULL, crowd_in, &c);
    usleep(500000);
    const double since = zt_now();
    begin_with(&ranks[1], c.port, 1, 2, 30, "a text of the job");
    while (!ranks[1].over)
        usleep(1000);
    const double took = zt_now() - since;
    c.over = true;
    pthread_join(c.thread, NULL);
    for (int i = 0; i < 500; i++)
        close(c.fd[i]);
    ck_assert_msg(end(ranks, 2), "%s", ranks[1].err.text[0]);
    ck_assert_msg(took < 5, "it took %.1f s", took);
}
END_TEST

static long virtual_kb(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert(file && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Rank 1 knows the secret and lies about what it sends. */
static void *claim(void *argument) {
    struct rank *r = argument;
    int fds[2];
    if (!zt_tcp_meet(&r->meeting, fds, &r->err))
        return NULL;
    const struct zt_frame_head head = { .kind = ZT_FRAME_MESSAGE, .bytes = (uint64_t)8 << 30 };
    ck_assert(send(fds[0], &head, sizeof head, MSG_NOSIGNAL) == sizeof head);
    struct pollfd wait = { .fd = fds[0], .events = POLLIN };
    poll(&wait, 1, 20000); /* until rank 0 says what it thinks of it */
    close(fds[0]);
    return NULL;
}

START_TEST(a_head_that_claims_8_GiB_is_not_believed) {
    struct rank ranks[2];
    int port = comm_fixture_free_port(), number;
    begin_with(&ranks[0], port, 0, 2, 20, "a text of the job");
    ranks[1] = (struct rank){ .meeting = ranks[0].meeting };
    ranks[1].meeting.rank = 1;
    pthread_create(&ranks[1].thread, NULL, claim, &ranks[1]);
    pthread_join(ranks[0].thread, NULL);
    ck_assert_msg(ranks[0].comm != NULL, "%s", ranks[0].err.text[0]);
    const long before = virtual_kb();
    const double since = zt_now();
    ck_assert(!ranks[0].comm->api->recv(ranks[0].comm, &number, sizeof number, 1, &ranks[0].err));
    ck_assert_str_eq(ranks[0].err.text[0], "rank 1 sent 8589934592 bytes, rank 0 wants 4 bytes");
    ck_assert_int_lt(virtual_kb() - before, 100 << 10);
    ck_assert(zt_now() - since < 5);
    ranks[0].comm->api->abort(ranks[0].comm, "it lies");
    ranks[0].comm->api->destroy(ranks[0].comm);
    pthread_join(ranks[1].thread, NULL);
}
END_TEST

START_TEST(heads_of_frames_that_cannot_be_are_refused) {
    const struct zt_frame_head bad[] = { { .kind = 0 },
                                         { .kind = ZT_FRAME_LEAVES + 1 },
                                         { .kind = ZT_FRAME_ROUND, .bytes = ZT_FRAME_ROUND_MOST + 1 },
                                         { .kind = ZT_FRAME_MESSAGE, .bytes = UINT64_MAX },
                                         { .kind = ZT_FRAME_TAKEN, .bytes = 1 },
                                         { .kind = ZT_FRAME_FAILED, .bytes = 3 },
                                         { .kind = ZT_FRAME_FAILED, .bytes = 4096 },
                                         { .kind = ZT_FRAME_LOST, .bytes = 5 },
                                         { .kind = ZT_FRAME_LEAVES, .bytes = 8 } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!zt_frame_check(&bad[i]), "%zu", i);
}
END_TEST

int main(void) {
    TCase *test = tcase_create("rendezvous");
    tcase_set_timeout(test, 60);
    tcase_add_test(test, who_says_hello_first_is_no_rank_without_the_secret);
    tcase_add_test(test, another_secret_is_named_on_both_sides);
    tcase_add_test(test, beyond_loopback_a_secret_is_needed_and_the_hint_says_how);
    tcase_add_test(test, an_address_of_another_host_is_refused_by_rank_0);
    tcase_add_test(test, rank_0_listens_at_the_address_that_is_named_alone);
    tcase_add_test(test, a_rank_comes_in_through_a_crowd);
    tcase_add_test(test, a_head_that_claims_8_GiB_is_not_believed);
    tcase_add_test(test, heads_of_frames_that_cannot_be_are_refused);
    tcase_add_test(test, ranks_come_in_any_order);
    tcase_add_test(test, a_port_that_is_taken_is_named);
    tcase_add_test(test, ranks_that_do_not_come_are_named);
    tcase_add_test(test, rank_0_that_does_not_come_is_named);
    tcase_add_test(test, a_rank_of_another_world_or_a_second_of_one_is_refused_and_disturbs_nobody);
    tcase_add_test(test, strangers_at_the_port_change_nothing);
    tcase_add_test(test, an_answer_that_is_no_rank_0s_is_refused);
    return run_suite("rendezvous", test, CK_FORK);
}
