/* The rows of this family. */
#include "ops/kernel/rows.h"

#define ROWS(ROW)                                                                                                      \
    ROW(gru)                                                                                                           \
    ROW(gru_7)                                                                                                         \
    ROW(gru_grad)                                                                                                      \
    ROW(gru_train)                                                                                                     \
    ROW(lstm)                                                                                                          \
    ROW(lstm_7)                                                                                                        \
    ROW(lstm_grad)                                                                                                     \
    ROW(lstm_train)                                                                                                    \
    ROW(rnn)                                                                                                           \
    ROW(rnn_7)                                                                                                         \
    ROW(rnn_grad)                                                                                                      \
    ROW(rnn_train)

ZT_ROWS(recurrent, ROWS)
