/* Where the ranks of a meeting find rank 0. */
#ifndef ZT_PARALLEL_COMM_TCP_ADDRESS_H
#define ZT_PARALLEL_COMM_TCP_ADDRESS_H

#include "parallel/comm/comm.h"

#include <netinet/in.h>

enum { ZT_MEETING_ADDRESSES = 8 };

/* The addresses that MASTER_ADDR means, the same for the rank that listens at them and for those that dial them:
 *
 *     those of the name; of these loopback ones alone where all ranks are on one host, else the others where there are
 * any a name that is another loopback address than 127.0.0.1 and ::1 alone, as Debian's /etc/hosts has a host's own
 *     (127.0.1.1): the addresses of this host's network; an error where it has several networks
 *
 * Returns how many. 0: the name is not known, now. -1 with an error; also where one of them is beyond loopback and the
 * meeting has no secret. */
int zt_meeting_addresses(const struct zt_meeting *m, struct in6_addr *to, struct zt_err *err);

#endif
