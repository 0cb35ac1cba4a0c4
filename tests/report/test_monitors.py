#!/usr/bin/env python3
"""What a run records: event files read back with TensorBoard's own loader, CSV files, the lines of wall_clock_breakdown and
memory_breakdown, the profile of FLOPs against numbers counted by hand, the trace of the steps.

    test_monitors.py ZTRAIN [MODULE.so] [TEST ...]    with the CUDA module MODULE.so: on its devices
"""
import csv
import itertools
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

try:
    import chrometrace
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from tensorboard.backend.event_processing import event_accumulator, event_file_loader
except ImportError as missing:
    print(f"SKIP: {missing}")
    sys.exit(77)

ZTRAIN, DEVICE = None, "cpu"
N, CLASSES, ROWS, STEPS = 48, 3, 8, 6
TAG = "Train/Samples/"
THREADS = {"ztrain": {"parallel": {"communicator": "thread"}}}


def network():
    """Conv (4 of 3x3 over 2 channels, padded, stride 1) on 6x6, Relu, Flatten, Gemm, in modules "features" and "head"."""
    rng = np.random.default_rng(3)
    weight = lambda name, *shape: numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) * 0.2, name)
    nodes = [helper.make_node("Conv", ["x", "features.0.weight", "features.0.bias"], ["c"], "/features/features.0/Conv", pads=[1] * 4),
             helper.make_node("Relu", ["c"], ["r"], "/features/features.1/Relu"),
             helper.make_node("Flatten", ["r"], ["f"], "/Flatten"),
             helper.make_node("Gemm", ["f", "head.weight", "head.bias"], ["y"], "/head/Gemm", transB=1)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 6, 6])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", CLASSES])],
                              [weight("features.0.weight", 4, 2, 3, 3), weight("features.0.bias", 4), weight("head.weight", CLASSES, 144),
                               weight("head.bias", CLASSES)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def wide_network(path):
    """Two products of 10.5 million weights. Returns their number."""
    hidden = 140000
    weights = [numpy_helper.from_array(np.full(shape, 0.001, np.float32), name) for name, shape in (("a", (72, hidden)), ("b", (hidden, CLASSES)))]
    nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("MatMul", ["f", "a"], ["h"]), helper.make_node("MatMul", ["h", "b"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 6, 6])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", CLASSES])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return (72 + CLASSES) * hidden


CONV_MACS = 36 * 9 * 2 * 4  # positions, kernel, input channels, output channels
GEMM_MACS = 144 * CLASSES
PARAMS = 4 * 2 * 9 + 4 + CLASSES * 144 + CLASSES


def merged(base, *more):
    out = dict(base)
    for other in more:
        for key, value in other.items():
            out[key] = merged(out.get(key, {}), value) if isinstance(value, dict) and isinstance(out.get(key, {}), dict) else value
    return out


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        onnx.save(network(), self.folder / "m.onnx")
        rng = np.random.default_rng(7)
        data = {"x": rng.standard_normal((N, 2, 6, 6)).astype(np.float32), "target": rng.integers(0, CLASSES, N)}
        np.savez(self.folder / "d.npz", **data)
        np.savez(self.folder / "e.npz", **data)

    def train(self, *configs, out="run", options=(), code=0):
        config = merged({"train_micro_batch_size_per_gpu": ROWS, "steps_per_print": 2,
                         "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
                         "ztrain": {"data": {"format": "npz", "path": "d.npz", "eval_path": "e.npz"}, "steps": STEPS, "seed": 1,
                                    "checkpoint": {"every_steps": 2, "keep": 9}}}, *configs)
        (self.folder / "c.json").write_text(json.dumps(config))
        run = subprocess.run([ZTRAIN, "--model", "m.onnx", "--config", "c.json", "--output", out, "--threads", "2", "--device", DEVICE, *options], cwd=self.folder,
                             capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, code, run.stderr)
        return run.stderr

    def rows(self, out="run", evaluations=False):
        rows = [json.loads(line) for line in (self.folder / out / "metrics.jsonl").read_text().splitlines()]
        return [r for r in rows if bool(r.get("eval")) == evaluations]

    def events(self, folder):
        read = event_accumulator.EventAccumulator(str(self.folder / folder), size_guidance={"scalars": 0, "histograms": 0, "tensors": 0})
        read.Reload()
        return read

    def scalars(self, folder, tag):
        return [(e.step, e.value) for e in self.events(folder).Scalars(tag)]

    def assert_events(self, tag, rows):
        """Events hold the values in float, metrics.jsonl in nine decimal digits: both are rounded, each by itself."""
        events = self.scalars("run", tag)
        self.assertEqual([step for step, _ in events], [step for step, _ in rows])
        np.testing.assert_allclose([value for _, value in events], [value for _, value in rows], rtol=1.2e-7)

    def table(self, file):
        with open(self.folder / file, newline="") as text:
            return list(csv.reader(text))


class Events(Case):
    def test_scalars_are_the_rows_of_the_metrics_over_samples(self):
        self.train({"tensorboard": {"enabled": True}})
        rows = self.rows()
        for tag, key in (("train_loss", "loss"), ("lr", "lr"), ("grad_norm", "grad_norm")):
            self.assert_events(TAG + tag, [(ROWS * r["step"], r[key]) for r in rows])
        for r, (step, rate) in zip(rows, self.scalars("run", TAG + "samples_per_second"), strict=True):
            self.assertEqual(step, ROWS * r["step"])
            self.assertAlmostEqual(rate * r["seconds"] / ROWS, 1, places=4)
        evaluation = self.rows(evaluations=True)
        self.assert_events(TAG + "eval_loss", [(N, r["loss"]) for r in evaluation])
        self.assertEqual(self.scalars("run", TAG + "eval_accuracy"), [(N, np.float32(r["accuracy"])) for r in evaluation])
        self.assertNotIn(TAG + "loss_scale", self.events("run").Tags()["scalars"])

    def test_every_record_has_its_checksums_and_the_first_is_the_version(self):
        self.train({"tensorboard": {"enabled": True}})
        [file] = (self.folder / "run").glob("events.out.tfevents.*")
        loaded = list(event_file_loader.RawEventFileLoader(str(file)).Load())  # raises for a wrong checksum
        self.assertIn(b"brain.Event:2", loaded[0])
        self.assertGreater(len(loaded), 4 * STEPS)
        data = bytearray(file.read_bytes())
        data[-1] ^= 1  # the loader leaves out what is damaged: the checksums are looked at
        (self.folder / "damaged").mkdir()
        (self.folder / "damaged" / file.name).write_bytes(data)
        self.assertEqual(len(list(event_file_loader.RawEventFileLoader(str(self.folder / "damaged" / file.name)).Load())), len(loaded) - 1)

    def test_the_config_is_text(self):
        self.train({"tensorboard": {"enabled": True}})
        read = self.events("run")
        [event] = read.Tensors("config")
        text = event.tensor_proto.string_val[0].decode()
        resolved = (self.folder / "run" / "config.resolved.json").read_text()
        self.assertEqual(text, "".join("    " + line + "\n" for line in resolved.splitlines()))
        self.assertEqual(read.SummaryMetadata("config").plugin_data.plugin_name, "text")

    def test_folders_are_those_of_deepspeed(self):
        self.train({"tensorboard": {"enabled": True, "output_path": "logs/tb", "job_name": "a/b"}, "csv_monitor": {"enabled": True, "output_path": "logs/csv"}})
        self.assertEqual(len(list((self.folder / "logs/tb/a/b").glob("events.out.tfevents.*"))), 1)
        self.assertTrue((self.folder / "logs/csv/DeepSpeedJobName/Train_Samples_lr.csv").exists())
        self.assertEqual(list((self.folder / "run").glob("events*")), [])
        self.train({"tensorboard": {"enabled": True, "job_name": "job"}}, out="other")
        self.assertEqual(len(list((self.folder / "other/job").glob("events.out.tfevents.*"))), 1)

    def test_a_folder_outside_of_output_path_is_refused(self):
        for name in ("../up", "/tmp/x", "a/../../b", "."):
            message = self.train({"tensorboard": {"enabled": True, "job_name": name}}, code=2)
            self.assertIn(f'tensorboard.job_name: "{name}" is not a folder below output_path', message)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["c.json", "d.npz", "e.npz", "m.onnx"])

    def test_an_output_path_that_cannot_be_written_is_named(self):
        (self.folder / "file").write_text("")
        self.assertIn("ztrain: error: file: ", self.train({"tensorboard": {"enabled": True, "output_path": "file"}}, code=4))

    def test_a_resumed_run_has_every_step_once(self):
        for place in ({}, {"output_path": "logs"}):
            monitors = {"tensorboard": {"enabled": True, **place}, "csv_monitor": {"enabled": True, "job_name": "csv", **place}}
            where = "logs/DeepSpeedJobName" if place else "resumed"
            self.train(monitors, out="whole", options=["--overwrite"])
            whole = [(ROWS * r["step"], np.float32(r["loss"])) for r in self.rows("whole")]
            if place:
                for file in (self.folder / where).glob("*"):
                    file.unlink()
                for file in (self.folder / "logs/csv").glob("*"):
                    file.unlink()
            self.train(monitors, {"ztrain": {"steps": 4}}, out="resumed", options=["--overwrite"])
            self.train(monitors, out="resumed", options=["--resume", "resumed/checkpoints/step-2"])
            self.assertEqual(self.scalars(where, TAG + "train_loss"), whole)
            loaded = [e for f in sorted((self.folder / where).glob("events*")) for e in event_file_loader.EventFileLoader(str(f)).Load()]
            self.assertEqual([e.step for e in loaded for v in e.summary.value if v.tag == TAG + "lr"], [s for s, _ in whole])
            csv_folder = "logs/csv" if place else "resumed/csv"
            lines = self.table(f"{csv_folder}/Train_Samples_train_loss.csv")
            self.assertEqual(lines[0], ["step", "train_loss"])
            self.assertEqual([(int(s), np.float32(v)) for s, v in lines[1:]], whole)

    def test_files_of_others_stay(self):
        (self.folder / "logs/DeepSpeedJobName").mkdir(parents=True)
        other = self.folder / "logs/DeepSpeedJobName/events.out.tfevents.1.host.1.0.ztrain-0000000000000000"
        other.write_bytes(b"not ours")
        for options in ([], ["--overwrite"], ["--resume"]):
            self.train({"tensorboard": {"enabled": True, "output_path": "logs"}}, options=options)
            self.assertEqual(other.read_bytes(), b"not ours")
        self.assertEqual(len(list(other.parent.glob("events*"))), 3)  # a new run replaces its files, a resumed one adds a file

    def test_histograms_count_the_weights_of_all_ranks(self):
        monitors = {"tensorboard": {"enabled": True}, "ztrain": {"monitor": {"histogram_steps": 3}}}
        layouts = [([], {}), (["--ranks", "2"], merged(THREADS, {"zero_optimization": {"stage": 3}})),
                   (["--ranks", "2"], merged(THREADS, {"pipeline": {"stages": 2}})), (["--ranks", "2"], {"ztrain": {"parallel": {"mode": "dp"}}})]
        for number, (options, layout) in enumerate(layouts):
            out = f"run{number}"
            self.train(monitors, layout, {"train_micro_batch_size_per_gpu": ROWS // 2 if number in (1, 3) else ROWS}, out=out, options=options)
            read = self.events(out)
            weights = {w.name: numpy_helper.to_array(w) for w in onnx.load(self.folder / out / "model.onnx").graph.initializer}
            self.assertEqual(sorted(read.Tags()["histograms"]), sorted(f"{kind}/{name}" for kind in ("Weights", "Gradients") for name in weights))
            for name, values in weights.items():
                found = read.Histograms("Weights/" + name)
                self.assertEqual([h.step for h in found], [ROWS * 3, ROWS * 6])
                h = found[-1].histogram_value
                values = values.astype(np.float64).ravel()
                self.assertEqual((h.num, h.min, h.max), (values.size, values.min(), values.max()))
                self.assertAlmostEqual(h.sum, values.sum(), places=9)
                self.assertAlmostEqual(h.sum_squares, (values ** 2).sum(), places=9)
                counts = np.diff([np.sum(values < limit) for limit in [-np.inf, *h.bucket_limit]])
                self.assertEqual(list(h.bucket), list(counts))
            norm = [r["grad_norm"] for r in self.rows(out)][-1]
            squares = sum(read.Histograms("Gradients/" + name)[-1].histogram_value.sum_squares for name in weights)
            self.assertAlmostEqual(squares ** 0.5 / norm, 1, places=6)

    def test_the_loss_scale_of_fp16_is_a_tag(self):
        self.train({"tensorboard": {"enabled": True}, "fp16": {"enabled": True, "initial_scale_power": 8}})
        self.assertEqual(self.scalars("run", TAG + "loss_scale"), [(ROWS * r["step"], r["loss_scale"]) for r in self.rows()])


class Csv(Case):
    def test_a_new_run_in_its_own_folder_replaces_the_rows_and_elsewhere_appends_without_a_second_header(self):
        for options in ([], ["--overwrite"]):
            self.train({"csv_monitor": {"enabled": True}}, options=options)
        steps = [str(ROWS * (i + 1)) for i in range(STEPS)]
        self.assertEqual([r[0] for r in self.table("run/Train_Samples_lr.csv")], ["step", *steps])
        for out in ("a", "b"):
            self.train({"csv_monitor": {"enabled": True, "output_path": "logs", "job_name": "j"}}, out=out)
        self.assertEqual([r[0] for r in self.table("logs/j/Train_Samples_lr.csv")], ["step", *steps, *steps])
        self.assertEqual(self.table("run/Train_Samples_lr.csv")[0], ["step", "lr"])

    def test_services_write_the_files_with_a_notice(self):
        said = self.train({"wandb": {"enabled": True, "project": "p"}})
        self.assertIn("wandb: no service receives the values. They are in CSV files in run", said)
        self.assertIn("wandb sync --sync-tensorboard", said)
        self.assertTrue((self.folder / "run/Train_Samples_train_loss.csv").exists())
        self.assertIn("comet: no service", self.train({"comet": {"enabled": True}}, out="c"))
        self.assertTrue((self.folder / "c/Train_Samples_train_loss.csv").exists())

    def test_links_are_not_followed(self):
        (self.folder / "logs/DeepSpeedJobName").mkdir(parents=True)
        (self.folder / "victim").write_text("precious\n")
        (self.folder / "logs/DeepSpeedJobName/Train_Samples_lr.csv").symlink_to(self.folder / "victim")
        self.assertIn("Train_Samples_lr.csv", self.train({"csv_monitor": {"enabled": True, "output_path": "logs"}}, code=4))
        self.assertEqual((self.folder / "victim").read_text(), "precious\n")


MICRO = ["fwd_microstep", "bwd_microstep", "bwd_inner_microstep", "bwd_allreduce_microstep", "step_microstep"]
GLOBAL = ["fwd", "bwd", "bwd_inner", "bwd_allreduce", "step"]


STATES = ["Before initializing optimizer states", "After initializing optimizer states"]
ZERO = {1: [*STATES, "After initializing ZeRO optimizer"]}
ZERO |= {2: ZERO[1], 3: ["Stage 3 initialize beginning", "After creating fp32 partitions", *ZERO[1]]}


class Lines(Case):
    def timed(self, *configs, **options):
        """The timers of every line "time (ms) | name: 1.23 | ...", in order."""
        said = self.train({"wall_clock_breakdown": True}, *configs, **options)
        lines = [line for line in said.splitlines() if line.startswith("time (ms)")]
        for line in lines:
            self.assertRegex(line, r"^time \(ms\)( \| [a-z0-9_]+: \d+\.\d\d)+$")
        return [{name: float(ms) for name, ms in (part.split(": ") for part in line.split(" | ")[1:])} for line in lines]

    def test_a_line_a_micro_batch_and_one_a_step(self):
        lines = self.timed({"gradient_accumulation_steps": 2})
        self.assertEqual([list(line) for line in lines], [MICRO, MICRO, GLOBAL] * STEPS)
        for first, last, whole in zip(lines[::3], lines[1::3], lines[2::3]):
            self.assertEqual(first["step_microstep"], 0)
            for a, b in zip(MICRO, GLOBAL):
                self.assertAlmostEqual(first[a] + last[a], whole[b], delta=0.011)
            self.assertAlmostEqual(whole["bwd_inner"] + whole["bwd_allreduce"], whole["bwd"], delta=0.011)

    def test_the_timers_of_the_optimizer_follow_zero_and_fp16(self):
        sets = {1: ["optimizer_allgather", "optimizer_gradients", "optimizer_step"], 3: ["optimizer_step"]}
        created = {3: [["init_optimizer_state"]]}
        for stage in (1, 2, 3):
            lines = self.timed(THREADS, {"zero_optimization": {"stage": stage}}, out=f"z{stage}", options=["--ranks", "2"])
            self.assertEqual([list(line) for line in lines], created.get(stage, []) + [sets.get(stage, sets[1]), MICRO, GLOBAL] * STEPS)
        lines = self.timed({"fp16": {"enabled": True, "initial_scale_power": 8}}, out="f")
        self.assertEqual([list(line) for line in lines],
                         [["compute_norm", "overflow_check", "unscale_and_clip", "basic_step", "update_fp16"], MICRO, GLOBAL] * STEPS)

    def test_the_timers_of_offloading_are_parts_of_the_step_and_those_of_the_trace(self):
        wide_network(self.folder / "m.onnx")
        files = {"device": "nvme", "nvme_path": "nvme"}
        optimizer = {"zero_optimization": {"stage": 3, "offload_optimizer": files, "sub_group_size": 1000000}}
        copies = ["swap_in_gradient"] if DEVICE == "cuda" else []
        param, state = ["swap_in_param", "swap_out_param"], ["swap_in_state", "swap_out_state", "async_swap_in_state", "async_swap_out_state"]
        runs = [(copies + state, {}), (copies + state, {"offload_optimizer": {"pipeline_read": True, "pipeline_write": True}}),
                (param + copies + state, {"offload_param": {**files, "max_in_cpu": 0}})]
        for number, (names, more) in enumerate(runs):
            created, *lines = self.timed(optimizer, {"zero_optimization": more, "ztrain": {"steps": 3, "monitor": {"trace_step": 2, "trace_steps": 1}}}, out=f"r{number}")
            self.assertEqual([list(line) for line in lines],
                             [names, ["optimizer_swap_in_state", "optimizer_swap_out_state", "optimizer_step"], MICRO, GLOBAL] * 3)
            self.assertEqual(list(created), ["init_optimizer_state"])
            self.assertGreater(created["init_optimizer_state"], 0)
            trace = json.loads((self.folder / f"r{number}/trace.json").read_text())["traceEvents"]
            traced = lambda name: 1e-3 * sum(e["dur"] for e in trace if e["name"] == name)
            swaps, whole = lines[4], lines[5]
            if DEVICE == "cpu":  # the clock of the emulated device counts its calls
                self.assertGreater(whole["optimizer_step"], whole["optimizer_swap_in_state"] + whole["optimizer_swap_out_state"])
            for name, event in (("swap_in_param", "wait for weights"), ("swap_out_param", "wait for written weights"), ("swap_in_state", "wait for optimizer states"),
                                ("swap_out_state", "wait for written optimizer states"), ("swap_in_gradient", "wait for gradients")):
                self.assertAlmostEqual(swaps.get(name, 0), traced(event), delta=0.0051)
            self.assertAlmostEqual(whole["optimizer_swap_in_state"], traced("swap in"), delta=0.0051)
            self.assertAlmostEqual(whole["optimizer_swap_out_state"], traced("swap out"), delta=0.0051)
            self.assertGreater(sum(swaps[name] for name in state), 1)  # 80 MB in and out: at most 160 GB/s
            if number == 0:  # without overlap the update waits for every transfer
                self.assertGreater(swaps["swap_in_state"], 0.5 * whole["optimizer_swap_in_state"])
                self.assertGreater(swaps["swap_out_state"], 0.5 * whole["optimizer_swap_out_state"])

    def test_a_pipeline_prints_at_steps_per_print(self):
        lines = self.timed(THREADS, {"pipeline": {"stages": 2}, "gradient_accumulation_steps": 2}, options=["--ranks", "2"])
        names = [["batch_input", "forward_microstep", "backward_microstep", "backward_inner_microstep", "backward_allreduce_microstep", "step_microstep"],
                 GLOBAL, ["pipe_send_output", "pipe_send_grad", "pipe_recv_input", "pipe_recv_grad"], ["train_batch"]]
        self.assertEqual([list(line) for line in lines], names * (STEPS // 2))

    def test_the_lines_of_a_pipeline_are_means_over_the_steps_since_the_last(self):
        for every, steps in ((3, [(0, 3), (3, 6)]), (4, [(0, 4)])):
            lines = self.timed(THREADS, {"pipeline": {"stages": 2}, "steps_per_print": every, "csv_monitor": {"enabled": True}}, out=f"p{every}", options=["--ranks", "2"])
            for name, column in (("fwd", "forward"), ("bwd", "backward"), ("bwd_allreduce", "backward_allreduce"), ("step", "step")):
                values = [float(value) for _, value in self.table(f"p{every}/Train_Samples_elapsed_time_ms_{column}.csv")[1:]]
                self.assertEqual(len(values), STEPS)
                for line, (a, b) in zip(lines[1::4], steps, strict=True):
                    self.assertAlmostEqual(line[name], sum(values[a:b]) / (b - a), delta=0.006)
            seconds = [1e3 * row["seconds"] for row in self.rows(f"p{every}")]
            for line, (a, b) in zip(lines[3::4], steps, strict=True):
                self.assertLessEqual(line["train_batch"], sum(seconds[a:b]) / (b - a) + 0.02)

    def test_a_pipeline_prints_its_stages_and_its_intervals(self):
        replicas = {"pipeline": {"stages": 2}, "gradient_accumulation_steps": 2}
        said = self.train(THREADS, replicas, out="p", options=["--ranks", "4"])
        millions = lambda count: f"{count} ({count / 1e6:.3f}M)"
        stages = [(0, 0, PARAMS - CLASSES * 145), (1, 0, PARAMS - CLASSES * 145), (2, 1, CLASSES * 145), (3, 1, CLASSES * 145)]
        lines = [f"RANK={rank} STAGE={stage} LAYERS=1 [{stage}, {stage + 1}) STAGE_PARAMS={millions(params)} TOTAL_PARAMS={millions(PARAMS)} "
                 f"UNIQUE_PARAMS={millions(PARAMS)}" for rank, stage, params in stages]
        self.assertEqual([line for line in said.splitlines() if "STAGE=" in line], lines)
        self.assertIn("stage=0 layers=1\n     0: /features/features.0/Conv\nstage=1 layers=1\n     1: /head/Gemm\nmicro_batches=", said)
        self.assertEqual(re.findall(r"(?m)^micro_batches=.*$", said), [f"micro_batches=2 micro_batch_size={ROWS}"])
        rows = self.rows("p")
        found = re.findall(r"(?m)^steps: (\d+) loss: (\d+\.\d{4}) iter time \(s\): (\d+\.\d{3}) samples/sec: (\d+\.\d{3})$", said)
        self.assertEqual([int(step) for step, *_ in found], [2, 4, 6])
        for step, loss, seconds, rate in found:
            pair = rows[int(step) - 2:int(step)]
            took = sum(row["seconds"] for row in pair)
            self.assertAlmostEqual(float(loss), pair[1]["loss"], delta=5.1e-5)
            self.assertAlmostEqual(float(seconds), took / 2, delta=5.1e-4)
            self.assertAlmostEqual(float(rate) * took / sum(row["samples"] for row in pair), 1, delta=1e-3)
        quiet = self.train(THREADS, replicas, out="q", options=["--ranks", "4", "--quiet"])
        self.assertNotRegex(quiet, r"STAGE=|stage=|micro_batches=|iter time")
        self.assertNotRegex(self.train({"timers": {"throughput": {"enabled": False}}}, out="one"), r"STAGE=|micro_batches=|iter time|RunningAvg")

    def test_tied_parameters_of_two_stages_are_unique_once(self):
        """y = x E E^T: both stages read E."""
        table = numpy_helper.from_array(np.full((72, CLASSES), 0.01, np.float32), "e")
        nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("MatMul", ["f", "e"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
                 helper.make_node("Transpose", ["e"], ["t"]), helper.make_node("MatMul", ["r", "t"], ["y"])]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 6, 6])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 72])], [table])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
        count = 72 * CLASSES
        said = self.train(THREADS, {"pipeline": {"stages": 2}}, options=["--ranks", "2"])
        self.assertEqual(re.findall(r"STAGE_PARAMS=(\d+) .* TOTAL_PARAMS=(\d+) .* UNIQUE_PARAMS=(\d+) ", said), [(f"{count}", f"{2 * count}", f"{count}")] * 2)

    def test_the_times_are_those_of_the_monitors_and_fit_into_the_step(self):
        lines = self.timed({"csv_monitor": {"enabled": True}})[1::2]
        for name, column in (("fwd", "forward"), ("bwd", "backward"), ("bwd_inner", "backward_inner"), ("bwd_allreduce", "backward_allreduce"), ("step", "step")):
            rows = self.table(f"run/Train_Samples_elapsed_time_ms_{column}.csv")[1:]
            for line, (_, value) in zip(lines, rows, strict=True):
                self.assertAlmostEqual(line[name], float(value), delta=0.006)
        for line, row in zip(lines, self.rows(), strict=True):
            self.assertLessEqual(line["fwd"] + line["bwd"] + line["step"], 1e3 * row["seconds"] + 0.02)

    def test_timing_changes_no_weight(self):
        last = [self.train(config, out=f"t{i}").splitlines()[-1]
                for i, config in enumerate(({}, {"wall_clock_breakdown": True, "ztrain": {"monitor": {"trace_steps": 3}}}))]
        self.assertEqual(last[0], last[1])

    def memory_lines(self, *configs, **options):
        """(tag, MA, Max_MA) of all memory lines, in GB."""
        said = self.train(*configs, **options)
        found = re.findall(r"^(.+)\nMA (\d+\.\d\d) GB         Max_MA (\d+\.\d\d) GB         CA \d+\.\d\d GB         Max_CA \d+ GB\n"
                           r"CPU Virtual Memory:  used = \d+\.\d\d GB, percent = \d+\.\d%$", said, re.M)
        self.assertEqual(len(found), said.count("Max_MA"))
        return [(tag, float(now), float(most)) for tag, now, most in found]

    def test_memory_lines_of_memory_breakdown(self):
        tags = lambda *configs, **options: [tag for tag, _, _ in self.memory_lines(*configs, **options)]
        micro_batch = [f"Engine {when} {phase}" for phase in ("forward", "backward") for when in ("before", "after")]
        step = [*micro_batch, "Engine before step", "Engine after step"]
        self.assertEqual(tags({"memory_breakdown": True}), STATES + step * STEPS)
        self.assertEqual(tags({"memory_breakdown": True, "zero_optimization": {"stage": 2}, "gradient_accumulation_steps": 2}, out="z"),
                         ZERO[2] + (micro_batch + step) * STEPS)
        self.assertEqual(tags(out="off"), [])

    def test_memory_lines_of_zero_are_the_blocks_of_rank_0(self):
        array = 4 * wide_network(self.folder / "m.onnx") / 2 ** 30  # GB of an fp32 number a weight
        # of a rank of two: arrays of parameters, gradients, and the two states of Adam
        for stage, parameters, gradients, states in ((1, 1, 1, 1), (2, 1, 0.5, 1), (3, 0.5, 0.5, 1)):
            lines = self.memory_lines(THREADS, {"zero_optimization": {"stage": stage}, "train_micro_batch_size_per_gpu": 2, "ztrain": {"steps": 1}},
                                      out=f"z{stage}", options=["--ranks", "2"])
            self.assertEqual([tag for tag, _, _ in lines], ZERO[stage])
            now = {tag: value for tag, value, _ in lines}
            if stage == 3:
                self.assertEqual(now["Stage 3 initialize beginning"], 0)
                self.assertAlmostEqual(now["After creating fp32 partitions"], parameters * array, delta=0.0051)
            before, after = (now[tag] for tag in STATES)
            self.assertGreater(before, (parameters + gradients) * array - 0.0051)
            self.assertAlmostEqual(after - before, states * array, delta=0.0101)
            for (_, was, _), (_, value, most) in zip(lines, lines[1:]):
                self.assertGreaterEqual(most, max(was, value))

    def test_dump_state_lists_the_configuration(self):
        said = self.train({"dump_state": True, "gradient_clipping": "auto", "gradient_accumulation_steps": "auto", "steps_per_print": None,
                           "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto", "warmup_max_lr": [0.01]}},
                           "zero_optimization": {"stage": "auto"}, "ztrain": {"freeze": ["b*"], "memory_limit": None}},
                          options=["--steps", "4", "--set", "ztrain.parallel.communicator=thread"])
        table = re.search(r"(?m)^DeepSpeedEngine configuration:\n((?:  [\w.]+ .*\n)+)", said)[1]
        rows = dict(re.fullmatch(r"  ([\w.]+) \.* ?(.*)", line).groups() for line in table.splitlines() if line)
        self.assertGreater(len(rows), 60)
        for key, row in rows.items():
            self.assertRegex(row, r"\((c\.json:1|default|derived|auto: .+|--[a-z]+)\)$", key)
        for key, row in (("train_batch_size", "8 (derived)"), ("train_micro_batch_size_per_gpu", "8 (c.json:1)"),
                         ("gradient_accumulation_steps", "1 (auto: default)"), ("gradient_clipping", "1 (auto: Hugging Face's default)"),
                         ("steps_per_print", "0 (c.json:1)"), ("optimizer.type", "AdamW (c.json:1)"), ("optimizer.params.lr", "0.01 (c.json:1)"),
                         ("optimizer.params.betas", "[0.9, 0.999] (default)"), ("scheduler.params.warmup_max_lr", "0.01 (c.json:1)"),
                         ("scheduler.params.total_num_steps", "4 (auto: the optimizer steps of the run)"),
                         ("ztrain.steps", "4 (--steps)"), ("ztrain.epochs", "10 (default)"), ("ztrain.freeze", '["b*"] (c.json:1)'),
                         ("ztrain.trainable", '["*"] (default)'), ("ztrain.memory_limit", "null (default)"), ("ztrain.tie", "[] (default)"),
                         ("ztrain.metrics", '["accuracy"] (derived)'), ("ztrain.parallel.communicator", "thread (--set)")):
            self.assertEqual(rows[key], row, key)

    def test_comms_logger_prints_its_table_after_sigusr1_and_at_the_end(self):
        said = self.train(THREADS, {"comms_logger": {"enabled": True, "verbose": True}, "train_micro_batch_size_per_gpu": 4, "ztrain": {"steps": 1}}, options=["--ranks", "2", "--json"], out="short")
        texts = [json.loads(line).get("text", "") for line in said.splitlines()]
        self.assertTrue(any(text.startswith("comm op: ") for text in texts) and any(text.startswith("Comm. Op ") for text in texts), texts)
        config = json.loads((self.folder / "c.json").read_text())
        config["ztrain"]["steps"] = 10 ** 9
        config["comms_logger"]["verbose"] = False
        (self.folder / "c.json").write_text(json.dumps(config))
        with subprocess.Popen([ZTRAIN, "--model", "m.onnx", "--config", "c.json", "--output", "run", "--threads", "2", "--device", DEVICE, "--ranks", "2"],
                              cwd=self.folder, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL) as run:
            self.addCleanup(run.kill)
            next(line for line in run.stderr if line.startswith("Epoch: "))
            counts = []
            for number in signal.SIGUSR1, signal.SIGTERM:
                run.send_signal(number)
                next(line for line in run.stderr if line.startswith("Comm. Op"))
                rows = itertools.takewhile(lambda line: re.fullmatch(r"[a-z_]+\n| {20}\d.*\n", line), run.stderr)
                counts.append(sum(int(row.split()[2]) for row in rows if row.startswith(" ")))
            rest = run.stderr.read()
            self.assertEqual(run.wait(60), 128 + signal.SIGTERM)
            self.assertNotIn("Comm. Op", rest)
            self.assertGreater(counts[0], 0)
            self.assertGreater(counts[1], counts[0])

    def test_a_new_run_prints_step_0_with_the_rate_of_the_first_step(self):
        schedule = {"scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": [0.001, 0.002], "warmup_max_lr": [0.01, 0.02], "warmup_num_steps": 4,
                                                                 "warmup_type": "linear"}},
                    "ztrain": {"param_groups": [{"match": "*.bias"}]}}

        def lines(said):
            found = re.findall(r"(?m)^step=(\d+), skipped=0, lr=\[(\S+), (\S+)\], mom=\[\[0\.9, 0\.999\], \[0\.9, 0\.999\]\]$", said)
            self.assertEqual([2 * float(rate) for _, rate, _ in found], [float(rate) for *_, rate in found])
            return [(step, rate) for step, rate, _ in found]

        said = self.train(schedule)
        self.assertEqual([int(step) for step, _ in lines(said)], [0, 2, 4, 6])
        self.assertLess(said.index("step=0,"), said.index("Epoch: 0 "))
        throughput = re.compile(r"(?m)^epoch=0/micro_step=(\d+)/global_step=(\d+), RunningAvgSamplesPerSec=\d+\.\d+, CurrSamplesPerSec=\d+\.\d+, "
                                r"MemAllocated=0\.\d+GB, MaxMemAllocated=0\.\d+GB$")
        self.assertEqual(throughput.findall(said), [("4", "4"), ("6", "6")])
        rows = self.rows()
        for step, rate in lines(said)[:-1]:
            self.assertAlmostEqual(float(rate), rows[int(step)]["lr"], places=12)
        self.assertEqual([int(step) for step, _ in lines(self.train(schedule, {"ztrain": {"steps": 8}}, options=["--resume"]))], [8])
        self.assertEqual(lines(self.train(schedule, {"log_level": "warning"}, out="quiet")), [])

    def test_steps_per_print_of_null_prints_the_first_step_alone(self):
        said = self.train({"steps_per_print": None})
        self.assertEqual(len(re.findall(r"(?m)^Epoch: ", said)), 1)
        self.assertNotIn("skipped=", said)

    def test_memory_over_the_steps_is_recorded(self):
        self.train()
        rows = [json.loads(line) for line in (self.folder / "run/memory.jsonl").read_text().splitlines()]
        self.assertEqual(rows[0]["step"], 1)
        self.assertTrue(all(2 ** 20 < r["memory"] < 2 ** 33 for r in rows))


UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "B": 1e9, "us": 1e-6, "ms": 1e-3, "s": 1}


class Flops(Case):
    def profile(self, *configs, **options):
        """The text of the report, and its rows "label:  value" of every stage, as numbers."""
        self.train({"flops_profiler": {"enabled": True, "profile_step": 3}}, *configs, **options)
        text = (self.folder / options.get("out", "run") / "flops.txt").read_text()
        stages = []
        for line in text.splitlines():
            label, _, value = line.partition(":  ")
            match = re.fullmatch(r" *([\d.]+) ?([KMGTB]?|us|ms|s)(MACs|FLOPS| %)?", value)
            if label == "world size":
                stages.append({})
            if match and stages:
                stages[-1][label] = float(match[1]) * UNITS[match[2]]
        return text, stages

    def near(self, value, expected, roundings=1):
        """As far as the report has digits: two behind the point, in each of its numbers."""
        self.assertLess(abs(value - expected), roundings * 0.0051 * 10 ** (3 * int(np.log10(max(expected, 1)) // 3)) + 1e-9, f"{value}, wants {expected}")

    def test_numbers_are_those_counted_by_hand(self):
        text, [rows] = self.profile({"gradient_accumulation_steps": 2})
        macs = ROWS * (CONV_MACS + GEMM_MACS)
        self.near(rows["params per GPU"], PARAMS)
        self.near(rows["fwd MACs per GPU"], macs)
        self.assertGreaterEqual(rows["fwd flops per GPU"], 2 * macs - 5)
        self.assertLess(rows["fwd flops per GPU"], 2 * macs + ROWS * (144 + 2 * CLASSES) * 3)  # elementwise operators
        self.assertEqual((rows["batch size per GPU"], rows["micro-batches per step"], rows["world size"]), (ROWS, 2, 1))
        features = re.search(r"\(features\): features  (.*?) = .*?% Params, (.*?)MACs", text)
        self.assertEqual(features[1].strip(), "76.00")
        self.near(float(features[2].split()[0]) * UNITS[features[2].split()[1]], ROWS * CONV_MACS)
        head = re.search(r"\(head\): head  (.*?) = .*?% Params, (.*?)MACs", text)
        self.assertEqual(head[1].strip(), f"{CLASSES * 144 + CLASSES}.00")
        self.near(float(head[2].split()[0]) * UNITS[head[2].split()[1]], ROWS * GEMM_MACS)

    def test_norms_pools_and_softmax_count_as_in_deepspeeds_profiler(self):
        """A chain of them on [n, 2, 6, 6]. By operator: FLOPs per element of its input (DeepSpeed 0.19: _batch_norm_flops_compute and its
        neighbours; the square, mean, product and sum of torch's local_response_norm), and the elements of a sample there."""
        counts = {"BatchNormTrain": (5, 72), "InstanceNormalization": (5, 72), "GroupNormalization": (5, 72), "LRN": (4, 72),
                  "MeanVarianceNormalization": (4, 72), "LpNormalization": (3, 72), "MaxPoolTrain": (1, 72), "AveragePool": (1, 18),
                  "LayerNormalization": (5, 8), "RMSNormalization": (4, 8), "Softmax": (1, 8)}
        attributes = {"GroupNormalization": {"num_groups": 2}, "LRN": {"size": 3}, "MaxPoolTrain": {"kernel_shape": [2, 2], "strides": [2, 2]},
                      "AveragePool": {"kernel_shape": [2, 2]}}
        scales = {"BatchNormTrain": 4, "InstanceNormalization": 2, "GroupNormalization": 2, "LayerNormalization": 2, "RMSNormalization": 1}
        weights, nodes, value = [numpy_helper.from_array(np.full((CLASSES, 8), 0.1, np.float32), "w")], [], "x"
        for number, op in enumerate(counts):
            names = [f"{op}.{i}" for i in range(scales.get(op, 0))]
            weights += [numpy_helper.from_array(np.ones(8 if op in ("LayerNormalization", "RMSNormalization") else 2, np.float32), n) for n in names]
            if op == "LayerNormalization":
                nodes.append(helper.make_node("Flatten", [value], ["flat"]))
                value = "flat"
            standard = {"BatchNormTrain": "BatchNormalization", "MaxPoolTrain": "MaxPool"}.get(op, op)
            nodes.append(helper.make_node(standard, [value, *names], [f"v{number}"], op, **attributes.get(op, {})))
            value = f"v{number}"
        nodes.append(helper.make_node("Gemm", [value, "w"], ["y"], "head", transB=1))
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 6, 6])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", CLASSES])], weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), self.folder / "m.onnx")
        text, _ = self.profile()
        found = {phase + m[1]: float(m[3]) * UNITS[m[4]] for phase in ("forward", "backward")
                 for m in re.finditer(rf"(?m)^{phase} +(\w+) +1 +([\d.]+) +([\d.]+) ([KM]?) ", text)}
        for op, (each, elements) in counts.items():
            self.near(found["forward" + op], each * elements * ROWS)
        for op, forward in (("BatchNormGrad", "BatchNormTrain"), ("LRNGrad", "LRN"), ("LpNormalizationGrad", "LpNormalization"),
                            ("MeanVarianceNormalizationGrad", "MeanVarianceNormalization")):
            self.near(found["backward" + op], 2 * counts[forward][0] * counts[forward][1] * ROWS)
        macs = re.findall(r"(?m)^(?:forward|backward) +(\w+) +\d+ +([\d.]+) [KMGT]? *", text)
        self.assertEqual({op for op, value in macs if float(value) > 0 and op in counts}, set())

    def test_rates_follow_from_the_numbers_above_them(self):
        _, [rows] = self.profile({"gradient_accumulation_steps": 2, "flops_profiler": {"recompute_fwd_factor": 0.5}})
        near = lambda value, expected: self.assertLess(abs(value / expected - 1), 0.02)
        forward = rows["fwd flops per GPU"]
        near(rows["fwd FLOPS per GPU = fwd flops per GPU / fwd latency"], forward / rows["fwd latency"])
        near(rows["bwd FLOPS per GPU = 2.5 * fwd flops per GPU / bwd latency"], 2.5 * forward / rows["bwd latency"])
        near(rows["fwd+bwd FLOPS per GPU = 3.5 * fwd flops per GPU / (fwd+bwd latency)"], 3.5 * forward / (rows["fwd latency"] + rows["bwd latency"]))
        near(rows["FLOPS per GPU = 3.5 * fwd flops per GPU * 2 micro-batches / iter latency"], 7 * forward / rows["iter latency"])
        near(rows["samples/second"], 2 * ROWS / rows["iter latency"])
        near(rows["flops of the step per GPU, counted on the graph"], 2 * (forward + rows["bwd flops per GPU, counted on the graph"]))
        self.assertLessEqual(2 * (rows["fwd latency"] + rows["bwd latency"]) + rows["step latency"], 1.01 * rows["iter latency"])

    def test_the_recomputed_part_of_the_forward_pass_is_counted_on_the_graph(self):
        factor = lambda rows: {float(m[1]) - int(base) for label in rows for base, m in ((b, re.match(rf"{start} = ([\d.]+) \* fwd flops", label))
                               for b, start in ((2, "bwd FLOPS per GPU"), (3, r"fwd\+bwd FLOPS per GPU"), (3, "FLOPS per GPU"))) if m}
        again = lambda rows, plain: (rows["bwd flops per GPU, counted on the graph"] - plain["bwd flops per GPU, counted on the graph"]) / rows["fwd flops per GPU"]
        _, [plain] = self.profile()
        self.assertEqual(factor(plain), {0})
        for number, config in enumerate(({"activation_checkpointing": {"enabled": True, "number_checkpoints": 2}}, {"ztrain": {"recompute": ["*Relu*", "*Conv*"]}})):
            text, [rows] = self.profile(config, out=f"r{number}")
            [r] = {round(value, 9) for value in factor(rows)}
            self.assertTrue(0 < r <= 1, r)
            self.assertAlmostEqual(r, again(rows, plain), delta=0.02)
            for digits in re.findall(r"= [23]\.(\d+) \* fwd flops", text):
                self.assertLessEqual(len(digits.lstrip("0")), 4)
            resolved = json.loads((self.folder / f"r{number}/config.resolved.json").read_text())
            self.assertEqual(resolved["flops_profiler"]["recompute_fwd_factor"], "auto")
        _, [rows] = self.profile({"activation_checkpointing": {"enabled": True, "number_checkpoints": 2}, "flops_profiler": {"recompute_fwd_factor": 0}}, out="given")
        self.assertEqual(factor(rows), {0})

    def test_stages_of_a_pipeline_are_counted_apart(self):
        text, stages = self.profile(THREADS, {"pipeline": {"stages": 2}, "gradient_accumulation_steps": 2}, options=["--ranks", "2"])
        self.assertEqual(len(stages), 2)
        self.assertIn("Stage 1 of 2", text)
        self.near(sum(s["fwd MACs per GPU"] for s in stages), ROWS * (CONV_MACS + GEMM_MACS), roundings=2)
        self.assertEqual(sum(s["params per GPU"] for s in stages), PARAMS)
        for s in stages:
            self.assertEqual((s["pipeline stages"], s["micro-batches per step"], s["params of model = params per GPU * mp_size"]), (2, 2, PARAMS))

    def test_fused_nodes_count_in_the_module_of_their_product(self):
        """A convolution with the ReLU and the pool behind it, and a Linear on three axes, which becomes a Gemm between two Reshapes."""
        rng = np.random.default_rng(3)
        tensors = {"k": rng.standard_normal((4, 2, 3, 3)), "w": rng.standard_normal((9, 9)), "b": rng.standard_normal(9), "h": rng.standard_normal((CLASSES, 36))}
        shapes = {"apart": [0, 4, 9], "rows": [0, 36]}
        nodes = [helper.make_node("Conv", ["x", "k"], ["c"], "/features/features.0/Conv", pads=[1, 1, 1, 1]),
                 helper.make_node("Relu", ["c"], ["r"], "/features/features.1/Relu"),
                 helper.make_node("MaxPool", ["r"], ["p"], "/features/features.2/MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
                 helper.make_node("Reshape", ["p", "apart"], ["a"], "/Reshape"),
                 helper.make_node("Transpose", ["w"], ["t"], "/block/fc/Transpose"),
                 helper.make_node("MatMul", ["a", "t"], ["m"], "/block/fc/MatMul"),
                 helper.make_node("Add", ["m", "b"], ["s"], "/block/fc/Add"),
                 helper.make_node("Tanh", ["s"], ["u"], "/block/act/Tanh"),
                 helper.make_node("Reshape", ["u", "rows"], ["f"], "/Reshape_1"),
                 helper.make_node("Gemm", ["f", "h"], ["y"], "/head/Gemm", transB=1)]
        held = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in tensors.items()] + [numpy_helper.from_array(np.array(v), k) for k, v in shapes.items()]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2, 6, 6])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", CLASSES])], held)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "m.onnx")
        text, _ = self.profile()
        self.assertNotIn("reorder of", text)
        for module, macs in (("0", 4 * 2 * 9 * 36), ("fc", 4 * 9 * 9), ("head", CLASSES * 36)):
            found = re.search(rf"\({module}\): \S+  .*?% Params, ([\d.]+) ([KMG]?)MACs", text)
            self.near(float(found[1]) * UNITS[found[2]], ROWS * macs)

    def test_depth_top_detail_and_file(self):
        said = self.train({"flops_profiler": {"enabled": True, "module_depth": 0, "top_modules": 2, "detailed": False, "output_file": "deep/f.txt"}})
        text = (self.folder / "deep/f.txt").read_text()
        self.assertIn("Flops profile: deep/f.txt", said)
        self.assertNotIn("Profile Summary", said)
        self.assertEqual(len(re.findall(r"(?m)^time \(ms\) \| fwd: ", said)), STEPS)  # wall_clock_breakdown is on
        self.assertFalse((self.folder / "run/flops.txt").exists())
        self.assertEqual(re.findall(r"(?m)^depth (\d+):$", text), ["0"])
        self.assertNotIn("Detailed Profile", text)
        self.assertIn("Profile Summary at step 1:", text)
        text, _ = self.profile({"flops_profiler": {"top_modules": 2}}, out="b")
        self.assertEqual(re.findall(r"(?m)^depth (\d+):$", text), ["0", "1", "2"])
        self.assertRegex(text, r"depth 1:\n    params      - \{'head': '435.00 ', 'features': '76.00 '\}\n    MACs        - \{'features': ")

    def test_the_smaller_last_step_of_an_epoch_is_passed_over(self):
        text, [rows] = self.profile({"train_micro_batch_size_per_gpu": 20})  # steps of 20, 20 and 8 samples
        self.assertIn("Profile Summary at step 4:", text)
        self.near(rows["fwd MACs per GPU"], 20 * (CONV_MACS + GEMM_MACS))
        self.assertGreater(rows["fwd latency"], 0)

    def test_a_resumed_run_does_not_profile_a_step_of_before(self):
        self.profile()
        (self.folder / "run/flops.txt").unlink()
        self.train({"flops_profiler": {"enabled": True, "profile_step": 3}, "ztrain": {"steps": 8}}, options=["--resume"])
        self.assertFalse((self.folder / "run/flops.txt").exists())

    def test_a_step_outside_of_the_run_is_told(self):
        self.assertIn("flops_profiler.profile_step: step 99 is not among the steps 1 to 6 of this run",
                      self.train({"flops_profiler": {"enabled": True, "profile_step": 99}}))

    def test_step_minus_one_profiles_none(self):
        said = self.train({"flops_profiler": {"enabled": True, "profile_step": -1}})
        self.assertNotIn("profile_step", said)
        self.assertFalse((self.folder / "run/flops.txt").exists())

    def test_recomputed_segments_have_times(self):
        said = self.train({"activation_checkpointing": {"profile": True, "number_checkpoints": 2}})
        self.assertRegex(said, r"(?m)^Activation checkpointing: 1 recomputed segments, times of a micro-batch of step 3\n"
                               r"stage 0, segment 0 \| nodes: \d+, .* \| forward: \d+\.\d{3} ms \| recompute: \d+\.\d{3} ms \| .* not kept$")
        self.assertIn("needs a run of at least 3 steps", self.train({"activation_checkpointing": {"profile": True}, "ztrain": {"steps": 2}}, out="b"))


