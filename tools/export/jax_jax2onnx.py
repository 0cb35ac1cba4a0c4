#!/usr/bin/env python3
"""Exports a JAX network (flax.nnx) for training, with jax2onnx; made to be copied for a network of your own.

    pip install -r tools/export/requirements-jax.txt
    tools/export/jax_jax2onnx.py --output models/vit.onnx
    build/ztrain --model models/vit.onnx --config configs/vit.json

models/vit.onnx comes from here. What matters when the file is to be trained, not only run:

  names, axes       The data columns and the loss refer to input and output names; a string in the input's shape ("N") makes
                    the batch dimension dynamic.
  layout            JAX keeps channels last, data/cifar10 gives channels first: the network turns its input round itself.
  logits            Export the logits, not the softmax: cross_entropy takes logits.
  dropout           has no place in a file made for training: jax2onnx writes it as it runs in inference.

Afterwards `ztrain inspect --model FILE` says which tensors will be trained, and why the others will not.
"""
import argparse

import jax
import jax.numpy as jnp
from flax import nnx
from jax2onnx import to_onnx

PATCH, WIDTH, HEADS, LAYERS = 4, 64, 4, 3


class Block(nnx.Module):
    """Self-attention and a two-layer perceptron, each after a LayerNorm and around a shortcut."""

    def __init__(self, rngs):
        self.norm1, self.norm2 = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.LayerNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(num_heads=HEADS, in_features=WIDTH, decode=False, rngs=rngs)
        self.widen, self.narrow = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs), nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(nnx.gelu(self.widen(self.norm2(x))))


class Vit(nnx.Module):
    """A vision transformer for 32x32 colour images: 64 patches of 4x4 pixels, mean over the patches at the end."""

    def __init__(self, rngs):
        self.patches = nnx.Conv(3, WIDTH, (PATCH, PATCH), strides=PATCH, padding="VALID", rngs=rngs)
        # As strong as the patches: those of a simple image differ in brightness alone.
        self.position = nnx.Param(0.5 * jax.random.normal(rngs.params(), (1, (32 // PATCH) ** 2, WIDTH)))
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.classifier = nnx.Linear(WIDTH, 10, rngs=rngs)

    def __call__(self, image):
        x = self.patches(jnp.transpose(image, (0, 2, 3, 1)))
        x = x.reshape(x.shape[0], -1, WIDTH) + self.position[...]
        for block in self.blocks:
            x = block(x)
        return self.classifier(self.norm(x).mean(axis=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, help="the ONNX file to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of the initial weights (default 0)")
    options = parser.parse_args()
    model = Vit(nnx.Rngs(options.seed))
    to_onnx(model, inputs=[("N", 3, 32, 32)], input_names=["image"], output_names=["logits"], model_name="vit",
            return_mode="file", output_path=options.output)
    count = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))
    print(f"{options.output}: {count} parameters, seed {options.seed}")


if __name__ == "__main__":
    main()
