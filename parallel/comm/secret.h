/* The secret that the ranks of a job share: ZTRAIN_SECRET, a text, or ZTRAIN_SECRET_FILE, a file that holds one. It
 * never travels and is never printed; what uses it is a key made of it (mac.h). */
#ifndef ZT_PARALLEL_COMM_SECRET_H
#define ZT_PARALLEL_COMM_SECRET_H

#include "base/err.h"
#include "parallel/comm/mac.h"

#define ZT_SECRET_VARIABLE      "ZTRAIN_SECRET"
#define ZT_SECRET_FILE_VARIABLE "ZTRAIN_SECRET_FILE"

enum { ZT_SECRET_LEAST = 16, ZT_SECRET_MOST = 4096 }; /* bytes */

struct zt_secret {
    bool given; /* false: `key` is that of the empty text, which everybody knows */
    unsigned char key[ZT_MAC];
};

/* Reads the environment and takes the secret out of it, so that no process started later has it. Errors: both variables
 * are set; the text is shorter or longer than the limits; the file is no regular file, belongs to another user, or its
 * mode lets others read or write it. White space at the end of the text does not count. */
bool zt_secret_find(struct zt_secret *secret, struct zt_err *err);
/* How a user gives one. */
bool zt_secret_hint(struct zt_err *err);

#endif
