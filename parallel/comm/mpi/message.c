#include "parallel/comm/mpi/message.h"

#include "base/arena.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ABORT_TAG = 0,   /* others: two a communicator */
    BLOCK = 1 << 30, /* an MPI count is an int: longer messages are blocks of a derived type */
};

struct news {
    int rank;
    char why[ZT_ERR_TEXT / 2];
};

struct zt_messages {
    MPI_Comm comm; /* the world's ranks, for these messages only */
    int rank, size;
    bool aborted;
    struct news news;
};

/* Messages to one rank. Slots keep their memory: a pipeline sends the same few sizes again and again. */
struct outbox {
    unsigned sent;
    struct {
        void *data;
        size_t room;
        MPI_Request request;
    } slots[ZT_COMM_BUFFERED];
};

struct zt_message_group {
    struct zt_messages *messages;
    int *world;
    int rank, size, context;
    char *out, *in;        /* size x room each, by peer */
    MPI_Request *requests; /* of the round: size to receive, size to send */
    struct outbox *outboxes;
    bool sending; /* a slot may be in transit */
    MPI_Request receiving;
};

static int collective_tag(const struct zt_message_group *g) {
    return 1 + 2 * g->context;
}

static int message_tag(const struct zt_message_group *g) {
    return 2 + 2 * g->context;
}

struct zt_messages *zt_messages_create(void) {
    struct zt_messages *m = zt_calloc(1, sizeof *m);
    MPI_Comm_dup(MPI_COMM_WORLD, &m->comm);
    MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(m->comm, &m->rank);
    MPI_Comm_size(m->comm, &m->size);
    return m;
}

void zt_messages_destroy(struct zt_messages *m, bool leave) {
    if (!m)
        return;
    if (!leave)
        MPI_Comm_free(&m->comm);
    free(m);
}

