#include "cli/help.h"

const char zt_help_train[] =
    "usage: ztrain [train] --model M.onnx --config C.json [OPTIONS]\n"
    "\n"
    "Trains the model and leaves model.onnx, metrics.jsonl, plan.txt and config.resolved.json in the output folder\n"
    "(runs/<model name> unless --output names one), and checkpoints as ztrain.checkpoint says. A folder that holds a "
    "run "
    "is\n"
    "refused unless --resume or --overwrite is given. --resume goes on from a checkpoint, whatever the number of ranks "
    "and\n"
    "the ZeRO stage it was written with. SIGINT and SIGTERM save a checkpoint and stop (a second one stops at once), "
    "SIGUSR1\n"
    "saves one and goes on.\n"
    "Ranks are started by --ranks, --hostfile, mpirun or srun, on GPUs also by RANK, WORLD_SIZE, LOCAL_RANK, "
    "MASTER_ADDR "
    "and\n"
    "MASTER_PORT, as torchrun sets them.\n"
    "The command line wins over the configuration.\n";

const char zt_help_plan[] =
    "usage: ztrain plan --model M.onnx --config C.json [OPTIONS]\n"
    "\n"
    "Prints what training would run: programs, slices, bytes per rank and lifetime, collectives and\n"
    "their volume per step, the predicted time of a step. Runs nothing, reads no weights,\n"
    "and needs neither devices nor data.\n";

const char zt_help_inspect[] =
    "usage: ztrain inspect --model M.onnx\n"
    "\n"
    "Prints inputs, outputs and their dims, every initializer with the verdict trainable or not and the reason, and "
    "the\n"
    "operators used with what ztrain has for each. External data need not be there.\n";

const char zt_help_evaluate[] =
    "usage: ztrain evaluate --model M.onnx --config C.json [OPTIONS]\n"
    "\n"
    "Prints loss and metrics on the evaluation data.\n";

const char zt_help_predict[] =
    "usage: ztrain predict --model M.onnx --inputs SRC --output DIR [OPTIONS]\n"
    "\n"
    "Runs the graph forward, as exported, on whole arrays. SRC is an npz file whose arrays carry the names of the "
    "graph's\n"
    "inputs, or a folder of input_0.pb, input_1.pb ... (one TensorProto each, in the graph's order). DIR gets "
    "output_N.pb\n"
    "and outputs.npz.\n";

const char zt_help_grad[] =
    "usage: ztrain grad --model M.onnx --inputs SRC --output DIR [OPTIONS]\n"
    "\n"
    "Vector-Jacobian product at the given inputs. SRC as for predict; it may also hold grad_output_N (.pb in a "
    "folder), the\n"
    "cotangent of output N: an output without one contributes nothing, none at all means ones. DIR gets "
    "grad_input_N.pb\n"
    "for every float input and grad_params.npz with the gradients of the trainable initializers by name.\n"
    "\n"
    "--emit FILE writes what was computed as one ONNX graph of standard operators, at the shapes of this run: inputs "
    "are "
    "the\n"
    "model's and grad_output_N, outputs the model's, grad_input_N and grad:NAME for each parameter NAME.\n";

const char zt_help_verify[] =
    "usage: ztrain verify CHECKPOINT\n"
    "\n"
    "Checks the files of a checkpoint and every checksum in it, and names what is damaged. CHECKPOINT is a folder "
    "step-N, or\n"
    "a run's folder, whose latest one is meant.\n";

const char zt_help_ops[] =
    "usage: ztrain ops [--json]\n"
    "\n"
    "One row an operator: name, domain, opsets, types of the first input, gradient, back ends. Operators of domain "
    "ztrain\n"
    "are what its own gradients and losses are made of; no model needs them.\n";

const char zt_help_bench[] =
    "usage: ztrain bench --model M.onnx --config C.json --modes LIST --ranks LIST --output DIR [OPTIONS]\n"
    "\n"
    "Trains every combination of modes, numbers of ranks and batch sizes, each as a process of its own, and says what "
    "it "
    "costs:\n"
    "time of a step, samples a second, scaling, peak memory (planned and measured), bytes sent, pipeline bubble, the "
    "last "
    "loss and\n"
    "the hash of the weights. A table goes to stdout; DIR gets results.tsv and index.html, with plots where gnuplot is "
    "installed.\n"
    "What the program refuses becomes a row with the reason. Efficiency compares with one rank: have 1 in --ranks.\n";

const char zt_help_diff[] =
    "usage: ztrain diff RUN_A RUN_B\n"
    "\n"
    "Names the first step, rank, node and tensor in which two runs part, from the hashes that training leaves in its "
    "output\n"
    "folder under ztrain.hashes (--set ztrain.hashes=N: of every node in the first N steps). The runs may differ in "
    "ZeRO stage\n"
    "and pipeline stages; tensors of different shape are counted and not compared. Exit status 0: equal, 1: they "
    "differ, or\n"
    "nothing could be compared.\n";

const char zt_help_doctor[] =
    "usage: ztrain doctor\n"
    "\n"
    "One line for each device, library and program that ztrain can use: whether it is there, its version, and how to "
    "get "
    "it.\n";
