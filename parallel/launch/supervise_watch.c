#include "parallel/launch/supervise_watch.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"
#include "parallel/comm/addresses.h"
#include "parallel/comm/rank_status.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* MPI_MS: how long all ranks may stay in MPI_Init, which does not always end a rank where a call of the system failed.
 */
enum { SILENT_MS = 5000, ABSENT_MS = 15000, MPI_MS = 20000 };

/* ---- listening ---- */

/* This host's addresses as others may know it. */
static void list_addresses(char *to, size_t room) {
    struct in6_addr at[64];
    const int count = zt_addresses(at, sizeof at / sizeof *at, NULL);
    size_t length = 0;
    to[0] = 0;
    for (int i = 0; i < count; i++) {
        char text[INET_ADDRSTRLEN];
        if (!IN6_IS_ADDR_V4MAPPED(&at[i])) /* the socket is IPv4's */
            continue;
        inet_ntop(AF_INET, &at[i].s6_addr[12], text, sizeof text);
        int n = snprintf(to + length, room - length, "%s%s", length ? "," : "", text);
        if (n < 0 || (size_t)n >= room - length) {
            to[length] = 0;
            break;
        }
        length += (size_t)n;
    }
}

bool zt_parent_listen(struct zt_parent *p, char *variable, size_t room, struct zt_err *err) {
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(p->job->hosts ? INADDR_ANY : INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    struct winsize window = { 0 };
    unsigned char random[ZT_CONTROL_TOKEN / 2];
    char addresses[400] = "127.0.0.1";
    int columns = isatty(STDERR_FILENO) ? 80 : 0;
    if (columns && ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col)
        columns = window.ws_col;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->listener < 0 || bind(p->listener, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(p->listener, SOMAXCONN) != 0 || getsockname(p->listener, (struct sockaddr *)&at, &size) != 0)
        return zt_fail(err, ZT_EXIT_RUN, "a socket for the ranks: %s", strerror(errno));
    if (!zt_random(random, sizeof random))
        return zt_fail(err, ZT_EXIT_RUN, "random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(p->token + 2 * i, 3, "%02x", random[i]);
    zt_mac_key(p->key, p->token, ZT_CONTROL_TOKEN);
    p->identity = (struct zt_listener_identity){
        .key = p->key, .purpose = ZT_PURPOSE_PARENT, .rank = ZT_PARENT_RANK, .size = p->job->ranks, .makes_job = true
    };
    if (p->job->hosts)
        list_addresses(addresses, sizeof addresses);
    snprintf(variable, room, "%s %d %s %d", addresses, ntohs(at.sin_port), p->token, columns);
    return true;
}

/* ---- what ranks write ---- */

/* Rank 0 talks for all. A line that a rank wrote as an error before it ended itself becomes the parent's one message.
 */
static void pass_on(struct zt_parent *p, int which, const char *text, size_t bytes) {
    const char *error = memmem(text, bytes, ZT_ERR_MARK, strlen(ZT_ERR_MARK));
    size_t n = error ? (size_t)(error - text) : bytes;
    if (which == 1 && n)
        p->line_open = text[n - 1] != '\n';
    for (size_t done = 0; done < n;) {
        ssize_t written = write(which ? STDERR_FILENO : STDOUT_FILENO, text + done, n - done);
        if (written < 0 && errno != EINTR)
            return;
        done += written > 0 ? (size_t)written : 0;
    }
}

static void take_text(struct zt_parent *p, int rank, int which, const char *text, size_t bytes) {
    if (which == 1)
        zt_text_keep_end(p->ranks[rank].words, sizeof p->ranks[rank].words, text, bytes);
    if (rank == 0 && !p->ending)
        pass_on(p, which, text, bytes);
}

void zt_parent_end_line(struct zt_parent *p) {
    if (p->line_open)
        fputc('\n', stderr);
    p->line_open = false;
}

/* ---- connections ---- */

static void drop_connection(struct zt_parent *p, int i, bool keep_open) {
    if (!keep_open)
        close(p->connections[i]->fd);
    free(p->connections[i]);
    p->connections[i] = NULL;
}

/* Assigns an authenticated connection, whose hello names its purpose, to its rank. What came
 * behind the hello stays with it. */
static bool assign_connection(struct zt_parent *p, struct zt_pending_connection *connection, const void *data,
                              size_t bytes) {
    struct zt_control_hello hello;
    if (bytes != sizeof hello)
        return false;
    memcpy(&hello, data, sizeof hello);
    zt_control_clean(hello.host, sizeof hello.host);
    if (hello.rank != connection->handshake.hello.from)
        return false;
    struct zt_rank_seen *r = &p->ranks[hello.rank];
    int stream = hello.channel - ZT_CONTROL_STDOUT;
    if (stream == 0 || stream == 1) {
        if (r->stream[stream] >= 0)
            return false;
        r->stream[stream] = connection->fd;
        take_text(p, hello.rank, stream, (const char *)connection->in.buffer + connection->in.used,
                  connection->in.have - connection->in.used);
        return true;
    }
    if (hello.channel != ZT_CONTROL_CONTROL || r->state != ZT_RANK_ABSENT)
        return false;
    r->fd = connection->fd;
    r->state = ZT_RANK_RUNNING;
    p->lonely_ms = 0;
    r->pid = hello.pid;
    p->job_number = hello.job;
    r->here = strcmp(hello.host, p->host) == 0;
    r->in = zt_malloc(sizeof *r->in);
    memcpy(r->in, &connection->in, sizeof *r->in);
    snprintf(r->host, sizeof r->host, "%s", hello.host);
    const int32_t came[] = { p->save ? SIGUSR1 : 0, p->stop_signal };
    for (int i = 0; i < 2; i++)
        if (came[i])
            zt_control_send(r->fd, ZT_CONTROL_SIGNAL, &came[i], sizeof came[i]);
    return true;
}

static bool send_now(int fd, const void *record, size_t bytes) {
    return send(fd, record, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

/* Takes what has come of the handshake, and answers. False: the connection must be closed. */
static bool continue_handshake(struct zt_parent *p, struct zt_pending_connection *connection) {
    struct zt_handshake *v = &connection->handshake;
    const enum zt_handshake_state before = v->state;
    unsigned char bytes[sizeof(struct zt_hello)];
    ssize_t n = recv(connection->fd, bytes, zt_handshake_missing_bytes(v), MSG_DONTWAIT);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    zt_handshake_receive(v, &p->identity, bytes, (size_t)n);
    if (v->state == before || v->state == ZT_HANDSHAKE_MALFORMED)
        return v->state == before;
    if (v->state == ZT_HANDSHAKE_AWAITS_PROOF)
        return send_now(connection->fd, &v->challenge, sizeof v->challenge);
    enum zt_handshake_result result = v->state == ZT_HANDSHAKE_FALSE_PROOF                  ? ZT_SECRET_MISMATCH
                                      : v->hello.from < 0 || v->hello.from >= p->job->ranks ? ZT_RANK_NOT_EXPECTED
                                                                                            : ZT_HANDSHAKE_OK;
    struct zt_handshake_reply_record w = zt_handshake_reply(v, &p->identity, result);
    return send_now(connection->fd, &w, sizeof w) && result == ZT_HANDSHAKE_OK;
}

static void serve_connection(struct zt_parent *p, int i) {
    struct zt_pending_connection *connection = p->connections[i];
    const void *data;
    size_t bytes;
    int kind;
    if (!connection) /* it was closed to make room for another connection */
        return;
    if (connection->handshake.state != ZT_HANDSHAKE_PROVEN) {
        if (!continue_handshake(p, connection))
            drop_connection(p, i, false);
        return;
    }
    bool bad = false, open = zt_control_read(connection->fd, &connection->in);
    if (zt_control_next(&connection->in, &kind, &data, &bytes, &bad))
        drop_connection(p, i, kind == ZT_CONTROL_HELLO && assign_connection(p, connection, data, bytes));
    else if (bad || !open)
        drop_connection(p, i, false);
}

/* A free entry, else the entry of the connection that has sent the fewest bytes, the oldest among equals. */
static int find_chair(const struct zt_parent *p) {
    int least = 0;
    for (int i = 0; i < ZT_PENDING_CONNECTIONS; i++) {
        const struct zt_pending_connection *a = p->connections[i], *b = p->connections[least];
        if (!a)
            return i;
        const size_t said = zt_handshake_received_bytes(&a->handshake),
                     before = zt_handshake_received_bytes(&b->handshake);
        if (said < before || (said == before && a->silent_ms > b->silent_ms))
            least = i;
    }
    return least;
}

/* All that wait, up to as many as there are chairs. */
static void take_connections(struct zt_parent *p) {
    for (int taken = 0; taken < ZT_PENDING_CONNECTIONS; taken++) {
        int fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC), i = find_chair(p);
        if (fd < 0)
            return;
        if (p->connections[i])
            drop_connection(p, i, false);
        struct zt_pending_connection *connection = p->connections[i] = zt_calloc(1, sizeof *connection);
        connection->fd = fd;
        if (zt_random(connection->handshake.challenge.nonce, sizeof connection->handshake.challenge.nonce))
            serve_connection(p, i);
        else
            drop_connection(p, i, false);
    }
}

/* ---- what ranks say ---- */

static void blame(struct zt_parent *p, int rank) {
    if (p->first_bad < 0)
        p->first_bad = rank;
}

static void take_error(struct zt_rank_seen *r, const void *data) {
    struct zt_err *e = r->error = r->error ? r->error : zt_malloc(sizeof *e);
    memcpy(e, data, sizeof *e);
    for (int i = 0; i < ZT_ERR_LINES; i++) {
        zt_control_clean(e->text[i], sizeof e->text[i]);
        zt_control_clean(e->hint[i], sizeof e->hint[i]);
    }
    zt_control_clean(e->place, sizeof e->place);
    e->count = e->count < 1 ? 1 : e->count;
}

static void take_status(struct zt_rank_seen *r, const void *data) {
    memcpy(&r->status, data, sizeof r->status);
    zt_control_clean(r->status.place, sizeof r->status.place);
    zt_control_clean(r->status.phase, sizeof r->status.phase);
    zt_control_clean(r->status.node, sizeof r->status.node);
    zt_control_clean(r->status.inside, sizeof r->status.inside);
    r->answered = true;
}

static void take_frame(struct zt_parent *p, int rank, int kind, const void *data, size_t bytes) {
    struct zt_rank_seen *r = &p->ranks[rank];
    if (kind == ZT_CONTROL_STATUS && bytes == sizeof r->status) {
        take_status(r, data);
    } else if (kind == ZT_CONTROL_NOTE && !p->ending) {
        char line[1024];
        snprintf(line, sizeof line, "%.*s", (int)bytes, (const char *)data);
        zt_control_clean(line, sizeof line);
        zt_parent_end_line(p);
        fprintf(stderr, "%s\n", line);
    } else if (kind == ZT_CONTROL_ERROR && bytes == sizeof *r->error) {
        take_error(r, data);
        blame(p, rank);
    } else if (kind == ZT_CONTROL_GOODBYE && bytes == sizeof(int32_t)) {
        int32_t code;
        memcpy(&code, data, sizeof code);
        r->code = code;
        r->state = ZT_RANK_DONE;
    }
}

static void take_control(struct zt_parent *p, int rank) {
    struct zt_rank_seen *r = &p->ranks[rank];
    const void *data;
    size_t bytes;
    int kind;
    bool bad = false, open = zt_control_read(r->fd, r->in);
    r->silent_ms = 0;
    while (zt_control_next(r->in, &kind, &data, &bytes, &bad))
        take_frame(p, rank, kind, data, bytes);
    if (open && !bad)
        return;
    close(r->fd);
    r->fd = -1;
    if (r->state == ZT_RANK_RUNNING)
        r->state = p->ending ? ZT_RANK_ENDED : ZT_RANK_LOST;
    if (r->state == ZT_RANK_LOST)
        blame(p, rank);
}

static void take_stream(struct zt_parent *p, int rank, int which) {
    struct zt_rank_seen *r = &p->ranks[rank];
    char text[8192];
    ssize_t n = recv(r->stream[which], text, sizeof text, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close(r->stream[which]);
        r->stream[which] = -1;
        return;
    }
    take_text(p, rank, which, text, (size_t)n);
}

/* ---- signals ---- */

static void take_signals(struct zt_parent *p) {
    struct signalfd_siginfo info;
    while (read(p->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int32_t number = (int32_t)info.ssi_signo;
        if (number == SIGCHLD)
            continue;
        p->save |= number == SIGUSR1;
        if (number != SIGUSR1) {
            p->stop_at_once = p->stop_signal != 0;
            p->stop_signal = p->stop_signal ? p->stop_signal : number;
        }
        if (!p->stop_at_once)
            zt_parent_tell(p, ZT_CONTROL_SIGNAL, &number, sizeof number);
    }
}

/* ---- one round ---- */

enum what { LISTENER, SIGNALS, MPIRUN, PENDING_CONNECTION, CONTROL, STREAM };
struct source {
    enum what what;
    int index, stream;
};

static int list_sources(const struct zt_parent *p, struct pollfd *polled, struct source *from) {
    int n = 0;
#define POLL(descriptor, ...)                                                                                          \
    do {                                                                                                               \
        polled[n] = (struct pollfd){ .fd = (descriptor), .events = POLLIN };                                           \
        from[n++] = (struct source){ __VA_ARGS__ };                                                                    \
    } while (0)
    POLL(p->signals, SIGNALS, 0, 0);
    POLL(p->listener, LISTENER, 0, 0);
    if (p->mpirun.output >= 0)
        POLL(p->mpirun.output, MPIRUN, 0, 0);
    for (int i = 0; i < ZT_PENDING_CONNECTIONS; i++)
        if (p->connections[i])
            POLL(p->connections[i]->fd, PENDING_CONNECTION, i, 0);
    for (int i = 0; i < p->job->ranks; i++) {
        if (p->ranks[i].fd >= 0)
            POLL(p->ranks[i].fd, CONTROL, i, 0);
        for (int k = 0; k < 2; k++)
            if (p->ranks[i].stream[k] >= 0)
                POLL(p->ranks[i].stream[k], STREAM, i, k);
    }
#undef POLL
    return n;
}

/* Ranks that have not come although others have: stopped as soon as they were started, or held up for ever. After a
 * stop signal nothing waits for mpirun, or for a host that it does not reach, to start the first. */
static void count_absence(struct zt_parent *p, int ms) {
    int absent = zt_parent_count(p, ZT_RANK_ABSENT);
    if (p->ending || absent == 0 || (absent == p->job->ranks && !p->stop_signal))
        return;
    p->lonely_ms += ms;
    if (absent == p->job->ranks) {
        p->stop_at_once |= p->lonely_ms >= SILENT_MS;
        return;
    }
    for (int i = 0; i < p->job->ranks && p->lonely_ms >= ABSENT_MS; i++)
        if (p->ranks[i].state == ZT_RANK_ABSENT) {
            p->ranks[i].state = ZT_RANK_STOPPED;
            blame(p, i);
        }
}

/* MPI_Init returns once all ranks have called it. */
static void count_start(struct zt_parent *p, int ms) {
    bool starting = !p->ending;
    for (int i = 0; i < p->job->ranks; i++)
        starting &= p->ranks[i].state == ZT_RANK_RUNNING && strcmp(p->ranks[i].status.phase, ZT_PHASE_MPI) == 0;
    p->mpi_ms = starting ? p->mpi_ms + ms : 0;
    if (p->mpi_ms >= MPI_MS) {
        p->no_mpi = true;
        p->ranks[0].state = ZT_RANK_STOPPED;
        blame(p, 0);
    }
}

/* Time that the parent itself did not run does not count: then nothing could be heard, and all is heard now. */
static void count_silence(struct zt_parent *p, int ms) {
    for (int i = 0; i < p->job->ranks; i++) {
        struct zt_rank_seen *r = &p->ranks[i];
        if (r->fd < 0 || r->state != ZT_RANK_RUNNING)
            continue;
        r->silent_ms += ms;
        if (r->silent_ms >= SILENT_MS && !p->ending) {
            r->state = ZT_RANK_STOPPED;
            blame(p, i);
        }
    }
    for (int i = 0; i < ZT_PENDING_CONNECTIONS; i++)
        if (p->connections[i] && (p->connections[i]->silent_ms += ms) >= SILENT_MS)
            drop_connection(p, i, false);
}

void zt_parent_take(struct zt_parent *p, int ms) {
    size_t most = 3 + ZT_PENDING_CONNECTIONS + 3 * (size_t)p->job->ranks;
    struct source *from = zt_calloc(most, sizeof *from);
    struct pollfd *polled = zt_calloc(most, sizeof *polled);
    int n = list_sources(p, polled, from);
    double before = zt_now();
    poll(polled, (nfds_t)n, ms);
    int waited_ms = (int)(1e3 * (zt_now() - before));
    for (int i = 0; i < n; i++) {
        if (!polled[i].revents)
            continue;
        if (from[i].what == SIGNALS)
            take_signals(p);
        else if (from[i].what == LISTENER)
            take_connections(p);
        else if (from[i].what == PENDING_CONNECTION)
            serve_connection(p, from[i].index);
        else if (from[i].what == CONTROL)
            take_control(p, from[i].index);
        else if (from[i].what == STREAM)
            take_stream(p, from[i].index, from[i].stream);
    }
    zt_mpirun_take(&p->mpirun);
    count_silence(p, waited_ms < ms ? waited_ms : ms);
    count_absence(p, waited_ms < ms ? waited_ms : ms);
    count_start(p, waited_ms < ms ? waited_ms : ms);
    free(polled);
    free(from);
}

void zt_parent_tell(struct zt_parent *p, enum zt_control_kind kind, const void *data, size_t bytes) {
    for (int i = 0; i < p->job->ranks; i++)
        if (p->ranks[i].fd >= 0)
            zt_control_send(p->ranks[i].fd, kind, data, bytes);
}

int zt_parent_count(const struct zt_parent *p, enum zt_rank_state state) {
    int count = 0;
    for (int i = 0; i < p->job->ranks; i++)
        count += p->ranks[i].state == state;
    return count;
}

/* Whether the standard output or error of a rank, or its connection, is still open. */
static bool streams_are_open(const struct zt_parent *p) {
    for (int i = 0; i < p->job->ranks; i++)
        if (p->ranks[i].stream[0] >= 0 || p->ranks[i].stream[1] >= 0 || p->ranks[i].fd >= 0)
            return true;
    return false;
}

static void close_open(int fd) {
    if (fd >= 0)
        close(fd);
}

void zt_parent_finish(struct zt_parent *p) {
    for (int i = 0; i < p->job->ranks; i++) {
        close_open(p->ranks[i].fd);
        close_open(p->ranks[i].stream[0]);
        close_open(p->ranks[i].stream[1]);
        free(p->ranks[i].error);
        free(p->ranks[i].in);
    }
    for (int i = 0; i < ZT_PENDING_CONNECTIONS; i++)
        if (p->connections[i])
            drop_connection(p, i, false);
    close_open(p->mpirun.output);
    close_open(p->listener);
    close_open(p->signals);
    free(p->ranks);
}

bool zt_parent_is_over(const struct zt_parent *p) {
    return p->mpirun.pid == 0 && p->mpirun.output < 0 && !streams_are_open(p);
}

bool zt_parent_nobody_left(const struct zt_parent *p) {
    return p->mpirun.pid == 0 && zt_parent_count(p, ZT_RANK_RUNNING) == 0;
}

void zt_parent_take_until(struct zt_parent *p, int ms, bool (*until)(const struct zt_parent *p)) {
    double end = zt_now() + 1e-3 * ms;
    for (int left = ms; left > 0 && !until(p); left = (int)(1e3 * (end - zt_now())))
        zt_parent_take(p, left < 50 ? left : 50);
}
