#!/usr/bin/env python3
"""Exports the sample ConvNet to ONNX for training; made to be copied for a model of your own.

    pip install torch onnx            # and onnxscript for --dynamo
    tools/export/convnet_torch.py --output models/convnet.onnx
    tools/export/convnet_torch.py --output convnet-dynamo.onnx --dynamo

What matters when the file is to be trained, not only run:

  both exporters    Give input and output names (the data columns and the loss refer to them) and make the batch
                    dimension dynamic. Export the logits, not the softmax: cross_entropy takes logits.
  dynamo=False      training=TrainingMode.TRAINING keeps BatchNormalization and Dropout as nodes of their own and keeps
                    parameters that are equal by chance (fresh ones and zeros) apart; do_constant_folding=False keeps every
                    weight under its state_dict name.
  dynamo=True       Put the model in train() mode, or BatchNormalization is folded into its convolution. The exporter
                    merges parameters of equal value without a word: call untie() below, or export trained weights.
                    optimize=False keeps weights under their state_dict names.

Afterwards `ztrain inspect --model FILE` says which tensors will be trained, and why the others will not.
"""
import argparse
import warnings

import torch
from torch import nn


class ConvNet(nn.Module):
    """conv 3>32, relu, pool, conv 32>64, relu, pool, fc 2304>128, relu, fc 128>10, for 32x32 colour images."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
                                      nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(64 * 6 * 6, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, image):
        return self.classifier(self.features(image))


def untie(model):
    """Moves parameters that are constant (a fresh LayerNorm's ones, a bias of zeros) by a rounding error each, so that no
    two have the same bytes."""
    for number, parameter in enumerate(model.parameters()):
        if parameter.numel() > 1 and bool((parameter == parameter.flatten()[0]).all()):
            with torch.no_grad():
                parameter.add_(1e-7 * (number + 1))


def export_torchscript(model, example, path):
    torch.onnx.export(model, (example,), path, dynamo=False, opset_version=17,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      input_names=["image"], output_names=["logits"],
                      dynamic_axes={"image": {0: "N"}, "logits": {0: "N"}})


def export_dynamo(model, example, path):
    untie(model)
    torch.onnx.export(model, (example,), path, dynamo=True, opset_version=18, optimize=False, external_data=False,
                      input_names=["image"], output_names=["logits"],
                      dynamic_shapes={"image": {0: torch.export.Dim("N")}})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, help="the ONNX file to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of the initial weights (default 0)")
    parser.add_argument("--dynamo", action="store_true", help="use the newer exporter (opset 18) instead of TorchScript's")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    model = ConvNet().train()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        (export_dynamo if options.dynamo else export_torchscript)(model, torch.zeros(2, 3, 32, 32), options.output)
    print(f"{options.output}: {sum(p.numel() for p in model.parameters())} parameters, seed {options.seed}")


if __name__ == "__main__":
    main()
