#!/usr/bin/env python3
"""Plans for a cluster that is not here, held against files that are.

    golden.py ZTRAIN SOURCE_ROOT [--rewrite]

A plan for a named cluster depends on model, config and cluster alone, not on this machine; one for device "cuda" without a name
is that of an h200. Of its programs only what they make again is held: which kernels there are is for other tests. --rewrite writes
the files beside this script anew: look at the difference before it is committed. Needs only Python's standard library.
"""
import difflib, pathlib, re, subprocess, sys

THREADS = ["--set", "ztrain.parallel.communicator=thread"]


def sets(*pairs):
    return [x for p in pairs for x in ("--set", p)]


# name, model, config, options
PLANS = [
    ("convnet-ddp-1", "convnet", "ds_config", []),
    ("convnet-ddp-8", "convnet", "ds_config", ["--ranks", "8", *THREADS]),
    ("convnet-zero3-16", "convnet", "ds_config", ["--ranks", "16", *THREADS, *sets("zero_optimization.stage=3")]),
    ("convnet-without-data-4", "convnet", "ds_config", ["--ranks", "4", *THREADS, *sets("ztrain.data.path=/nowhere",
                                                        "ztrain.data.eval_path=null")]),
    ("gpt-1024", "gpt", "gpt", ["--ranks", "1024", *THREADS, *sets("pipeline.stages=4", "zero_optimization.stage=2",
                                "train_batch_size=2048", "gradient_accumulation_steps=8")]),
    ("gpt-gpipe-zero1-8", "gpt", "gpt", ["--ranks", "8", *THREADS, *sets("pipeline.stages=4", "zero_optimization.stage=1",
                                         "gradient_accumulation_steps=4", "ztrain.parallel.schedule=gpipe")]),
    ("resnet20-recompute", "resnet20", "resnet20", sets('ztrain.recompute=["/blocks/blocks.*"]')),
    ("resnet20-limit", "resnet20", "resnet20", sets("ztrain.memory_limit=60MB")),
    ("mlp-zero2-2", "mlp", "mlp", ["--ranks", "2", *THREADS, *sets("zero_optimization.stage=2", "bf16.enabled=true")]),
]


def plan_of(ztrain, root, model, config, *options):
    """What is held of a plan, or why there is none."""
    done = subprocess.run([ztrain, "plan", "--model", root / f"models/{model}.onnx", "--config", root / f"configs/{config}.json",
                           "--threads", "1", *options], capture_output=True, text=True, timeout=60)
    return "".join(line for line in done.stdout.splitlines(True) if not re.match(r"  (ref|cpu|ADD|ZERO) ", line)) or done.stderr


def main():
    arguments = [a for a in sys.argv[1:] if a != "--rewrite"]
    if len(arguments) != 2:
        sys.exit(__doc__.strip())
    ztrain, root, folder = arguments[0], pathlib.Path(arguments[1]), pathlib.Path(__file__).resolve().parent
    wrong = 0
    for name, model, config, options in PLANS:
        path = folder / f"{name}.txt"
        if "--rewrite" in sys.argv:
            path.write_text(plan_of(ztrain, root, model, config, "--cluster", "h200", *options))
            continue
        wanted = path.read_text() if path.exists() else ""
        for kind in ["--cluster", "h200"], ["--device", "cuda"]:
            text = plan_of(ztrain, root, model, config, *kind, *options)
            print("ok   " if text == wanted else "FAIL ", name, *kind)
            wrong += text != wanted
            sys.stdout.writelines(list(difflib.unified_diff(wanted.splitlines(True), text.splitlines(True), "wanted", "found", n=1))[:60])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
