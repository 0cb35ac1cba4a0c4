#!/usr/bin/env python3
"""Writes tables of optimizers and learning-rate rules from the papers' formulas in float64 (numpy):

    make_tables.py FOLDER        FOLDER/optimizers-torch.json and FOLDER/lr-schedules-torch.json

Optimizers: parameters after each of 20 steps on a fixed sequence of gradients. Muon's iteration is applied to the singular values,
which is what it computes: X = U S V' turns into U p(p(p(p(p(S / |S|))))) V' with p(s) = 3.4445 s - 4.7750 s^3 + 2.0315 s^5. "average" is
that of the weights (ztrain.ema). Rules: the rate of update t, from 0 on, by the recurrences of torch.optim.lr_scheduler, which
advances once after each update, and ReduceLROnPlateau by its documentation, once after each of some values of the loss.
"""
import json
import math
import pathlib
import sys

import numpy as np

STEPS = 20
SHAPES = {"wide": (4, 9), "tall": (9, 4), "square": (5, 5), "kernel": (3, 2, 2, 2), "bias": (5,)}


def rounded(x):
    """float32 numbers, which both sides start from"""
    return x.astype(np.float32).astype(np.float64)


def data():
    rng = np.random.default_rng(21)
    params = {name: rounded(rng.normal(size=shape) * 0.5) for name, shape in SHAPES.items()}
    grads = [{name: rounded(rng.normal(size=shape) * 0.1) for name, shape in SHAPES.items()} for _ in range(STEPS)]
    return params, grads


# ---- optimizers: step(p, g, state, t, o) gives the new p ----


def rmsprop(p, g, s, t, o):
    alpha, eps = o.get("alpha", 0.99), o.get("eps", 1e-8)
    d = g + o.get("weight_decay", 0) * p
    s["v"] = alpha * s.get("v", 0) + (1 - alpha) * d * d
    spread = s["v"]
    if o.get("centered"):
        s["a"] = alpha * s.get("a", 0) + (1 - alpha) * d
        spread = spread - s["a"] ** 2
    u = d / (np.sqrt(spread) + eps)
    if o.get("momentum"):
        u = s["b"] = o["momentum"] * s.get("b", 0) + u
    return p - o["lr"] * u


def adamw(p, g, s, t, o):
    b1, b2 = o["betas"]
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
    m, v = s["m"] / (1 - b1**t), s["v"] / (1 - b2**t)
    return p * (1 - o["lr"] * o.get("weight_decay", 0)) - o["lr"] * m / (np.sqrt(v) + o["eps"])


def muon(p, g, s, t, o):
    rate = o.get("lr")
    if p.ndim < 2:
        adam = {"lr": o.get("adam_lr", rate or 3e-4), "betas": o.get("betas", (0.9, 0.95)), "eps": o.get("eps", 1e-10)}
        return adamw(p, g, s, t, adam | {"weight_decay": o.get("weight_decay", 0)})
    mu, lr = o.get("momentum", 0.95), o.get("muon_lr", rate or 0.02)
    s["b"] = s.get("b", 0) + (1 - mu) * (g - s.get("b", 0))
    u = (g + mu * (s["b"] - g)).reshape(len(p), -1)
    left, values, right = np.linalg.svd(u, full_matrices=False)
    values = values / (np.linalg.norm(u) + 1e-7)
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    update = (left * values) @ right * math.sqrt(max(1, u.shape[0] / u.shape[1]))
    return p * (1 - lr * o.get("weight_decay", 0)) - lr * update.reshape(p.shape)


RUNS = [
    ("rmsprop-plain", rmsprop, "RMSprop", {"lr": 0.01}),
    ("rmsprop-momentum", rmsprop, "RMSprop", {"lr": 0.01, "alpha": 0.9, "momentum": 0.9, "weight_decay": 0.1}),
    ("rmsprop-centered", rmsprop, "RMSprop", {"lr": 0.01, "alpha": 0.9, "centered": True, "eps": 1e-4}),
    ("rmsprop-both", rmsprop, "RMSprop", {"lr": 0.005, "alpha": 0.95, "centered": True, "momentum": 0.5, "eps": 1e-4}),
    ("muon-gram", muon, "Muon", {"lr": 0.02}),
    ("muon-standard", muon, "Muon", {"lr": 0.02, "weight_decay": 0.1, "ns_method": "standard"}),
    ("muon-rates", muon, "Muon", {"muon_lr": 0.05, "adam_lr": 0.01, "momentum": 0.8, "betas": [0.8, 0.9], "eps": 1e-8}),
    ("muon-defaults", muon, "Muon", {}),
]


def trajectory(step, options, params, grads, average):
    state, p = {name: {} for name in SHAPES}, dict(params)
    means, rows = dict(params), []
    for t, g in enumerate(grads, 1):
        p = {name: step(p[name], g[name], state[name], t, options) for name in SHAPES}
        means = {name: average * means[name] + (1 - average) * p[name] for name in SHAPES}
        rows.append({name: p[name].tolist() for name in SHAPES})
    return rows, {name: means[name].tolist() for name in SHAPES}


