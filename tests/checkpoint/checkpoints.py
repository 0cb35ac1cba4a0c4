#!/usr/bin/env python3
"""Checkpoints from outside: the run goes on as if it had not stopped, whatever layout takes over; what is damaged or does not
fit is refused.

    checkpoints.py ZTRAIN SOURCE_ROOT [--only WORD ...] [--resumes N] [--seed N]

Needs only Python's standard library. Exit status 0: all hold, 1: one does not.
"""
import json
import os
import pathlib
import random
import re
import shutil
import struct
import sys

from runs import LAYOUTS, MORE, THREAD, Bench, check, files, main

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from onnx_bytes import INT64, external_tensor, model, node, npz, tensor, value_info  # noqa: E402


# ---- a run goes on ----


def resumes(args, tmp, rng):
    """every step of a run with accumulation, a schedule and clipping, from the middle of an epoch"""
    b = Bench(args, tmp / "resume", "gpt", "gpt", "--steps", "20", "--set", "ztrain.checkpoint.keep=0",
              "--set", "ztrain.checkpoint.every_steps=1", "--set", "train_batch_size=8")
    if not check(b.run("whole"), "resume: a run that saves at each step"):
        return
    held = 0
    for i in range(args.resumes):
        step = rng.randrange(1, 20)
        out = b.folder / "again"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(b.folder / "whole", out)
        (out / "model.onnx").unlink()
        held += b.run("again", "--resume", b.checkpoint("again", step)) and b.same("again", "whole")
    check(held == args.resumes, f"resume: {held} of {args.resumes} runs that went on in the middle left the same rows and model")
    plain = b.run("plain", "--set", "ztrain.checkpoint.every_steps=0", "--set", "ztrain.checkpoint.every_epochs=0")
    check(plain and b.same("plain", "whole") and not (b.folder / "plain/checkpoints").exists(),
          "resume: a run without checkpoints leaves the same rows and model")


def normed(folder, external=False):
    """A BatchNormalization between two layers, 60 samples of 4 numbers in 3 classes: model and config. `external`: the last
    weight is in a file of its own."""
    folder.mkdir()
    rng = random.Random(1)
    numbers = lambda n: [rng.uniform(-1, 1) for _ in range(n)]
    hidden = 1500  # so that slices are cut
    first, last = numbers(4 * hidden), [v / 30 for v in numbers(3 * hidden)]
    (folder / "w2.bin").write_bytes(struct.pack(f"<{3 * hidden}f", *last))
    made = model([node("MatMul", ["x", "w1"], ["h"], "in"), node("BatchNormalization", ["h", "scale", "shift", "mean", "var"], ["n"], "norm"),
                  node("Relu", ["n"], ["r"], "relu"), node("MatMul", ["r", "w2"], ["y"], "out")],
                 [value_info("x", ["n", 4])], [value_info("y", ["n", 3])],
                 [tensor([4, hidden], first, name="w1"), tensor([hidden], [1.0] * hidden, name="scale"),
                  tensor([hidden], [0.0] * hidden, name="shift"), tensor([hidden], [0.0] * hidden, name="mean"),
                  tensor([hidden], [1.0] * hidden, name="var"),
                  external_tensor([hidden, 3], "w2.bin", "w2") if external else tensor([hidden, 3], last, name="w2")])
    (folder / "m.onnx").write_bytes(made)
    (folder / "d.npz").write_bytes(npz({"x": ([60, 4], numbers(240)), "target": ([60], [rng.randrange(3) for _ in range(60)], INT64)}))
    (folder / "c.json").write_text(json.dumps({
        "train_batch_size": 16, "optimizer": {"type": "Adam", "params": {"lr": 0.003}},
        "ztrain": {"data": {"format": "npz", "path": "d.npz", "eval_path": "d.npz"}, "loss": {"type": "cross_entropy"},
                   "checkpoint": {"every_steps": 1, "keep": 0}}}))
    return folder / "m.onnx", folder / "c.json"


def evaluations(args, tmp, rng):
    """running statistics, evaluation rows and the end of an epoch, on two ranks that see other samples"""
    b = Bench(args, tmp / "evaluation", *normed(tmp / "normed"), "--ranks", "2", *THREAD, "--set", "train_micro_batch_size_per_gpu=4",
              "--steps", "10")
    if not check(b.run("whole"), "evaluation: a run"):
        return
    check(sum("eval" in row for row in b.rows("whole")) == 2, "evaluation: there are two")
    held = 0
    for step in range(1, 11):
        shutil.rmtree(b.folder / "again", ignore_errors=True)
        ok = b.run("again", "--resume", b.checkpoint("whole", step))
        rows = [row for row in b.rows("whole") if row["step"] > step]
        held += ok and b.rows("again") == rows and b.model("again") == b.model("whole")
    check(held == 10, f"evaluation: {held} of 10 runs go on in another folder with the same rows and model")


