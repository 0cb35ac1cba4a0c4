#include "base/sort.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void zt_sort_doubles(double *at, int count) {
    if (count > 1)
        qsort(at, (size_t)count, sizeof *at, ascending);
}
