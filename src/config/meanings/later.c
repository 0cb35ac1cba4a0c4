#include "config/meanings/meanings.h"

const struct zt_meaning zt_meanings_later[] = {
    { 0 },
};
