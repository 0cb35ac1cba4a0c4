#include "cli/help.h"

const char zt_help_train[] =
    "usage: ztrain [train] --model M.onnx --config C.json [OPTIONS]\n"
    "\n"
    "Trains the model and writes model.onnx, metrics.jsonl, plan.txt, config.resolved.json and checkpoints\n"
    "to the output folder (default runs/<model name>). The command line overrides the configuration.\n"
    "\n"
    "A folder that holds a run needs --resume or --overwrite. --resume continues from a checkpoint, which\n"
    "may come from another number of ranks or ZeRO stage. --load with --weights-only starts anew from the\n"
    "weights of a checkpoint or model, by name and shape. SIGINT, SIGTERM and SIGHUP save a checkpoint and\n"
    "stop (a second one stops at once); SIGUSR1 saves a checkpoint and continues.\n"
    "\n"
    "--ranks, --hostfile, mpirun or srun start ranks. On GPUs, and with communicator \"tcp\", RANK,\n"
    "WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT also set them, as torchrun does. Ranks on several\n"
    "hosts then need the same ZTRAIN_SECRET or ZTRAIN_SECRET_FILE.\n";

const char zt_help_plan[] =
    "usage: ztrain plan --model M.onnx --config C.json [OPTIONS]\n"
    "\n"
    "Prints the plan of a training run: bytes per rank and lifetime, predicted time of a step, collectives\n"
    "and their volume per step, slices, programs. It runs nothing, reads no weights, and needs neither\n"
    "devices nor data. With --device cuda it plans for a GPU; if this host has one, the plan shows which of\n"
    "cuDNN, cuBLASLt and our own kernels runs each node, and why. --json prints layout, bytes and times as\n"
    "one object.\n";

const char zt_help_inspect[] =
    "usage: ztrain inspect --model M.onnx [OPTIONS]\n"
    "\n"
    "Prints inputs, outputs and their shapes, every initializer, whether it is trainable and the\n"
    "reason, and the operators with their support in ztrain. External data are not needed.\n";

const char zt_help_evaluate[] =
    "usage: ztrain evaluate --model M.onnx --config C.json [OPTIONS]\n"
    "\n"
    "Prints loss and metrics of the evaluation data. It runs on one rank, whatever number of ranks and\n"
    "stages the configuration is for.\n";

const char zt_help_predict[] =
    "usage: ztrain predict --model M.onnx --inputs SRC --output DIR [OPTIONS]\n"
    "\n"
    "Runs the graph forward, as exported, on whole arrays. SRC is an npz file whose arrays carry the\n"
    "names of the graph's inputs, or a folder of input_0.pb, input_1.pb ... (one TensorProto each, in the\n"
    "graph's order). The results are DIR/output_N.pb and DIR/outputs.npz.\n";

const char zt_help_grad[] =
    "usage: ztrain grad --model M.onnx --inputs SRC --output DIR [OPTIONS]\n"
    "\n"
    "Computes the vector-Jacobian product at the given inputs. SRC is as for predict; it may also hold\n"
    "grad_output_N (.pb in a folder), the cotangent of output N. Without any, all are ones; otherwise\n"
    "missing ones are zeros. DIR gets grad_input_N.pb for every float input and grad_params.npz with the\n"
    "gradients of the trainable initializers by name.\n"
    "\n"
    "--emit FILE writes the computation as one ONNX graph of standard operators, for the shapes of this\n"
    "run. Its inputs are those of the model and grad_output_N, its outputs those of the model, grad_input_N\n"
    "and grad:NAME for each parameter NAME.\n";

const char zt_help_verify[] =
    "usage: ztrain verify CHECKPOINT\n"
    "\n"
    "Checks the files of a checkpoint and every checksum in it, and lists all damage. CHECKPOINT is\n"
    "a folder step-N, or the folder of a run, which means its latest checkpoint.\n";

const char zt_help_tune_nvme[] =
    "usage: ztrain tune-nvme DIR\n"
    "\n"
    "Measures how fast the device of folder DIR reads and writes with different values of the keys of aio\n"
    "(block_size, queue_depth, intra_op_parallelism, single_submit, overlap_events), for some 20 seconds,\n"
    "in a file of 268 MB that it removes. Prints the best rates and the aio object of the configuration\n"
    "with which offload to NVMe reaches them; the measurements go to standard error.\n";

const char zt_help_ops[] =
    "usage: ztrain ops [--json]\n"
    "\n"
    "Prints one row per operator: name, domain, opsets, types of the first input, gradient, back ends.\n"
    "Operators of domain ztrain implement gradients and losses; models do not contain them.\n";

const char zt_help_bench[] =
    "usage: ztrain bench --model M.onnx --config C.json --modes LIST --ranks LIST --output DIR [OPTIONS]\n"
    "\n"
    "Trains every combination of modes, numbers of ranks and batch sizes, each in its own process,\n"
    "and reports its cost: time of a step, samples per second, scaling, peak memory (planned and\n"
    "measured), bytes sent, pipeline bubble, the last loss and the hash of the weights. A table goes to\n"
    "stdout; DIR gets results.tsv and index.html, with plots if gnuplot is installed. A combination that\n"
    "cannot run becomes a row with the reason. Efficiency compares with one rank: include 1 in --ranks.\n";

const char zt_help_report[] =
    "usage: ztrain report RUN [RUN ...] [--output DIR]\n"
    "\n"
    "Writes one page with the loss, learning rate, accuracy, throughput, memory and gradient norm of a run\n"
    "over its steps. RUN is the output folder of a run, which may still be running. The curves of several\n"
    "runs share their axes. The page is one self-contained file: report.html in the first folder, or in\n"
    "DIR. Its path goes to stdout.\n";

const char zt_help_diff[] =
    "usage: ztrain diff RUN_A RUN_B\n"
    "\n"
    "Prints the first step, rank, node and tensor in which two runs differ. It reads the hashes that\n"
    "training writes to its output folder with ztrain.hashes (--set ztrain.hashes=N: of every node in the\n"
    "first N steps). The runs may use different ZeRO and pipeline stages; tensors of different shape are\n"
    "counted and not compared. Exit status 0: equal; 1: they differ, or nothing could be compared.\n";

const char zt_help_doctor[] =
    "usage: ztrain doctor\n"
    "\n"
    "Prints one line for each device, library and program that ztrain can use: whether it is installed,\n"
    "its version, and how to install it.\n";

const char zt_help_help[] =
    "usage: ztrain help [COMMAND] [--man | --completions SHELL | --keys]\n"
    "\n"
    "Prints the commands, or the help of one. --man prints the manual page for man(1), --completions the\n"
    "completions of a shell, which `ninja install` puts where bash, zsh and fish look for them, and --keys\n"
    "the keys of the configuration with their types, ranges, defaults and meanings.\n";
