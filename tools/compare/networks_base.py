"""What the networks that tools/zoo exports have in common.

Each row of NETWORKS is a function that returns (module, inputs): the module takes the inputs and returns one tensor. Class
scores come as [N, classes], or as [N, time, classes] for token models; anything else is compared by its squares.
"""
import torch
from torch import nn

BATCH = 4
NETWORKS, SMALL = {}, {}  # name -> function


def network(name):
    def keep(function):
        NETWORKS[name] = function
        return function
    return keep


def module(name, *inputs, ways=("dynamo", "torchscript", "dynamo-train", "torchscript-train"), also=()):
    """Registers a module by its class; the inputs are functions. It is exported in these ways."""
    def keep(kind):
        def make():
            return kind(), tuple(f() for f in inputs)
        make.ways = ways + also
        NETWORKS["module/" + name] = make
        return kind
    return keep


class First(nn.Module):
    """The first tensor of what a network returns."""

    def __init__(self, net, take=None, **always):
        super().__init__()
        self.net, self.take, self.always = net, take, always

    def forward(self, *inputs):
        result = self.net(*inputs, **self.always)
        if self.take:
            return getattr(result, self.take)
        return result if isinstance(result, torch.Tensor) else result[0]


def rows(*shape):
    return torch.randn(BATCH, *shape)


def tokens(length, words):
    return torch.randint(2, words, (BATCH, length))
