"""The networks of tools/gpu_suite: what a sample is and what a step costs. gpu_models.py has them as PyTorch modules; models/light has
their exports without weights, --small ones for a rehearsal. Needs neither PyTorch nor numpy until arrays are asked for."""
from machine import ROOT

LIGHT = ROOT / "models" / "light"


class Row:
    """What is trained: `sample` the shape of a sample, `classes` of the target, `flops` of one sample's step (forward and backward,
    a multiplication and an addition being two), `positions` how many targets a sample has."""

    def __init__(self, sample, classes, flops, tokens=False):
        self.sample, self.classes, self.flops, self.tokens = sample, classes, flops, tokens
        self.positions = sample[0] if tokens else 1

    def image(self):
        return not self.tokens

    def arrays(self, count, seed=0):
        """Random samples under the names of the exported graphs."""
        import numpy
        random = numpy.random.default_rng(seed)
        shape = (count, *self.sample)
        inputs = random.integers(self.classes, size=shape) if self.tokens else random.standard_normal(shape, numpy.float32)
        return {"input": inputs, "target": random.integers(self.classes, size=shape if self.tokens else (count,))}


def gpt_flops(layers, width, context, vocabulary):
    """6 a weight of the matrices and a token, and 12 * layers * width * context for the attention (Chowdhery et al., PaLM, appendix B)."""
    return context * (6 * (12 * layers * width * width + width * vocabulary) + 12 * layers * width * context)


ROWS = {
    "convnet": Row((3, 32, 32), 10, 6 * (30 * 30 * 32 * 27 + 13 * 13 * 64 * 288 + 2304 * 128 + 128 * 10)),
    "resnet50": Row((3, 224, 224), 1000, 6 * 4.089e9),
    "gpt2": Row((1024,), 50304, gpt_flops(12, 768, 1024, 50304), tokens=True),
}
SMALL = {
    "convnet": ROWS["convnet"],
    "resnet50": Row((3, 16, 16), 10, 0),
    "gpt2": Row((16,), 128, 0, tokens=True),
}


def row(name, small=False):
    return (SMALL if small else ROWS)[name]


def light_file(name, small=False):
    """The export without weights that tools/export/light_weights.py fills."""
    return LIGHT / f"{name}{'-small' if small else ''}.onnx"
