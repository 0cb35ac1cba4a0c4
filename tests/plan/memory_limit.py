#!/usr/bin/env python3
"""A memory limit 30 % below a plan: it fits by recomputation, says what is recomputed, costs at most 35 % more FLOPs, and
changes no bit of what is learnt. Above what can be had it is refused by name.

    memory_limit.py ZTRAIN SOURCE_ROOT
"""
import pathlib, re, subprocess, sys, tempfile

# model, config, options: batches whose activations outweigh the weights, as where memory is short
CASES = [("resnet20", "resnet20", []), ("gpt", "gpt", []), ("unet", "unet", ["--set", "train_batch_size=50"])]

failures = []


def check(holds, what):
    print(("ok   " if holds else "FAIL ") + what, flush=True)
    if not holds:
        failures.append(what)


class Model:
    def __init__(self, ztrain, root, model, config, options):
        self.start = [ztrain], ["--model", root / f"models/{model}.onnx", "--config", root / f"configs/{config}.json", "--threads", "1", *options]

    def run(self, *options, command=()):
        return subprocess.run([*self.start[0], *command, *self.start[1], *options], capture_output=True, text=True, timeout=300)

    def plan(self, *options):
        """bytes of rank 0, FLOPs of a micro-batch, lines about what is recomputed; None where it is refused"""
        done = self.run(*options, command=["plan"])
        if done.returncode:
            return None, done.stderr, []
        total = int(re.search(r"^ranks? 0\S* .* (\d+)(?:  at most)?$", done.stdout, re.M)[1])
        flops = float(re.search(r"^(\S+) FLOPs per micro-batch", done.stdout, re.M)[1])
        return total, flops, re.findall(r"recomputed in backward: .*", done.stdout)

    def weights(self, *options):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run("--steps", "3", "--output", folder + "/run", *options)
        found = re.search(r"^weights: [0-9a-f]{16}$", done.stderr, re.M)
        return found[0] if done.returncode == 0 and found else f"exit {done.returncode}: {done.stderr}"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    ztrain, root = sys.argv[1], pathlib.Path(sys.argv[2])
    for name, config, options in CASES:
        model = Model(ztrain, root, name, config, options)
        total, flops, again = model.plan()
        limit = total * 7 // 10
        check(not again, f"{name}: {total} bytes without a limit, nothing is recomputed")
        less, more, again = model.plan("--set", f"ztrain.memory_limit={limit}")
        if less is None:
            check(False, f"{name}: a limit of {limit}: {more}")
            continue
        check(less <= limit, f"{name}: {less} bytes fit a limit of {limit}")
        check(bool(again), f"{name}: {len(again)} lines name what is recomputed")
        check(more <= 1.35 * flops, f"{name}: {100 * (more / flops - 1):.0f} % more FLOPs")
        without, within = model.weights(), model.weights("--set", f"ztrain.memory_limit={limit}")
        check(without.startswith("weights: ") and without == within, f"{name}: the same weights ({without}, {within})")
    convnet = Model(ztrain, root, "convnet", "ds_config", [])  # its peak is one layer's own: only smaller micro-batches help
    total, flops, _ = convnet.plan()
    limited = ["--set", f"ztrain.memory_limit={total * 7 // 10}"]
    refused, words, _ = convnet.plan(*limited)
    check(refused is None and '"auto"' in words, "convnet: refused, and auto is named")
    less, more, _ = convnet.plan(*limited, "--set", "ztrain.plan=auto")
    check(less is not None and less <= total * 7 // 10, f"convnet: auto finds a plan of {less} bytes below {total * 7 // 10}")
    said = convnet.run(*limited, "--set", "ztrain.plan=auto", command=["plan"]).stdout
    check("plan auto: " in said and "not possible: " in said and "micro-batch 32 x 2: " in said, "convnet: auto lists the candidates")
    trained = convnet.weights(*limited, "--set", "ztrain.plan=auto")
    check(trained.startswith("weights: "), f"convnet: what auto chose trains ({trained})")
    two = Model(ztrain, root, "convnet", "ds_config", ["--ranks", "2", "--set", "ztrain.parallel.communicator=thread"])
    said = two.run("--set", "ztrain.plan=auto", "--set", "ztrain.memory_limit=9MB", command=["plan"]).stdout
    check(bool(re.search(r"^zero[123], 2 ranks|2 stages x 1 data", said, re.M)), "convnet on two ranks: a limit asks for ZeRO or stages")
    total, words, _ = Model(ztrain, root, "mlp", "mlp", []).plan("--set", "ztrain.memory_limit=1KiB")
    check(total is None and "ztrain.memory_limit: 1.0 KB per rank, but stage 0 needs" in words and "hint: try " in words,
          f"a limit that nothing fits is refused by name: {words}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
