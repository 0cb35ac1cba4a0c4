#include "config/meanings/meanings.h"

const struct zt_meaning zt_meanings_ztrain[] = {
    { 0 },
};