def optimizers():
    params, grads = data()
    runs = []
    for name, step, type_, options in RUNS:
        rows, means = trajectory(step, options, params, grads, 0.9)
        runs.append({"name": name, "optimizer": {"type": type_, "params": options}, "trajectory": rows, "average": 0.9, "averages": means})
    return {"about": "tests/optim/make_tables.py: float64, parameters after every step; averages: of the weights after the last",
            "shapes": {name: list(shape) for name, shape in SHAPES.items()},
            "params0": {name: p.tolist() for name, p in params.items()},
            "grads": [{name: g.tolist() for name, g in step.items()} for step in grads], "runs": runs}


# ---- rules ----


def step_lr(base, o, count):
    rates = [base]
    for t in range(1, count):
        rates.append(rates[-1] * o.get("gamma", 0.1) if t % o["step_size"] == 0 else rates[-1])
    return rates


def exponential_lr(base, o, count):
    rates = [base]
    for _ in range(1, count):
        rates.append(rates[-1] * o["gamma"])
    return rates


def cosine_lr(base, o, count):
    least, most = o.get("eta_min", 0), o["T_max"]
    rates = [base]
    for t in range(1, count):
        if (t - 1 - most) % (2 * most) == 0:
            rates.append(rates[-1] + (base - least) * (1 - math.cos(math.pi / most)) / 2)
        else:
            rates.append((1 + math.cos(math.pi * t / most)) / (1 + math.cos(math.pi * (t - 1) / most)) * (rates[-1] - least) + least)
    return rates


def multi_step_lr(base, o, count):
    rates = [base]
    for t in range(1, count):
        rates.append(rates[-1] * o.get("gamma", 0.1) ** o["milestones"].count(t))
    return rates


def constant_lr(base, o, count):
    factor, total = o.get("factor", 1 / 3), o.get("total_iters", 5)
    rates = [base * factor]
    for t in range(1, count):
        rates.append(rates[-1] / factor if t == total else rates[-1])
    return rates


def linear_lr(base, o, count):
    start, end, total = o.get("start_factor", 1 / 3), o.get("end_factor", 1), o.get("total_iters", 5)
    rates = [base * start]
    for t in range(1, count):
        rates.append(rates[-1] if t > total else rates[-1] * (1 + (end - start) / (total * start + (t - 1) * (end - start))))
    return rates


def polynomial_lr(base, o, count):
    power, total = o.get("power", 1), o.get("total_iters", 5)
    rates = [base]
    for t in range(1, count):
        rates.append(rates[-1] if t > total else rates[-1] * ((1 - t / total) / (1 - (t - 1) / total)) ** power)
    return rates


def restarts_lr(base, o, count):
    least, length, at, rates = o.get("eta_min", 0), o["T_0"], 0, []
    for _ in range(count):
        rates.append(least + (base - least) * (1 + math.cos(math.pi * at / length)) / 2)
        at += 1
        if at >= length:
            at, length = at - length, length * o.get("T_mult", 1)
    return rates


def one_cycle_lr(o, count):
    """(rates, momenta): torch's phases; past the end, where torch raises an error, the last ones"""
    total = o["total_steps"] if "total_steps" in o else o["epochs"] * o["steps_per_epoch"]
    part, top, least, most = o.get("pct_start", 0.3), o["max_lr"], o.get("base_momentum", 0.85), o.get("max_momentum", 0.95)
    start = top / o.get("div_factor", 25.0)
    phases = [(part * total - 1, start, top, most, least)]
    if o.get("three_phase"):
        phases += [(2 * part * total - 2, top, start, least, most), (total - 1, start, start / o.get("final_div_factor", 1e4), most, most)]
    else:
        phases += [(total - 1, top, start / o.get("final_div_factor", 1e4), least, most)]

    def anneal(a, b, at):
        return (b - a) * at + a if o.get("anneal_strategy") == "linear" else b + (a - b) / 2 * (math.cos(math.pi * at) + 1)

    rates, momenta = [], []
    for t in range(count):
        t, begin = min(t, total - 1), 0
        for end, lr0, lr1, momentum0, momentum1 in phases:
            if t <= end or end == total - 1:
                rates.append(anneal(lr0, lr1, (t - begin) / (end - begin)))
                momenta.append(anneal(momentum0, momentum1, (t - begin) / (end - begin)))
                break
            begin = end
    return rates, momenta


def cyclic_lr(o, count):
    """(rates, momenta)"""
    up = o.get("step_size_up", 2000)
    total = up + o.get("step_size_down", up)
    low, high, least, most = o["base_lr"], o["max_lr"], o.get("base_momentum", 0.8), o.get("max_momentum", 0.9)
    rates, momenta = [], []
    for t in range(count):
        cycle = math.floor(1 + t / total)
        x = 1 + t / total - cycle
        height = x / (up / total) if x <= up / total else (x - 1) / (up / total - 1)
        mode = o.get("mode", "triangular")
        scale = 1 / 2.0 ** (cycle - 1) if mode == "triangular2" else o.get("gamma", 1) ** t if mode == "exp_range" else 1
        rates.append(low + (high - low) * height * scale)
        momenta.append(most - (most - least) * height * scale)
    return rates, momenta


