"""Networks of further kinds and shapes for row C15 of tools/compare_torch: small and large batches, channels that are no multiple of 16,
rectangular kernels, long and short sequences. NETWORKS: as in torch_networks.py; JOBS of torch_rows.py say what each is fed with.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

from torch_other_networks import Around, Weighed, conv, head


# ------------------------------------------------------------------ images

def keywords():
    """Zhang et al. (2017), DS-CNN: 49 frames of 10 coefficients, depthwise and pointwise convolutions."""
    layers = [nn.Conv2d(1, 64, (10, 4), 2, (4, 1), bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    for _ in range(4):
        layers += [*conv(64, 64, 3, 1, 64), nn.ReLU(), *conv(64, 64, 1), nn.ReLU()]
    return nn.Sequential(*layers, *head(64, 12))


def plain(width, stride=1, inputs=None):
    inputs = inputs or width
    body = [*conv(inputs, width, 3, stride), nn.ReLU(), *conv(width, width)]
    return Around(body, nn.Sequential(*conv(inputs, width, 1, stride)) if stride > 1 or inputs != width else None, nn.ReLU())


def deep():
    """He et al. (2015): the ResNet of 56 layers for 32 x 32."""
    layers = [*conv(3, 16), nn.ReLU()]
    for stage in range(3):
        layers += [plain(16 << stage, 2 if stage and not at else 1, (16 << stage - 1) if stage and not at else None) for at in range(9)]
    return nn.Sequential(*layers, *head(64, 10))


def single():
    """A ResNet for one image of 160 x 128."""
    return nn.Sequential(*conv(3, 32, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), plain(32), plain(64, 2, 32), plain(128, 2, 64), plain(256, 2, 128),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 100))


class Cbam(nn.Module):
    """Woo et al. (2018): channels weighed by means and maxima, then places."""

    def __init__(self, width):
        super().__init__()
        self.channels = nn.Sequential(nn.Conv2d(width, width // 8, 1, bias=False), nn.ReLU(), nn.Conv2d(width // 8, width, 1, bias=False))
        self.places = nn.Conv2d(2, 1, 7, padding=3, bias=False)

    def forward(self, x):
        x = x * torch.sigmoid(self.channels(x.mean((2, 3), True)) + self.channels(x.amax((2, 3), True)))
        return x * torch.sigmoid(self.places(torch.cat([x.mean(1, True), x.amax(1, True)], 1)))


def cbam():
    block = lambda i, o, s: Around([*conv(i, o, 3, s), nn.ReLU(), *conv(o, o), Cbam(o)],
                                   None if i == o else nn.Sequential(*conv(i, o, 1, s)), nn.ReLU())
    return nn.Sequential(*conv(3, 32), nn.ReLU(), block(32, 32, 1), block(32, 64, 2), block(64, 128, 2), *head(128, 10))


class Vae(nn.Module):
    """Kingma and Welling (2013); the normal numbers are an input."""

    def __init__(self, latent=40):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 24, 4, 2, 1), nn.ELU(), nn.Conv2d(24, 40, 4, 2, 1), nn.ELU(), nn.Flatten(), nn.Linear(1960, 200), nn.ELU())
        self.mean, self.spread = nn.Linear(200, latent), nn.Linear(200, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 1960), nn.ELU(), nn.Unflatten(1, (40, 7, 7)), nn.ConvTranspose2d(40, 24, 4, 2, 1), nn.ELU(),
                                     nn.ConvTranspose2d(24, 1, 4, 2, 1))

    def forward(self, image, numbers):
        x = self.encoder(image)
        return self.decoder(self.mean(x) + torch.exp(0.5 * self.spread(x)) * numbers)


def srresnet():
    """Ledig et al. (2016): BatchNorm, PReLU, kernels of 9, pixels shuffled twice."""
    block = lambda: Around([*conv(64, 64), nn.PReLU(), *conv(64, 64)])
    up = lambda: [nn.Conv2d(64, 256, 3, padding=1), nn.PixelShuffle(2), nn.PReLU()]
    return nn.Sequential(nn.Conv2d(3, 64, 9, padding=4), nn.PReLU(), Around([block(), block(), block(), *conv(64, 64)]), *up(), *up(),
                         nn.Conv2d(64, 3, 9, padding=4))


class Volumes(nn.Module):
    """Cicek et al. (2016), U-Net in three dimensions, with the norm and activation of Isensee et al. (2018)."""

    def __init__(self):
        super().__init__()
        step = lambda i, o, s=1: nn.Sequential(nn.Conv3d(i, o, 3, s, 1), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.01),
                                               nn.Conv3d(o, o, 3, 1, 1), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.01))
        self.down = nn.ModuleList([step(1, 12), step(12, 24, 2), step(24, 48, 2)])
        self.up, self.joined = nn.ModuleList([nn.ConvTranspose3d(48, 24, 2, 2), nn.ConvTranspose3d(24, 12, 2, 2)]), nn.ModuleList([step(48, 24), step(24, 12)])
        self.last = nn.Conv3d(12, 2, 1)

    def forward(self, volume):
        a = self.down[0](volume)
        b = self.down[1](a)
        x = self.joined[0](torch.cat([self.up[0](self.down[2](b)), b], 1))
        return self.last(self.joined[1](torch.cat([self.up[1](x), a], 1)))


class MobileVit(nn.Module):
    """Mehta and Rastegari (2021): transformers over the pixels at the same place of patches of 2 x 2."""

    class Mixed(nn.Module):
        def __init__(self, width, inner):
            super().__init__()
            self.before = nn.Sequential(*conv(width, width), nn.SiLU(), nn.Conv2d(width, inner, 1, bias=False))
            layer = nn.TransformerEncoderLayer(inner, 4, 2 * inner, 0.0, F.silu, batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.after, self.joined = nn.Sequential(*conv(inner, width, 1), nn.SiLU()), nn.Sequential(*conv(2 * width, width), nn.SiLU())

        def forward(self, x):
            n, c, h, w = x.shape
            y = self.before(x)
            y = y.reshape(n, -1, h // 2, 2, w // 2, 2).permute(0, 3, 5, 2, 4, 1).reshape(n * 4, h * w // 4, -1)
            y = self.layers(y).reshape(n, 2, 2, h // 2, w // 2, -1).permute(0, 5, 3, 1, 4, 2).reshape(n, -1, h, w)
            return self.joined(torch.cat([x, self.after(y)], 1))

    def __init__(self):
        super().__init__()
        def inverted(i, o, s):
            return nn.Sequential(*conv(i, 2 * i, 1), nn.SiLU(), *conv(2 * i, 2 * i, 3, s, 2 * i), nn.SiLU(), *conv(2 * i, o, 1))
        self.layers = nn.Sequential(*conv(3, 16, 3, 2), nn.SiLU(), inverted(16, 32, 2), inverted(32, 48, 2), self.Mixed(48, 72), inverted(48, 64, 2),
                                    self.Mixed(64, 96), *head(64, 100))

    def forward(self, image):
        return self.layers(image)


class Scaled(nn.Module):
    """A shortcut around `body`, which is normalized before and scaled after."""

    def __init__(self, width, body):
        super().__init__()
        self.norm, self.body, self.scale = nn.GroupNorm(1, width), body, nn.Parameter(torch.full((width, 1, 1), 0.1))

    def forward(self, x):
        return x + self.scale * self.body(self.norm(x))


class Pooled(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(x, 3, 1, 1, count_include_pad=False) - x


def poolformer():
    """Yu et al. (2021): means of 3 x 3 in the place of attention."""
    layers, inputs = [], 3
    for width, stride in (48, 4), (96, 2), (160, 2):
        layers.append(nn.Conv2d(inputs, width, 2 * stride - 1, stride, stride - 1))
        layers += [one for _ in range(2) for one in (Scaled(width, Pooled()), Scaled(width, nn.Sequential(
            nn.Conv2d(width, 4 * width, 1), nn.GELU(), nn.Conv2d(4 * width, width, 1))))]
        inputs = width
    return nn.Sequential(*layers, nn.GroupNorm(1, 160), *head(160, 100))


class Rep(nn.Module):
    """Ding et al. (2021): 3 x 3, 1 x 1 and the input itself, each normalized, summed."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.three, self.one = nn.Sequential(*conv(inputs, outputs, 3, stride)), nn.Sequential(*conv(inputs, outputs, 1, stride))
        self.same = nn.BatchNorm2d(inputs) if inputs == outputs and stride == 1 else None

    def forward(self, x):
        y = self.three(x) + self.one(x)
        return F.relu(y + self.same(x) if self.same else y)


