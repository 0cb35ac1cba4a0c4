#!/usr/bin/env python3
"""0/1 Adam, 1-bit Adam and 1-bit LAMB in float64, every rank simulated, written from the papers' formulas (arXiv 2102.02888, 2202.06009,
2104.06069) with what DeepSpeed 0.16 makes of them.

    one_bit_formulas.py FILE    writes the table of trajectories (tests/reference/tables/one-bit.json) anew
"""
import json
import math
import sys

import numpy

STEPS = 24
SHAPES = {"a": (3, 4), "b": (5,)}
BASE = {"lr": 0.005, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}
ZERO_ONE = {**BASE, "var_freeze_step": 9, "var_update_scaler": 2, "local_step_scaler": 3, "local_step_clipper": 4}
LAMB = {**BASE, "lr": 0.02, "freeze_step": 8}
CASES = {
    "zero-one-adam": ("ZeroOneAdam", ZERO_ONE),
    "zero-one-adam-without-decay": ("ZeroOneAdam", {**ZERO_ONE, "weight_decay": 0.0, "local_step_clipper": 3}),
    "one-bit-lamb": ("OneBitLamb", LAMB),
    "one-bit-lamb-without-decay": ("OneBitLamb", {**LAMB, "weight_decay": 0.0, "coeff_beta": 0.7, "factor_threshold": 0.3, "factor_max": 1.5,
                                                  "factor_min": 0.8}),
}


def norm(x):
    """Of a vector, rounded once: numpy's sums differ in their last digits by processor, and the table is compared exactly."""
    return math.sqrt(math.fsum(x ** 2))