# ---- other layouts ----


def layouts(args, tmp, rng):
    b = Bench(args, tmp / "layouts", "convnet", "ds_config", "--set", "train_batch_size=32", "--set", "optimizer.params.lr=1e-4",
              "--set", "ztrain.checkpoint.every_epochs=0", "--set", "ztrain.checkpoint.every_steps=3")
    b.run("one", "--steps", "6", *LAYOUTS["ddp x 1"])
    one = b.rows("one")
    held = 0
    for i, (saves, options) in enumerate(LAYOUTS.items()):
        check(b.run(f"save{i}", "--steps", "3", *options), f"layouts: {saves} saves")
        for loads, other in LAYOUTS.items():
            shutil.rmtree(b.folder / "load", ignore_errors=True)
            ok = b.run("load", "--steps", "6", "--resume", b.folder / f"save{i}", *other)
            rows = b.rows("load") if ok else []
            worst = max((abs(r["loss"] - o["loss"]) / o["loss"] for r, o in zip(rows, one[3:])), default=9)
            good = ok and len(rows) == 3 and worst < 1e-5
            held += good
            if not good:
                print(f"{saves} -> {loads}: {len(rows)} rows, off by {worst:.1e}", file=sys.stderr)
    for name, options in MORE.items():
        out = name.replace(" ", "")
        ok = b.run(out, "--steps", "3", *options) and b.run(out, "--steps", "6", "--resume", *LAYOUTS["zero3 x 2"]) and b.run(
            out + "2", "--steps", "6", "--resume", b.folder / "save2", *options)
        rows = b.rows(out) + b.rows(out + "2") if ok else []
        worst = max((abs(r["loss"] - o["loss"]) / o["loss"] for r, o in zip(rows, one + one[3:])), default=9)
        check(ok and len(rows) == 9 and worst < 1e-5, f"layouts: {name} saves for zero3 x 2, and goes on from zero1 x 2 (worst {worst:.1e})")
    check(held == len(LAYOUTS) ** 2, f"layouts: {held} of {len(LAYOUTS) ** 2} pairs go on with the losses of one rank")


def identical(args, tmp, rng):
    """one state, loaded and saved in every layout: the same bytes in every file"""
    b = Bench(args, tmp / "identical", *normed(tmp / "normed2"), "--set", "train_batch_size=32", "--steps", "4")
    if not check(b.run("first", *LAYOUTS["zero3 x 2"]), "identical: a model with running statistics saves"):
        return
    first = files(b.checkpoint("first", 4))
    check(set(first) == {"manifest.json", "optimizer.safetensors", "weights.safetensors"}, "identical: three files")
    check(b'"mean"' in first["weights.safetensors"] and b'"w2.exp_avg_sq"' in first["optimizer.safetensors"], "identical: all is in them")
    for i, (name, options) in enumerate({**LAYOUTS, **MORE}.items()):
        ok = b.run(f"again{i}", "--resume", b.checkpoint("first", 4), *options)
        check(ok and files(b.checkpoint(f"again{i}", 4)) == first, f"identical: {name} leaves the same bytes")
    b = Bench(args, tmp / "tied", "gpt", "gpt", "--steps", "1", *THREAD)
    stages = ["--ranks", "4", "--set", "pipeline.stages=2", "--set", "train_micro_batch_size_per_gpu=8", "--set", "zero_optimization.stage=2"]
    ok = b.run("stages", *stages) and b.run("one", "--resume", b.folder / "stages") and b.run("again", "--resume", b.folder / "one", *stages)
    check(ok and files(b.checkpoint("one", 1)) == files(b.checkpoint("stages", 1)) == files(b.checkpoint("again", 1)),
          "identical: a weight that two stages hold is stored once, from two stages to one rank and back")


# ---- damage ----


