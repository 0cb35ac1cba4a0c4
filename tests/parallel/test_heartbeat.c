/* Signs of life of two ranks (heartbeat.h) while somebody on the network sends datagrams too. */
#include "parallel/launch/heartbeat.h"

#include "base/clock.h"

#include "tests/suite.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The last datagram of rank 1. Its first word is the rank. */
static struct {
    pthread_mutex_t lock;
    unsigned char datagram[128];
    size_t bytes;
    struct sockaddr_storage to;
    socklen_t to_bytes;
    bool silent; /* rank 1's datagrams go no further */
} last_sent = { .lock = PTHREAD_MUTEX_INITIALIZER };

static ssize_t send_on(int fd, const void *data, size_t bytes, int flags, const void *to, socklen_t to_bytes) {
    return syscall(SYS_sendto, fd, data, bytes, flags, to, to_bytes);
}

/* In place of the C library's: the heartbeat sends through it. */
ssize_t sendto(int fd, const void *data, size_t bytes, int flags, __CONST_SOCKADDR_ARG at, socklen_t to_bytes) {
    const struct sockaddr *to = at.__sockaddr__;
    int32_t rank;
    memcpy(&rank, data, sizeof rank);
    pthread_mutex_lock(&last_sent.lock);
    bool stops = rank == 1 && last_sent.silent;
    if (rank == 1 && !stops) {
        last_sent.bytes = bytes < sizeof last_sent.datagram ? bytes : sizeof last_sent.datagram;
        memcpy(last_sent.datagram, data, last_sent.bytes);
        memcpy(&last_sent.to, to, to_bytes);
        last_sent.to_bytes = to_bytes;
    }
    pthread_mutex_unlock(&last_sent.lock);
    return stops ? (ssize_t)bytes : send_on(fd, data, bytes, flags, to, to_bytes);
}

struct rank {
    pthread_t thread;
    struct zt_comm *world;
    struct zt_rank_status where;
    struct zt_heartbeat *heartbeat;
    struct zt_err err;
};

static void *begin(void *argument) {
    struct rank *r = argument;
    zt_heartbeat_start(&r->heartbeat, r->world, &r->where, &r->err);
    return NULL;
}

/* For `seconds`, or until rank 1 is missed, sends what it said last, as it was, with a higher number, and as a goodbye.
 * Returns after how many seconds it was missed, 0: it was not. */
static double disturb(const struct rank *r, double seconds) {
    int fd = socket(last_sent.to.ss_family, SOCK_DGRAM, 0);
    const double since = zt_now();
    for (uint64_t higher = 1000; zt_now() - since < seconds; higher++) {
        unsigned char made[sizeof last_sent.datagram];
        const int32_t leaves = 1;
        if (atomic_load(&r->where.missed))
            break;
        send_on(fd, last_sent.datagram, last_sent.bytes, 0, &last_sent.to, last_sent.to_bytes);
        memcpy(made, last_sent.datagram, last_sent.bytes);
        memcpy(made + 8, &higher, sizeof higher);
        send_on(fd, made, last_sent.bytes, 0, &last_sent.to, last_sent.to_bytes);
        memcpy(made + 4, &leaves, sizeof leaves);
        send_on(fd, made, last_sent.bytes, 0, &last_sent.to, last_sent.to_bytes);
        usleep(100000);
    }
    close(fd);
    return atomic_load(&r->where.missed) ? zt_now() - since : 0;
}

START_TEST(a_silent_rank_is_missed_whatever_others_send_in_its_name) {
    static struct rank ranks[2];
    struct zt_comm *comms[2];
    struct zt_err err = { 0 };
    ck_assert(zt_comm_thread_create(2, comms, &err));
    for (int r = 0; r < 2; r++) {
        ranks[r].world = comms[r];
        pthread_create(&ranks[r].thread, NULL, begin, &ranks[r]);
    }
    for (int r = 0; r < 2; r++)
        pthread_join(ranks[r].thread, NULL);
    ck_assert(ranks[0].heartbeat && ranks[1].heartbeat);
    sleep(3); /* each has heard the other */
    ck_assert_uint_gt(last_sent.bytes, 0);
    pthread_mutex_lock(&last_sent.lock);
    last_sent.silent = true;
    pthread_mutex_unlock(&last_sent.lock);
    const double missed = disturb(&ranks[0], 14);
    ck_assert_msg(missed > 8 && missed < 14, "missed after %.1f s", missed);
    ck_assert_ptr_null(atomic_load(&ranks[1].where.missed));
    for (int r = 0; r < 2; r++) {
        zt_heartbeat_stop(ranks[r].heartbeat);
        comms[r]->api->destroy(comms[r]);
    }
}
END_TEST

int main(void) {
    TCase *test = tcase_create("heartbeat");
    tcase_set_timeout(test, 60);
    tcase_add_test(test, a_silent_rank_is_missed_whatever_others_send_in_its_name);
    return run_suite("heartbeat", test, CK_FORK);
}
