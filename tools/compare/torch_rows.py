"""The jobs and rows of tools/compare_torch. torch_networks.py has the networks. Needs neither PyTorch nor numpy."""
import fnmatch

BATCHES = 4  # of the data, which both sides train on in turn
RATE = 1e-4  # of the optimizer


class Job:
    """A network to train. `inputs` and `target`: the shape of a sample, and the number of values of an integer (None: normal floats).
    `loss`: its type, where it is neither cross_entropy nor mse. `within`: how far apart the last losses may be, as a share of the
    first one, where rounding grows (None: as elsewhere)."""

    def __init__(self, batch, inputs, target, steps, **more):
        self.batch, self.inputs, self.target, self.steps = batch, inputs, target, steps
        self.network, self.bf16, self.optimizer = more.get("network"), more.get("bf16", False), more.get("optimizer", "AdamW")
        self.within, self.kind = more.get("within"), more.get("loss")

    def loss(self):
        return self.kind or ("cross_entropy" if self.target[1] else "mse")


def image(size, channels=3):
    return {"image": ((channels, size, size), None)}


def classes(count):
    return (), count


def tokens(length, words):
    return {"tokens": ((length,), words)}


JOBS = {
    "convnet": Job(256, image(32), classes(10), 60, optimizer="Adam"),
    "convnet-bf16": Job(256, image(32), classes(10), 60, optimizer="Adam", network="convnet", bf16=True),
    "convnet-32": Job(32, image(32), classes(10), 200, optimizer="Adam", network="convnet"),
    "resnet20": Job(128, image(32), classes(10), 25),
    "resnet20-bf16": Job(128, image(32), classes(10), 25, network="resnet20", bf16=True),
    "gpt": Job(8, tokens(256, 4096), ((256,), 4096), 17),
    "gpt-bf16": Job(8, tokens(256, 4096), ((256,), 4096), 17, network="gpt", bf16=True),
    "vit": Job(16, image(64), classes(100), 35),
    "mobilenet": Job(64, image(96), classes(100), 35),
    "lstm": Job(32, {"series": ((64, 256), None)}, classes(10), 35),
    "unet": Job(8, image(64), ((3, 64, 64), None), 35),
    "resnet18": Job(8, image(224), classes(1000), 15),
    "gpt-768": Job(2, tokens(128, 16384), ((128,), 16384), 13),
    "vgg": Job(64, image(32), classes(10), 25),
    "two-branch": Job(64, image(32), classes(10), 35),
    "odd": Job(64, image(31), classes(10), 35),
    "densenet": Job(64, image(32), classes(10), 25),
    "convnext": Job(16, image(64), classes(100), 25),
    "gpt2-124m": Job(2, tokens(256, 50257), ((256,), 50257), 9),
    "vit-b16": Job(2, image(224), classes(1000), 9),
    # BatchNorm over two samples: ztrain with AVX2 and with AVX-512 differ by 2 % of the first loss after 9 steps
    "resnet50": Job(2, image(224), classes(1000), 12, within=0.05),
    "dlrm": Job(256, {"dense": ((13,), None), "sparse": ((8,), 4000)}, classes(2), 60),
}
OTHERS = {
    "lenet": Job(128, image(28, 1), classes(10), 80),
    "alexnet": Job(16, image(224), classes(100), 15),
    "inception": Job(64, image(32), classes(10), 15),
    "resnext": Job(64, image(32), classes(10), 12),
    "shufflenet": Job(64, image(96), classes(100), 20),
    "efficientnet": Job(32, image(96), classes(100), 20),
    "mobilenetv3": Job(32, image(96), classes(100), 20),
    "groupnorm": Job(64, image(32), classes(10), 20),
    "autoencoder": Job(64, image(64), ((3, 64, 64), None), 20),
    "generator": Job(64, {"numbers": ((100,), None)}, ((3, 32, 32), None), 25),
    "pyramid": Job(16, image(64), ((3, 64, 64), None), 25),
    "temporal": Job(64, {"series": ((32, 128), None)}, classes(10), 30),
    "gru": Job(32, tokens(64, 5000), classes(10), 25),
    "elman": Job(32, tokens(64, 5000), classes(10), 25),
    "bilstm": Job(32, tokens(64, 5000), classes(10), 15),
    "text": Job(64, tokens(64, 5000), classes(10), 40),
    "encoder": Job(32, tokens(64, 4000), classes(10), 15),
    "translator": Job(16, tokens(48, 4000), ((48,), 4000), 20),
    "llama": Job(8, tokens(128, 4096), ((128,), 4096), 15),
    "mixer": Job(32, image(64), classes(100), 20),
    "perceptron": Job(128, image(28, 1), classes(10), 100),
    "wide": Job(32, image(32), classes(10), 12),
    "squeezenet": Job(32, image(96), classes(100), 20),
    "xception": Job(32, image(64), classes(100), 15),
    "regnet": Job(32, image(96), classes(100), 20),
    "convmixer": Job(32, image(64), classes(100), 20),
    "yolo": Job(8, image(128), ((18, 16, 16), None), 25),
    "bn-unet": Job(4, image(96), ((3, 96, 96), None), 15),
    "edsr": Job(4, image(48), ((3, 96, 96), None), 15),
    "style": Job(4, image(96), ((3, 96, 96), None), 15),
    "discriminator": Job(64, image(64), ((1,), None), 20),
    "video": Job(8, {"video": ((3, 8, 32, 32), None)}, classes(10), 25),
    "swin": Job(32, image(64), classes(100), 15),
    "wavenet": Job(16, {"series": ((1, 256), None)}, ((1, 256), None), 30),
    "lstm-lm": Job(20, tokens(35, 10000), ((35,), 10000), 10),
    "crnn": Job(32, {"image": ((1, 32, 128), None)}, ((32,), 40), 20),
    "bert-lm": Job(8, tokens(128, 8000), ((128,), 8000), 12),
    "t5": Job(16, tokens(96, 4000), classes(10), 15),
    "conformer": Job(16, {"series": ((100, 80), None)}, ((100,), 40), 20),
    "points": Job(32, {"points": ((3, 256), None)}, classes(40), 25),
    "gcn": Job(64, {"nodes": ((48, 64), None), "edges": ((48, 48), None)}, classes(10), 50),
    "field": Job(2048, {"places": ((3,), None)}, ((4,), None), 20),
    "factors": Job(1024, {"users": ((), 30000), "things": ((), 20000)}, classes(2), 60),
    "table": Job(256, {"columns": ((40,), None)}, classes(2), 60),
}
VARIED = {
    "keywords": Job(100, {"sound": ((1, 49, 10), None)}, classes(12), 40),
    "deep": Job(4, image(32), classes(10), 30),
    "single": Job(1, {"image": ((3, 160, 128), None)}, classes(100), 40),
    "cbam": Job(32, image(32), classes(10), 20),
    "vae": Job(64, {"image": ((1, 28, 28), None), "numbers": ((40,), None)}, ((1, 28, 28), None), 40, loss="bce_with_logits"),
    "srresnet": Job(4, image(24), ((3, 96, 96), None), 15, loss="l1"),
    "volumes": Job(2, {"volume": ((1, 16, 48, 48), None)}, ((2, 16, 48, 48), None), 15),
    "mobilevit": Job(16, image(64), classes(100), 20),
    "poolformer": Job(16, image(64), classes(100), 20),
    "repvgg": Job(32, image(48), classes(100), 20),
    "hrnet": Job(4, image(64), ((5, 32, 32), None), 20),
    "convlstm": Job(8, {"frames": ((8, 32, 32), None)}, ((1, 32, 32), None), 15, loss="smooth_l1"),
    "eeg": Job(32, {"series": ((1, 22, 256), None)}, classes(4), 20),
    "erfnet": Job(4, {"image": ((3, 64, 96), None)}, ((5, 64, 96), None), 20),
    "ghostnet": Job(32, image(64), classes(100), 20),
    "large-kernels": Job(16, image(56), classes(100), 20),
    "convnext2": Job(8, image(64), classes(100), 20),
    "uneven": Job(48, {"image": ((3, 27, 43), None)}, classes(7), 20),
    "waveform": Job(16, {"sound": ((1, 8000), None)}, classes(35), 20),
    "weight-norm": Job(16, {"series": ((1, 400), None)}, classes(10), 20),
    "glow": Job(4, {"sound": ((8, 250), None)}, ((8, 250), None), 20),
    "gmlp": Job(8, tokens(96, 4000), classes(10), 20),
    "fnet": Job(8, tokens(128, 4000), classes(10), 20),
    "multi-query": Job(2, tokens(384, 2000), ((384,), 2000), 15),
    "perceiver": Job(8, {"inputs": ((400, 64), None)}, classes(20), 25),
    "linear-attention": Job(4, tokens(512, 256), classes(10), 20),
    "attended": Job(24, {"read": ((20,), 6000), "written": ((25,), 6000)}, ((25,), 6000), 15),
    "letters": Job(16, tokens(128, 80), ((128,), 80), 20),
    "long": Job(8, {"series": ((300, 6), None)}, classes(5), 20),
    "bigru": Job(6, {"series": ((120, 40), None)}, ((120,), 30), 15),
    "speech": Job(4, {"sound": ((1, 160, 80), None)}, ((39,), 64), 15),
    "gat": Job(32, {"nodes": ((40, 24), None), "edges": ((40, 40), None)}, ((1,), None), 40, loss="l1"),
    "tab-transformer": Job(128, {"kinds": ((20,), 100), "numbers": ((10,), None)}, ((1,), None), 20, loss="bce_with_logits"),
    "deepfm": Job(512, {"sparse": ((26,), 2000)}, ((1,), None), 30, loss="bce_with_logits"),
    "bag": Job(128, tokens(40, 50000), classes(20), 25),
    "neighbours": Job(64, tokens(4, 30000), classes(30000), 20),
    "small-mlp": Job(4096, {"columns": ((10,), None)}, ((1,), None), 40, loss="smooth_l1"),
    "large-mlp": Job(4, {"columns": ((2048,), None)}, classes(10), 15),
    "normed-mlp": Job(200, {"columns": ((54,), None)}, classes(7), 80),
}
MEASURED = list(JOBS)  # whose memory is a row of its own
JOBS.update({**OTHERS, **VARIED})
for name, job in JOBS.items():
    job.name, job.network = name, job.network or name


