/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(center_crop_pad)                                                                                               \
    ROW(compress)                                                                                                      \
    ROW(concat)                                                                                                        \
    ROW(constant)                                                                                                      \
    ROW(constant_of_shape)                                                                                             \
    ROW(depth_to_space)                                                                                                \
    ROW(expand)                                                                                                        \
    ROW(eye_like)                                                                                                      \
    ROW(flatten)                                                                                                       \
    ROW(gather)                                                                                                        \
    ROW(gather_elements)                                                                                               \
    ROW(gather_elements_grad)                                                                                          \
    ROW(gather_grad)                                                                                                   \
    ROW(gather_nd)                                                                                                     \
    ROW(gather_nd_grad)                                                                                                \
    ROW(identity)                                                                                                      \
    ROW(non_zero)                                                                                                      \
    ROW(one_hot)                                                                                                       \
    ROW(pad)                                                                                                           \
    ROW(pad_11)                                                                                                        \
    ROW(pad_2)                                                                                                         \
    ROW(pad_grad)                                                                                                      \
    ROW(range)                                                                                                         \
    ROW(range_11)                                                                                                      \
    ROW(reorder)                                                                                                       \
    ROW(reshape)                                                                                                       \
    ROW(reverse_sequence)                                                                                              \
    ROW(scatter)                                                                                                       \
    ROW(scatter_elements)                                                                                              \
    ROW(scatter_elements_11)                                                                                           \
    ROW(scatter_nd)                                                                                                    \
    ROW(scatter_nd_11)                                                                                                 \
    ROW(shape)                                                                                                         \
    ROW(shape_1)                                                                                                       \
    ROW(size)                                                                                                          \
    ROW(slice)                                                                                                         \
    ROW(slice_1)                                                                                                       \
    ROW(slice_grad)                                                                                                    \
    ROW(space_to_depth)                                                                                                \
    ROW(split)                                                                                                         \
    ROW(split_13)                                                                                                      \
    ROW(split_2)                                                                                                       \
    ROW(squeeze)                                                                                                       \
    ROW(squeeze_1)                                                                                                     \
    ROW(tensor_scatter)                                                                                                \
    ROW(tile)                                                                                                          \
    ROW(tile_grad)                                                                                                     \
    ROW(transpose)                                                                                                     \
    ROW(trilu)                                                                                                         \
    ROW(unique)                                                                                                        \
    ROW(unsqueeze)                                                                                                     \
    ROW(unsqueeze_1)

ZT_ROWS(movement, ROWS)
