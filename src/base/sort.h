#ifndef ZT_BASE_SORT_H
#define ZT_BASE_SORT_H

/* Puts numbers, none of them NaN, in ascending order. */
void zt_sort_doubles(double *at, int count);

#endif