/* The notification is short enough that MPI sends it without waiting for the receiver. */
void zt_messages_abort(struct zt_messages *m, const char *why) {
    if (m->aborted)
        return;
    m->aborted = true;
    m->news.rank = m->rank;
    snprintf(m->news.why, sizeof m->news.why, "%s", why);
    for (int r = 0; r < m->size; r++) {
        MPI_Request request;
        if (r != m->rank &&
            MPI_Isend(&m->news, sizeof m->news, MPI_BYTE, r, ABORT_TAG, m->comm, &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
    }
}

bool zt_messages_aborted(struct zt_messages *m, struct zt_err *err) {
    int come = 0;
    if (!m->aborted)
        MPI_Iprobe(MPI_ANY_SOURCE, ABORT_TAG, m->comm, &come, MPI_STATUS_IGNORE);
    if (come) {
        MPI_Recv(&m->news, sizeof m->news, MPI_BYTE, MPI_ANY_SOURCE, ABORT_TAG, m->comm, MPI_STATUS_IGNORE);
        m->news.why[sizeof m->news.why - 1] = 0;
        m->aborted = true;
    }
    return m->aborted && !zt_fail(err, ZT_EXIT_RANK, "rank %d: %s", m->news.rank, m->news.why);
}

struct zt_message_group *zt_message_group_create(struct zt_messages *m, const int *world, int rank, int size,
                                                 int context) {
    struct zt_message_group *g = zt_calloc(1, sizeof *g);
    *g = (struct zt_message_group){ .messages = m, .rank = rank, .size = size, .context = context };
    g->world = zt_malloc((size_t)size * sizeof *g->world);
    memcpy(g->world, world, (size_t)size * sizeof *g->world);
    g->outboxes = zt_calloc((size_t)size, sizeof *g->outboxes);
    for (int r = 0; r < size; r++)
        for (int k = 0; k < ZT_COMM_BUFFERED; k++)
            g->outboxes[r].slots[k].request = MPI_REQUEST_NULL;
    g->requests = zt_malloc(2 * (size_t)size * sizeof(MPI_Request));
    for (int i = 0; i < 2 * size; i++)
        g->requests[i] = MPI_REQUEST_NULL;
    g->receiving = MPI_REQUEST_NULL;
    return g;
}

static bool is_over(MPI_Request *request) {
    int over = 0;
    MPI_Test(request, &over, MPI_STATUS_IGNORE);
    return over;
}

/* MPI still uses what a pending message points to (one that was never received, or after an abort): such buffers are
 * left to the end of the process. */
void zt_message_group_destroy(struct zt_message_group *g) {
    if (!g)
        return;
    bool over = true;
    for (int i = 0; i < 2 * g->size; i++)
        over &= is_over(&g->requests[i]);
    size_t bytes = zt_message_room(g) * (size_t)g->size;
    if (over && g->out)
        zt_block_destroy(g->out, bytes);
    if (over && g->in)
        zt_block_destroy(g->in, bytes);
    for (int r = 0; r < g->size; r++)
        for (int k = 0; k < ZT_COMM_BUFFERED; k++)
            if (is_over(&g->outboxes[r].slots[k].request))
                zt_block_destroy(g->outboxes[r].slots[k].data, g->outboxes[r].slots[k].room);
    free(g->outboxes);
    free(g->requests);
    free(g->world);
    free(g);
}

size_t zt_message_room(const struct zt_message_group *g) {
    return zt_rounds_room(g->size);
}

bool zt_message_prepare(struct zt_message_group *g, struct zt_err *err) {
    size_t bytes = zt_message_room(g) * (size_t)g->size;
    if (!g->out)
        g->out = zt_block_create(bytes, "message buffer", err);
    if (g->out && !g->in)
        g->in = zt_block_create(bytes, "message buffer", err);
    return g->in != NULL;
}

/* Also where there are no bytes: a round ends only when every peer has begun it. */
void zt_message_begin(struct zt_message_group *g, const struct zt_rounds *op, int64_t round) {
    MPI_Comm comm = g->messages->comm;
    for (int i = 1; i < g->size; i++) {
        int from = (g->rank + g->size - i) % g->size;
        MPI_Irecv(g->in + (size_t)from * op->room, (int)op->kind->bytes(op, round, from, g->rank), MPI_BYTE,
                  g->world[from], collective_tag(g), comm, &g->requests[from]);
    }
    for (int i = 1; i < g->size; i++) {
        int to = (g->rank + i) % g->size;
        char *out = g->out + (op->kind->same_for_all ? 0 : (size_t)to * op->room);
        size_t bytes = op->kind->bytes(op, round, g->rank, to);
        if (bytes && (i == 1 || !op->kind->same_for_all))
            memcpy(out, op->kind->give(op, round, to), bytes);
        MPI_Isend(out, (int)bytes, MPI_BYTE, g->world[to], collective_tag(g), comm, &g->requests[g->size + to]);
    }
}

bool zt_message_arrived(struct zt_message_group *g, const void **given, bool *ok, struct zt_err *err) {
    int done = 0;
    *ok = MPI_Testall(2 * g->size, g->requests, &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS;
    if (!*ok) {
        zt_fail(err, ZT_EXIT_RUN, "rank %d: a message of a collective was longer than expected, or was lost",
                g->world[g->rank]);
        return true;
    }
    for (int r = 0; r < g->size; r++)
        given[r] = g->in + (size_t)r * zt_message_room(g);
    return done;
}

/* The type of which one element is a message of `bytes` above BLOCK. */
static MPI_Datatype type_of_long_message(size_t bytes) {
    MPI_Datatype block, type;
    MPI_Type_contiguous(BLOCK, MPI_BYTE, &block);
    int counts[2] = { (int)(bytes / BLOCK), (int)(bytes % BLOCK) };
    MPI_Aint places[2] = { 0, (MPI_Aint)(bytes / BLOCK * BLOCK) };
    MPI_Type_create_struct(2, counts, places, (MPI_Datatype[]){ block, MPI_BYTE }, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&block);
    return type;
}

/* A synchronous send ends when the receiver has matched it, so a pair has at most ZT_COMM_BUFFERED messages in transit.
 */
bool zt_message_send(struct zt_message_group *g, const void *data, size_t bytes, int to, bool *sent,
                     struct zt_err *err) {
    struct outbox *box = &g->outboxes[to];
    unsigned slot = box->sent % ZT_COMM_BUFFERED;
    *sent = is_over(&box->slots[slot].request);
    if (!*sent)
        return true;
    if (!zt_block_reserve(&box->slots[slot].data, &box->slots[slot].room, bytes, "message buffer", err))
        return false;
    if (bytes)
        memcpy(box->slots[slot].data, data, bytes);
    MPI_Datatype type = bytes > BLOCK ? type_of_long_message(bytes) : MPI_BYTE;
    MPI_Issend(box->slots[slot].data, bytes > BLOCK ? 1 : (int)bytes, type, g->world[to], message_tag(g),
               g->messages->comm, &box->slots[slot].request);
    if (bytes > BLOCK)
        MPI_Type_free(&type);
    box->sent++;
    g->sending = true;
    return true;
}

bool zt_message_sending(struct zt_message_group *g) {
    if (!g->sending)
        return false;
    g->sending = false;
    for (int r = 0; r < g->size; r++)
        for (int k = 0; k < ZT_COMM_BUFFERED; k++)
            g->sending |= !is_over(&g->outboxes[r].slots[k].request);
    return g->sending;
}

bool zt_message_waiting(struct zt_message_group *g, int from, size_t *bytes) {
    int come = 0;
    MPI_Status status;
    MPI_Iprobe(g->world[from], message_tag(g), g->messages->comm, &come, &status);
    MPI_Count count = 0;
    if (come)
        MPI_Get_elements_x(&status, MPI_BYTE, &count);
    *bytes = (size_t)count;
    return come;
}

void zt_message_receive(struct zt_message_group *g, void *data, size_t bytes, int from) {
    MPI_Datatype type = bytes > BLOCK ? type_of_long_message(bytes) : MPI_BYTE;
    MPI_Irecv(data, bytes > BLOCK ? 1 : (int)bytes, type, g->world[from], message_tag(g), g->messages->comm,
              &g->receiving);
    if (bytes > BLOCK)
        MPI_Type_free(&type);
}

bool zt_message_received(struct zt_message_group *g) {
    return is_over(&g->receiving);
}