def repvgg():
    shape = [(3, 32, 2), (32, 48, 2), (48, 48, 1), (48, 96, 2), (96, 96, 1), (96, 96, 1), (96, 192, 2)]
    return nn.Sequential(*[Rep(*one) for one in shape], *head(192, 100))


class HighResolution(nn.Module):
    """Wang et al. (2019): two resolutions side by side that exchange what they have."""

    class Exchange(nn.Module):
        def __init__(self, high, low):
            super().__init__()
            self.high, self.low = plain(high), plain(low)
            self.down, self.up = nn.Sequential(*conv(high, low, 3, 2)), nn.Sequential(*conv(low, high, 1), nn.Upsample(scale_factor=2))

        def forward(self, pair):
            high, low = self.high(pair[0]), self.low(pair[1])
            return F.relu(high + self.up(low)), F.relu(low + self.down(high))

    def __init__(self):
        super().__init__()
        self.first, self.lower = nn.Sequential(*conv(3, 18, 3, 2), nn.ReLU(), plain(18)), nn.Sequential(*conv(18, 36, 3, 2), nn.ReLU())
        self.exchanges = nn.Sequential(*[self.Exchange(18, 36) for _ in range(3)])
        self.last = nn.Sequential(*conv(54, 54, 1), nn.ReLU(), nn.Conv2d(54, 5, 1))

    def forward(self, image):
        x = self.first(image)
        high, low = self.exchanges((x, self.lower(x)))
        return self.last(torch.cat([high, F.interpolate(low, scale_factor=2.0, mode="bilinear", align_corners=False)], 1))


