/* How other hosts may know this one. */
#ifndef ZT_PARALLEL_ADDRESSES_H
#define ZT_PARALLEL_ADDRESSES_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

/* The addresses of the interfaces that are up, up to `most`, but for loopback and those that name a host on one link
 * only; those of IPv4 in their form of IPv6. Returns how many there are. */
int zt_addresses(struct in6_addr *to, int most);
/* That form, of an address in network order. */
struct in6_addr zt_address_of_ipv4(struct in_addr at);

/* A socket of `type` (SOCK_STREAM, SOCK_DGRAM), non-blocking and closed on exec, at *port of every address of this
 * host, of either kind; *port 0: any, it becomes the one. *six: it takes addresses of IPv6, IPv4's in their form; else
 * the host has IPv4 alone. -1 with errno where there is none. */
int zt_bind_all(int type, uint16_t *port, bool *six);

#endif
