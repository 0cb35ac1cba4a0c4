/* The families of operators: one folder of ops/ each. */
#ifndef ZT_OPS_FAMILIES_H
#define ZT_OPS_FAMILIES_H

#define ZT_FAMILIES(FAMILY)                                                                                            \
    FAMILY(elementwise)                                                                                                \
    FAMILY(reduce)                                                                                                     \
    FAMILY(softmax)                                                                                                    \
    FAMILY(sequence)                                                                                                   \
    FAMILY(movement)                                                                                                   \
    FAMILY(random)                                                                                                     \
    FAMILY(matmul)                                                                                                     \
    FAMILY(pool)                                                                                                       \
    FAMILY(conv)                                                                                                       \
    FAMILY(norm)                                                                                                       \
    FAMILY(norm_slices)                                                                                                \
    FAMILY(quantize)                                                                                                   \
    FAMILY(attention)                                                                                                  \
    FAMILY(linear_attention)                                                                                           \
    FAMILY(recurrent)                                                                                                  \
    FAMILY(resample)                                                                                                   \
    FAMILY(detection)                                                                                                  \
    FAMILY(signal)                                                                                                     \
    FAMILY(ml)                                                                                                         \
    FAMILY(loss)                                                                                                       \
    FAMILY(control)                                                                                                    \
    FAMILY(training)                                                                                                   \
    FAMILY(lowered)                                                                                                    \
    FAMILY(fusion)

#endif