class ConvLstm(nn.Module):
    """Shi et al. (2015), eight steps written out; the last state is the next image."""

    def __init__(self, width=24):
        super().__init__()
        self.gates, self.last, self.width = nn.Conv2d(1 + width, 4 * width, 5, padding=2), nn.Conv2d(width, 1, 3, padding=1), width

    def forward(self, frames):
        h = c = frames[:, :1].expand(-1, self.width, -1, -1) * 0
        for step in range(frames.shape[1]):
            i, f, o, g = self.gates(torch.cat([frames[:, step:step + 1], h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return self.last(h)


def eeg():
    """Lawhern et al. (2016): kernels along time, then across 22 electrodes."""
    return nn.Sequential(nn.Conv2d(1, 8, (1, 63), padding=(0, 31), bias=False), nn.BatchNorm2d(8), nn.Conv2d(8, 16, (22, 1), groups=8, bias=False),
                         nn.BatchNorm2d(16), nn.ELU(), nn.AvgPool2d((1, 4)), nn.Conv2d(16, 16, (1, 15), padding=(0, 7), groups=16, bias=False),
                         nn.Conv2d(16, 16, 1, bias=False), nn.BatchNorm2d(16), nn.ELU(), nn.AvgPool2d((1, 8)), nn.Flatten(), nn.Linear(128, 4))


def factored(width, dilation):
    """Romera et al. (2017): 3 x 1 and 1 x 3 in turn, the second pair dilated."""
    return Around([nn.Conv2d(width, width, (3, 1), padding=(1, 0)), nn.ReLU(), nn.Conv2d(width, width, (1, 3), padding=(0, 1)), nn.BatchNorm2d(width),
                   nn.ReLU(), nn.Conv2d(width, width, (3, 1), padding=(dilation, 0), dilation=(dilation, 1)), nn.ReLU(),
                   nn.Conv2d(width, width, (1, 3), padding=(0, dilation), dilation=(1, dilation)), nn.BatchNorm2d(width)], None, nn.PReLU(width))


def erfnet():
    return nn.Sequential(*conv(3, 20, 3, 2), nn.PReLU(20), *conv(20, 60, 3, 2), nn.PReLU(60), factored(60, 1), factored(60, 2), factored(60, 4),
                         nn.ConvTranspose2d(60, 20, 3, 2, 1, 1), nn.BatchNorm2d(20), nn.PReLU(20), factored(20, 1), nn.ConvTranspose2d(20, 5, 2, 2))


class Ghost(nn.Module):
    """Han et al. (2019): half of the channels by a 1 x 1 convolution, the others from these by a depthwise one."""

    def __init__(self, inputs, outputs, activation=True):
        super().__init__()
        half, act = outputs // 2, nn.ReLU if activation else nn.Identity
        self.first, self.cheap = nn.Sequential(*conv(inputs, half, 1), act()), nn.Sequential(*conv(half, half, 3, 1, half), act())

    def forward(self, x):
        x = self.first(x)
        return torch.cat([x, self.cheap(x)], 1)


def ghostnet():
    def block(i, m, o, s):
        middle = [*conv(m, m, 5, 2, m)] if s == 2 else []
        other = nn.Sequential(*conv(i, i, 5, s, i), *conv(i, o, 1)) if s == 2 or i != o else None
        return Around([Ghost(i, m), *middle, Weighed(m, nn.Hardsigmoid), Ghost(m, o, False)], other)
    return nn.Sequential(*conv(3, 16, 3, 2), nn.ReLU(), block(16, 48, 24, 2), block(24, 72, 24, 1), block(24, 72, 40, 2), block(40, 120, 40, 1),
                         block(40, 200, 80, 2), *conv(80, 240, 1), nn.ReLU(), *head(240, 100))


def large_kernels():
    """Ding et al. (2022): depthwise kernels of 11, 1 x 1 around them."""
    block = lambda w: [Around([nn.BatchNorm2d(w), *conv(w, w, 1), nn.ReLU(), *conv(w, w, 11, 1, w), nn.ReLU(), *conv(w, w, 1)]),
                       Around([nn.BatchNorm2d(w), *conv(w, 3 * w, 1), nn.GELU(), *conv(3 * w, w, 1)])]
    return nn.Sequential(*conv(3, 40, 4, 4), nn.ReLU(), *block(40), *block(40), *conv(40, 88, 3, 2), nn.ReLU(), *block(88), *block(88), *head(88, 100))


class Grn(nn.Module):
    """Woo et al. (2023): a channel's response is its norm over places by the mean of all channels' norms. [N, H, W, C]"""

    def __init__(self, width):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.full((width,), 0.1)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        norm = (x * x).sum((1, 2), keepdim=True).add(1e-6).sqrt()
        return x + self.gamma * (x * (norm / (norm.mean(-1, keepdim=True) + 1e-6))) + self.beta


class NextTwo(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.deep, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, 1e-6)
        self.up, self.grn, self.down = nn.Linear(width, 4 * width), Grn(4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        return x + self.down(self.grn(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


def convnext2():
    return nn.Sequential(nn.Conv2d(3, 40, 4, 4), NextTwo(40), NextTwo(40), nn.Conv2d(40, 80, 2, 2), NextTwo(80), NextTwo(80), *head(80, 100))


def uneven():
    """Channels 20, 36, 60 and 100, groups, kernels of 2, 4 and 6, images of 27 x 43."""
    return nn.Sequential(nn.Conv2d(3, 20, 6, 1, 2), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True), nn.Conv2d(20, 36, 4, groups=4), nn.ReLU(),
                         nn.Conv2d(36, 60, 2, groups=3), nn.ReLU(), nn.MaxPool2d((2, 3)), nn.Conv2d(60, 100, 3, padding=1, groups=5), nn.ReLU(), *head(100, 7))


# ------------------------------------------------------------------ sequences

def waveform():
    """Dai et al. (2016), M5: sound as it is, the first kernel 80 wide."""
    layers, inputs = [nn.Conv1d(1, 32, 80, 4), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(4)], 32
    for width in 32, 64, 64:
        layers += [nn.Conv1d(inputs, width, 3), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(4)]
        inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 35))


class Causal(nn.Module):
    """Bai et al. (2018): a causal convolution whose weight is a length and a direction (Salimans and Kingma, 2016)."""

    def __init__(self, inputs, outputs, dilation, kernel=7):
        super().__init__()
        self.weight, self.bias = nn.Parameter(0.1 * torch.randn(outputs, inputs, kernel)), nn.Parameter(torch.zeros(outputs))
        self.length, self.dilation, self.pad = nn.Parameter(torch.ones(outputs, 1, 1)), dilation, (kernel - 1) * dilation

    def forward(self, x):
        weight = self.length * self.weight / self.weight.pow(2).sum((1, 2), keepdim=True).sqrt()
        return F.relu(F.conv1d(x, weight, self.bias, 1, self.pad, self.dilation)[:, :, :-self.pad])


class WeightNormed(nn.Module):
    def __init__(self, width=25):
        super().__init__()
        self.layers = nn.Sequential(*[Around([Causal(1 if d == 1 else width, width, d), Causal(width, width, d)],
                                             nn.Conv1d(1, width, 1) if d == 1 else None, nn.ReLU()) for d in (1, 2, 4, 8, 16)])
        self.head = nn.Linear(width, 10)

    def forward(self, series):
        return self.head(self.layers(series)[:, :, -1])


class Glow(nn.Module):
    """Prenger et al. (2018): 1 x 1 convolutions and affine couplings of gated dilated convolutions."""

    class Coupling(nn.Module):
        def __init__(self, channels=8, width=48):
            super().__init__()
            self.mix, self.first = nn.Conv1d(channels, channels, 1, bias=False), nn.Conv1d(channels // 2, width, 1)
            self.both = nn.ModuleList([nn.Conv1d(width, 2 * width, 3, padding=1 << at, dilation=1 << at) for at in range(4)])
            self.next, self.last = nn.ModuleList([nn.Conv1d(width, 2 * width, 1) for _ in range(4)]), nn.Conv1d(width, channels, 1)

        def forward(self, x):
            kept, changed = self.mix(x).chunk(2, 1)
            y, total = self.first(kept), 0
            for both, following in zip(self.both, self.next):
                a, b = both(y).chunk(2, 1)
                on, skip = following(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
                y, total = y + on, total + skip
            scale, shift = self.last(total).chunk(2, 1)
            return torch.cat([kept, changed * torch.exp(scale) + shift], 1)

    def __init__(self):
        super().__init__()
        self.flows = nn.Sequential(*[self.Coupling() for _ in range(3)])

    def forward(self, sound):
        return self.flows(sound)


class SpatialGate(nn.Module):
    """Liu et al. (2021), gMLP."""

    def __init__(self, width=128, hidden=384, time=96):
        super().__init__()
        self.norm, self.up, self.gate_norm = nn.LayerNorm(width), nn.Linear(width, 2 * hidden), nn.LayerNorm(hidden)
        self.places, self.down = nn.Conv1d(time, time, 1), nn.Linear(hidden, width)

    def forward(self, x):
        a, b = F.gelu(self.up(self.norm(x))).chunk(2, -1)
        return x + self.down(a * self.places(self.gate_norm(b)))


class Fourier(nn.Module):
    """Lee-Thorp et al. (2021), FNet: the real part of a transform over places and channels, as products."""

    def __init__(self, width=128, time=128):
        super().__init__()
        for name, size in ("time", time), ("width", width):
            angles = 2 * math.pi * torch.outer(torch.arange(size), torch.arange(size)).float() / size
            setattr(self, f"{name}_cos", nn.Parameter(angles.cos() / math.sqrt(size)))
            setattr(self, f"{name}_sin", nn.Parameter(angles.sin() / math.sqrt(size)))
        self.a, self.b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x):
        x = self.a(x + self.time_cos @ (x @ self.width_cos) - self.time_sin @ (x @ self.width_sin))
        return self.b(x + self.mlp(x))


class Tokens(nn.Module):
    """Words embedded, `layers`, and a head for the mean or, where `each`, for every position."""

    def __init__(self, words, width, layers, outputs, each=False):
        super().__init__()
        self.embedding, self.layers, self.head, self.each = nn.Embedding(words, width), nn.Sequential(*layers), nn.Linear(width, outputs), each

    def forward(self, tokens):
        x = self.layers(self.embedding(tokens))
        return self.head(x if self.each else x.mean(1))


class MultiQuery(nn.Module):
    """Shazeer (2019): one head of keys and values; rotary positions, attention and perceptron side by side."""

    def __init__(self, width=192, heads=4, time=384):
        super().__init__()
        self.heads, self.size, self.norm = heads, width // heads, nn.LayerNorm(width)
        self.all, self.out = nn.Linear(width, width + 2 * width // heads + 4 * width, bias=False), nn.Linear(5 * width, width, bias=False)
        angles = torch.outer(torch.arange(time).float(), 1e4 ** -(torch.arange(0, self.size, 2).float() / self.size))
        self.cos, self.sin = nn.Parameter(angles.cos()), nn.Parameter(angles.sin())

    def turn(self, x):
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1).flatten(-2)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v, up = self.all(self.norm(x)).split([width, self.size, self.size, 4 * width], -1)
        q, k, v = self.turn(q.view(n, t, self.heads, -1).transpose(1, 2)), self.turn(k[:, None]), v[:, None]
        shape = n, self.heads, t, self.size
        y = F.scaled_dot_product_attention(q, k.expand(shape), v.expand(shape), is_causal=True)
        return x + self.out(torch.cat([y.transpose(1, 2).reshape(n, t, width), F.gelu(up)], -1))


class Perceiver(nn.Module):
    """Jaegle et al. (2021): 32 latent vectors read 400 inputs, twice."""

    def __init__(self, width=128):
        super().__init__()
        self.latents = nn.Parameter(0.1 * torch.randn(1, 32, width))
        self.cross = nn.ModuleList([nn.MultiheadAttention(width, 1, kdim=64, vdim=64, batch_first=True) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(64) for _ in range(2)])
        layer = lambda: nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers, self.head = nn.ModuleList([nn.Sequential(layer(), layer()) for _ in range(2)]), nn.Linear(width, 20)

    def forward(self, inputs):
        x = self.latents.expand(inputs.shape[0], -1, -1)
        for cross, norm, layers in zip(self.cross, self.norms, self.layers):
            y = norm(inputs)
            x = layers(x + cross(x, y, y, need_weights=False)[0])
        return self.head(x.mean(1))


class LinearAttention(nn.Module):
    """Katharopoulos et al. (2020): ELU + 1 of queries and keys, no softmax."""

    def __init__(self, width=96, heads=4):
        super().__init__()
        self.heads, self.norm, self.qkv, self.out = heads, nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        q, k, v = (one.unflatten(2, (self.heads, -1)).transpose(1, 2) for one in self.qkv(self.norm(x)).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        y = (q @ (k.transpose(-1, -2) @ v)) / (q @ k.sum(2)[..., None] + 1e-6)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class Attended(nn.Module):
    """Luong et al. (2015): an LSTM reads, another writes and looks back at the states of the first."""

    def __init__(self, width=128, words=6000):
        super().__init__()
        self.embedding, self.reader, self.writer = nn.Embedding(words, width), nn.LSTM(width, width, batch_first=True), nn.LSTM(width, width, batch_first=True)
        self.score, self.joined, self.head = nn.Linear(width, width, bias=False), nn.Linear(2 * width, width), nn.Linear(width, words)

    def forward(self, read, written):
        states, last = self.reader(self.embedding(read))
        x = self.writer(self.embedding(written), last)[0]
        context = (x @ self.score(states).transpose(1, 2)).softmax(-1) @ states
        return self.head(torch.tanh(self.joined(torch.cat([x, context], -1))))


class States(nn.Module):
    """A recurrent network whose last state, or where `each` all states, are classified."""

    def __init__(self, kind, inputs, width, outputs, each=False, words=None, **more):
        super().__init__()
        self.embedding, self.each = nn.Embedding(words, inputs) if words else nn.Identity(), each
        self.recurrent, self.head = kind(inputs, width, batch_first=True, **more), nn.Linear(width * (2 if more.get("bidirectional") else 1), outputs)

    def forward(self, series):
        x = self.recurrent(self.embedding(series))[0]
        return self.head(x if self.each else x[:, -1])


class Speech(nn.Module):
    """Gulati et al. (2020)'s input: two strided convolutions over time and frequency, then PyTorch's encoder."""

    def __init__(self, width=112):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 28, 3, 2), nn.ReLU(), nn.Conv2d(28, 28, 3, 2), nn.ReLU())
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, F.silu, batch_first=True, norm_first=True)
        self.wide, self.layers, self.head = nn.Linear(28 * 19, width), nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), nn.Linear(width, 64)

    def forward(self, sound):
        x = self.first(sound).transpose(1, 2).flatten(2)
        return self.head(self.layers(self.wide(x)))


# ------------------------------------------------------------------ tables, graphs and perceptrons

class GraphAttention(nn.Module):
    """Velickovic et al. (2017) over dense adjacencies."""

    def __init__(self, inputs=24, width=48, heads=3):
        super().__init__()
        self.heads, self.first, self.second, self.head = heads, nn.Linear(inputs, width), nn.Linear(width, width), nn.Linear(width, 1)
        self.source, self.aim = (nn.ParameterList([nn.Parameter(0.1 * torch.randn(width // heads, heads)) for _ in range(2)]) for _ in range(2))

    def layer(self, x, edges, to, of):
        x = x.unflatten(2, (self.heads, -1))
        score = torch.einsum("nvhc,ch->nhv", x, to)[..., None] + torch.einsum("nvhc,ch->nhv", x, of)[..., None, :]
        score = F.leaky_relu(score, 0.2).masked_fill((edges < 0)[:, None], -1e9).softmax(-1)
        return F.elu((score @ x.transpose(1, 2)).transpose(1, 2).flatten(2))

    def forward(self, nodes, edges):
        x = self.layer(self.first(nodes), edges, self.source[0], self.aim[0])
        x = self.layer(self.second(x), edges, self.source[1], self.aim[1])
        return self.head(x.mean(1))


class TabTransformer(nn.Module):
    """Huang et al. (2020): attention between the columns of a row."""

    def __init__(self, columns=20, words=100, width=32):
        super().__init__()
        self.register_buffer("offsets", words * torch.arange(columns))
        self.embedding, self.norm = nn.Embedding(columns * words, width), nn.LayerNorm(10)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.top = nn.Sequential(nn.Linear(columns * width + 10, 256), nn.SELU(), nn.Linear(256, 64), nn.SELU(), nn.Linear(64, 1))

    def forward(self, kinds, numbers):
        x = self.layers(self.embedding(kinds + self.offsets)).flatten(1)
        return self.top(torch.cat([x, self.norm(numbers)], 1))


class DeepFm(nn.Module):
    """Guo et al. (2017): factorized products of pairs beside a perceptron."""

    def __init__(self, fields=26, words=2000, width=10):
        super().__init__()
        self.register_buffer("offsets", words * torch.arange(fields))
        self.linear, self.embedding = nn.Embedding(fields * words, 1), nn.Embedding(fields * words, width)
        self.deep = nn.Sequential(nn.Linear(fields * width, 200), nn.BatchNorm1d(200), nn.ReLU(), nn.Linear(200, 200), nn.BatchNorm1d(200), nn.ReLU(), nn.Linear(200, 1))

    def forward(self, sparse):
        at = sparse + self.offsets
        x = self.embedding(at)
        pairs = 0.5 * (x.sum(1).pow(2) - x.pow(2).sum(1)).sum(1, keepdim=True)
        return self.linear(at).sum(1) + pairs + self.deep(x.flatten(1))


class Bag(nn.Module):
    """Joulin et al. (2016): the mean of the words."""

    def __init__(self, words=50000, width=32):
        super().__init__()
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, 20)

    def forward(self, tokens):
        return self.head(self.words(tokens).mean(1))


class Neighbours(nn.Module):
    """Bengio et al. (2003): four words before, a vocabulary of 30,000."""

    def __init__(self, words=30000, width=48):
        super().__init__()
        self.words, self.hidden, self.head = nn.Embedding(words, width), nn.Linear(4 * width, 100), nn.Linear(100, words)

    def forward(self, tokens):
        return self.head(torch.tanh(self.hidden(self.words(tokens).flatten(1))))


def mlp(*widths, activation=nn.ReLU, norm=None):
    layers = []
    for inputs, outputs in zip(widths[:-2], widths[1:]):
        layers += [nn.Linear(inputs, outputs), *([norm(outputs)] if norm else []), activation()]
    return nn.Sequential(*layers, nn.Linear(*widths[-2:]))


NETWORKS = {
    "keywords": keywords, "deep": deep, "single": single, "cbam": cbam, "vae": Vae, "srresnet": srresnet, "volumes": Volumes, "mobilevit": MobileVit,
    "poolformer": poolformer, "repvgg": repvgg, "hrnet": HighResolution, "convlstm": ConvLstm, "eeg": eeg, "erfnet": erfnet, "ghostnet": ghostnet,
    "large-kernels": large_kernels, "convnext2": convnext2, "uneven": uneven, "waveform": waveform,
    "weight-norm": WeightNormed, "glow": Glow, "gmlp": lambda: Tokens(4000, 128, [SpatialGate() for _ in range(3)], 10),
    "fnet": lambda: Tokens(4000, 128, [Fourier() for _ in range(3)], 10),
    "multi-query": lambda: Tokens(2000, 192, [MultiQuery() for _ in range(3)], 2000, each=True), "perceiver": Perceiver,
    "linear-attention": lambda: Tokens(256, 96, [LinearAttention() for _ in range(3)], 10), "attended": Attended,
    "letters": lambda: States(nn.LSTM, 32, 64, 80, each=True, words=80), "long": lambda: States(nn.GRU, 6, 32, 5),
    "bigru": lambda: States(nn.GRU, 40, 96, 30, each=True, bidirectional=True, num_layers=2), "speech": Speech, "gat": GraphAttention,
    "tab-transformer": TabTransformer, "deepfm": DeepFm, "bag": Bag, "neighbours": Neighbours,
    "small-mlp": lambda: mlp(10, 32, 32, 32, 1, activation=nn.Tanh), "large-mlp": lambda: mlp(2048, 3000, 3000, 10),
    "normed-mlp": lambda: mlp(54, 100, 100, 7, activation=nn.LeakyReLU, norm=nn.BatchNorm1d),
}
