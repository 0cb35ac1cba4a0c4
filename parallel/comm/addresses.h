/* IP addresses of this host, and listening sockets. Functions use IPv6 addresses; an IPv4 address is IPv4-mapped. */
#ifndef ZT_PARALLEL_COMM_ADDRESSES_H
#define ZT_PARALLEL_COMM_ADDRESSES_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Lists the addresses of the interfaces that are up and running, at most `most`, without loopback and link-local
 * addresses. Returns the number of addresses; *interfaces (may be NULL) becomes the number of interfaces. */
int zt_addresses(struct in6_addr *to, int most, int *interfaces);
/* The IPv4-mapped form of an address in network byte order. */
struct in6_addr zt_address_of_ipv4(struct in_addr at);

/* Whether the address is in 127.0.0.0/8 or is ::1. */
bool zt_address_is_loopback(const struct in6_addr *at);
/* Writes the numeric form to `to`, which has room for INET6_ADDRSTRLEN bytes, and returns `to`. */
char *zt_address_text(const struct in6_addr *at, char *to);
/* Local and remote address of a socket; all zero: none. */
struct in6_addr zt_address_here(int fd);
struct in6_addr zt_address_there(int fd);

struct zt_sockaddr {
    struct sockaddr_storage at;
    socklen_t bytes;
};
/* The socket address of an address and a port (host byte order). */
struct zt_sockaddr zt_sockaddr_of(const struct in6_addr *at, uint16_t port);

/* A listening socket, non-blocking and close-on-exec, at one address and *port. If *port is 0, the system chooses a
 * port, which is stored in *port. -1 with errno: failed. */
int zt_listen_at(const struct in6_addr *at, uint16_t *port);
/* A datagram socket, non-blocking and close-on-exec, at all addresses of this host and a port that the system chooses
 * and stores in *port. *six: the socket takes IPv6 and IPv4-mapped addresses; false: the host only has IPv4. -1:
 * failed. */
int zt_bind_datagrams(uint16_t *port, bool *six);

#endif
