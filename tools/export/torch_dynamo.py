#!/usr/bin/env python3
"""Exports a PyTorch network for training, with the dynamo exporter; made to be copied for a network of your own.

    pip install -r tools/export/requirements-torch.txt
    tools/export/torch_dynamo.py --output models/gpt.onnx
    build/ztrain --model models/gpt.onnx --config configs/gpt.json

models/gpt.onnx comes from here. What matters when the file is to be trained, not only run:

  names, axes       The data columns and the loss refer to input and output names; make the batch dimension dynamic.
  optimize=False    Nothing is folded: BatchNormalization stays (train() alone does not keep it), and so do parameters
                    that are read through a function, as a temperature through exp. This network has none of either.
  untie()           The exporter merges parameters of equal value (fresh ones and zeros) without a word: call untie()
                    below before the export, or export trained weights.
  val_N             The exporter transposes weights of MatMul and names them val_N; the file says which parameters they
                    were, and they train as such. A tied embedding of 8,192 elements or fewer comes out as two tensors,
                    which are tied again (docs/models.md says what else is lost, and how to keep it).

Afterwards `ztrain inspect --model FILE` says which tensors will be trained, and why the others will not.
"""
import argparse
import warnings

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 128, 64, 80, 5, 2  # the vocabulary is ASCII


class Block(nn.Module):
    """Causal self-attention and a two-layer perceptron, each after a LayerNorm and around a shortcut."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def attend(self, x):
        batch, time, _ = x.shape
        q, k, v = (t.view(batch, time, HEADS, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, time, WIDTH))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """A decoder-only transformer over characters; the output layer is the token embedding again."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.apply(self.start)

    @staticmethod
    def start(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight
        return F.linear(self.norm(self.blocks(x)), self.token.weight)


def untie(model):
    """Moves parameters that are constant (a fresh LayerNorm's ones, a bias of zeros) by a rounding error each, so that no
    two have the same bytes."""
    for number, parameter in enumerate(model.parameters()):
        if parameter.numel() > 1 and bool((parameter == parameter.flatten()[0]).all()):
            with torch.no_grad():
                parameter.add_(1e-7 * (number + 1))


def export(model, example, path):
    untie(model)
    program = torch.onnx.export(model, (example,), dynamo=True, opset_version=18,
                                input_names=["tokens"], output_names=["logits"],
                                dynamic_shapes={"tokens": {0: torch.export.Dim("N")}})
    for node in program.model.graph.all_nodes():  # it names the folders of this machine
        node.metadata_props.pop("pkg.torch.onnx.stack_trace", None)
    program.save(path, external_data=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, help="the ONNX file to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of the initial weights (default 0)")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    model = Gpt().train()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        export(model, torch.zeros(2, CONTEXT, dtype=torch.int64), options.output)
    print(f"{options.output}: {sum(p.numel() for p in model.parameters())} parameters, seed {options.seed}")


if __name__ == "__main__":
    main()
