/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(blackman_window)                                                                                               \
    ROW(dft)                                                                                                           \
    ROW(dft_axis_attribute)                                                                                            \
    ROW(hamming_window)                                                                                                \
    ROW(hann_window)                                                                                                   \
    ROW(mel_weight_matrix)                                                                                             \
    ROW(stft)

ZT_ROWS(signal, ROWS)
