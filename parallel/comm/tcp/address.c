#include "parallel/comm/tcp/address.h"

#include "base/text.h"
#include "parallel/comm/addresses.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

static bool is_known(const struct in6_addr *list, int count, const struct in6_addr *at) {
    for (int i = 0; i < count; i++)
        if (memcmp(&list[i], at, sizeof *at) == 0)
            return true;
    return false;
}

static int resolve(const char *name, struct in6_addr *to) {
    struct addrinfo want = { .ai_socktype = SOCK_STREAM }, *found;
    int count = 0;
    if (getaddrinfo(name, NULL, &want, &found) != 0)
        return 0;
    for (const struct addrinfo *a = found; a && count < ZT_MEETING_ADDRESSES; a = a->ai_next) {
        const void *from = a->ai_addr;
        if (a->ai_family == AF_INET)
            to[count] = zt_address_of_ipv4(((const struct sockaddr_in *)from)->sin_addr);
        else if (a->ai_family == AF_INET6)
            to[count] = ((const struct sockaddr_in6 *)from)->sin6_addr;
        else
            continue;
        count += !is_known(to, count, &to[count]);
    }
    freeaddrinfo(found);
    return count;
}

/* Of either kind, those of one: returns how many are left, `count` itself where all are of the other. */
static int keep(struct in6_addr *list, int count, bool loopback) {
    int left = 0;
    for (int i = 0; i < count; i++)
        left += zt_address_is_loopback(&list[i]) == loopback;
    for (int i = 0, at = 0; i < count && left; i++)
        if (zt_address_is_loopback(&list[i]) == loopback)
            list[at++] = list[i];
    return left ? left : count;
}

/* Whether all of them are what /etc/hosts calls the host itself: loopback, but not what "localhost" is. */
static bool is_own_name(const struct zt_meeting *m, const struct in6_addr *list, int count) {
    const struct in6_addr localhost = zt_address_of_ipv4((struct in_addr){ htonl(INADDR_LOOPBACK) });
    unsigned char digits[sizeof(struct in6_addr)];
    if (m->one_host || inet_pton(AF_INET, m->address, digits) == 1)
        return false;
    for (int i = 0; i < count; i++)
        if (!zt_address_is_loopback(&list[i]) || IN6_IS_ADDR_LOOPBACK(&list[i]) ||
            memcmp(&list[i], &localhost, sizeof localhost) == 0)
            return false;
    return true;
}

/* A host without any network keeps what the name says. */
static int take_network(const struct zt_meeting *m, struct in6_addr *list, int count, struct zt_err *err) {
    struct in6_addr own[ZT_MEETING_ADDRESSES];
    char text[INET6_ADDRSTRLEN];
    int interfaces, found = zt_addresses(own, ZT_MEETING_ADDRESSES, &interfaces);
    if (interfaces <= 1) {
        memcpy(list, own, (size_t)found * sizeof *own);
        return found ? found : count;
    }
    struct zt_text all = { 0 };
    for (int i = 0; i < found; i++)
        zt_text_add(&all, "%s%s", i ? ", " : "", zt_address_text(&own[i], text));
    zt_fail(err, ZT_EXIT_CONFIG, "MASTER_ADDR=%s is %s on this host, an address that other hosts cannot reach",
            m->address, zt_address_text(&list[0], text));
    zt_hint(err, "set MASTER_ADDR to the address of rank 0's host that the others reach; this host has %s", all.at);
    zt_text_finish(&all);
    return -1;
}

static bool check_secret(const struct zt_meeting *m, const struct in6_addr *list, int count, struct zt_err *err) {
    char text[INET6_ADDRSTRLEN];
    for (int i = 0; i < count && !m->secret.given; i++)
        if (!zt_address_is_loopback(&list[i])) {
            zt_fail(err, ZT_EXIT_CONFIG,
                    "MASTER_ADDR=%s (%s) is on a network, where ranks need a secret: " ZT_SECRET_VARIABLE " is not set",
                    m->address, zt_address_text(&list[i], text));
            return zt_secret_hint(err);
        }
    return true;
}

int zt_meeting_addresses(const struct zt_meeting *m, struct in6_addr *to, struct zt_err *err) {
    int count = resolve(m->address, to);
    if (count)
        count = keep(to, count, m->one_host);
    if (count && is_own_name(m, to, count))
        count = take_network(m, to, count, err);
    return count > 0 && !check_secret(m, to, count, err) ? -1 : count;
}
