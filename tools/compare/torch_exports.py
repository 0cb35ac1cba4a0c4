#!/usr/bin/env python3
"""Exports networks of networks.py in several ways and trains them in PyTorch, for tests/exported/check.py.

    tools/compare/torch_exports.py FOLDER NAME...

Each in a process of its own, so that one that fails or takes too long costs no other. Writes into FOLDER: NAME.EXPORT.onnx for each way, NAME.npz with the samples of all steps, and NAME.json: the configuration,
and loss and gradient norm of each step in float64, with the largest distance from it of four float32 runs: the samples of
each batch as they come, and in three other orders, which gives sums another order. The rate of learning is the largest of RATES
with which that distance stays below STEADY, or the last. `measured`: the seconds of a float32 step and the peak of memory.
`any_order`: whether float64 gives the same in another order. NAME.gradients.npz has the first step's gradient of every parameter in float64, and the largest relative distance of float32 from it, in these orders. The ways:

  dynamo         torch.onnx.export(model.eval(), ..., dynamo=True): what most people write
  torchscript    the same with dynamo=False
  dynamo-train   model.train(), optimize=False: what docs/models.md advises
  torchscript-train    TrainingMode.TRAINING, do_constant_folding=False: likewise
  dynamo-dynamic, torchscript-dynamic    the first two with a batch that the file leaves open

The third and fourth are made of the small networks, and of those with BatchNormalization, which the first two fold into convolutions.

Dropout and stochastic depth are off: their random numbers are each side's own. Parameters that are one number throughout
get some noise, so that no exporter merges them; trained ones have it.
"""
import contextlib
import ctypes
import gc
import json
import os
import pathlib
import re
import signal
import sys
import time
import warnings

import numpy as np
import torch
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from networks import BATCH, NETWORKS, SMALL  # noqa: E402

STEPS, RATES, STEADY, MOVES, LIMIT_SECONDS = 4, (1e-2, 1e-3, 1e-4), 1e-3, 8, 600
FIRST = list(range(BATCH))
ORDERS = [FIRST, FIRST[::-1], FIRST[1:] + FIRST[:1], FIRST[2:] + FIRST[:2]]  # of the samples of a batch
M_MMAP_THRESHOLD, TRACE = -3, "pkg.torch.onnx.stack_trace"  # the first of malloc.h
ROUNDING = 1e-12  # of float64's gradients, by the largest
PLAIN, ADVISED = ("dynamo", "torchscript"), ("dynamo-train", "torchscript-train")


def make(name):
    torch.manual_seed(0)
    make_network = NETWORKS[name]
    model, inputs = make_network()
    for module in model.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd) or type(module).__name__ == "StochasticDepth":
            module.p = 0.0
        for place in (module, getattr(module, "config", None)):  # networks that call F.dropout keep its rate there
            for key, value in list(getattr(place, "__dict__", {}).items()):
                if "drop" in key and isinstance(value, float):
                    setattr(place, key, 0.0)
    with torch.no_grad():
        for parameter in model.parameters():
            flat = parameter.flatten()
            if not getattr(make_network, "fresh", False) and flat.numel() > 1 and bool((flat == flat[0]).all()):
                parameter.add_(0.02 * torch.randn_like(parameter))
    return model.float().train(), inputs


def samples(inputs):
    """The inputs of every step: others of the same range."""
    def another(x):
        if x.dtype == torch.bool:
            return torch.rand(x.shape) < 0.5
        return torch.randn_like(x) if x.is_floating_point() else torch.randint(2, int(x.max()) + 1, x.shape, dtype=x.dtype)
    return [inputs] + [tuple(another(x) for x in inputs) for _ in range(STEPS - 1)]


def loss_of(output, target):
    if output.dim() == 0:  # the network computes its own
        return output
    if target.is_floating_point():
        return F.mse_loss(output, target)
    return F.cross_entropy(output.reshape(-1, output.shape[-1]), target.reshape(-1))


