#include "parallel/launch/supervisor_channel.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/thread.h"
#include "parallel/comm/connect.h"
#include "parallel/comm/handshake.h"
#include "parallel/launch/environment.h"
#include "parallel/launch/control_protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BEAT_MS = 1000, CONNECT_MS = 10000, PATIENCE_MS = 20000, AGAIN_MS = 100 };

struct zt_supervisor_channel {
    int fd, wake; /* wake: an eventfd, see enum wake */
    int columns;
    int saved[2]; /* standard output and error as they were */
    pthread_t thread;
    pthread_mutex_t lock; /* guards `rank_status` and sending */
    const struct zt_rank_status *rank_status;
    struct zt_control_in in; /* the thread's, after its end the closer's */
    bool quit;               /* the parent said so */
};

/* Values added to the eventfd: they request the end of the thread, or a report of the launcher's signal. */
enum wake { WAKE_SIGNAL = 1, WAKE_END = 1 << 16 };

/* The handler's, which is handed nothing else. */
static volatile sig_atomic_t launcher_signal;
static volatile sig_atomic_t handler_wake = -1;

/* ---- connecting ---- */

/* The first of the parent's addresses that answers. A host may have networks that this one cannot reach. */
static int connect_parent(char *addresses, const char *port) {
    char *rest = NULL;
    int count = 1, fd = -1;
    for (const char *p = addresses; *p; p++)
        count += *p == ',';
    for (char *a = strtok_r(addresses, ",", &rest); a && fd < 0; a = strtok_r(NULL, ",", &rest))
        fd = zt_connect(a, port, CONNECT_MS / count);
    return fd;
}

/* The way to the parent, and what proves that this is a rank of it. */
struct way {
    char addresses[512], port[8];
    unsigned char key[ZT_MAC];
    int size;
};

/* An authenticated connection; -1: none within CONNECT_MS. The parent may have closed earlier connections of this rank
 * to make room for others. */
static int reach_parent(const struct way *way, int rank) {
    const double end = zt_now() + CONNECT_MS * 1e-3;
    do {
        struct zt_hello hello = { .purpose = ZT_PURPOSE_PARENT, .from = rank, .to = ZT_PARENT_RANK, .size = way->size };
        struct zt_challenge challenge;
        struct zt_handshake_reply_record reply;
        char *copy = zt_strdup(way->addresses);
        int fd = connect_parent(copy, way->port);
        free(copy);
        enum zt_handshake_result result =
            fd < 0 ? ZT_PROTOCOL_MISMATCH : zt_handshake_connect(fd, way->key, &hello, &challenge, &reply, end);
        if (result == ZT_HANDSHAKE_OK)
            return fd;
        if (fd >= 0)
            close(fd);
        if (result != ZT_CONNECTION_LOST)
            return -1;
        poll(NULL, 0, AGAIN_MS);
    } while (zt_now() < end);
    return -1;
}

static int open_channel(const struct way *way, struct zt_control_hello *hello, int channel) {
    int fd = reach_parent(way, hello->rank);
    hello->channel = channel;
    if (fd < 0)
        return -1;
    if (zt_control_send(fd, ZT_CONTROL_HELLO, hello, sizeof *hello))
        return fd;
    close(fd);
    return -1;
}

/* Redirects standard output and error to sockets, which block like pipes. */
static bool redirect(struct zt_supervisor_channel *channel, const struct way *way, struct zt_control_hello *hello) {
    static const int stream[2] = { ZT_CONTROL_STDOUT, ZT_CONTROL_STDERR };
    for (int i = 0; i < 2; i++) {
        int fd = open_channel(way, hello, stream[i]);
        channel->saved[i] = fcntl(STDOUT_FILENO + i, F_DUPFD_CLOEXEC, 3);
        if (fd < 0 || fcntl(fd, F_SETFL, 0) != 0 || dup2(fd, STDOUT_FILENO + i) < 0)
            return false;
        close(fd);
    }
    return true;
}

/* ---- the thread ---- */

static void copy_text(char *to, size_t room, const char *from) {
    snprintf(to, room, "%s", from ? from : "");
}

