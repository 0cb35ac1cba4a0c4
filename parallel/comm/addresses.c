#include "parallel/comm/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct in6_addr zt_address_of_ipv4(struct in_addr at) {
    struct in6_addr to = { .s6_addr[10] = 0xff, .s6_addr[11] = 0xff };
    memcpy(&to.s6_addr[12], &at, sizeof at);
    return to;
}

static bool read_address(const struct ifaddrs *from, struct in6_addr *to) {
    if (!from->ifa_addr || (from->ifa_flags & (IFF_UP | IFF_RUNNING)) != (IFF_UP | IFF_RUNNING) ||
        from->ifa_flags & IFF_LOOPBACK)
        return false;
    const void *at = from->ifa_addr;
    if (from->ifa_addr->sa_family == AF_INET)
        *to = zt_address_of_ipv4(((const struct sockaddr_in *)at)->sin_addr);
    else if (from->ifa_addr->sa_family == AF_INET6)
        *to = ((const struct sockaddr_in6 *)at)->sin6_addr;
    else
        return false;
    return !IN6_IS_ADDR_LINKLOCAL(to);
}

int zt_addresses(struct in6_addr *to, int most, int *interfaces) {
    struct ifaddrs *all = NULL;
    const char *name[64];
    int count = 0, names = 0;
    if (interfaces)
        *interfaces = 0;
    if (getifaddrs(&all) != 0)
        return 0;
    for (const struct ifaddrs *at = all; at && count < most; at = at->ifa_next) {
        int known = 0;
        if (!read_address(at, &to[count]))
            continue;
        count++;
        while (known < names && strcmp(name[known], at->ifa_name) != 0)
            known++;
        if (known == names && names < 64)
            name[names++] = at->ifa_name;
    }
    if (interfaces)
        *interfaces = names;
    freeifaddrs(all);
    return count;
}

bool zt_address_is_loopback(const struct in6_addr *at) {
    return IN6_IS_ADDR_LOOPBACK(at) || (IN6_IS_ADDR_V4MAPPED(at) && at->s6_addr[12] == 127);
}

char *zt_address_text(const struct in6_addr *at, char *to) {
    bool old = IN6_IS_ADDR_V4MAPPED(at);
    to[0] = 0;
    inet_ntop(old ? AF_INET : AF_INET6, old ? (const void *)&at->s6_addr[12] : at, to, INET6_ADDRSTRLEN);
    return to;
}

static struct in6_addr address_of(const struct sockaddr_storage *from) {
    const void *at = from;
    if (from->ss_family == AF_INET6)
        return ((const struct sockaddr_in6 *)at)->sin6_addr;
    if (from->ss_family == AF_INET)
        return zt_address_of_ipv4(((const struct sockaddr_in *)at)->sin_addr);
    return in6addr_any;
}

struct in6_addr zt_address_here(int fd) {
    struct sockaddr_storage from = { 0 };
    socklen_t size = sizeof from;
    getsockname(fd, (struct sockaddr *)&from, &size);
    return address_of(&from);
}

struct in6_addr zt_address_there(int fd) {
    struct sockaddr_storage from = { 0 };
    socklen_t size = sizeof from;
    getpeername(fd, (struct sockaddr *)&from, &size);
    return address_of(&from);
}

struct zt_sockaddr zt_sockaddr_of(const struct in6_addr *at, uint16_t port) {
    struct zt_sockaddr to = { .bytes = sizeof(struct sockaddr_in6) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = *at, .sin6_port = htons(port) };
    struct sockaddr_in old = { .sin_family = AF_INET, .sin_port = htons(port) };
    memcpy(&to.at, &six, sizeof six);
    if (!IN6_IS_ADDR_V4MAPPED(at))
        return to;
    memcpy(&old.sin_addr, &at->s6_addr[12], sizeof old.sin_addr);
    to = (struct zt_sockaddr){ .bytes = sizeof old };
    memcpy(&to.at, &old, sizeof old);
    return to;
}

static int close_keeping_errno(int fd) {
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

int zt_listen_at(const struct in6_addr *address, uint16_t *port) {
    struct zt_sockaddr to = zt_sockaddr_of(address, *port);
    struct sockaddr_in6 got;
    socklen_t size = sizeof got;
    int yes = 1, fd = socket(to.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, (struct sockaddr *)&to.at, to.bytes) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&got, &size) != 0)
        return close_keeping_errno(fd);
    *port = ntohs(got.sin6_port); /* at the same place in both kinds */
    return fd;
}

int zt_bind_datagrams(uint16_t *port, bool *six) {
    int no = 0, flags = SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, fd = socket(AF_INET6, flags, 0);
    struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
    struct sockaddr_in old = { .sin_family = AF_INET };
    socklen_t size = sizeof at;
    *six = fd >= 0;
    if (!*six) /* a host without IPv6 */
        fd = socket(AF_INET, flags, 0);
    if (fd < 0)
        return -1;
    if (*six)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(fd, *six ? (void *)&at : (void *)&old, *six ? sizeof at : sizeof old) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) != 0)
        return close_keeping_errno(fd);
    *port = ntohs(at.sin6_port);
    return fd;
}