class Row:
    """What is measured of a job: the "step", the "start" until the first step is done, or the "memory". It passes where PyTorch's
    figure over ztrain's is at least `ratio`, or where the limit over ztrain's time is at least `share`: the limit of the step, or of
    its dense operations alone where `dense`. Memory also must not be above `planned` times what `ztrain plan` prints."""

    def __init__(self, name, job, of, threads, **floors):
        self.name, self.job, self.of, self.threads = name, JOBS[job], of, threads
        self.ratio, self.share, self.planned = (floors.get(key) for key in ("ratio", "share", "planned"))
        self.dense = floors.get("dense", False)

    def floor(self):
        words = [f"{self.ratio:g} x"] if self.ratio else []
        words += [f"{self.share:.0%} of limit"] if self.share and not self.dense else []
        words += [f"{1 / self.share:.2g} of dense limit"] if self.dense else []
        return " or ".join(words) + (f", {self.planned:g} x plan" if self.planned else "")


def steps(name, *jobs, ratios=(1.3, 1.3), **floors):
    return [Row(name, job, "step", threads, ratio=ratio, **floors) for job in jobs for threads, ratio in enumerate(ratios, 1)]


OWN = {"share": 0.85}  # of the limit
SPARSE = {"share": 1 / 0.6, "dense": True, "ratios": (None, None)}  # work that is not done need not be waited for
ROWS = [
    *steps("C1", "convnet", ratios=(1.5, 1.6)), *steps("C2", "convnet", **SPARSE), *steps("C3", "convnet-bf16", **SPARSE),
    *steps("C4", "convnet-32", ratios=(3.5, 3.5)), *steps("C5", "resnet20", "resnet20-bf16", **OWN), *steps("C6", "gpt", "gpt-bf16", **OWN),
    *steps("C7", "mobilenet", "vit", "unet", "lstm", **OWN),
    *steps("C12", "resnet18", "gpt-768", "vgg", "two-branch", "odd", "densenet", "convnext", "dlrm", **OWN),
    *steps("C14", "gpt2-124m", "vit-b16", "resnet50", ratios=(1, 1)), *steps("C15", *OTHERS, *VARIED, **OWN),
    Row("C8", "convnet", "start", 2, ratio=20), Row("C9", "convnet", "memory", 2, ratio=6),
    *[Row("C13", job, "memory", 2, ratio=1, planned=1.1) for job in MEASURED],
]


def chosen(names, globs, threads):
    """The rows of these names (None: all), jobs (globs; None: all) and numbers of threads."""
    return [row for row in ROWS if (not names or row.name in names) and row.threads in threads
            and (not globs or any(fnmatch.fnmatch(row.job.name, glob) for glob in globs))]