class Compressed:
    """The error-compensated all-reduce of one vector of `count` elements."""

    def __init__(self, count, ranks):
        self.count, self.ranks = count, ranks
        unit = ranks * (ranks * 8 // math.gcd(ranks, 8))
        self.padded = -(-count // unit) * unit
        self.clear()

    def clear(self):
        self.worker = [numpy.zeros(self.padded) for _ in range(self.ranks)]
        self.server = [numpy.zeros(self.padded // self.ranks) for _ in range(self.ranks)]

    @staticmethod
    def signs(x):
        sign = numpy.where(x >= 0, 1.0, -1.0)
        scale = norm(x) / math.sqrt(len(x))
        return scale * sign

    def mean(self, vectors):
        if self.ranks == 1:
            return vectors[0].copy()
        total, chunk = numpy.zeros(self.padded), self.padded // self.ranks
        for r, x in enumerate(vectors):
            y = self.worker[r] + numpy.pad(x, (0, self.padded - self.count))
            sent = self.signs(y)
            self.worker[r] = y - sent
            total += sent / self.ranks
        result = numpy.empty(self.padded)
        for r in range(self.ranks):
            z = total[r * chunk:(r + 1) * chunk] + self.server[r]
            result[r * chunk:(r + 1) * chunk] = sent = self.signs(z)
            self.server[r] = z - sent
        return result[:self.count]


def norm_of(grads):
    return math.sqrt(math.fsum(math.fsum(g ** 2) for g in grads.values()))


class Optimizer:
    """Weights and states of all ranks, as flat vectors by tensor."""

    clip, norm = 0.0, 0.0

    def __init__(self, params, weights, ranks):
        self.o, self.ranks, self.t = params, ranks, 0
        self.b1, self.b2 = params["betas"]
        self.eps, self.decay = params["eps"], params["weight_decay"]
        self.p = [{k: v.ravel().astype(float) for k, v in weights.items()} for _ in range(ranks)]
        self.m, self.v, self.u = ([{k: numpy.zeros(v.size) for k, v in weights.items()} for _ in range(ranks)] for _ in range(3))
        self.names = list(weights)
        self.each = {k: Compressed(v.size, ranks) for k, v in weights.items()}

    def direction(self, r, k):
        return self.m[r][k] / (numpy.sqrt(self.v[r][k]) + self.eps) + self.decay * self.p[r][k]

    def masked(self, x, k, r=0):
        """Elements that never had a gradient get none by compression, as if an exp_avg_mask of DeepSpeed named them."""
        return numpy.where(self.v[r][k] > 0, x, 0.0)

    def reduced(self, grads):
        """[tensor]: the mean of the gradients, as every rank has it after the schedule's all-reduce"""
        return {k: sum(g[k] for g in grads) / self.ranks for k in self.names}

    def step(self, grads, lr):
        """One update with a gradient by rank and tensor."""
        self.t += 1
        grads = [{k: g[k].ravel() for k in self.names} for g in grads]
        self.norm = norm_of(self.reduced(grads) if self.is_reduced() else grads[0])
        if self.clip:
            whole = self.reduced(grads)
            factors = [min(1.0, self.clip / (norm_of(whole if self.is_reduced() else g) + 1e-6)) for g in grads]
            grads = [{k: g[k] * factor for k in g} for g, factor in zip(grads, factors)]
        self.update(grads, lr)

    def is_reduced(self):
        """Whether the schedule reduces the gradients of this update: clipping then has the norm of their mean, else each rank has its own."""
        return self.t <= self.o["freeze_step"]


class OneBitAdam(Optimizer):
    def update(self, grads, lr):
        frozen = self.t > self.o["freeze_step"]
        mean = self.reduced(grads)
        for k in self.names:
            new = [self.b1 * self.m[r][k] + (1 - self.b1) * (grads[r][k] if frozen else mean[k]) for r in range(self.ranks)]
            if frozen:
                new = [self.masked(self.each[k].mean(new), k)] * self.ranks
            for r in range(self.ranks):
                self.m[r][k] = new[r].copy()
                if not frozen:
                    self.v[r][k] = self.b2 * self.v[r][k] + (1 - self.b2) * mean[k] ** 2
                self.p[r][k] -= lr * self.direction(r, k)


class ZeroOneAdam(Optimizer):
    interval, updated = 1, 0  # of the variance
    local, since, lrs = 1, 0, 0.0

    def update(self, grads, lr):
        if self.t <= self.o["var_freeze_step"]:
            self.early(grads, lr)
        else:
            self.late(grads, lr)

    def is_reduced(self):
        return self.t <= self.o["var_freeze_step"] and self.t % self.interval == 0

    def early(self, grads, lr):
        variance, mean = self.is_reduced(), self.reduced(grads)
        for k in self.names:
            g = mean[k] if variance else self.masked(self.each[k].mean([x[k] for x in grads]), k)
            for r in range(self.ranks):
                if variance:
                    self.v[r][k] = self.b2 * self.v[r][k] + (1 - self.b2) * g ** 2
                self.m[r][k] = self.b1 * self.m[r][k] + (1 - self.b1) * g
                self.p[r][k] -= lr * self.direction(r, k)
        self.updated += variance
        if self.updated == self.o["var_update_scaler"]:
            self.updated, self.interval = 0, self.interval * 2

    def late(self, grads, lr):
        if self.t == self.o["var_freeze_step"] + 1:
            for c in self.each.values():
                c.clear()
        self.lrs += lr
        for r in range(self.ranks):
            for k in self.names:
                self.m[r][k] = self.b1 * self.m[r][k] + (1 - self.b1) * self.masked(grads[r][k], k)
                change = self.masked(lr * self.direction(r, k), k)
                self.p[r][k] -= change
                self.u[r][k] -= change
        if self.t % self.local == 0:
            self.synchronize()
        self.since += 1
        if self.since == self.o["local_step_scaler"]:
            self.since, self.local = 0, min(self.o["local_step_clipper"], self.local * 2)

    def synchronize(self):
        for k in self.names:
            root = [numpy.sqrt(self.v[r][k]) + self.eps for r in range(self.ranks)]
            mean = self.masked(self.each[k].mean([self.u[r][k] * root[r] for r in range(self.ranks)]), k)
            for r in range(self.ranks):
                self.p[r][k] += mean / root[r] - self.u[r][k]
                self.m[r][k] = -mean / self.lrs
                self.u[r][k] = numpy.zeros_like(mean)
        self.lrs = 0.0


class OneBitLamb(Optimizer):
    def __init__(self, params, weights, ranks):
        super().__init__({"max_coeff": 10.0, "min_coeff": 0.01, "coeff_beta": 0.9, "factor_max": 4.0, "factor_min": 0.5, "factor_threshold": 0.1,
                          **params}, weights, ranks)
        self.together = Compressed(sum(v.size for v in weights.values()), ranks)
        self.average, self.factor = {k: 0.0 for k in self.names}, {k: 1.0 for k in self.names}

    def update(self, grads, lr):
        if self.t <= self.o["freeze_step"]:
            self.early(self.reduced(grads), lr)
        else:
            self.late(grads, lr)

    def early(self, mean, lr):
        for k in self.names:
            for r in range(self.ranks):
                self.m[r][k] = self.b1 * self.m[r][k] + (1 - self.b1) * mean[k]
                self.v[r][k] = self.b2 * self.v[r][k] + (1 - self.b2) * mean[k] ** 2
            u = self.direction(0, k)
            norms = norm(self.p[0][k]), norm(u)
            ratio = 1.0
            if norms[0] and norms[1]:
                ratio = min(max(norms[0] / norms[1], self.o["min_coeff"]), self.o["max_coeff"])
            if ratio != 1:
                self.average[k] = self.o["coeff_beta"] * self.average[k] + (1 - self.o["coeff_beta"]) * ratio
            for r in range(self.ranks):
                self.p[r][k] -= lr * ratio * u
        if self.t == self.o["freeze_step"]:
            self.freeze()

    def freeze(self):
        """DeepSpeed's common magnitude is the mean over tensors of their own."""
        own = {k: norm(self.m[0][k]) / math.sqrt(self.m[0][k].size) for k in self.names}
        self.scaling = {k: sum(own.values()) / len(own) / own[k] for k in self.names}
        self.fresh = {k: self.v[0][k].copy() for k in self.names}

    def late(self, grads, lr):
        packed = [numpy.concatenate([(self.b1 * self.m[r][k] + (1 - self.b1) * grads[r][k]) * self.scaling[k] for k in self.names])
                  for r in range(self.ranks)]
        mean, at = self.together.mean(packed), 0
        for k in self.names:
            new = self.masked(mean[at:at + self.m[0][k].size] / self.scaling[k], k)
            at += new.size
            told = (new - self.b1 * self.m[0][k]) / (1 - self.b1)
            self.fresh[k] = self.b2 * self.fresh[k] + (1 - self.b2) * told ** 2
            for r in range(self.ranks):
                self.m[r][k] = new.copy()
            self.apply(k, lr)

    def apply(self, k, lr):
        root = numpy.sqrt(self.v[0][k]) + self.eps
        u = self.direction(0, k)
        factor = (root / (numpy.sqrt(self.fresh[k]) + self.eps)).max()
        if self.decay > 0:
            share = min(1.0, norm(self.m[0][k] / root) / norm(u))
            factor = factor * share + 1 - share
        factor = min(max(factor, self.o["factor_min"]), self.o["factor_max"])
        last, most = self.factor[k], self.o["factor_threshold"]
        self.factor[k] = factor = min(max(factor, last * (1 - most)), last * (1 + most))
        for r in range(self.ranks):
            self.p[r][k] -= lr * self.average[k] * factor * u


TYPES = {"OneBitAdam": OneBitAdam, "ZeroOneAdam": ZeroOneAdam, "OneBitLamb": OneBitLamb}


def made(shapes, steps, ranks, seed):
    """weights, and gradients by step and rank, which fp32 holds exactly"""
    random = numpy.random.RandomState(seed)
    weights = {k: random.standard_normal(shape).astype(numpy.float32) for k, shape in shapes.items()}
    size = {k: 0.02 * 30 ** i for i, k in enumerate(shapes)}  # of another magnitude in every tensor
    grads = [[{k: (size[k] * (random.standard_normal(shape) + 0.5)).astype(numpy.float32) for k, shape in shapes.items()} for _ in range(ranks)]
             for _ in range(steps)]
    return weights, grads


def trajectory(kind, params, weights, grads, lrs=None, clip=0.0, norms=None):
    """Rank 0's weights after every update. `norms`: takes rank 0's gradient norms."""
    optimizer, out = TYPES[kind](params, weights, len(grads[0])), []
    optimizer.clip = clip
    for step, of_ranks in enumerate(grads):
        optimizer.step([{k: g[k].astype(float) for k in g} for g in of_ranks], lrs[step] if lrs else params["lr"])
        if norms is not None:
            norms.append(optimizer.norm)
        out.append({k: optimizer.p[0][k].copy().reshape(weights[k].shape) for k in weights})
    return out


def table():
    runs = []
    for name, (kind, params) in CASES.items():
        for ranks in 1, 2, 3:
            weights, grads = made(SHAPES, STEPS, ranks, 7)
            runs.append({"name": f"{name}-{ranks}-ranks", "ranks": ranks, "optimizer": {"type": kind, "params": params},
                         "trajectory": [{k: v.tolist() for k, v in row.items()} for row in trajectory(kind, params, weights, grads)]})
    return {"about": "float64, rank 0's parameters after every update; weights and gradients are made() of tests/optim/one_bit_formulas.py, "
                     "which writes this file; compare with 1e-12 in float64 or 1e-5 in float32", "runs": runs}


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    with open(sys.argv[1], "w") as file:
        file.write(json.dumps(table(), indent=None, separators=(", ", ": ")).replace('{"name"', '\n{"name"') + "\n")
