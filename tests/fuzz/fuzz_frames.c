// Hostile bytes from a TCP connection: at the rendezvous, between ranks, and between a rank and its parent.
// The first byte says in which pieces they come.
#include "base/arena.h"
#include "fuzz.h"
#include "parallel/comm/tcp/link.h"
#include "parallel/comm/handshake.h"
#include "parallel/launch/control_protocol.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_BYTES = 32 << 10 }; /* that a socket takes at once */

static const unsigned char key[ZT_MAC] = "a key that the visitor lacks";

static void handshake(struct zt_handshake *v, const struct zt_listener_identity *identity, const uint8_t *data,
                      size_t size, size_t piece) {
    while (size && zt_handshake_missing_bytes(v)) {
        size_t n = piece < size ? piece : size;
        if (n > zt_handshake_missing_bytes(v))
            n = zt_handshake_missing_bytes(v);
        zt_handshake_receive(v, identity, data, n);
        fuzz_promise(zt_handshake_received_bytes(v) <= sizeof v->hello + sizeof v->proof);
        data += n;
        size -= n;
    }
}

/* Nobody gets in without the secret, and with it everybody does whose hello is for this listener. */
static void fuzz_handshake(const uint8_t *data, size_t size, size_t piece) {
    const struct zt_listener_identity identity = {
        .key = key, .purpose = ZT_PURPOSE_RANKS, .rank = 0, .size = 4, .makes_job = true
    };
    struct zt_handshake v = { 0 };
    handshake(&v, &identity, data, size, piece);
    fuzz_promise(v.state != ZT_HANDSHAKE_PROVEN);
    if (v.state != ZT_HANDSHAKE_AWAITS_PROOF)
        return;
    unsigned char proof[ZT_MAC];
    v.have = 0;
    zt_mac(proof, key, "dials",
           (struct zt_mac_part[]){ { &v.hello, sizeof v.hello }, { &v.challenge, sizeof v.challenge } }, 2);
    handshake(&v, &identity, proof, sizeof proof, piece);
    fuzz_promise(v.state == ZT_HANDSHAKE_PROVEN);
    zt_handshake_reply(&v, &identity, ZT_HANDSHAKE_OK);
}

static int heard(const uint8_t *data, size_t size, int type) {
    int ends[2];
    fuzz_promise(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    fuzz_promise(size == 0 || write(ends[1], data, size) == (ssize_t)size);
    close(ends[1]);
    return ends[0];
}

static void hear_rank(const uint8_t *data, size_t size) {
    const int fds[] = { -1, heard(data, size, SOCK_STREAM) };
    struct zt_err err = { 0 };
    struct zt_links *links = zt_links_create(fds, 0, 2);
    size_t bytes;
    for (int i = 0; i < 100 && zt_links_move(links, 0, &err); i++) {
        zt_links_coming(links, 1, ZT_FRAME_ROUND, 0, &bytes);
        for (int kind = ZT_FRAME_ROUND; kind <= ZT_FRAME_TAKEN; kind++)
            for (struct zt_frame *f; (f = zt_links_find(links, 1, (enum zt_frame_kind)kind, 0));) {
                fuzz_promise(zt_frame_check(&f->head) && f->head.bytes <= size);
                zt_links_drop(links, 1, f);
            }
    }
    fuzz_promise(!zt_links_failed(links, &err) || err.count > 0);
    zt_links_destroy(links, true);
}

static void hear_talk(const uint8_t *data, size_t size) {
    int fd = heard(data, size, SOCK_STREAM), kind;
    struct zt_control_in *in = zt_calloc(1, sizeof *in);
    const void *contents;
    size_t bytes;
    bool bad = false;
    for (bool open = true; open && !bad;) {
        open = zt_control_read(fd, in);
        while (zt_control_next(in, &kind, &contents, &bytes, &bad)) {
            fuzz_promise(bytes <= ZT_CONTROL_MOST);
            char *text = zt_calloc(bytes + 1, 1);
            memcpy(text, contents, bytes);
            zt_control_clean(text, bytes + 1);
            fuzz_promise(strlen(text) <= bytes);
            free(text);
        }
    }
    free(in);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > MOST_BYTES)
        return 0;
    fuzz_handshake(data + 1, size - 1, 1 + data[0]);
    hear_rank(data + 1, size - 1);
    hear_talk(data + 1, size - 1);
    return 0;
}
