#!/usr/bin/env python3
"""The equivalence matrix on four thread ranks: every way to divide them gives the losses of one rank.

    matrix.py ZTRAIN SOURCE_ROOT [--all] [--steps N] [--only GLOB]

For convnet, mlp, gpt and resnet20 of models/, six steps of two micro-batches, and for the reference case resnet-bn-train as it is, of
one (the last two with sync_batch_norm): data x stages of 4 x 1, 2 x 2 and 1 x 4, ZeRO 0 to 3 where there are data ranks to spread things over, schedules 1f1b and gpipe where there are stages,
and mode dp. One rank runs the same micro-batches whole; the ranks divide each among them. Losses may differ by as much, of their
value, as the losses of a reference case of the same kind (CASES) may by its loss_tol, step by step. Then, without accumulation, ddp, zero1,
zero2 and zero3 on four ranks leave the same model file; with it zero2 and zero3 have ddp's losses to 1e-6.
Without --all the dear models run a part in which every value of every axis occurs. Standard library only.
Exit status 0: all hold, 1: one does not.
"""
import argparse, fnmatch, json, pathlib, sys, tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import equivalence
from equivalence import Case, check, sets, thread_ranks, worst

RANKS = 4
# The reference case whose loss_tol counts: one of the same kind of network and, where there are several, the same exporter.
CASES = {"mlp": "mlp-wine-sklearn", "convnet": "convnet-torchscript", "gpt": "gpt-tiny-dynamo", "resnet20": "resnet-bn-train",
         "resnet-bn-train": "resnet-bn-train"}
# Where ReLUs stand behind batch norms one activation that rounding brings over the kink changes the gradient's norm by 1e-4 and
# more, which at resnet20's own rate grows to per cents of the loss within ten steps (5e-2 on four ranks): it goes in smaller ones.
# resnet-bn-train was made so that none comes near its kink, which holds for its own micro-batches at its own rate.
SLOW = ["scheduler.params.cycle_min_lr=1e-5", "scheduler.params.cycle_max_lr=1e-4"]
MODELS = {
    # name: config, samples of a step, its micro-batches, whole matrix in every run, options
    "mlp": ("configs/mlp.json", 48, 2, True, ["bf16.enabled=false"]),
    "convnet": ("configs/ds_config.json", 32, 2, False, []),
    "gpt": ("configs/gpt.json", 8, 2, False, []),
    "resnet20": ("configs/resnet20.json", 16, 2, False, ["ztrain.parallel.sync_batch_norm=true", *SLOW]),
    "resnet-bn-train": (None, 32, 1, False, ["ztrain.parallel.sync_batch_norm=true"]),
}
ACCUMULATED = 1e-6


def layouts():
    """(data ranks, stages, ZeRO stage, schedule, mode); the first six of every kind of value are the part"""
    part = [(4, 1, 0, "1f1b", "ddp"), (4, 1, 2, "1f1b", "ddp"), (2, 2, 1, "1f1b", "ddp"), (2, 2, 3, "gpipe", "ddp"),
            (1, 4, 0, "gpipe", "ddp"), (4, 1, 0, "1f1b", "dp")]
    rest = [(data, RANKS // data, zero, schedule, "ddp") for data in (4, 2, 1) for zero in range(4) for schedule in ("1f1b", "gpipe")
            if not (data == 1 and zero) and not (data == RANKS and schedule == "gpipe")]
    return part, [l for l in rest if l not in part]


def tolerances(cases, name, steps):
    """loss_tol of each step as a share of the loss"""
    case = json.loads((cases / CASES[name] / "expected.json").read_text())
    shares = [tol / loss for tol, loss in zip(case["loss_tol"], case["losses"])]
    return (shares + shares[-1:] * steps)[:steps]


def worst_share(rows, reference, tolerance):
    """the largest difference of two losses as a share of what it may be"""
    if not rows or len(rows) != len(reference) or len(rows) != len(tolerance):
        return float("inf")
    return max(abs(a["loss"] - b["loss"]) / (t * b["loss"]) for a, b, t in zip(rows, reference, tolerance))


def one_model(program, source, name, tmp, args):
    config, samples, micro_batches, whole, extra = MODELS[name]
    cases = source / "tests/reference/cases"
    folder, shared = tmp / name, cases / name
    folder.mkdir()
    model, config = (source / f"models/{name}.onnx", source / config) if config else (shared / "model.onnx", shared / "config.json")
    case = Case(program, model, config, folder)

    def batch(data, accumulation):
        return [f"train_batch_size={samples}", f"train_micro_batch_size_per_gpu={samples // accumulation // data}",
                f"gradient_accumulation_steps={accumulation}", "ztrain.data.eval_path=null"]

    def run(data, stages, zero, schedule, mode, accumulation=micro_batches):
        options = extra if mode == "ddp" else [o for o in extra if "sync_batch_norm" not in o]
        return case.run("--threads", "1", "--steps", str(args.steps),
                        *thread_ranks(data * stages, *batch(data, accumulation), *options, f"pipeline.stages={stages}",
                                      f"zero_optimization.stage={zero}", f"ztrain.parallel.schedule={schedule}",
                                      f"ztrain.parallel.mode={mode}"))

    tolerance = tolerances(cases, name, args.steps)
    one, _ = case.run("--threads", "1", "--steps", str(args.steps), *sets(*batch(1, micro_batches), *extra))
    part, rest = layouts()
    ddp = None
    for data, stages, zero, schedule, mode in part + (rest if whole or args.all else []):
        if mode == "dp" and any("sync_batch_norm" in o for o in extra):
            continue  # takes replica 0's statistics: other numbers by design
        rows, _ = run(data, stages, zero, schedule, mode)
        off, share = worst(rows, one or []), worst_share(rows, one or [], tolerance)
        check(bool(one) and share < 1, f"{name}: {mode} {data} x {stages}, zero {zero}, {schedule}: the losses of one rank "
              f"(worst {off:.1e}, {share:.2g} of {CASES[name]}'s loss_tol)")
        if mode == "ddp" and (data, stages, zero) == (RANKS, 1, 0):
            ddp = rows
        elif mode == "ddp" and stages == 1 and zero >= 2 and micro_batches > 1:
            off = worst(rows, ddp or [])
            check(off < ACCUMULATED, f"{name}: zero {zero} accumulates as ddp does (worst {off:.1e})")
    _, model = run(RANKS, 1, 0, "1f1b", "ddp", accumulation=1)
    for zero in (1, 2, 3) if whole or args.all else (3,):
        _, other = run(RANKS, 1, zero, "1f1b", "ddp", accumulation=1)
        check(bool(model) and other == model, f"{name}: zero {zero} on {RANKS} ranks leaves ddp's bits")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--all", action="store_true", help="every layout of every model (some minutes)")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--only", default="*", help="models whose name fits")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        for name in MODELS:
            if fnmatch.fnmatch(name, args.only):
                one_model(args.program, args.source.resolve(), name, pathlib.Path(tmp), args)
    print(f"{equivalence.checks - len(equivalence.failures)} passed, {len(equivalence.failures)} failed")
    return 1 if equivalence.failures else 0


if __name__ == "__main__":
    sys.exit(main())