def targets(output):
    if output.dim() == 0:
        return [torch.zeros(BATCH) for _ in range(STEPS)]
    if output.dim() in (2, 3):
        return [torch.randint(0, output.shape[-1], output.shape[:-1]) for _ in range(STEPS)]
    return [torch.randn(output.shape) for _ in range(STEPS)]


def begin(name, dtype):
    model, _ = make(name)
    model = model.to(dtype)
    return model, [p for p in model.parameters() if p.requires_grad]


def step(model, trained, inputs, answer, dtype):
    """Loss and gradients."""
    loss = loss_of(*[x.to(dtype) if x.is_floating_point() else x for x in
                     (model(*[x.to(dtype) if x.is_floating_point() else x for x in inputs]), answer)])
    loss.backward()
    return loss.item(), [p.grad.double() for p in trained if p.grad is not None]


def choose_epsilon(name, inputs, answer):
    """The median over the parameters of their gradient's root mean square, of those that are not 0 or as small as rounding leaves them where
    most are. Adam divides by it what is smaller, so that every parameter moves by about the rate, and by more where its gradient is taken for
    larger than it is."""
    _, gradients = step(*begin(name, torch.float64), inputs, answer, torch.float64)
    sizes = np.array([g.square().mean().sqrt().item() for g in gradients])
    if not sizes.max(initial=0) > 0:
        sys.exit(f"{name}: no gradient is above 0")
    least = ROUNDING * sizes.max()
    return float(f"{np.median(sizes if np.median(sizes) > least else sizes[sizes > least]):.1e}")


def train(name, dtype, steps, answers, params):
    """Loss and gradient norm of every step of Adam."""
    model, trained = begin(name, dtype)
    optimizer = torch.optim.Adam(trained, **params)
    losses, norms = [], []
    for inputs, answer in zip(steps, answers):
        optimizer.zero_grad()
        loss, gradients = step(model, trained, inputs, answer, dtype)
        optimizer.step()
        losses.append(loss)
        norms.append(torch.sqrt(sum(g.square().sum() for g in gradients)).item())
    return np.array(losses), np.array(norms)


