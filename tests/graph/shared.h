/* The reference folder, which lies beside the tree and may be absent. */
#ifndef ZT_TESTS_GRAPH_SHARED_H
#define ZT_TESTS_GRAPH_SHARED_H

#include <stdbool.h>

/* Path of `name` in the reference folder, free with free(). NULL, and a line that says so, where the folder is absent.
 */
char *zt_test_shared(const char *name);
/* Calls `run` with the folder of every reference case; false where there are none. */
bool zt_test_each_case(void (*run)(const char *folder));

#endif