class Trace(Case):
    def trace(self, *configs, **options):
        self.train({"ztrain": {"monitor": {"trace_step": 2, "trace_steps": 3}}}, *configs, **options)
        read = json.loads((self.folder / "run" / "trace.json").read_text())
        return [chrometrace.TraceEvent.from_dict({**e, "ph": chrometrace.TraceEventType(e["ph"])}) for e in read["traceEvents"]]

    def check(self, events, ranks, instructions):
        self.assertEqual({e.process_id for e in events}, set(range(ranks)))
        for rank in range(ranks):
            own = [e for e in events if e.process_id == rank and e.event_type == "X"]
            steps = [e for e in own if e.categories == "step"]
            self.assertEqual([e.name for e in steps], ["step 2", "step 3", "step 4"])
            end = lambda e: e.timestamp_us + e.duration_us
            for step in steps:
                inside = [e for e in own if step.timestamp_us <= e.timestamp_us and end(e) <= end(step) + 1e-6]
                parts = [e for e in inside if e.categories == "instruction"]
                self.assertEqual([e.name for e in parts], instructions[rank])
                self.assertAlmostEqual(sum(e.duration_us for e in parts), step.duration_us, places=5)
                for before, after in zip(parts, parts[1:]):
                    self.assertAlmostEqual(end(before), after.timestamp_us, places=5)
                for node in (e for e in inside if e.categories in ("node", "part")):
                    self.assertTrue(any(p.timestamp_us <= node.timestamp_us + 1e-6 and end(node) <= end(p) + 1e-6 for p in parts), node)
                self.assertTrue(any(e.args.get("node") for e in inside))
        return own

    def test_instructions_add_up_to_the_step(self):
        end = ["REDUCE", "CLIP", "STEP", "GATHER", "end of step"]
        self.check(self.trace({"gradient_accumulation_steps": 2}), 1, [["LOAD", "FORWARD", "BACKWARD"] * 2 + end])

    def test_ranks_are_processes_of_one_trace(self):
        end = ["REDUCE", "CLIP", "STEP", "GATHER", "end of step"]
        events = self.trace(THREADS, {"zero_optimization": {"stage": 3}}, options=["--ranks", "2"])
        self.check(events, 2, [["LOAD", "FORWARD", "BACKWARD"] + end] * 2)
        self.assertTrue({"reduce gradients", "gather weights"} & {e.name for e in events})
        names = {e.process_id: e.args["name"] for e in events if e.name == "process_name"}
        self.assertEqual(names, {0: "rank 0 (stage 0)", 1: "rank 1 (stage 0)"})

    def test_stages_send_and_receive(self):
        end = ["REDUCE", "CLIP", "STEP", "GATHER", "end of step"]
        self.check(self.trace(THREADS, {"pipeline": {"stages": 2}}, options=["--ranks", "2"]), 2,
                   [["LOAD", "FORWARD", "SEND_ACT", "RECV_GRAD", "BACKWARD"] + end, ["LOAD", "RECV_ACT", "FORWARD", "BACKWARD", "SEND_GRAD"] + end])

    def test_a_run_that_ends_early_leaves_what_was_traced(self):
        self.train({"ztrain": {"steps": 3, "monitor": {"trace_step": 2, "trace_steps": 100}}})
        read = json.loads((self.folder / "run" / "trace.json").read_text())["traceEvents"]
        self.assertEqual([e["name"] for e in read if e.get("cat") == "step"], ["step 2", "step 3"])

    def test_an_overwritten_run_leaves_no_old_trace(self):
        self.trace()
        self.train(options=["--overwrite"])
        self.assertFalse((self.folder / "run" / "trace.json").exists())


