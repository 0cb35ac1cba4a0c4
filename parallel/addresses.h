/* How other hosts may know this one. */
#ifndef ZT_PARALLEL_ADDRESSES_H
#define ZT_PARALLEL_ADDRESSES_H

#include <netinet/in.h>

/* The addresses of the interfaces that are up, up to `most`, but for loopback and those that name a host on one link
 * only; those of IPv4 in their form of IPv6. Returns how many there are. */
int zt_addresses(struct in6_addr *to, int most);
/* That form, of an address in network order. */
struct in6_addr zt_address_of_ipv4(struct in_addr at);

#endif
