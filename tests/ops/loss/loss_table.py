#!/usr/bin/env python3
"""PyTorch's losses and gradients for test_loss.c: loss_table.py > loss_table.inc

Inputs are functions of the element's number that both sides compute without rounding; float64 throughout.
"""
import itertools
import torch
import torch.nn.functional as F


def numbers(shape, factor, shift, modulus, scale):
    count = torch.Size(shape).numel()
    i = torch.arange(count, dtype=torch.float64)
    return (((i * factor + shift) % modulus) * scale).reshape(shape)


def logits(shape):
    return numbers(shape, 37, 11, 29, 0.125) - 1.75


def weighted(each, weight, total_of=None):
    """Weighted mean; weights stand for the first axes of `each`."""
    if weight is None:
        return each.sum() / (each.numel() if total_of is None else total_of.sum())
    w = weight.reshape(weight.shape + (1,) * (each.dim() - weight.dim())).expand_as(each)
    total = w.sum() if total_of is None else (w * total_of).sum()
    return (each * w).sum() / total


def class_case(op, shape, axis, smoothing, ignores, classes, weights):
    target_shape = shape[:axis] + shape[axis + 1:]
    count = shape[axis]
    target = numbers(target_shape, 5, 2, count, 1).long()
    if ignores:
        flat = target.reshape(-1)
        flat[1::4] = 1  # the class that is ignored
    ignore = 1 if ignores else -100
    class_weight = numbers([count], 3, 1, 4, 0.25) + 0.25 if classes else None
    weight = numbers(target_shape[:weights], 3, 1, 5, 0.5) if weights else None
    x = logits(shape).requires_grad_()
    scores = x.movedim(axis, 1)
    if op == "CrossEntropy":
        args = dict(weight=class_weight, ignore_index=ignore, label_smoothing=smoothing)
        each, plain = F.cross_entropy(scores, target, reduction="none", **args), F.cross_entropy(scores, target, **args)
    else:
        args = dict(weight=class_weight, ignore_index=ignore)
        each, plain = F.nll_loss(scores, target, reduction="none", **args), F.nll_loss(scores, target, **args)
    total = (class_weight[target] if classes else torch.ones_like(each)) * (target != ignore)
    loss = weighted(each, weight, total)
    if weight is None:
        torch.testing.assert_close(loss, plain)  # the formula is PyTorch's own mean
    loss.backward()
    return loss, x.grad


def soft_case(shape, axis, smoothing, classes, weights):
    """Targets are class probabilities."""
    rows = shape[:axis] + shape[axis + 1:]
    args = dict(label_smoothing=smoothing, weight=numbers([shape[axis]], 3, 1, 4, 0.25) + 0.25 if classes else None)
    weight = numbers(rows[:weights], 3, 1, 5, 0.5) if weights else None
    x = logits(shape).requires_grad_()
    scores, target = x.movedim(axis, 1), numbers(shape, 13, 5, 17, 0.0625).movedim(axis, 1)
    loss = weighted(F.cross_entropy(scores, target, reduction="none", **args), weight)
    if weight is None:
        torch.testing.assert_close(loss, F.cross_entropy(scores, target, **args))
    loss.backward()
    return loss, x.grad


def element_case(op, shape, bend, weights):
    x = logits(shape).requires_grad_()
    t = numbers(shape, 13, 5, 17, 0.0625) if op == "BinaryCrossEntropy" else numbers(shape, 13, 5, 17, 0.25) - 2
    of = {"BinaryCrossEntropy": F.binary_cross_entropy_with_logits,
          "SquaredError": F.mse_loss,
          "AbsoluteError": F.l1_loss,
          "SmoothAbsoluteError": lambda *a, **k: F.smooth_l1_loss(*a, beta=bend, **k),
          "Huber": lambda *a, **k: F.huber_loss(*a, delta=bend, **k)}[op]
    weight = numbers(shape[:weights], 3, 1, 5, 0.5) if weights else None
    loss = weighted(of(x, t, reduction="none"), weight)
    if weight is None:
        torch.testing.assert_close(loss, of(x, t))
    loss.backward()
    return loss, x.grad


def standard_case(op, shape, reduction, ignores, classes):
    """A node of the ONNX standard; where it does not reduce, its losses are added up."""
    count = shape[1]
    target = numbers(shape[:1] + shape[2:], 5, 2, count, 1).long()
    if ignores:
        target.reshape(-1)[1::4] = 1
    args = dict(weight=numbers([count], 3, 1, 4, 0.25) + 0.25 if classes else None, ignore_index=1 if ignores else -100,
                reduction=reduction)
    x = logits(shape).requires_grad_()
    loss = (F.cross_entropy if op == "SoftmaxCrossEntropyLoss" else F.nll_loss)(x, target, **args).sum()
    loss.backward()
    return loss, x.grad


def row(op, shape, axis, smoothing, bend, ignores, classes, weights, loss, grad, reduction=""):
    dims = ", ".join(map(str, shape))
    print(f'{{ "{op}", "{reduction}", {{ {len(shape)}, {{ {dims} }} }}, {axis}, {smoothing:g}, {bend:g}, {str(ignores).lower()}, '
          f'{str(classes).lower()}, {weights}, {loss.item():.12g},')
    print("  { " + ", ".join(f"{v + 0.0:.10g}" for v in grad.reshape(-1).tolist()) + " } },")


def main():
    print("/* Made by loss_table.py with PyTorch", torch.__version__.split("+")[0], "*/")
    shapes = [([5, 3], 1, [0, 1]), ([2, 3, 2, 2], 1, [0, 1, 3]), ([2, 3, 4], 2, [0, 1, 2])]
    for shape, axis, some in shapes:
        for smoothing, ignores, classes in itertools.product([0, 0.1], [False, True], [False, True]):
            for weights in some if classes == ignores else [0]:
                case = ("CrossEntropy", shape, axis, smoothing, ignores, classes, weights)
                row(*case[:4], 1, *case[4:], *class_case(*case))
        for ignores, classes in itertools.product([False, True], [False, True]):
            weights = some[-1] if ignores else 0
            case = ("NegativeLogLikelihood", shape, axis, 0, ignores, classes, weights)
            row(*case[:4], 1, *case[4:], *class_case(*case))
    for shape, axis, some in shapes:
        for smoothing, classes, weights in itertools.product([0, 0.1], [False, True], some):
            row("SoftCrossEntropy", shape, axis, smoothing, 1, False, classes, weights,
                *soft_case(shape, axis, smoothing, classes, weights))
    for op, reduction, ignores, classes in itertools.product(["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"],
                                                             ["mean", "sum", "none"], [False, True], [False, True]):
        shape = [2, 3, 2] if ignores else [4, 3]
        row(op, shape, 1, 0, 1, ignores, classes, 0, *standard_case(op, shape, reduction, ignores, classes), reduction)
    for op, bends in [("SquaredError", [1]), ("AbsoluteError", [1]), ("SmoothAbsoluteError", [0.5, 1]), ("Huber", [0.5, 1]),
                      ("BinaryCrossEntropy", [1])]:
        for bend, (shape, weights) in itertools.product(bends, [([6], 0), ([3, 4], 1), ([2, 2, 3], 2), ([2, 3], 2)]):
            row(op, shape, 0, 0, bend, False, False, weights, *element_case(op, shape, bend, weights))


if __name__ == "__main__":
    main()
