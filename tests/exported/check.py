#!/usr/bin/env python3
"""Trains what PyTorch and JAX exported for four steps, beside losses and gradient norms that these had in float64.

    tests/exported/check.py ZTRAIN [FOLDER]     this folder by default

FOLDER holds what tools/compare/torch_exports.py writes, or a folder of it a network, as `tools/zoo --fixtures` and
tools/compare/jax_exports.py made this one. Every file is right (losses within 1e-5, or within 4 times PyTorch's own float32
noise), or told (off, with a warning before the first step), else wrong. Where a case says what it must be and which words
the start must contain, it must. Prints a line a file and exits 1 where one is wrong.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

TOLERANCE, TIMES_NOISE = 1e-5, 4


def relative(found, wanted):
    return max(abs(f - w) / abs(w) for f, w in zip(found, wanted))


def train(ztrain, folder, case, model, *more, steps=4, keep=None):
    """The finished process and the rows of its steps; the trained model goes to `keep`."""
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        config = json.loads(json.dumps(case["config"]))
        config["ztrain"]["data"]["path"] = str(folder / config["ztrain"]["data"]["path"])
        config["ztrain"]["steps"] = steps
        (place / "config.json").write_text(json.dumps(config))
        done = subprocess.run([ztrain, "--model", folder / model, "--config", place / "config.json", "--output",
                               place / "run", "--device", "cpu", "--threads", "1", *more], capture_output=True, text=True)
        rows = []
        if done.returncode == 0:
            rows = [json.loads(line) for line in (place / "run" / "metrics.jsonl").read_text().splitlines()]
            if keep:
                shutil.copyfile(place / "run" / "model.onnx", keep)
        return done, [row for row in rows if "eval" not in row]


def findings(text, label):
    """The start's rows of a label, two blanks from the margin; not the number of parameters."""
    rows = [line.strip()[len(label):].strip() for line in text.splitlines() if line.startswith(f"  {label} ")]
    return [row for row in rows if not row.endswith((" tensors", " tensors train"))]


def judge(ztrain, folder, case, model):
    """As judge_run()."""
    return judge_run(*train(ztrain, folder, case, model), case)


def judge_run(done, rows, case):
    """(verdict, error of the losses, of the gradient norms, what the start said)."""
    if done.returncode:
        refusal = next((line for line in done.stderr.splitlines() if line.startswith("ztrain: error:")), done.stderr[-200:])
        warnings = findings(done.stderr, "warning") if " is not finite " in refusal else []
        return "told" if done.returncode in (2, 3) or warnings else "wrong", None, None, warnings + [refusal]
    warnings, notes = findings(done.stderr, "warning"), findings(done.stderr, "parameters")
    loss = relative([row["loss"] for row in rows], case["losses"])
    norm = relative([row["grad_norm"] for row in rows], case["grad_norms"])
    within = (loss <= max(TOLERANCE, TIMES_NOISE * case["noise"]) and
              norm <= max(10 * TOLERANCE, TIMES_NOISE * case["norm_noise"]))
    return "right" if within else "told" if warnings else "wrong", loss, norm, warnings + notes


def exported_differs(ztrain, folder, case, model):
    """The fifth step, on the first one's samples, has the loss with which the model that four steps wrote begins."""
    with tempfile.TemporaryDirectory() as place:
        trained = pathlib.Path(place) / "trained.onnx"
        train(ztrain, folder, case, model, keep=trained)
        goes_on, begins = (train(ztrain, folder, case, m, steps=s)[1][-1]["loss"] for m, s in ((model, 5), (trained, 1)))
    return relative([begins], [goes_on]) > TOLERANCE


def hold(ztrain, folder, case, made):
    """What is not as the case says, as texts."""
    verdict, _, _, said = judge(ztrain, folder, case, made["model"])
    faults = [] if verdict == made["verdict"] else [f"is {verdict}, not {made['verdict']}"]
    faults += [f"the start does not say \"{words}\"" for words in made["says"] if not any(words in line for line in said)]
    if exported_differs(ztrain, folder, case, made["model"]):
        faults.append("the trained model is another than what was trained")
    if "freeze" in case:
        settings = f"ztrain.freeze={json.dumps(case['freeze'])}"
        frozen, *off = judge_run(*train(ztrain, folder, case, made["model"], "--set", settings), case)
        if frozen != "right":
            faults.append(f"with {settings} it is {frozen}: {off}")
    if verdict == "told":
        done, _ = train(ztrain, folder, case, made["model"], "--strict")
        if done.returncode != 3:
            faults.append(f"--strict ends with status {done.returncode}")
    return faults


def main():
    ztrain = pathlib.Path(sys.argv[1]).resolve()
    folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).parent).resolve()
    count = failed = 0
    for path in sorted(folder.rglob("*.json")):
        case = json.loads(path.read_text())
        for made in case["exports"].values():
            if "model" not in made:
                continue
            faults = hold(ztrain, path.parent, case, made)
            count, failed = count + 1, failed + bool(faults)
            print(f"{'FAILED' if faults else 'ok':7}{made['model']}: {'; '.join(faults) or made['verdict']}")
    print(f"{count - failed} passed, {failed} failed")
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