def resident(key):
    """VmRSS or VmHWM of this process in bytes."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(key)))


def timed_steps(name, steps, answers, params):
    """Seconds of float32 steps."""
    seconds, (model, trained) = [], begin(name, torch.float32)
    optimizer = torch.optim.Adam(trained, **params)
    for inputs, answer in zip(steps, answers):
        start = time.perf_counter()
        optimizer.zero_grad()
        step(model, trained, inputs, answer, torch.float32)
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    return seconds


def measure(name, steps, answers, params):
    """Seconds of a step (the median after the first) and the peak of memory above what the libraries hold once they have run the same
    steps before, with blocks of 64 KiB and more in memory of their own; in a child, whose memory is its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        seconds = timed_steps(name, steps, answers, params)
        gc.collect()
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 1 << 16)
        libc.malloc_trim(0)
        before = resident("VmRSS")
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        timed_steps(name, steps, answers, params)
        os.write(write, json.dumps([float(np.median(seconds[1:])), resident("VmHWM") - before]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as words:
        text = words.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def reorder(batches, answers, order):
    """The samples of each batch in another order."""
    return [tuple(x[order] for x in batch) for batch in batches], [a[order] for a in answers]


def export(name, way, path):
    model, inputs = make(name)
    names = [f"x{i}" for i in range(len(inputs))]
    is_open = way.endswith("-dynamic")
    if way.startswith("dynamo"):
        program = torch.onnx.export(model.train(way == "dynamo-train"), inputs, dynamo=True, input_names=names,
                                    output_names=["y"], optimize=way != "dynamo-train", verbose=False,
                                    dynamic_shapes=[{0: "batch"} for _ in inputs] if is_open else None)
        for node in program.model.graph.all_nodes():  # without the folders of this machine
            if TRACE in node.metadata_props:
                node.metadata_props[TRACE] = re.sub(r'File "[^"]*/', 'File "', node.metadata_props[TRACE])
        program.save(path, external_data=False)
        return
    modes = torch.onnx.TrainingMode
    training = way == "torchscript-train"
    torch.onnx.export(model, inputs, path, dynamo=False, input_names=names, output_names=["y"],
                      training=modes.TRAINING if training else modes.EVAL, do_constant_folding=not training,
                      dynamic_axes={name: {0: "batch"} for name in names} if is_open else None)


def noises(name, steps, answers, params):
    """Losses and gradient norms in float64, the largest relative distance of float32 runs from each, and whether the order of a
    batch's samples does not matter."""
    losses, norms = train(name, torch.float64, steps, answers, params)
    runs = [train(name, torch.float32, steps, answers, params)]
    # where samples of a batch meet each other, another order is another problem, which its float64 run tells
    other, _ = train(name, torch.float64, *reorder(steps, answers, ORDERS[1]), params)
    free = np.allclose(other, losses, rtol=1e-9)
    if free:
        runs += [train(name, torch.float32, *reorder(steps, answers, other), params)
                 for other in ORDERS[1:]]
    return (losses, norms, max(np.max(np.abs(run[0] - losses) / np.abs(losses)) for run in runs),
            max(np.max(np.abs(run[1] - norms) / norms) for run in runs), bool(free))


def moved_gradients(name, inputs, answer):
    """How far the first step's gradients in float64 move, relative to their norms, when every weight moves by some units in the
    last place of float32: far where the input of a ReLU is that close to 0."""
    moved = {}
    for run in range(1 + MOVES):
        model, trained = begin(name, torch.float64)
        torch.manual_seed(run)
        with torch.no_grad():
            for p in trained if run else []:
                p.mul_(1 + 2.0 ** -21 * torch.randn_like(p))
        step(model, trained, inputs, answer, torch.float64)
        gradients = {key: p.grad for key, p in model.named_parameters() if p.grad is not None}
        if not run:
            exact = gradients
        for key, g in gradients.items():
            moved[key] = max(moved.get(key, 0), ((g - exact[key]).norm() / exact[key].norm()).item())
    return moved


@contextlib.contextmanager
def attributes(*changed):
    """Sets (object, name, value), and what was there after the block."""
    before = [(owner, key, getattr(owner, key)) for owner, key, _ in changed]
    try:
        for owner, key, value in changed:
            setattr(owner, key, value)
        yield
    finally:
        for owner, key, value in before:
            setattr(owner, key, value)


def undetached_gradients(name, way, inputs, answer):
    """The first step's gradients in float64 with what this exporter loses: torch.no_grad(), and TorchScript detach(), too. Empty where
    PyTorch needs them, as to change a parameter."""
    model, trained = begin(name, torch.float64)
    lost = [(torch.no_grad, "__enter__", lambda block: None), (torch.no_grad, "__exit__", lambda block, *raised: None)]
    try:
        with attributes(*lost, *([(torch.Tensor, "detach", lambda x: x)] if way.startswith("torchscript") else [])):
            step(model, trained, inputs, answer, torch.float64)
    except RuntimeError:
        return {}
    return {key: p.grad.numpy() for key, p in model.named_parameters() if p.grad is not None}


def gradients_of(name, dtype, inputs, answer):
    model, trained = begin(name, dtype)
    step(model, trained, inputs, answer, dtype)
    return {key: p.grad.double().numpy() for key, p in model.named_parameters() if p.grad is not None}


def write_gradients(name, inputs, answer, orders, path):
    """The first step's, of every parameter; float32's distance is the largest of these orders of the samples."""
    exact = gradients_of(name, torch.float64, inputs, answer)
    single = [gradients_of(name, torch.float32, tuple(x[order] for x in inputs), answer[order]) for order in orders]
    norms = {key: np.linalg.norm(g) for key, g in exact.items()}
    np.savez(path, **{f"gradient {key}": g.astype(np.float32) for key, g in exact.items()},
             **{f"distance {key}": max(np.linalg.norm(found[key] - exact[key]) for found in single) / norms[key]
                for key in exact if norms[key] > 0})


def write_expected(name, folder):
    model, inputs = make(name)
    steps = samples(inputs)
    with torch.no_grad():
        output = model.double()(*[x.double() if x.is_floating_point() else x for x in inputs])
    answers, scalar = targets(output), output.dim() == 0
    epsilon = choose_epsilon(name, steps[0], answers[0])
    for rate in RATES:
        params = {"lr": rate, "eps": epsilon}
        losses, norms, noise, norm_noise, free = noises(name, steps, answers, params)
        if max(noise, norm_noise) < STEADY:
            break
    data = {f"x{i}": np.concatenate([step[i].numpy() for step in steps]) for i in range(len(inputs))}
    file = name.replace("/", "_")
    write_gradients(name, steps[0], answers[0], ORDERS if free else ORDERS[:1], folder / f"{file}.gradients.npz")
    np.savez(folder / f"{file}.npz", target=np.concatenate([a.numpy() for a in answers]), **data)
    kind = "output" if scalar else "mse" if answers[0].is_floating_point() else "cross_entropy"
    config = {"train_micro_batch_size_per_gpu": BATCH,
              "optimizer": {"type": "Adam", "params": params},
              "ztrain": {"data": {"format": "npz", "path": f"{file}.npz", "shuffle": False}, "steps": STEPS,
                         "loss": {"type": kind} | ({"output": "y"} if kind == "output" else {})}}
    return {"config": config, "losses": losses.tolist(), "grad_norms": norms.tolist(),
            "noise": float(f"{noise:.1e}"), "norm_noise": float(f"{norm_noise:.1e}"), "any_order": free,
            "measured": measure(name, steps, answers, params)}


def make_case(name, folder):
    """In a child process."""
    file = name.replace("/", "_")
    case = write_expected(name, folder) | {"exports": {}}
    if getattr(NETWORKS[name], "freeze", None):
        case["freeze"] = NETWORKS[name].freeze
    normalized = any(isinstance(module, torch.nn.modules.batchnorm._BatchNorm) for module in make(name)[0].modules())
    for way in getattr(NETWORKS[name], "ways", None) or (PLAIN + ADVISED if name in SMALL or normalized else PLAIN):
        try:
            if not (folder / f"{file}.{way}.onnx").exists():
                export(name, way, folder / f"{file}.{way}.onnx")
            case["exports"][way] = {"model": f"{file}.{way}.onnx"}
        except Exception as error:  # PyTorch's exporters raise all kinds
            plain = re.sub("\x1b\\[[0-9;]*m", "", f"{type(error).__name__}: {error}")
            case["exports"][way] = {"error": plain.splitlines()[0][:200]}
    (folder / f"{file}.json").write_text(json.dumps(case, indent=1) + "\n")


def start_case(name, folder, more):
    """Starts a child that makes a case, unless its .json is there, and writes what more(name) returns to .rows."""
    log = folder / f"{name.replace('/', '_')}.log"
    child = os.fork()
    if child:
        return child
    signal.alarm(LIMIT_SECONDS)
    with open(log, "w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        if not log.with_suffix(".json").exists():
            make_case(name, folder)
        log.with_suffix(".rows").write_text(json.dumps(more(name)))
    except BaseException as error:
        print(f"\n{type(error).__name__}: {error}", flush=True)
        os._exit(1)
    os._exit(0)


def make_cases(names, folder, jobs=1, more=lambda name: None):
    """Yields (name, None or what went wrong, what more(name) returned) as children end, at most `jobs` at a time."""
    waiting, running = list(names), {}
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop(0)
            running[start_case(name, folder, more)] = name
        child, status = os.wait()
        if child not in running:
            continue
        name = running.pop(child)
        log, status = folder / f"{name.replace('/', '_')}.log", os.waitstatus_to_exitcode(status)
        if status:
            words = log.read_text(errors="replace").strip().splitlines()
            yield name, f"status {status}: {words[-1] if words else ''}"[:200], None
        else:
            yield name, None, json.loads(log.with_suffix(".rows").read_text())


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, problem, _ in make_cases(sys.argv[2:] or list(NETWORKS), folder):
        print(f"{name}: {problem or 'made'}", flush=True)


warnings.simplefilter("ignore")
torch.set_num_threads(1)
if __name__ == "__main__":
    main()
