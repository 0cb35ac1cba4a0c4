#include "config/meanings/meanings.h"

const struct zt_meaning zt_meanings_zero[] = {
    { 0 },
};