static void send_status(struct zt_supervisor_channel *channel) {
    struct zt_control_status status = { 0 };
    pthread_mutex_lock(&channel->lock);
    const struct zt_rank_status *w = channel->rank_status;
    if (w) {
        copy_text(status.place, sizeof status.place, w->place);
        copy_text(status.phase, sizeof status.phase, atomic_load(&w->phase));
        copy_text(status.node, sizeof status.node, atomic_load(&w->node));
        copy_text(status.inside, sizeof status.inside, atomic_load(&w->inside));
        status.step = atomic_load(&w->step);
    }
    status.signal = launcher_signal;
    zt_control_send(channel->fd, ZT_CONTROL_STATUS, &status, sizeof status);
    pthread_mutex_unlock(&channel->lock);
}

static void note_launcher_signal(int number) {
    const uint64_t one = WAKE_SIGNAL;
    const int before = errno;
    launcher_signal = number;
    ssize_t ignored = write((int)handler_wake, &one, sizeof one); /* a status every second tells it too */
    (void)ignored;
    errno = before;
}

/* The rank itself decides what a signal means where it has a handler. Where it has none yet, nothing was trained that
 * could be saved; SIGUSR1 is blocked from the start, and waits. */
static void take_signal(struct zt_supervisor_channel *channel, int number) {
    struct sigaction now;
    sigaction(number, NULL, &now);
    bool handled = now.sa_flags & SA_SIGINFO ||
                   (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN && now.sa_handler != note_launcher_signal);
    if (handled || number == SIGUSR1) {
        kill(getpid(), number);
    } else {
        int32_t code = 128 + number;
        pthread_mutex_lock(&channel->lock); /* no other frame is interrupted */
        zt_control_send(channel->fd, ZT_CONTROL_GOODBYE, &code, sizeof code);
        _exit(code);
    }
}

/* Whether the parent wants the rank to quit. */
static bool take_frames(struct zt_supervisor_channel *channel) {
    const void *data;
    size_t bytes;
    int kind;
    bool bad, quit = false;
    while (zt_control_next(&channel->in, &kind, &data, &bytes, &bad)) {
        int32_t number = 0;
        if (kind == ZT_CONTROL_ASK)
            send_status(channel);
        if (kind == ZT_CONTROL_QUIT)
            quit = true;
        if (kind == ZT_CONTROL_SIGNAL && bytes == sizeof number) {
            memcpy(&number, data, sizeof number);
            take_signal(channel, number);
        }
    }
    return quit || bad;
}

/* The thread ends at WAKE_END, else with the process: without the parent there is nobody to report to. */
static void *serve(void *arg) {
    struct zt_supervisor_channel *channel = arg;
    for (;;) {
        struct pollfd wait[2] = { { .fd = channel->wake, .events = POLLIN }, { .fd = channel->fd, .events = POLLIN } };
        int ready = poll(wait, 2, BEAT_MS);
        uint64_t why = 0;
        if (wait[0].revents && read(channel->wake, &why, sizeof why) == sizeof why && why >= WAKE_END)
            return NULL;
        if (why)
            send_status(channel);
        if (ready == 0 && channel->quit)
            _exit(ZT_EXIT_RANK);
        if (wait[1].revents && !zt_control_read(channel->fd, &channel->in))
            _exit(ZT_EXIT_RANK);
        if (wait[1].revents)
            channel->quit |= take_frames(channel);
        else if (ready == 0)
            send_status(channel);
    }
}

/* mpirun ends all ranks as soon as one has ended. The remaining ranks first report their status to the parent, and that
 * mpirun ends them. */
