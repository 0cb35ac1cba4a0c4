#!/usr/bin/env python3
"""The networks of tools/gpu_suite's rows, as PyTorch modules, and their export to ONNX.

    gpu_models.py export NAME FILE.onnx [--small]      NAME: convnet, resnet50, gpt2; --small: a network of the same kind for a trial
    gpu_models.py data NAME FILE.npz --samples N [--small]

One definition serves both sides: torch_gpu_side.py trains the module, ztrain the file exported from it. ResNet-50 is that of He et al.,
"Deep Residual Learning" (2015), with the stride in the 3x3 convolution as torchvision has it: 25.6 million parameters; GPT-2 that of
Radford et al. (2019), 124 million, its vocabulary padded to a multiple of 128 and its output layer tied to the embedding. Data are random.
"""
import argparse
import pathlib
import sys
import warnings

import torch
from torch import nn
from torch.nn import functional as F

from torch_side import convnet

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "export"))
from torch_dynamo import untie  # noqa: E402


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def resnet(blocks, classes):
    layers, inputs = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for stage, count in enumerate(blocks):
        for block in range(count):
            layers.append(Bottleneck(inputs, 64 << stage, 2 if stage and block == 0 else 1))
            inputs = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (t.view(batch, time, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, time, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers, width, heads, context, vocabulary):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight
        return F.linear(self.norm(self.blocks(x)), self.token.weight)


class Row:
    """What is trained: `sample` the shape of a sample, `classes` of the target, `flops` of one sample's step (forward and backward,
    a multiplication and an addition being two), `positions` how many targets a sample has."""

    def __init__(self, make, sample, classes, flops, tokens=False):
        self.make, self.sample, self.classes, self.flops, self.tokens = make, sample, classes, flops, tokens
        self.positions = sample[0] if tokens else 1

    def batch(self, count):
        target = torch.randint(self.classes, (count, *self.sample) if self.tokens else (count,))
        return (torch.randint(self.classes, (count, *self.sample)) if self.tokens else torch.randn(count, *self.sample)), target

    def loss(self, output, target):
        return F.cross_entropy(output.flatten(0, -2), target.flatten())

    def image(self):
        return not self.tokens


def gpt_flops(layers, width, context, vocabulary):
    """6 a weight of the matrices and a token, and 12 * layers * width * context for the attention (Chowdhery et al., PaLM, appendix B)."""
    return context * (6 * (12 * layers * width * width + width * vocabulary) + 12 * layers * width * context)


ROWS = {
    "convnet": Row(convnet, (3, 32, 32), 10, 6 * (30 * 30 * 32 * 27 + 13 * 13 * 64 * 288 + 2304 * 128 + 128 * 10)),
    "resnet50": Row(lambda: resnet((3, 4, 6, 3), 1000), (3, 224, 224), 1000, 6 * 4.089e9),
    "gpt2": Row(lambda: Gpt2(12, 768, 12, 1024, 50304), (1024,), 50304, gpt_flops(12, 768, 1024, 50304), tokens=True),
}
SMALL = {
    "convnet": ROWS["convnet"],
    "resnet50": Row(lambda: resnet((1, 1), 10), (3, 32, 32), 10, 0),
    "gpt2": Row(lambda: Gpt2(2, 32, 4, 16, 128), (16,), 128, 0, tokens=True),
}


def row(name, small=False):
    return (SMALL if small else ROWS)[name]


def export(options):
    one = row(options.name, options.small)
    torch.manual_seed(0)
    model = one.make().train()
    untie(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # the exporter's optimizer folds BatchNormalization into convolutions, which is another network to train
        program = torch.onnx.export(model, (one.batch(2)[0],), dynamo=True, opset_version=18, input_names=["input"], output_names=["logits"],
                                    dynamic_shapes=({0: torch.export.Dim("N")},), optimize=not one.image())
    norms = sum(node.op_type == "BatchNormalization" for node in program.model.graph.all_nodes())
    if norms != sum(isinstance(module, nn.BatchNorm2d) for module in model.modules()):
        raise SystemExit(f"{options.file}: {norms} BatchNormalization nodes, which are not those of the module")
    program.save(options.file, external_data=False)
    print(f"{options.file}: {sum(p.numel() for p in model.parameters())} parameters")


def data(options):
    import numpy
    torch.manual_seed(0)
    inputs, targets = row(options.name, options.small).batch(options.samples)
    numpy.savez(options.file, input=inputs.numpy(), target=targets.numpy())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    for mode, function in ("export", export), ("data", data):
        one = modes.add_parser(mode)
        one.set_defaults(function=function)
        one.add_argument("name", choices=ROWS)
        one.add_argument("file")
        one.add_argument("--small", action="store_true")
    one.add_argument("--samples", type=int, required=True)
    options = parser.parse_args()
    options.function(options)


if __name__ == "__main__":
    main()
