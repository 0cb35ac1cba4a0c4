#include "parallel/launch/control_protocol.h"

#include "base/show.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

struct head {
    uint32_t kind, bytes;
};

static bool send_all(int fd, const void *data, size_t bytes) {
    const char *at = data;
    while (bytes) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            struct pollfd wait = { .fd = fd, .events = POLLOUT };
            poll(&wait, 1, 1000);
            continue;
        }
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

bool zt_control_send(int fd, enum zt_control_kind kind, const void *data, size_t bytes) {
    unsigned char frame[sizeof(struct head) + ZT_CONTROL_MOST];
    struct head head = { (uint32_t)kind, (uint32_t)bytes };
    if (bytes > ZT_CONTROL_MOST)
        return false;
    memcpy(frame, &head, sizeof head);
    if (bytes)
        memcpy(frame + sizeof head, data, bytes);
    return send_all(fd, frame, sizeof head + bytes);
}

bool zt_control_read(int fd, struct zt_control_in *in) {
    memmove(in->buffer, in->buffer + in->used, in->have - in->used);
    in->have -= in->used;
    in->used = 0;
    ssize_t n = recv(fd, in->buffer + in->have, sizeof in->buffer - in->have, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    in->have += (size_t)n;
    return true;
}

bool zt_control_next(struct zt_control_in *in, int *kind, const void **data, size_t *bytes, bool *bad) {
    struct head head;
    *bad = false;
    if (in->have - in->used < sizeof head)
        return false;
    memcpy(&head, in->buffer + in->used, sizeof head);
    *bad = head.bytes > ZT_CONTROL_MOST || head.kind < ZT_CONTROL_HELLO || head.kind > ZT_CONTROL_QUIT;
    if (*bad || in->have - in->used - sizeof head < head.bytes)
        return false;
    *kind = (int)head.kind;
    *data = in->buffer + in->used + sizeof head;
    *bytes = head.bytes;
    in->used += sizeof head + head.bytes;
    return true;
}

void zt_control_clean(char *text, size_t room) {
    char raw[1024]; /* texts of the protocol are shorter */
    text[room - 1] = 0;
    snprintf(raw, sizeof raw, "%s", text);
    zt_show(text, room, raw);
}
