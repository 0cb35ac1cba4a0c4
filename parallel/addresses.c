#include "parallel/addresses.h"

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
    if (!from->ifa_addr || !(from->ifa_flags & IFF_UP) || from->ifa_flags & IFF_LOOPBACK)
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

int zt_addresses(struct in6_addr *to, int most) {
    struct ifaddrs *all = NULL;
    int count = 0;
    if (getifaddrs(&all) != 0)
        return 0;
    for (const struct ifaddrs *at = all; at && count < most; at = at->ifa_next)
        count += read_address(at, &to[count]);
    freeifaddrs(all);
    return count;
}

int zt_bind_all(int type, uint16_t *port, bool *six) {
    int yes = 1, no = 0, flags = type | SOCK_CLOEXEC | SOCK_NONBLOCK, fd = socket(AF_INET6, flags, 0);
    struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any, .sin6_port = htons(*port) };
    struct sockaddr_in old = { .sin_family = AF_INET, .sin_port = htons(*port) };
    socklen_t size = sizeof at;
    *six = fd >= 0;
    if (!*six) /* a host without IPv6 */
        fd = socket(AF_INET, flags, 0);
    if (fd < 0)
        return -1;
    if (type == SOCK_STREAM)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (*six)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(fd, *six ? (void *)&at : (void *)&old, *six ? sizeof at : sizeof old) == 0 &&
        getsockname(fd, (struct sockaddr *)&at, &size) == 0) {
        *port = ntohs(at.sin6_port); /* at the same place in both kinds */
        return fd;
    }
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}
