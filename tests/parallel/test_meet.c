/* Ranks that meet at an address, and who else comes there: ranks that are late, doubled, of another world or missing,
 * and strangers. */
#include "comm_fixture.h"

#include "tests/suite.h"

#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct rank {
    pthread_t thread;
    struct zt_meeting meeting;
    int late_ms;
    struct zt_comm *comm;
    struct zt_err err;
};

static void *come(void *argument) {
    struct rank *r = argument;
    usleep((useconds_t)r->late_ms * 1000);
    r->comm = zt_comm_tcp_create(&r->meeting, &r->err);
    return NULL;
}

static void begin(struct rank *r, int port, int rank, int size, int seconds, int late_ms) {
    *r = (struct rank){ .meeting = { "127.0.0.1", port, rank, size, seconds }, .late_ms = late_ms };
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
    expect(&ranks[0], ZT_EXIT_RANK, "lost rank 1, 3: 2 of WORLD_SIZE=4 ranks came to MASTER_PORT=");
    expect(&ranks[1], ZT_EXIT_RANK, "rank 0: not all ranks came");
}
END_TEST

START_TEST(rank_0_that_does_not_come_is_named) {
    struct rank r;
    begin(&r, comm_fixture_free_port(), 1, 2, 1, 0);
    ck_assert(!end(&r, 1));
    expect(&r, ZT_EXIT_RANK, "lost rank 0: nobody answers at MASTER_ADDR=127.0.0.1, MASTER_PORT=");
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
    expect(&second, ZT_EXIT_CONFIG, "RANK=1: another process has come");
}
END_TEST

static int visit(int port) {
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
    char noise[4096], hello[64] = "ztrain ranks 1";
    begin(&ranks[0], port, 0, 2, 20, 0);
    for (int i = 0; i < 70; i++)
        silent[i] = visit(port);
    memset(noise, 0xff, sizeof noise);
    memset(hello + 32, 0xff, sizeof hello - 32); /* ranks and sizes below zero */
    for (int i = 0; i < 4; i++) {
        const void *words = i % 2 ? (const void *)noise : hello;
        int fd = visit(port);
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
    expect(&r, ZT_EXIT_RUN, "what answers there is no rank 0 of ztrain");
    close(visitor);
    close(fd);
}
END_TEST

int main(void) {
    TCase *test = tcase_create("meet");
    tcase_add_test(test, ranks_come_in_any_order);
    tcase_add_test(test, a_port_that_is_taken_is_named);
    tcase_add_test(test, ranks_that_do_not_come_are_named);
    tcase_add_test(test, rank_0_that_does_not_come_is_named);
    tcase_add_test(test, a_rank_of_another_world_or_a_second_of_one_is_refused_and_disturbs_nobody);
    tcase_add_test(test, strangers_at_the_port_change_nothing);
    tcase_add_test(test, an_answer_that_is_no_rank_0s_is_refused);
    return run_suite("meet", test, CK_FORK);
}
