#!/usr/bin/env python3
"""Exports a PaddlePaddle network for training, with paddle2onnx; made to be copied for a network of your own.

    pip install -r tools/export/requirements-paddle.txt
    tools/export/paddle_paddle2onnx.py --output models/unet.onnx
    build/ztrain --model models/unet.onnx --config configs/unet.json

models/unet.onnx comes from here. What matters when the file is to be trained, not only run:

  names, axes       The input takes its name from the InputSpec, -1 in its shape makes the batch dimension dynamic. The output
                    is called fetch_name_0 whatever the network calls it: write that in ztrain.loss.logits.
  eval()            BatchNormalization is exported as it runs in inference; ztrain trains it in training mode all the same.
  lift()            paddle2onnx writes weights as Constant nodes, which are not trained: lift() below makes them initializers
                    under paddle's names. (paddle.onnx.export does that too, with a tool that wants to install more packages
                    when it runs.)

Afterwards `ztrain inspect --model FILE` says which tensors will be trained, and why the others will not.
"""
import argparse
import tempfile

import onnx
import paddle
import paddle2onnx
from paddle import nn
from paddle.static import InputSpec


def twice(inputs, outputs):
    """Two 3x3 convolutions, each with BatchNormalization and ReLU."""
    return nn.Sequential(nn.Conv2D(inputs, outputs, 3, padding=1, bias_attr=False), nn.BatchNorm2D(outputs), nn.ReLU(),
                         nn.Conv2D(outputs, outputs, 3, padding=1, bias_attr=False), nn.BatchNorm2D(outputs), nn.ReLU())


class UNet(nn.Layer):
    """Takes noise out of 16x16 grey images: down twice by pooling, up twice by transposed convolution, and on each level the
    features of the way down beside those of the way up."""

    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.bottom = twice(1, 16), twice(16, 32), twice(32, 64)
        self.up2, self.up1 = nn.Conv2DTranspose(64, 32, 2, stride=2), nn.Conv2DTranspose(32, 16, 2, stride=2)
        self.join2, self.join1 = twice(64, 32), twice(32, 16)
        self.pool = nn.MaxPool2D(2)
        self.last = nn.Conv2D(16, 1, 1)

    def forward(self, noisy):
        fine = self.down1(noisy)
        middle = self.down2(self.pool(fine))
        x = self.bottom(self.pool(middle))
        x = self.join2(paddle.concat([self.up2(x), middle], axis=1))
        x = self.join1(paddle.concat([self.up1(x), fine], axis=1))
        return self.last(x)


def lift(path):
    """Makes the Constant nodes that hold float tensors initializers."""
    file = onnx.load(path)
    for node in list(file.graph.node):
        if node.op_type == "Constant" and node.attribute[0].t.data_type == onnx.TensorProto.FLOAT and node.attribute[0].t.dims:
            node.attribute[0].t.name = node.output[0]
            file.graph.initializer.append(node.attribute[0].t)
            file.graph.node.remove(node)
    onnx.save(file, path)


def export(model, path):
    with tempfile.TemporaryDirectory() as folder:
        paddle.jit.save(model, f"{folder}/unet", input_spec=[InputSpec([-1, 1, 16, 16], "float32", "noisy")])
        paddle2onnx.export(f"{folder}/unet.json", f"{folder}/unet.pdiparams", path, opset_version=15, optimize_tool="None")
    lift(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, help="the ONNX file to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of the initial weights (default 0)")
    options = parser.parse_args()
    paddle.seed(options.seed)
    model = UNet()
    model.eval()
    export(model, options.output)
    print(f"{options.output}: {sum(p.size for p in model.parameters() if p.trainable)} parameters, seed {options.seed}")


if __name__ == "__main__":
    main()