def damage(args, tmp, rng):
    b = Bench(args, tmp / "damage", "mlp", "mlp", "--steps", "3")
    if not check(b.run("run"), "damage: a run"):
        return
    whole = b.checkpoint("run", 3)
    done = b.verify(whole)
    check(done.returncode == 0 and "whole" in done.stdout, "damage: a whole checkpoint is verified")
    found, named = 0, 0
    cases = []
    for name, data in files(whole).items():
        cases += [(name, i) for i in {0, 1, len(data) - 1, *(rng.randrange(len(data)) for _ in range(20))}]
    for name, at in cases:
        bad = b.folder / "bad"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(whole, bad)
        data = bytearray((bad / name).read_bytes())
        data[at] ^= 1 << rng.randrange(8)
        (bad / name).write_bytes(data)
        done = b.verify(bad)
        found += done.returncode == 4
        named += name in done.stderr
    check(found == named == len(cases), f"damage: {found} of {len(cases)} flipped bits found, the file named {named} times")
    check(b.run("other", "--resume", bad, status=4) and "ztrain verify" in b.says and not (b.folder / "other/model.onnx").exists(), "damage: no run goes on from it")
    cut = 0
    for name, data in files(whole).items():
        for size in (0, 7, len(data) // 2, len(data) - 1):
            shutil.rmtree(bad)
            shutil.copytree(whole, bad)
            os.truncate(bad / name, size)
            cut += b.verify(bad).returncode == 4
        (bad / name).unlink()
        done = b.verify(bad)
        cut += done.returncode == 4 and name in done.stderr
    check(cut == 15, f"damage: {cut} of 15 cut or missing files found")


def flips(args, tmp, rng):
    """one bit of any tensor: that tensor is named, and no other"""
    b = Bench(args, tmp / "flips", "gpt", "gpt", "--steps", "1", *THREAD)
    if not check(b.run("one") and b.run("many", *LAYOUTS["zero2 x 4"], "--set", "gradient_accumulation_steps=1"), "flips: two runs"):
        return
    check(files(b.checkpoint("one", 1)).keys() == files(b.checkpoint("many", 1)).keys(), "flips: of one rank and of four")
    named, bad = 0, b.folder / "bad"
    for i in range(args.flips):
        if i % 2 == 0:
            whole = files(b.checkpoint(("one", "many")[i // 2 % 2], 1))
            shutil.rmtree(bad, ignore_errors=True)
            bad.mkdir()
            for name, data in whole.items():
                (bad / name).write_bytes(data)
        file = ("weights.safetensors", "optimizer.safetensors")[i % 2]
        data = bytearray(whole[file])
        start = 8 + int.from_bytes(data[:8], "little")
        tensor, first, last = rng.choice([(n, *t["data_offsets"]) for n, t in json.loads(data[8:start]).items()])
        data[start + rng.randrange(first, last)] ^= 1 << rng.randrange(8)
        (bad / file).write_bytes(data)
        done = b.verify(bad)
        (bad / file).write_bytes(whole[file])
        named += done.returncode == 4 and file in done.stderr and re.findall(r'[(,] ?"([^"]*)"', done.stderr) == [tensor]
    check(named == args.flips, f"flips: {named} of {args.flips} flipped bits named with their tensor")


def hostile(args, tmp, rng):
    """headers that lie, under a manifest whose checksums are right"""
    b = Bench(args, tmp / "hostile", "mlp", "mlp", "--steps", "1")
    b.run("run")
    whole, bad = b.checkpoint("run", 1), b.folder / "bad"
    headers = [b"", b"[]", b"{", b'{"a": 1}', b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}}',
               b'{"a": {"dtype": "F32", "shape": [9223372036854775807, 9], "data_offsets": [0, 4]}}',
               b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, -4]}}', b"[" * 5000,
               b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}',
               b'{"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}',
               b'{"a": {"dtype": "F32", "shape": [1,1,1,1,1,1,1,1,1], "data_offsets": [0, 4]}}',
               b'{"a": {"dtype": "F32", "shape": [1e300], "data_offsets": [0, 4]}}']
    bodies = [struct.pack("<Q", len(h)) + h + bytes(8) for h in headers]
    bodies += [struct.pack("<Q", n) + b"{}" for n in (3, 2**63, 2**64 - 1, 2**24 + 1)]
    found = 0
    for body in bodies:
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(whole, bad)
        (bad / "weights.safetensors").write_bytes(body)
        text = (bad / "manifest.json").read_text()
        manifest = json.loads(text)
        old = json.dumps(manifest["files"][0])
        entry = {"name": "weights.safetensors", "bytes": len(body), "block_bytes": 1 << 20, "crc32c": [f"{crc32c(body):08x}"]}
        text = text.replace(old, json.dumps(entry))
        text = text[:text.rindex('  "crc32c"')]
        (bad / "manifest.json").write_text(text + f'  "crc32c": "{crc32c(text.encode()):08x}"\n}}\n')
        done = b.verify(bad)
        found += done.returncode == 4 and "weights.safetensors" in done.stderr and "checksum" not in done.stderr
    check(found == len(bodies), f"hostile: {found} of {len(bodies)} lying headers refused")


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


