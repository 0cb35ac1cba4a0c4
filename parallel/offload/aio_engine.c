#include "parallel/offload/aio_engine.h"

#include <string.h>

bool zt_aio_failed(const struct zt_aio_span *s, int64_t done, int error, struct zt_err *err) {
    return zt_fail(err, ZT_EXIT_DATA, "cannot be %s at byte %lld: %s", s->writes ? "written" : "read",
                   (long long)(s->offset + done), strerror(error));
}

bool zt_aio_ended(const struct zt_aio_span *s, int64_t done, struct zt_err *err) {
    return zt_fail(err, ZT_EXIT_DATA, "%s at byte %lld", s->writes ? "takes no more data" : "ends",
                   (long long)(s->offset + done));
}
