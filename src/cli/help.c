#include "cli/help.h"

const char zt_help_train[] =
    "usage: ztrain [train] --model M.onnx --config C.json [OPTIONS]\n"
    "\n"
    "Trains the model and leaves model.onnx, metrics.jsonl, plan.txt and config.resolved.json in the\n"
    "output folder (runs/<model name> unless --output names one), and checkpoints as ztrain.checkpoint\n"
    "says. A folder that holds a run is refused unless --resume or --overwrite is given. --resume goes on\n"
    "from a checkpoint, whatever the number of ranks and the ZeRO stage it was written with. SIGINT,\n"
    "SIGTERM and SIGHUP save a checkpoint and stop (a second one stops at once), SIGUSR1 saves one and goes on.\n"
    "Ranks are started by --ranks, --hostfile, mpirun or srun; on GPUs, and under communicator \"tcp\", also\n"
    "by RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torchrun sets them; beyond loopback\n"
    "all need the same ZTRAIN_SECRET or ZTRAIN_SECRET_FILE.\n"
    "The command line wins over the configuration.\n";

const char zt_help_plan[] =
    "usage: ztrain plan --model M.onnx --config C.json [OPTIONS]\n"
    "\n"
    "Prints what training would run: programs, slices, bytes per rank and lifetime, collectives and their\n"
    "volume per step, the predicted time of a step. Runs nothing, reads no weights, and needs neither\n"
    "devices nor data. --device cuda plans for the GPU that is here, where one is: then the plan says which\n"
    "of cuDNN, cuBLASLt and our own kernels runs each node, and why.\n";

const char zt_help_inspect[] =
    "usage: ztrain inspect --model M.onnx\n"
    "\n"
    "Prints inputs, outputs and their dims, every initializer with the verdict trainable or not and the\n"
    "reason, and the operators used with what ztrain has for each. External data need not be there.\n";

const char zt_help_evaluate[] =
    "usage: ztrain evaluate --model M.onnx --config C.json [OPTIONS]\n"
    "\n"
    "Prints loss and metrics on the evaluation data.\n";

const char zt_help_predict[] =
    "usage: ztrain predict --model M.onnx --inputs SRC --output DIR [OPTIONS]\n"
    "\n"
    "Runs the graph forward, as exported, on whole arrays. SRC is an npz file whose arrays carry the\n"
    "names of the graph's inputs, or a folder of input_0.pb, input_1.pb ... (one TensorProto each, in the\n"
    "graph's order). DIR gets output_N.pb and outputs.npz.\n";

const char zt_help_grad[] =
    "usage: ztrain grad --model M.onnx --inputs SRC --output DIR [OPTIONS]\n"
    "\n"
    "Vector-Jacobian product at the given inputs. SRC as for predict; it may also hold grad_output_N (.pb\n"
    "in a folder), the cotangent of output N: an output without one contributes nothing, none at all\n"
    "means ones. DIR gets grad_input_N.pb for every float input and grad_params.npz with the gradients of\n"
    "the trainable initializers by name.\n"
    "\n"
    "--emit FILE writes what was computed as one ONNX graph of standard operators, at the shapes of this\n"
    "run: inputs are the model's and grad_output_N, outputs the model's, grad_input_N and grad:NAME for\n"
    "each parameter NAME.\n";

const char zt_help_verify[] =
    "usage: ztrain verify CHECKPOINT\n"
    "\n"
    "Checks the files of a checkpoint and every checksum in it, and names what is damaged. CHECKPOINT is\n"
    "a folder step-N, or a run's folder, whose latest one is meant.\n";

const char zt_help_ops[] =
    "usage: ztrain ops [--json]\n"
    "\n"
    "One row an operator: name, domain, opsets, types of the first input, gradient, back ends. Operators\n"
    "of domain ztrain are what its own gradients and losses are made of; no model needs them.\n";

const char zt_help_bench[] =
    "usage: ztrain bench --model M.onnx --config C.json --modes LIST --ranks LIST --output DIR [OPTIONS]\n"
    "\n"
    "Trains every combination of modes, numbers of ranks and batch sizes, each as a process of its own,\n"
    "and says what it costs: time of a step, samples a second, scaling, peak memory (planned and\n"
    "measured), bytes sent, pipeline bubble, the last loss and the hash of the weights. A table goes to\n"
    "stdout; DIR gets results.tsv and index.html, with plots where gnuplot is installed. What the program\n"
    "refuses becomes a row with the reason. Efficiency compares with one rank: have 1 in --ranks.\n";

const char zt_help_diff[] =
    "usage: ztrain diff RUN_A RUN_B\n"
    "\n"
    "Names the first step, rank, node and tensor in which two runs part, from the hashes that training\n"
    "leaves in its output folder under ztrain.hashes (--set ztrain.hashes=N: of every node in the first N\n"
    "steps). The runs may differ in ZeRO stage and pipeline stages; tensors of different shape are\n"
    "counted and not compared. Exit status 0: equal, 1: they differ, or nothing could be compared.\n";

const char zt_help_doctor[] =
    "usage: ztrain doctor\n"
    "\n"
    "One line for each device, library and program that ztrain can use: whether it is there, its version,\n"
    "and how to get it.\n";
