/* Sorting of numbers. */
#ifndef ZT_BASE_SORT_H
#define ZT_BASE_SORT_H

/* Sorts `count` numbers in ascending order. None may be NaN. */
void zt_sort_doubles(double *at, int count);

#endif
