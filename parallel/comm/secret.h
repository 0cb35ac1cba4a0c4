/* The shared secret of a job's ranks: ZTRAIN_SECRET (a text) or ZTRAIN_SECRET_FILE (a file with a text). The secret is
 * neither transmitted nor printed; a key is derived from it (mac.h). */
#ifndef ZT_PARALLEL_COMM_SECRET_H
#define ZT_PARALLEL_COMM_SECRET_H

#include "base/err.h"
#include "parallel/comm/mac.h"

#define ZT_SECRET_VARIABLE      "ZTRAIN_SECRET"
#define ZT_SECRET_FILE_VARIABLE "ZTRAIN_SECRET_FILE"

enum { ZT_SECRET_LEAST = 16, ZT_SECRET_MOST = 4096 }; /* bytes */

struct zt_secret {
    bool given; /* false: `key` is derived from the empty text, which is public */
    unsigned char key[ZT_MAC];
};

/* Reads the secret and removes it from the environment, so that child processes do not inherit it. White space at the
 * end is ignored. Errors: both variables are set; the text is shorter or longer than the limits; the file is no regular
 * file, belongs to another user, or is readable or writable by others. */
bool zt_secret_find(struct zt_secret *secret, struct zt_err *err);
/* Adds a hint that tells the user how to set a secret; returns false. */
bool zt_secret_hint(struct zt_err *err);

#endif
