#include "tests/ops/cases.h"

#include <stddef.h>

/* Letters as in ops/recurrent.h: 5 steps, 3 rows, 2 inputs, 4 hidden units. */
#define X                   "float[5,3,2] "
#define X_ROWS              "float[3,5,2] "
#define LENGTHS             "int32{5,2,4} "
#define WEIGHTS(d, wide)    "float[" d "," wide ",2] float[" d "," wide ",4] "
#define ALL(d, wide, twice) WEIGHTS(d, wide) "float[" d "," twice "] "
#define STATE(d)            "float[" d ",3,4] "
#define PEEP(d)             "float[" d ",12]"

/* Directions, initial states, lengths (whole, cut, none at all), layouts, clip, functions with numbers, the switches,
 * peepholes; outputs alone and together; one of everything and empty ones. */
const struct zt_case zt_cases_recurrent[] = {
    { "LSTM", X WEIGHTS("1", "16"), .grad = 7 },
    { "LSTM", X ALL("1", "16", "32") "- " STATE("1") STATE("1") PEEP("1"), .outs = 3, .grad = 0xef },
    { "LSTM", X ALL("2", "16", "32") LENGTHS STATE("2") STATE("2") PEEP("2"), .attrs = "direction=bidirectional",
      .outs = 3, .grad = 0xef },
    { "LSTM", X ALL("1", "16", "32") LENGTHS STATE("1") STATE("1"), .attrs = "direction=reverse hidden_size=4",
      .outs = 3, .grad = 0x6f },
    { "LSTM", X_ROWS ALL("2", "16", "32") LENGTHS "float[3,2,4] float[3,2,4] " PEEP("2"),
      .attrs = "direction=bidirectional layout=1", .outs = 3, .grad = 0xef },
    { "LSTM", X ALL("1", "16", "32") "- " STATE("1") STATE("1") PEEP("1"), .attrs = "input_forget=1", .outs = 3,
      .grad = 0xef },
    { "LSTM", X ALL("1", "16", "32") "- " STATE("1") STATE("1"), .attrs = "clip=0.7", .outs = 3, .grad = 0x6f },
    { "LSTM", X ALL("1", "16", "32"),
      .attrs = "activations=[HardSigmoid,ScaledTanh,Softsign] activation_alpha=[0.3,1.5] activation_beta=[0.4,0.8]",
      .outs = 3, .grad = 0xf },
    { "LSTM", X ALL("2", "16", "32"),
      .attrs = "direction=bidirectional activations=[Sigmoid,Elu,Tanh,Sigmoid,LeakyRelu,Softplus] "
               "activation_alpha=[0.3,0.2]",
      .outs = 3, .grad = 0xf },
    { "LSTM", X WEIGHTS("1", "16") "- int32{0,5,1} " STATE("1") STATE("1"), .outs = 3, .grad = 0x67 },
    { "LSTM", X WEIGHTS("1", "16"), .opset = 7, .outs = 2, .grad = 7 },
    { "LSTM", "float[1,1,1] float[1,4,1] float[1,4,1] float[1,8]", .outs = 3, .grad = 0xf },
    { "LSTM", "float[0,3,2] " WEIGHTS("1", "16") "- - " STATE("1") STATE("1"), .outs = 3 },
    { "LSTM", "float[5,0,2] " WEIGHTS("1", "16"), .outs = 3 },
    { "LSTM", "float[7,40,30] float[1,400,30] float[1,400,100] float[1,800]", .outs = 3, .tolerance = 1e-4 },
    { "LSTM", "float16[5,3,2] float16[1,16,2] float16[1,16,4] float16[1,32]", .outs = 3 },
    { "LSTM", "double[5,3,2] double[1,16,2] double[1,16,4] double[1,32]", .outs = 3 },
    { "LSTM", "bfloat16[5,3,2] bfloat16[1,16,2] bfloat16[1,16,4]" },
    { "GRU", X WEIGHTS("1", "12"), .grad = 7 },
    { "GRU", X ALL("2", "12", "24") LENGTHS STATE("2"), .attrs = "direction=bidirectional", .outs = 2, .grad = 0x2f },
    { "GRU", X ALL("2", "12", "24") LENGTHS STATE("2"), .attrs = "direction=bidirectional linear_before_reset=1",
      .outs = 2, .grad = 0x2f },
    { "GRU", X ALL("1", "12", "24") "- " STATE("1"), .attrs = "direction=reverse linear_before_reset=1", .outs = 2,
      .grad = 0x2f },
    { "GRU", X_ROWS ALL("1", "12", "24") LENGTHS "float[3,1,4]", .attrs = "layout=1", .outs = 2, .grad = 0x2f },
    { "GRU", X ALL("1", "12", "24") "- " STATE("1"), .attrs = "clip=0.5 linear_before_reset=1", .outs = 2,
      .grad = 0x2f },
    { "GRU", X ALL("1", "12", "24"), .attrs = "activations=[HardSigmoid,Affine] activation_alpha=[0.3,0.9]", .outs = 2,
      .grad = 0xf },
    { "GRU", X WEIGHTS("1", "12") "- int32{0,5,1} " STATE("1"), .outs = 2, .grad = 0x27 },
    { "GRU", X WEIGHTS("1", "12"), .opset = 7, .outs = 2, .grad = 7 },
    { "GRU", "float[7,40,30] float[1,300,30] float[1,300,100] float[1,600]", .outs = 2, .tolerance = 1e-4 },
    { "GRU", "float16[5,3,2] float16[1,12,2] float16[1,12,4]", .attrs = "linear_before_reset=1" },
    { "RNN", X WEIGHTS("1", "4"), .grad = 7 },
    { "RNN", X ALL("2", "4", "8") LENGTHS STATE("2"), .attrs = "direction=bidirectional", .outs = 2, .grad = 0x2f },
    { "RNN", X_ROWS ALL("1", "4", "8") LENGTHS "float[3,1,4]", .attrs = "layout=1 direction=reverse", .outs = 2,
      .grad = 0x2f },
    { "RNN", X ALL("2", "4", "8"),
      .attrs = "direction=bidirectional activations=[ThresholdedRelu,relu] activation_alpha=[0.1] clip=0.9", .outs = 2,
      .grad = 0xf },
    { "RNN", X WEIGHTS("1", "4"), .opset = 7, .outs = 2, .grad = 7 },
    { "RNN", "float16[5,3,2] float16[1,4,2] float16[1,4,4]" },
    { "GridSample", "float[2,3,5,4] float[2,3,6,2]:-1.3..1.3", .grad = 3 },
    { "GridSample", "float[2,3,5,4] float[2,3,6,2]:-1.3..1.3", .attrs = "align_corners=1 padding_mode=border",
      .grad = 3 },
    { "GridSample", "float[2,3,5,4] float[2,3,6,2]:-4..4", .attrs = "padding_mode=reflection", .grad = 3 },
    { "GridSample", "float[2,3,5,4] float[2,3,6,2]:-4..4", .attrs = "align_corners=1 padding_mode=reflection",
      .grad = 3 },
    { "GridSample", "float[2,3,5,4] float[2,3,6,2]:-1.3..1.3", .attrs = "mode=cubic", .grad = 3 },
    { "GridSample", "float[2,3,5,4] float[2,3,6,2]:-3..3", .attrs = "mode=cubic padding_mode=reflection", .grad = 3 },
    { "GridSample", "float[2,3,5,4] float[2,3,6,2]:-1.3..1.3", .attrs = "mode=bicubic padding_mode=border", .opset = 16,
      .grad = 3 },
    { "GridSample", "float[2,3,5,4] float[2,3,6,2]:-1.3..1.3", .attrs = "mode=nearest", .grad = 1 },
    { "GridSample", "float[2,3,5,4] float[2,3,6,2]:-3..3", .attrs = "mode=nearest padding_mode=reflection", .grad = 1 },
    { "GridSample", "float[1,2,3,5,4] float[1,2,3,6,3]:-1.3..1.3", .grad = 3 },
    { "GridSample", "float[1,2,3,5,4] float[1,2,3,6,3]:-1.3..1.3", .attrs = "mode=cubic align_corners=1", .grad = 3 },
    { "GridSample", "float[2,3,9] float[2,7,1]:-2..2", .attrs = "padding_mode=border", .grad = 3 },
    { "GridSample", "float[1,1,1,1] float[1,3,1,2]:-2..2", .attrs = "padding_mode=reflection align_corners=1" },
    { "GridSample", "float[2,3,5,4] float[2,0,6,2]" },
    { "GridSample", "float[0,3,5,4] float[0,2,6,2]" },
    { "GridSample", "int32[2,3,5,4] float[2,3,6,2]:-1.3..1.3", .attrs = "mode=nearest" },
    { "GridSample", "float16[2,3,5,4] float16[2,3,6,2]:-1.3..1.3", .tolerance = 2e-2 },
    { NULL },
};