class Overwrite(Case):
    def test_nothing_of_the_old_run_stays(self):
        half = {"bf16": {"enabled": True}, "zero_optimization": {"stage3_gather_16bit_weights_on_model_save": True}}
        self.train({"csv_monitor": {"enabled": True}}, half, options=["--profile"])
        (self.folder / "run/report.html").write_text("old")
        (self.folder / "run/notes.txt").write_text("not ours")
        old = {path.name for path in (self.folder / "run").iterdir()}
        for name in ["profile.tsv", "model.16bit.onnx", "Train_Samples_lr.csv"]:
            self.assertIn(name, old)
        self.train(options=["--overwrite"])
        self.train(out="fresh")
        left = {path.name for path in (self.folder / "run").iterdir()} - {path.name for path in (self.folder / "fresh").iterdir()}
        self.assertEqual(left, {"notes.txt"})

    def test_a_run_that_cannot_write_leaves_the_old_one(self):
        self.train()
        files = lambda: {path: path.read_bytes() for path in (self.folder / "run").rglob("*") if path.is_file()}
        before = files()
        self.assertTrue(any(path.name == "latest" for path in before))
        (self.folder / "file").write_text("")
        for config in [{"tensorboard": {"enabled": True, "output_path": "file/x"}}, {"csv_monitor": {"enabled": True, "output_path": "file/x"}},
                       {"flops_profiler": {"enabled": True, "output_file": "file/x/y"}}]:
            for out, options in [("run", ["--overwrite"]), ("new", [])]:
                said = self.train(config, out=out, options=options, code=4)
                self.assertIn("cannot create the folder", said)
            self.assertEqual(files(), before)
            self.assertFalse((self.folder / "new").exists())


def main():
    global ZTRAIN, DEVICE
    ZTRAIN = str(pathlib.Path(sys.argv.pop(1)).resolve())
    if len(sys.argv) < 2 or not sys.argv[1].endswith(".so"):
        return unittest.main()
    with tempfile.TemporaryDirectory() as beside:  # the program looks for its module beside itself
        for file in (ZTRAIN, sys.argv.pop(1)):
            shutil.copy(file, beside)
        ZTRAIN, DEVICE = str(pathlib.Path(beside) / "ztrain"), "cuda"
        return unittest.main()


if __name__ == "__main__":
    main()
