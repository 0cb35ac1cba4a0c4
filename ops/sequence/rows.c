/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(concat_from_sequence)                                                                                          \
    ROW(optional)                                                                                                      \
    ROW(optional_get_element)                                                                                          \
    ROW(optional_has_element)                                                                                          \
    ROW(optional_has_element_15)                                                                                       \
    ROW(sequence_at)                                                                                                   \
    ROW(sequence_construct)                                                                                            \
    ROW(sequence_empty)                                                                                                \
    ROW(sequence_erase)                                                                                                \
    ROW(sequence_insert)                                                                                               \
    ROW(sequence_length)                                                                                               \
    ROW(sequence_map)                                                                                                  \
    ROW(split_to_sequence)

ZT_ROWS(sequence, ROWS)
