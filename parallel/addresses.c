#include "parallel/addresses.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <string.h>

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
