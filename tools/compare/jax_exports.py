#!/usr/bin/env python3
"""Exports small networks of JAX (flax.nnx) with jax2onnx, one for each thing that the exporter does to parameters, and
trains them for four steps of Adam in JAX, in float64 and float32.

    pip install -r tools/export/requirements-jax.txt
    tools/compare/jax_exports.py tests/exported      writes the files of CI, which check.py there trains
"""
import json
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax2onnx import to_onnx

LR, EPSILON, ROWS, STEPS, CLASSES = 0.01, 0.1, 4, 4, 6


class ConvTwice(nnx.Module):
    """A convolution that is applied twice: its kernel is written twice."""
    shape, says = (7, 4), "copies made by the exporter, trained as one parameter"

    def __init__(self, rngs):
        self.conv, self.head = nnx.Conv(4, 4, (3,), rngs=rngs), nnx.Linear(4, CLASSES, rngs=rngs)

    def __call__(self, x):
        return self.head(jnp.tanh(self.conv(jnp.tanh(self.conv(x)))).mean(1))


class TwoShapes(nnx.Module):
    """A vector that is read beside three axes and beside two."""
    shape, says = (5, 8), "copies made by the exporter, trained as one parameter"

    def __init__(self, rngs):
        self.first, self.head = nnx.Linear(8, 8, rngs=rngs), nnx.Linear(8, CLASSES, rngs=rngs)
        self.scale = nnx.Param(jax.random.uniform(rngs.params(), (8,)) + 0.5)

    def __call__(self, x):
        h = jnp.tanh((self.first(x) * self.scale[...]).mean(1))
        return self.head(h * self.scale[...])


class Stopped(nnx.Module):
    """A straight-through rounding."""
    shape, says = (8,), "no gradient passes, as the network was written"

    def __init__(self, rngs):
        self.first, self.head = nnx.Linear(8, 8, rngs=rngs), nnx.Linear(8, CLASSES, rngs=rngs)

    def __call__(self, x):
        h = jnp.tanh(self.first(x))
        return self.head(h + jax.lax.stop_gradient(jnp.round(4 * h) / 4 - h))


class Slope(nnx.Module):
    """A learned scalar: the slope of a PReLU."""
    shape, says = (8,), ""

    def __init__(self, rngs):
        self.first, self.relu, self.head = nnx.Linear(8, 8, rngs=rngs), nnx.PReLU(0.3), nnx.Linear(8, CLASSES, rngs=rngs)

    def __call__(self, x):
        return self.head(self.relu(self.first(x)))


NETWORKS = {"jax_conv_twice": ConvTwice, "jax_two_shapes": TwoShapes, "jax_stopped": Stopped, "jax_slope": Slope}


def trajectory(network, x, target, dtype):
    """(losses, gradient norms) of the steps."""
    graph, params, rest = nnx.split(network, nnx.Param, ...)
    params = jax.tree.map(lambda p: p.astype(dtype), params)
    x = x.astype(dtype)

    def loss_of(params, rows):
        logits = nnx.merge(graph, params, rest)(x[rows])
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), target[rows][:, None], 1).mean()

    zeros = jax.tree.map(jnp.zeros_like, params)
    m, v, losses, norms = zeros, zeros, [], []
    for step in range(1, STEPS + 1):
        loss, g = jax.value_and_grad(loss_of)(params, np.arange((step - 1) * ROWS, step * ROWS))
        losses.append(float(loss))
        norms.append(float(jnp.sqrt(sum(jnp.sum(leaf.astype(jnp.float64) ** 2) for leaf in jax.tree.leaves(g)))))
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
        params = jax.tree.map(lambda p, a, b: p - LR * (a / (1 - 0.9 ** step)) / (jnp.sqrt(b / (1 - 0.999 ** step)) + EPSILON),
                              params, m, v)
    return losses, norms


def distance(a, b):
    return max(abs(x - y) / abs(y) for x, y in zip(a, b))


def write(name, kind, folder):
    random = np.random.default_rng(7)
    x = random.normal(size=(ROWS * STEPS, *kind.shape)).astype(np.float32)
    target = random.integers(0, CLASSES, ROWS * STEPS)
    network = kind(nnx.Rngs(1))
    folder.mkdir(parents=True, exist_ok=True)
    to_onnx(network, inputs=[("N", *kind.shape)], input_names=["x0"], output_names=["y"], model_name=name, return_mode="file",
            output_path=str(folder / f"{name}.onnx"))
    jax.config.update("jax_enable_x64", True)
    (losses, norms), (single, single_norms) = (trajectory(network, x, target, t) for t in (jnp.float64, jnp.float32))
    jax.config.update("jax_enable_x64", False)
    np.savez(folder / f"{name}.npz", x0=x, target=target)
    case = {"config": {"train_micro_batch_size_per_gpu": ROWS,
                       "optimizer": {"type": "Adam", "params": {"lr": LR, "eps": EPSILON}},
                       "ztrain": {"data": {"format": "npz", "path": f"{name}.npz", "shuffle": False}, "steps": STEPS,
                                  "loss": {"type": "cross_entropy"}}},
            "losses": losses, "grad_norms": norms, "noise": distance(single, losses), "norm_noise": distance(single_norms, norms),
            "exports": {"jax": {"model": f"{name}.onnx", "verdict": "right", "says": [kind.says] if kind.says else []}}}
    (folder / f"{name}.json").write_text(json.dumps(case, indent=1) + "\n")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, kind in NETWORKS.items():
        write(name, kind, pathlib.Path(sys.argv[1]) / name)


if __name__ == "__main__":
    main()
