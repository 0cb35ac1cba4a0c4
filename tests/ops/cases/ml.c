#include "tests/ops/cases.h"

#include <stddef.h>

#define ML .domain = "ai.onnx.ml", .opset = 5
/* Two trees: x[0] <= 0.5 ? (x[1] > -0.25 ? leaf 0 : leaf 1) : leaf 2, and a leaf. */
#define TREES(TYPE, MORE)                                                                                              \
    "nodes_splits=" TYPE                                                                                               \
    "{0.5,-0.25,0.0} nodes_modes=uint8{0,3,1} nodes_featureids=[0,1,0] "                                               \
    "nodes_truenodeids=[1,0,3] nodes_falsenodeids=[2,1,3] nodes_trueleafs=[0,1,1] nodes_falseleafs=[1,1,1] "           \
    "leaf_weights=" TYPE "{0.25,-0.5,1.5,0.75} leaf_targetids=[0,1,2,0] tree_roots=[0,2] n_targets=4 " MORE
#define GRAMS                                                                                                          \
    "max_gram_length=2 min_gram_length=1 max_skip_count=2 ngram_counts=[0,4] ngram_indexes=[0,1,2,3,4,5,6] "           \
    "pool_int64s=[2,3,5,4,5,6,7,8,6,7] "

const struct zt_case zt_cases_ml[] = {
    { "ArrayFeatureExtractor", "float[3,4] int64{1,3}", ML },
    { "ArrayFeatureExtractor", "int32[2,3,4] int64{0,0,2}", ML },
    { "ArrayFeatureExtractor", "double[5] int64{4,1}", ML },
    { "ArrayFeatureExtractor", "int64[0,4] int64(3)", ML },
    { "Binarizer", "float[3,4,5]", .attrs = "threshold=0.5", ML },
    { "Binarizer", "double[300]", ML },
    { "Binarizer", "int32[3,4]", .attrs = "threshold=4.5", ML },
    { "Binarizer", "int64[3,4]:-4..4", .attrs = "threshold=-2.5", ML },
    { "TreeEnsemble", "float[9,2]", .attrs = TREES("float", ""), ML },
    { "TreeEnsemble", "double[9,2]", .attrs = TREES("double", "aggregate_function=0 post_transform=1"), ML },
    { "TreeEnsemble", "float16[9,2]", .attrs = TREES("float16", "aggregate_function=2 post_transform=2"), ML },
    { "TreeEnsemble", "float[0,2]", .attrs = TREES("float", "aggregate_function=3 post_transform=3"), ML },
    { "TreeEnsemble", "float[7,2]", .attrs = TREES("float", "aggregate_function=3 post_transform=4"), ML },
    { "TfIdfVectorizer", "int32[12]:2..8", .attrs = GRAMS "mode=TF" },
    { "TfIdfVectorizer", "int64[3,30]:2..8", .attrs = GRAMS "mode=IDF weights=[0.5,1.0,2.0,0.25,1.5,3.0,0.75]" },
    { "TfIdfVectorizer", "int64[3,30]:2..8", .attrs = GRAMS "mode=TFIDF weights=[0.5,1.0,2.0,0.25,1.5,3.0,0.75]" },
    { "TfIdfVectorizer", "int64[2,0]", .attrs = GRAMS "mode=TF" },
    { NULL },
};
