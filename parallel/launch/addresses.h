/* How other hosts may know this one. */
#ifndef ZT_PARALLEL_LAUNCH_ADDRESSES_H
#define ZT_PARALLEL_LAUNCH_ADDRESSES_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* The addresses of the interfaces that are up and have a line, up to `most`, but for loopback and those that name a
 * host on one link only; those of IPv4 in their form of IPv6. Returns how many there are; *interfaces, unless NULL: on
 * how many interfaces. */
int zt_addresses(struct in6_addr *to, int most, int *interfaces);
/* That form, of an address in network order. */
struct in6_addr zt_address_of_ipv4(struct in_addr at);

/* 127.0.0.0/8 and ::1. */
bool zt_address_is_loopback(const struct in6_addr *at);
/* In digits; `to` has room for INET6_ADDRSTRLEN. Returns `to`. */
char *zt_address_text(const struct in6_addr *at, char *to);
/* Of the two ends of a socket, IPv4's in their form of IPv6; all zero where there is none. */
struct in6_addr zt_address_here(int fd);
struct in6_addr zt_address_there(int fd);

struct zt_sockaddr {
    struct sockaddr_storage at;
    socklen_t bytes;
};
struct zt_sockaddr zt_sockaddr_of(const struct in6_addr *at, uint16_t port);

/* A listening socket, non-blocking and closed on exec, at *port of that one address; *port 0: any, it becomes the one.
 * -1 with errno. */
int zt_listen_at(const struct in6_addr *at, uint16_t *port);
/* A socket for datagrams, likewise, at any port, which goes to *port, of every address of this host, of either kind.
 * *six: it takes addresses of IPv6, IPv4's in their form; else the host has IPv4 alone. */
int zt_bind_datagrams(uint16_t *port, bool *six);

#endif