# ---- what does not fit ----


def refusals(args, tmp, rng):
    b = Bench(args, tmp / "refusals", "mlp", "mlp")
    b.run("run", "--steps", "4")
    resume = ["--resume", b.folder / "run"]
    cases = [(2, ["--steps", "3"], "step 4, but the run ends at step 3"), (2, ["--steps", "8", "--seed", "1"], "ztrain.seed is 1"),
             (2, ["--steps", "8", "--set", "train_batch_size=25", "--set", "train_micro_batch_size_per_gpu=25"], "train_batch_size is 25"),
             (2, ["--steps", "8", "--set", "ztrain.data.shuffle=false"], "ztrain.data.shuffle is false"),
             (2, ["--steps", "8", "--set", 'optimizer={"type": "Adam", "params": {"lr": 0.1}}'], "optimizer.type is Adam"),
             (2, ["--steps", "8", "--overwrite"], "exclude each other")]
    for status, options, says in cases:
        check(b.run("other", *resume, *options, status=status) and says in b.says and b.says.count("error") == 1,
              f"refusals: {says}")
    check(b.run("none", "--steps", "8", "--resume", status=4) and "latest" in b.says, "refusals: a run that left no checkpoint")
    check("has left no checkpoint; --overwrite starts it" in b.says, "refusals: and the hint says so")
    (b.folder / "broken/checkpoints").mkdir(parents=True)
    (b.folder / "broken/checkpoints/latest").write_text("step-04\n")
    check(b.run("broken", "--steps", "8", "--resume", status=4) and 'does not name a checkpoint: "step-04" does not exist' in b.says
          and "hint: a checkpoint can also be given by its folder, step-N" in b.says and "has left no" not in b.says,
          "refusals: a damaged pointer is not taken for a run without checkpoints")
    check(b.run("none", "--steps", "8", "--resume", b.folder / "nowhere", status=4) and "nowhere" in b.says, "refusals: no such folder")
    check(b.run("run", "--steps", "4", status=4) and "--resume" in b.says, "refusals: a folder that holds a run")
    other = Bench(args, tmp / "refusals2", "unet", "unet", "--steps", "8")
    check(other.run("other", *resume, status=4) and "another model" in other.says, "refusals: another model")
    path, config = normed(tmp / "refusals3", external=True)
    outside = Bench(args, tmp / "refusals4", path, config)
    outside.run("run", "--steps", "2")
    whole = (path.parent / "w2.bin").read_bytes()
    (path.parent / "w2.bin").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    check(outside.run("run", "--steps", "4", "--resume", status=4) and "another model" in outside.says, "refusals: other external data")
    (path.parent / "w2.bin").write_bytes(whole)
    check(outside.run("run", "--steps", "4", "--resume"), "refusals: the same external data again")
    check(b.run("run", "--steps", "8", "--resume", "--set", "optimizer.params.lr=0.05") and "optimizer.params.lr = 0.05" in b.says,
          "refusals: another rate is taken and told")
    check(b.run("run", "--steps", "2", "--overwrite") and [p.name for p in (b.folder / "run/checkpoints").iterdir() if "step" in p.name] == ["step-2"],
          "refusals: --overwrite leaves no checkpoint of the run before")
    # plan.txt, which is the first file written, cannot be: the run before must stay as it was
    b.run("kept", "--steps", "3", "--set", "ztrain.checkpoint.every_steps=1", "--set", "ztrain.hashes=1")
    plan, kept = b.folder / "kept/plan.txt", b.folder / "kept"
    plan.unlink()
    plan.mkdir()
    before = {p: p.read_bytes() for p in kept.rglob("*") if p.is_file()}
    for options in [["--overwrite"], ["--resume", b.checkpoint("kept", 2)]]:
        ok = b.run("kept", "--steps", "4", *options, status=4) and "plan.txt" in b.says
        check(ok and {p: p.read_bytes() for p in kept.rglob("*") if p.is_file()} == before,
              f"refusals: a run that cannot begin changes nothing ({options[0]})")


