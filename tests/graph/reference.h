/* The files of tests/reference. */
#ifndef ZT_TESTS_GRAPH_REFERENCE_H
#define ZT_TESTS_GRAPH_REFERENCE_H

/* Path of `name` in tests/reference, whose folder $ZT_REFERENCE names; free with free(). */
char *zt_test_reference(const char *name);
/* Calls `run` with the folder of every reference case; there is at least one. */
void zt_test_each_case(void (*run)(const char *folder));

#endif