def plateau(base, o, values):
    """rates after each value"""
    best = math.inf if o.get("mode", "min") == "min" else -math.inf
    rate, bad, cooling, rates = base, 0, 0, []
    for value in values:
        threshold = o.get("threshold", 1e-4)
        relative = o.get("threshold_mode", "rel") == "rel"
        if o.get("mode", "min") == "min":
            better = value < (best * (1 - threshold) if relative else best - threshold)
        else:
            better = value > (best * (1 + threshold) if relative else best + threshold)
        best, bad = (value, 0) if better else (best, bad + 1)
        if cooling > 0:
            cooling, bad = cooling - 1, 0
        if bad > o.get("patience", 10):
            lower = max(rate * o.get("factor", 0.1), o.get("min_lr", 0))
            if rate - lower > o.get("eps", 1e-8):
                rate = lower
            cooling, bad = o.get("cooldown", 0), 0
        rates.append(rate)
    return rates


RULES = [
    (step_lr, "StepLR", 0.1, {"step_size": 30}),
    (step_lr, "StepLR", 0.02, {"step_size": 7, "gamma": 0.5}),
    (exponential_lr, "ExponentialLR", 0.1, {"gamma": 0.97}),
    (cosine_lr, "CosineAnnealingLR", 0.1, {"T_max": 50}),
    (cosine_lr, "CosineAnnealingLR", 0.03, {"T_max": 33, "eta_min": 0.001}),
    (multi_step_lr, "MultiStepLR", 0.1, {"milestones": [40, 7, 40, 90]}),
    (multi_step_lr, "MultiStepLR", 0.1, {"milestones": [1, 150], "gamma": 0.5}),
    (constant_lr, "ConstantLR", 0.1, {}),
    (constant_lr, "ConstantLR", 0.1, {"factor": 0.25, "total_iters": 60}),
    (linear_lr, "LinearLR", 0.1, {}),
    (linear_lr, "LinearLR", 0.02, {"start_factor": 1, "end_factor": 0.125, "total_iters": 150}),
    (polynomial_lr, "PolynomialLR", 0.1, {}),
    (polynomial_lr, "PolynomialLR", 0.02, {"power": 2, "total_iters": 150}),
    (restarts_lr, "CosineAnnealingWarmRestarts", 0.1, {"T_0": 30}),
    (restarts_lr, "CosineAnnealingWarmRestarts", 0.1, {"T_0": 7, "T_mult": 3, "eta_min": 0.002}),
]
CYCLES = [
    (one_cycle_lr, "OneCycleLR", {"max_lr": 0.1, "total_steps": 150}),
    (one_cycle_lr, "OneCycleLR", {"max_lr": 0.02, "epochs": 4, "steps_per_epoch": 40, "pct_start": 0.25, "anneal_strategy": "linear",
                                  "base_momentum": 0.5, "max_momentum": 0.75, "div_factor": 10, "final_div_factor": 100}),
    (one_cycle_lr, "OneCycleLR", {"max_lr": 0.3, "total_steps": 190, "pct_start": 0.4, "three_phase": True}),
    (cyclic_lr, "CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 30}),
    (cyclic_lr, "CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 16, "step_size_down": 32, "mode": "triangular2",
                             "base_momentum": 0.25, "max_momentum": 0.75}),
    (cyclic_lr, "CyclicLR", {"base_lr": 1e-4, "max_lr": 0.2, "step_size_up": 20, "mode": "exp_range", "gamma": 0.99}),
]
PLATEAUS = [
    {}, {"patience": 2, "factor": 0.5}, {"patience": 1, "factor": 0.5, "cooldown": 3, "threshold": 0.02},
    {"patience": 0, "factor": 0.3, "min_lr": 1e-3, "threshold_mode": "abs", "threshold": 0.05}, {"patience": 1, "factor": 0.9, "eps": 0.02},
    {"mode": "max", "patience": 1, "factor": 0.5, "threshold": 0.01},
]


def rules():
    rng = np.random.default_rng(5)
    losses = (2 / (1 + 0.2 * np.arange(60)) + rng.normal(size=60) * 0.05).tolist()
    return {"about": "tests/optim/make_tables.py: float64",
            "schedules": [{"optimizer_lr": base, "scheduler": {"type": type_, "params": o}, "lr": rule(base, o, 200)}
                          for rule, type_, base, o in RULES] +
                         [dict(zip(("optimizer_lr", "scheduler", "lr", "momentum"), (0.1, {"type": type_, "params": o}, *rule(o, 200))))
                          for rule, type_, o in CYCLES],
            "values": losses,
            "plateaus": [{"optimizer_lr": 0.1, "scheduler": {"type": "ReduceLROnPlateau", "params": o}, "lr": plateau(0.1, o, losses)}
                         for o in PLATEAUS]}


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        sys.exit(0 if "--help" in sys.argv else 2)
    for name, table in (("optimizers-torch.json", optimizers()), ("lr-schedules-torch.json", rules())):
        (pathlib.Path(sys.argv[1]) / name).write_text(json.dumps(table) + "\n")