def keeping(args, tmp, rng):
    b = Bench(args, tmp / "keeping", "mlp", "mlp")
    names = lambda out: sorted(p.name for p in (b.folder / out / "checkpoints").iterdir())
    state = '{"note": "kept", "list": [1, 2.5, null, {"deep": true}], "ztrain": "théirs"}'
    tagged = ["--set", "ztrain.checkpoint.every_steps=2", "--set", "ztrain.checkpoint.tag=global_step{step}", "--set", "ztrain.checkpoint.keep=2"]
    b.run("tags", "--steps", "6", *tagged, "--set", f"ztrain.checkpoint.client_state={state}")
    check(names("tags") == ["global_step4", "global_step6", "latest"], f"keeping: tags ({names('tags')})")
    ok = b.run("tags", "--steps", "8", "--resume", *tagged)
    said = [line for line in b.verify(b.folder / "tags/checkpoints/latest").stdout.splitlines() if line.startswith("client_state: ")]
    check(ok and names("tags") == ["global_step6", "global_step8", "latest"] and len(said) == 1 and json.loads(said[0][14:]) == json.loads(state),
          "keeping: who resumes keeps client_state, which verify prints")
    b.run("tags", "--steps", "10", "--resume", *tagged, "--set", 'ztrain.checkpoint.client_state={"note": "new"}')
    check('client_state: {"note":"new"}' in b.verify(b.folder / "tags").stdout, "keeping: that of the config has precedence")
    for tag in ("x", "{step}", "a/{step}", ".{step}", "{step}b", 33 * "a" + "{step}"):
        check(b.run("none", "--set", f"ztrain.checkpoint.tag={tag}", status=2) and "ends in {step}" in b.says, f"keeping: no tag: {tag}")
    check(b.run("none", "--set", "ztrain.checkpoint.client_state=[1]", status=2) and "wants an object" in b.says, "keeping: client_state is an object")
    big = json.dumps({"x": (1 << 20) * "y"})
    (b.folder / "big.json").write_text('{"ztrain": {"checkpoint": {"client_state": ' + big + "}}}")
    check(b.run("none", "--config", b.folder / "big.json", status=2) and "at most 1048576" in b.says, "keeping: client_state has at most 1 MiB")
    b.run("steps", "--steps", "10", "--set", "ztrain.checkpoint.every_steps=2", "--set", "ztrain.checkpoint.best=")
    check(names("steps") == ["latest", "step-10", "step-6", "step-8"], f"keeping: three stay ({names('steps')})")
    b.run("all", "--steps", "5", "--set", "ztrain.checkpoint.every_steps=2", "--set", "ztrain.checkpoint.keep=0", "--set", "ztrain.checkpoint.best=")
    check(names("all") == ["latest", "step-2", "step-4", "step-5"], "keeping: 0 keeps all, and the last step has one")
    b.run("best", "--epochs", "6", "--set", "ztrain.checkpoint.keep=1", "--set", "optimizer.params.lr=12")
    rows = [row for row in b.rows("best") if row.get("eval")]
    if check(len(rows) == 6, "keeping: six evaluations"):
        best, last = min(rows, key=lambda row: row["loss"])["step"], rows[-1]["step"]
        check(names("best") == sorted({"best", "latest", f"step-{best}", f"step-{last}"}), f"keeping: the last and the best stay ({names('best')})")
        check((b.folder / "best/checkpoints/best").read_text() == f"step-{best}\n", "keeping: best names the best")
    b.run("back", "--epochs", "4", "--set", "ztrain.checkpoint.keep=0", "--set", "optimizer.params.lr=0.01")
    then = min((row for row in b.rows("back") if row.get("eval") and row["step"] <= 60), key=lambda row: row["loss"])["step"]
    last = (b.folder / "back/checkpoints/best").read_text()
    ok = b.run("back", "--steps", "61", "--resume", b.checkpoint("back", 60), "--set", "ztrain.checkpoint.keep=0", "--set", "optimizer.params.lr=0.01")
    now = (b.folder / "back/checkpoints/best").read_text(), (b.folder / "back/checkpoints/latest").read_text()
    check(ok and last != now[0] and now == (f"step-{then}\n", "step-61\n"), f"keeping: who goes back to a checkpoint has its best again ({last!r}, {now})")


if __name__ == "__main__":
    tests = [damage, flips, hostile, refusals, keeping, resumes, evaluations, identical, layouts]
    sys.exit(main(__doc__, tests, [("--resumes", 4, "random steps to resume at"), ("--flips", 60, "bits of tensors to flip")]))
