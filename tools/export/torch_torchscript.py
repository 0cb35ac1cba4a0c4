#!/usr/bin/env python3
"""Exports PyTorch networks for training, with the TorchScript exporter; made to be copied for a network of your own.

    pip install -r tools/export/requirements-torch.txt
    tools/export/torch_torchscript.py resnet20 --output models/resnet20.onnx
    build/ztrain --model models/resnet20.onnx --config configs/resnet20.json

models/convnet.onnx (with configs/ds_config.json), resnet20.onnx and lstm.onnx come from here. What matters when the file
is to be trained, not only run:

  names, axes       The data columns and the loss refer to input and output names; make the batch dimension dynamic.
  logits            Export the logits, not the softmax: cross_entropy takes logits.
  training          TrainingMode.TRAINING keeps BatchNormalization and Dropout as nodes of their own, and keeps parameters
                    that are equal by chance (fresh ones and zeros) apart.
  folding           do_constant_folding=False keeps every weight under its state_dict name.

Afterwards `ztrain inspect --model FILE` says which tensors will be trained, and why the others will not.
"""
import argparse
import warnings

import torch
from torch import nn
from torch.nn import functional as F


class ConvNet(nn.Module):
    """conv 3>32, relu, pool, conv 32>64, relu, pool, fc 2304>128, relu, fc 128>10, for 32x32 colour images."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
                                      nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(64 * 6 * 6, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, image):
        return self.classifier(self.features(image))


class Block(nn.Module):
    """Two 3x3 convolutions around a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet20(nn.Module):
    """The residual network for 32x32 images of He et al., 2016 (section 4.2): three stages of three blocks, 16, 32 and 64
    channels."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.blocks = nn.Sequential(*[Block(16 if stage + block == 0 else 16 << (stage - (block == 0)), 16 << stage,
                                            2 if stage > 0 and block == 0 else 1)
                                      for stage in range(3) for block in range(3)])
        self.classifier = nn.Linear(64, 10)

    def forward(self, image):
        return self.classifier(self.blocks(self.stem(image)).mean((2, 3)))


class Lstm(nn.Module):
    """Reads an image as 32 time steps, one row of 3 x 32 pixels each, in both directions."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3 * 32, 48, bidirectional=True)
        self.classifier = nn.Linear(2 * 48, 10)

    def forward(self, image):
        rows = image.permute(2, 0, 1, 3).flatten(2)  # [32, N, 96]
        states, _ = self.lstm(rows)
        return self.classifier(states.mean(0))


NETWORKS = {"convnet": ConvNet, "resnet20": ResNet20, "lstm": Lstm}


def export(model, inputs, path):
    """`inputs`: an example of each by its name."""
    torch.onnx.export(model, tuple(inputs.values()), path, dynamo=False, opset_version=17,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      input_names=list(inputs), output_names=["logits"],
                      dynamic_axes={name: {0: "N"} for name in [*inputs, "logits"]})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--output", required=True, help="the ONNX file to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of the initial weights (default 0)")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    model = NETWORKS[options.network]().train()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this exporter is deprecated
        export(model, {"image": torch.zeros(2, 3, 32, 32)}, options.output)
    print(f"{options.output}: {sum(p.numel() for p in model.parameters())} parameters, seed {options.seed}")


if __name__ == "__main__":
    main()
