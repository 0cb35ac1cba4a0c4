#include "cli/help.h"

const char zt_help_train[] =
    "usage: ztrain [train] --model M.onnx --config C.json [OPTIONS]\n"
    "\n"
    "Trains the model and leaves model.onnx, metrics.jsonl, plan.txt and config.resolved.json in the\n"
    "output folder (runs/<model name> unless --output names one), and checkpoints as ztrain.checkpoint\n"
    "says. A folder that holds a run needs --resume or --overwrite. --resume continues\n"
    "from a checkpoint, which may come from another number of ranks or ZeRO stage. --load with\n"
    "--weights-only starts anew from the weights of a checkpoint or model, by name and shape. SIGINT,\n"
    "SIGTERM and SIGHUP save a checkpoint and stop (a second one stops at once), SIGUSR1 saves one and continues.\n"
    "--ranks, --hostfile, mpirun or srun start ranks. On GPUs, and with communicator \"tcp\", ranks can also\n"
    "be set by RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torchrun does. Between hosts\n"
    "all ranks then need the same ZTRAIN_SECRET or ZTRAIN_SECRET_FILE.\n"
    "The command line overrides the configuration.\n";

const char zt_help_plan[] =
    "usage: ztrain plan --model M.onnx --config C.json [OPTIONS]\n"
    "\n"
    "Prints the plan of a training run: programs, slices, bytes per rank and lifetime, collectives and their\n"
    "volume per step, the predicted time of a step. It runs nothing, reads no weights, and needs neither\n"
    "devices nor data. With --device cuda it plans for a GPU; if this host has one, the plan shows which\n"
    "of cuDNN, cuBLASLt and our own kernels runs each node, and why. --json prints the layout, bytes and times\n"
    "as one object.\n";

const char zt_help_inspect[] =
    "usage: ztrain inspect --model M.onnx\n"
    "\n"
    "Prints inputs, outputs and their shapes, every initializer, whether it is trainable and the\n"
    "reason, and the operators with their support in ztrain. External data are not needed.\n";

const char zt_help_evaluate[] =
    "usage: ztrain evaluate --model M.onnx --config C.json [OPTIONS]\n"
    "\n"
    "Prints loss and metrics of the evaluation data. It runs on one rank, whatever number of ranks and stages\n"
    "the configuration is for.\n";

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
    "missing ones are zeros. DIR gets grad_input_N.pb for every float input and grad_params.npz with the gradients of\n"
    "the trainable initializers by name.\n"
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
    "(block_size, queue_depth, intra_op_parallelism, single_submit, overlap_events), for some 20 seconds, in a file "
    "of\n"
    "268 MB that it removes. Prints the best rates and the aio object of the configuration with which offload to\n"
    "NVMe reaches them; the measurements go to standard error.\n";

const char zt_help_ops[] =
    "usage: ztrain ops [--json]\n"
    "\n"
    "Prints one row per operator: name, domain, opsets, types of the first input, gradient, back ends. Operators\n"
    "of domain ztrain implement gradients and losses; models do not contain them.\n";

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
    "Writes one page with the loss, learning rate, accuracy, throughput, memory and gradient norm of a run over its\n"
    "steps. RUN is the output folder of a run, which may still be running. Several runs are drawn over each\n"
    "other. The page is one file without outside parts: report.html in the first folder, or in DIR. Its path\n"
    "goes to stdout.\n";

const char zt_help_diff[] =
    "usage: ztrain diff RUN_A RUN_B\n"
    "\n"
    "Prints the first step, rank, node and tensor in which two runs differ. It reads the hashes that training\n"
    "writes to its output folder with ztrain.hashes (--set ztrain.hashes=N: of every node in the first N\n"
    "steps). The runs may use different ZeRO and pipeline stages; tensors of different shape are\n"
    "counted and not compared. Exit status 0: equal; 1: they differ, or nothing could be compared.\n";

const char zt_help_doctor[] =
    "usage: ztrain doctor\n"
    "\n"
    "Prints one line for each device, library and program that ztrain can use: whether it is installed, its\n"
    "version, and how to install it.\n";

const char zt_help_help[] =
    "usage: ztrain help [COMMAND] [--man | --completions SHELL | --keys]\n"
    "\n"
    "Prints the commands, or the help of one. --man prints the manual page for man(1), --completions the\n"
    "completions of a shell, which `ninja install` puts where bash, zsh and fish look for them, and --keys\n"
    "the keys of the configuration with their types, ranges, defaults and meanings.\n";
