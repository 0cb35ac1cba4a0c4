#include "comm_fixture.h"

#include "device/device.h"
#include "parallel/comm/comms_logger.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct rank_thread {
    pthread_t thread;
    struct zt_comm *comm;
    rank_body body;
    struct rank_report report;
};

static struct zt_counts *counts[FIXTURE_RANKS];
static struct zt_device *devices[FIXTURE_RANKS];

static bool make_self(int size, struct zt_comm *comms[], struct zt_err *err) {
    (void)size, (void)err;
    comms[0] = zt_comm_self_create();
    return true;
}

static bool make_ring(int size, struct zt_comm *comms[], struct zt_err *err) {
    if (!zt_comm_thread_create(size, comms, err))
        return false;
    for (int r = 0; r < size; r++)
        comms[r] = zt_comm_ring_create(comms[r]);
    return true;
}

/* Counts of no operation: what is counted is test_comm.c's. The counts themselves live as long as the process. */
static bool make_counted(int size, struct zt_comm *comms[], struct zt_err *err) {
    if (!zt_comm_thread_create(size, comms, err))
        return false;
    for (int r = 0; r < size; r++) {
        counts[r] = counts[r] ? counts[r] : zt_counts_create(&(struct zt_count_options){ 0 });
        comms[r] = zt_comm_count_create(comms[r], counts[r]);
    }
    return true;
}

/* On devices whose memory is the host's, which live as long as the process. */
static bool make_staged(int size, struct zt_comm *comms[], struct zt_err *err) {
    if (!zt_comm_thread_create(size, comms, err))
        return false;
    for (int r = 0; r < size; r++) {
        devices[r] = devices[r] ? devices[r] : zt_device_host_create(1);
        comms[r] = zt_comm_staged_create(comms[r], devices[r], true);
    }
    return true;
}

/* One of them meets the others in a thread of its own. */
struct meeting_thread {
    pthread_t thread;
    struct zt_meeting meeting;
    struct zt_comm *comm;
    struct zt_err err;
};

static void *meet(void *argument) {
    struct meeting_thread *t = argument;
    t->comm = zt_comm_tcp_create(&t->meeting, &t->err);
    return NULL;
}

int comm_fixture_bind(int *port) {
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool ok = bind(fd, (struct sockaddr *)&at, size) == 0 && getsockname(fd, (struct sockaddr *)&at, &size) == 0;
    *port = ok ? ntohs(at.sin_port) : 0;
    return fd;
}

int comm_fixture_free_port(void) {
    int port;
    close(comm_fixture_bind(&port));
    return port;
}

static bool make_tcp(int size, struct zt_comm *comms[], struct zt_err *err) {
    struct meeting_thread ranks[FIXTURE_RANKS] = { 0 };
    int port = comm_fixture_free_port();
    bool ok = true;
    for (int r = 0; r < size; r++) {
        ranks[r].meeting = (struct zt_meeting){ "127.0.0.1", port, r, size, 30 };
        pthread_create(&ranks[r].thread, NULL, meet, &ranks[r]);
    }
    for (int r = 0; r < size; r++) {
        pthread_join(ranks[r].thread, NULL);
        comms[r] = ranks[r].comm;
        if (!comms[r] && ok)
            *err = ranks[r].err;
        ok = ok && comms[r];
    }
    return ok;
}

const struct comm_maker comm_makers[] = {
    { .name = "self", .most_ranks = 1, .make = make_self },
    { .name = "thread", .most_ranks = 5, .make = zt_comm_thread_create },
    { .name = "ring", .most_ranks = 5, .make = make_ring },
    { .name = "count", .most_ranks = 3, .make = make_counted },
    { .name = "staged", .most_ranks = 4, .make = make_staged },
    { .name = "tcp", .most_ranks = 4, .make = make_tcp },
};
const int comm_maker_count = sizeof comm_makers / sizeof *comm_makers;

static void *rank_main(void *argument) {
    struct rank_thread *t = argument;
    t->body(t->comm, &t->report);
    if (t->report.text[0])
        t->comm->api->abort(t->comm, t->report.text);
    t->comm->api->destroy(t->comm);
    return NULL;
}

bool comm_fixture_run(const struct comm_maker *maker, int size, rank_body body, char *all, size_t room) {
    struct zt_comm *comms[FIXTURE_RANKS];
    struct rank_thread ranks[FIXTURE_RANKS];
    struct zt_err err = { 0 };
    all[0] = 0;
    if (!maker->make(size, comms, &err)) {
        snprintf(all, room, "%s", err.text[0]);
        return false;
    }
    for (int r = 0; r < size; r++) {
        ranks[r] = (struct rank_thread){ .comm = comms[r], .body = body };
        pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]);
    }
    for (int r = 0; r < size; r++) {
        pthread_join(ranks[r].thread, NULL);
        size_t used = strlen(all);
        if (ranks[r].report.text[0])
            snprintf(all + used, room - used, "%s rank %d of %d: %s;", maker->name, r, size, ranks[r].report.text);
    }
    return all[0] == 0;
}
