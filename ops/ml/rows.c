/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(array_feature_extractor)                                                                                       \
    ROW(binarizer)                                                                                                     \
    ROW(scaler)                                                                                                        \
    ROW(tf_idf_vectorizer)                                                                                             \
    ROW(tree_ensemble)

ZT_ROWS(ml, ROWS)
