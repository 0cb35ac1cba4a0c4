/* Resolution of MASTER_ADDR: the addresses at which rank 0 listens. */
#ifndef ZT_PARALLEL_COMM_TCP_ADDRESS_H
#define ZT_PARALLEL_COMM_TCP_ADDRESS_H

#include "parallel/comm/comm.h"

#include <netinet/in.h>

enum { ZT_MEETING_ADDRESSES = 8 };

/* The addresses of MASTER_ADDR, the same on rank 0, which listens, and on the ranks that connect:
 *
 *   - with all ranks on one host, the loopback addresses among the name's addresses;
 *   - otherwise its other addresses, if there are any;
 *   - if the name has only a loopback address other than 127.0.0.1 and ::1 (Debian's /etc/hosts maps a host's own name
 *     to 127.0.1.1), the addresses of this host's network. Several networks are an error.
 *
 * Returns the count; 0: the name cannot be resolved at present; -1: an error. An address other than loopback without a
 * secret is an error too. */
int zt_meeting_addresses(const struct zt_meeting *m, struct in6_addr *to, struct zt_err *err);

#endif
