#!/usr/bin/env python3
"""The networks of tools/gpu_suite's rows (gpu_rows.py) as PyTorch modules, and their export to ONNX without weights.

    gpu_models.py resnet50 models/light/resnet50.onnx
    gpu_models.py gpt2 models/light/gpt2-small.onnx --small       a network of the same kind for a rehearsal

One definition serves both sides: torch_gpu_side.py trains the module, ztrain the file exported from it, whose weights
tools/export/light_weights.py makes where it is trained. ResNet-50 is that of He et al.,
"Deep Residual Learning" (2015), with the stride in the 3x3 convolution as torchvision has it: 25.6 million parameters; GPT-2 that of
Radford et al. (2019), 124 million, its vocabulary padded to a multiple of 128 and its output layer tied to the embedding.
"""
import argparse
import pathlib
import sys
import warnings

import onnx
import torch
from torch import nn
from torch.nn import functional as F

from gpu_rows import row
from torch_networks import NETWORKS, Gpt2

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "export"))
from light_weights import strip  # noqa: E402
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


MODULES = {
    "convnet": NETWORKS["convnet"],
    "resnet50": lambda: resnet((3, 4, 6, 3), 1000),
    "gpt2": lambda: Gpt2(12, 768, 12, 1024, 50304),
}
SMALL = {"convnet": NETWORKS["convnet"], "resnet50": lambda: resnet((1, 1), 10), "gpt2": lambda: Gpt2(2, 32, 4, 16, 128)}


def module(name, small=False):
    return (SMALL if small else MODULES)[name]()


def batch(name, count, small=False):
    """Input and target of `count` samples."""
    arrays = row(name, small).arrays(count)
    return [torch.from_numpy(arrays[key]) for key in ("input", "target")]


def loss(output, target):
    return F.cross_entropy(output.flatten(0, -2), target.flatten())


def export(name, small):
    torch.manual_seed(0)
    model = module(name, small).train()
    untie(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # the exporter's optimizer folds BatchNormalization into convolutions, which is another network to train
        program = torch.onnx.export(model, (batch(name, 2, small)[0],), dynamo=True, opset_version=18, input_names=["input"],
                                    output_names=["logits"], dynamic_shapes=({0: torch.export.Dim("N")},),
                                    optimize=not row(name).image())
    norms = sum(node.op_type == "BatchNormalization" for node in program.model.graph.all_nodes())
    if norms != sum(isinstance(one, nn.BatchNorm2d) for one in model.modules()):
        raise SystemExit(f"{name}: {norms} BatchNormalization nodes, which are not those of the module")
    return program.model_proto


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=MODULES)
    parser.add_argument("file")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    proto = export(options.name, options.small)
    taken = strip(proto)
    onnx.save(proto, options.file)
    print(f"{options.file}: {taken} weights taken")


if __name__ == "__main__":
    main()
