#!/usr/bin/env python3
"""Writes the small models of this folder with PyTorch's two exporters; check_patterns.py says what must be found in them.

    export_patterns.py [NAME ...]     every model anew, or those, beside this file (needs torch, onnxscript)

Stack traces and other notes of the exporters on nodes are left out, so that files stay small.
"""
import logging
import math
import pathlib
import sys
import warnings

import onnx
import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, TIME, BATCH = 8, 2, 4, 2
HERE = pathlib.Path(__file__).resolve().parent


class Encoder(nn.Module):
    """PyTorch's own layer and a norm."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 12, dropout=0.0, activation='gelu', batch_first=True, norm_first=True)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        return self.norm(self.layer(x))


class Rms(nn.Module):
    """As Llama's source has it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6)).to(dtype)


class Decoder(nn.Module):
    """A layer in the manner of Llama: RMS norms, one head of keys for two of queries, causal, a gate with SiLU."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = Rms(), Rms()
        self.q, self.kv = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up, self.down = nn.Linear(WIDTH, 12), nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH)

    def attend(self, x):
        batch, time, width = x.shape
        size = width // HEADS
        q = self.q(x).view(batch, time, HEADS, size).transpose(1, 2)
        k, v = (y.view(batch, time, 1, size).transpose(1, 2) for y in self.kv(x).chunk(2, -1))
        k, v = (y[:, :, None].expand(batch, 1, HEADS, time, size).reshape(batch, HEADS, time, size) for y in (k, v))
        mask = torch.full((time, time), torch.finfo(x.dtype).min).triu(1)
        weights = q @ k.transpose(2, 3) / math.sqrt(size) + mask[None, None]
        weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.o((weights @ v).transpose(1, 2).reshape(batch, time, width))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Gpt2(nn.Module):
    """A layer in the manner of GPT-2: masked_fill, the tanh form of GELU written out."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv, self.up, self.down = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH)
        self.register_buffer('mask', torch.tril(torch.ones(TIME, TIME, dtype=torch.bool)))

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (y.view(batch, time, HEADS, -1).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        weights = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(width // HEADS))
        weights = weights.masked_fill(self.mask[:time, :time] == 0, float('-inf')).softmax(-1)
        x = x + (weights @ v).transpose(1, 2).reshape(batch, time, width)
        y = self.up(x)
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * torch.pow(y, 3))))
        return x + self.down(y)


class Masks(nn.Module):
    """scaled_dot_product_attention without a mask, causal, and with one of each type that is computed from the input."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x, seen):
        batch, time, width = x.shape
        q, k, v = (y.view(batch, time, HEADS, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        seen = seen[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v)
        y = F.scaled_dot_product_attention(y, k, v, is_causal=True)
        y = F.scaled_dot_product_attention(y, k, v, attn_mask=seen > 0)
        y = F.scaled_dot_product_attention(y, k, v, attn_mask=(seen - 1) * 1e4)
        return y.transpose(1, 2).reshape(batch, time, width)


class Images(nn.Module):
    """GroupNorm and the activations that are functions of x alone."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, WIDTH, 3), nn.GroupNorm(2, WIDTH)
        self.conv2 = nn.Conv2d(WIDTH, 3, 1)

    def forward(self, x):
        x = F.silu(self.norm(self.conv(x)))
        x = F.mish(x) + F.gelu(x) + F.gelu(x, approximate='tanh')
        return F.softplus(self.conv2(x)) + x[:, :3] * torch.sigmoid(1.702 * x[:, :3])


class Activations(nn.Module):
    """A convolution before each activation that becomes part of it, and one before none."""

    def __init__(self):
        super().__init__()
        self.conv = nn.ModuleList(nn.Conv2d(WIDTH if i else 3, WIDTH, 1, bias=i % 3 != 1) for i in range(14))

    def forward(self, x):
        functions = (torch.sigmoid, torch.tanh, F.leaky_relu, F.elu, F.hardswish, F.hardsigmoid, F.relu6, F.silu, F.gelu, F.mish, F.selu,
                     F.softplus, lambda z: torch.clamp(z, -1.5, 2.5))
        for conv, f in zip(self.conv, functions):
            x = f(conv(x))
        return self.conv[13](x) + x


class Loss(nn.Module):
    """The loss in the model."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, 5)

    def forward(self, x, y):
        p = torch.log(F.softmax(self.linear(x), dim=-1))
        return F.nll_loss(p, y) + F.nll_loss(F.log_softmax(self.linear(x * 2), dim=-1), y)


SEQUENCE = (torch.randn(BATCH, TIME, WIDTH), )
MODELS = {
    'encoder': (Encoder, SEQUENCE, ['x']),
    'decoder': (Decoder, SEQUENCE, ['x']),
    'gpt2': (Gpt2, SEQUENCE, ['x']),
    'masks': (Masks, (SEQUENCE[0], torch.ones(BATCH, TIME)), ['x', 'seen']),
    'images': (Images, (torch.randn(BATCH, 3, 6, 6), ), ['x']),
    'activations': (Activations, (torch.randn(BATCH, 3, 6, 6), ), ['x']),
    'loss': (Loss, (torch.randn(BATCH, WIDTH), torch.randint(5, (BATCH, ))), ['x', 'y']),
}
EXPORTERS = {'dynamo18': (True, 18), 'dynamo23': (True, 23), 'torchscript14': (False, 14), 'torchscript17': (False, 17)}


def strip(path):
    """What is kept tells parameters from constants."""
    model = onnx.load(path)
    for node in model.graph.node:
        node.doc_string = ''
        del node.metadata_props[:]
    onnx.save(model, path)


def export(name, exporter):
    make, inputs, names = MODELS[name]
    dynamo, opset = EXPORTERS[exporter]
    torch.manual_seed(0)
    model, path = make().train(), HERE / f'{name}-{exporter}.onnx'
    options = {'external_data': False} if dynamo else {'training': torch.onnx.TrainingMode.TRAINING, 'do_constant_folding': False}
    torch.onnx.export(model, inputs, path, input_names=names, output_names=['out'], opset_version=opset, dynamo=dynamo, **options)
    strip(path)


def main():
    warnings.filterwarnings('ignore')
    logging.disable(logging.CRITICAL)
    for name in sys.argv[1:] or MODELS:
        for exporter in EXPORTERS:
            export(name, exporter)
    return 0


if __name__ == '__main__':
    sys.exit(main())