static void outlive_launcher(const struct zt_supervisor_channel *channel) {
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    const struct sigaction note = { .sa_handler = note_launcher_signal, .sa_flags = SA_RESTART };
    handler_wake = channel->wake;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction now;
        sigaction(signals[i], NULL, &now);
        if (!(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
            sigaction(signals[i], &note, NULL);
    }
}

/* ---- the outside ---- */

bool zt_supervisor_channel_open(struct zt_supervisor_channel **to, struct zt_err *err) {
    const char *text = getenv(ZT_CONTROL_VARIABLE);
    char token[ZT_CONTROL_TOKEN + 1];
    struct way way;
    struct zt_control_hello hello = { .pid = getpid() };
    struct zt_launched launched;
    int columns;
    *to = NULL;
    if (!text)
        return true;
    if (!zt_launched_find(&launched, err))
        return false;
    if (sscanf(text, "%511s %7s %32s %d", way.addresses, way.port, token, &columns) != 4)
        return zt_fail(err, ZT_EXIT_CONFIG, "environment: %s does not have the format that ztrain writes",
                       ZT_CONTROL_VARIABLE);
    hello.rank = launched.rank;
    const char *job = getenv("OMPI_MCA_ess_base_jobid");
    hello.job = job ? (uint32_t)strtoul(job, NULL, 10) : 0;
    unsetenv(ZT_CONTROL_VARIABLE);
    zt_mac_key(way.key, token, strlen(token));
    way.size = launched.size;
    gethostname(hello.host, sizeof hello.host - 1);
    struct zt_supervisor_channel *channel = zt_calloc(1, sizeof *channel);
    channel->columns = columns;
    channel->wake = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&channel->lock, NULL);
    channel->fd = open_channel(&way, &hello, ZT_CONTROL_CONTROL);
    if (channel->fd < 0)
        return zt_fail(err, ZT_EXIT_RANK, "rank %d on %s cannot reach the parent at %s, port %s", launched.rank,
                       hello.host, way.addresses, way.port);
    outlive_launcher(channel);
    if (!redirect(channel, &way, &hello) || (errno = zt_thread_start(&channel->thread, serve, channel)) != 0)
        return zt_fail(err, ZT_EXIT_RUN, "rank %d: cannot connect to the parent: %s", launched.rank, strerror(errno));
    *to = channel;
    return true;
}

void zt_supervisor_channel_status(struct zt_supervisor_channel *channel, const struct zt_rank_status *status) {
    if (!channel)
        return;
    pthread_mutex_lock(&channel->lock);
    channel->rank_status = status;
    pthread_mutex_unlock(&channel->lock);
}

void zt_supervisor_channel_note(struct zt_supervisor_channel *channel, const char *text) {
    pthread_mutex_lock(&channel->lock);
    zt_control_send(channel->fd, ZT_CONTROL_NOTE, text, strlen(text));
    pthread_mutex_unlock(&channel->lock);
}

int zt_supervisor_channel_columns(const struct zt_supervisor_channel *channel) {
    return channel ? channel->columns : 0;
}

/* Waits until the parent sends QUIT (possibly earlier, to the thread) or closes the connection. */
static void wait_for_parent(struct zt_supervisor_channel *channel) {
    struct pollfd wait = { .fd = channel->fd, .events = POLLIN };
    const void *data;
    size_t bytes;
    int kind;
    bool bad = false;
    while (!channel->quit && !bad && poll(&wait, 1, PATIENCE_MS) == 1 && zt_control_read(channel->fd, &channel->in))
        while (zt_control_next(&channel->in, &kind, &data, &bytes, &bad))
            channel->quit |= kind == ZT_CONTROL_QUIT;
}

void zt_supervisor_channel_close(struct zt_supervisor_channel *channel, const struct zt_err *err, int code) {
    uint64_t end = WAKE_END;
    int32_t number = code;
    if (!channel)
        return;
    fflush(stdout);
    fflush(stderr);
    bool alone = write(channel->wake, &end, sizeof end) == sizeof end && pthread_join(channel->thread, NULL) == 0;
    for (int i = 0; i < 2; i++) /* closes the sockets: the parent reads them to their ends */
        if (channel->saved[i] >= 0)
            dup2(channel->saved[i], STDOUT_FILENO + i);
    if (err->count)
        zt_control_send(channel->fd, ZT_CONTROL_ERROR, err, sizeof *err);
    zt_control_send(channel->fd, ZT_CONTROL_GOODBYE, &number, sizeof number);
    if (code != 0 && alone)
        wait_for_parent(channel);
    handler_wake = -1;
    close(channel->fd);
    close(channel->wake);
    pthread_mutex_destroy(&channel->lock);
    free(channel);
}
