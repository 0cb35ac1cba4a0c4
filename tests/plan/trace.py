#!/usr/bin/env python3
"""`ztrain plan --trace`: a row a rank, no two things at a time in it, no time unaccounted for, as long as the plan says.

    trace.py ZTRAIN SOURCE_ROOT
"""
import json, pathlib, subprocess, sys, tempfile


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    ztrain, root = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        done = subprocess.run([ztrain, "plan", "--model", root / "models/gpt.onnx", "--config", root / "configs/gpt.json", "--trace", path, "--json",
                               "--cluster", "h200", "--ranks", "4", "--set", "pipeline.stages=2", "--set", "zero_optimization.stage=3",
                               "--set", "gradient_accumulation_steps=4", "--set", "ztrain.parallel.communicator=thread"],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        trace = json.loads(path.read_text())
        there = sorted(p.name for p in pathlib.Path(folder).iterdir())
    assert there == ["trace.json"], there
    plan = json.loads(done.stdout)
    step = 1e3 * plan["step_seconds"]
    assert [(r["rank"], r["stage"]) for r in plan["bytes_per_rank"]] == [(r, r // 2) for r in range(4)], plan
    assert all(r["parameters"] > 0 and r["activations"] > 0 for r in plan["bytes_per_rank"]) and plan["mode"] == "zero3", plan
    events = trace["traceEvents"]
    assert {e["args"]["name"] for e in events if e["name"] == "process_name"} == {f"rank {r} (stage {r // 2})" for r in range(4)}
    for rank in range(4):
        work = [e for e in events if e["ph"] == "X" and e["pid"] == rank and e["tid"] == 0]
        at = 0
        for e in work:
            assert abs(e["ts"] - at) < 0.01, f"rank {rank}: {e} does not follow on {at}"
            at = e["ts"] + e["dur"]
        assert abs(at - 1e3 * step) < 1, f"rank {rank} ends at {at} us, the step at {step} ms"
        kinds = {e["name"] for e in work}
        wanted = {"forward", "backward", "gather", "reduce", "update"} | ({"receive"} if rank >= 2 else set())
        assert wanted <= kinds, f"rank {rank}: {kinds}"
        for kind in ("forward", "backward"):
            assert {e["args"]["micro_batch"] for e in work if e["name"] == kind} == set(range(4))
    beside = [e for e in events if e["ph"] == "X" and e["tid"] == 1]
    assert sum(e["name"] == "send" for e in beside) == 4 * 4, "each rank sends each micro-batch one way"
    assert {e["name"] for e in beside} == {"send", "gather", "reduce"}, "collectives move beside the kernels"
    print("ok   four ranks, two stages, ZeRO 3")
    return 0


if __name__ == "__main__":
    sys.exit(main())
