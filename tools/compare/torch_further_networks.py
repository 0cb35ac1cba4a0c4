"""The second half of the networks of row C15 of tools/compare_torch (torch_other_networks.py). NETWORKS: as in torch_networks.py."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from torch_other_networks import Around, RmsNorm, Weighed, conv, head


# ------------------------------------------------------------------ images

def wide(inputs, outputs, stride):
    """Zagoruyko and Komodakis (2016): normalized and activated before each convolution."""
    body = [nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs), nn.ReLU(), nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)]
    return Around(body, None if inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride, bias=False))


def wide_resnet():
    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), wide(16, 64, 1), wide(64, 64, 1), wide(64, 128, 2), wide(128, 128, 1),
                         wide(128, 256, 2), wide(256, 256, 1), nn.BatchNorm2d(256), nn.ReLU(), *head(256, 10))


class Fire(nn.Module):
    """Iandola et al. (2016)."""

    def __init__(self, inputs, squeezed, expanded):
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.one, self.three = nn.Conv2d(squeezed, expanded, 1), nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x):
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.one(x)), F.relu(self.three(x))], 1)


def squeezenet():
    return nn.Sequential(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(64, 16, 64), Fire(128, 16, 64),
                         nn.MaxPool2d(3, 2, ceil_mode=True), Fire(128, 32, 128), Fire(256, 32, 128), nn.MaxPool2d(3, 2, ceil_mode=True),
                         Fire(256, 48, 192), Fire(384, 48, 192), nn.Conv2d(384, 100, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def separable(inputs, outputs):
    """Chollet (2017)."""
    return [nn.ReLU(), nn.Conv2d(inputs, inputs, 3, 1, 1, groups=inputs, bias=False), *conv(inputs, outputs, 1)]


def xception():
    def entry(inputs, outputs):
        return Around([*separable(inputs, outputs), *separable(outputs, outputs), nn.MaxPool2d(3, 2, 1)],
                      nn.Sequential(*conv(inputs, outputs, 1, 2)))
    middle = [Around([*separable(256, 256), *separable(256, 256), *separable(256, 256)]) for _ in range(2)]
    return nn.Sequential(*conv(3, 32, 3, 2), nn.ReLU(), *conv(32, 64), entry(64, 128), entry(128, 256), *middle, nn.ReLU(), *head(256, 100))


def regnet():
    """Radosavovic et al. (2020): grouped bottlenecks with squeeze and excitation."""
    def block(inputs, outputs, stride):
        body = [*conv(inputs, outputs, 1), nn.ReLU(), *conv(outputs, outputs, 3, stride, outputs // 16), nn.ReLU(), Weighed(outputs, nn.Sigmoid, inputs // 4),
                *conv(outputs, outputs, 1)]
        return Around(body, nn.Sequential(*conv(inputs, outputs, 1, stride)) if stride == 2 else None, nn.ReLU())
    return nn.Sequential(*conv(3, 32, 3, 2), nn.ReLU(), block(32, 48, 2), block(48, 112, 2), block(112, 112, 1), block(112, 256, 2),
                         block(256, 256, 1), *head(256, 100))


def convmixer():
    """Trockman and Kolter (2022): depthwise convolutions of 7 x 7."""
    width, layers = 128, []
    for _ in range(6):
        layers += [Around([nn.Conv2d(width, width, 7, padding=3, groups=width), nn.GELU(), nn.BatchNorm2d(width)]),
                   nn.Conv2d(width, width, 1), nn.GELU(), nn.BatchNorm2d(width)]
    return nn.Sequential(nn.Conv2d(3, width, 4, 4), nn.GELU(), nn.BatchNorm2d(width), *layers, *head(width, 100))


class Csp(nn.Module):
    """The block of YOLO's fifth version: half of the channels through bottlenecks, SiLU."""

    def __init__(self, width):
        super().__init__()
        half = width // 2
        self.a, self.b = nn.Sequential(*conv(width, half, 1), nn.SiLU()), nn.Sequential(*conv(width, half, 1), nn.SiLU())
        self.body = Around([*conv(half, half, 1), nn.SiLU(), *conv(half, half), nn.SiLU()])
        self.last = nn.Sequential(*conv(width, width, 1), nn.SiLU())

    def forward(self, x):
        return self.last(torch.cat([self.body(self.a(x)), self.b(x)], 1))


class Yolo(nn.Module):
    def __init__(self):
        super().__init__()
        step = lambda i, o: nn.Sequential(*conv(i, o, 3, 2), nn.SiLU(), Csp(o))
        self.first = nn.Sequential(*conv(3, 16, 5, 2), nn.SiLU(), step(16, 32))
        self.second, self.third = step(32, 64), step(64, 128)
        self.pooled = nn.Sequential(*conv(128, 64, 1), nn.SiLU())
        self.fuse, self.up = nn.Sequential(*conv(256, 128, 1), nn.SiLU()), nn.Upsample(scale_factor=2)
        self.neck, self.out = nn.Sequential(*conv(192, 64, 1), nn.SiLU(), Csp(64)), nn.Conv2d(64, 18, 1)

    def forward(self, image):
        x = self.second(self.first(image))
        y = self.pooled(self.third(x))
        pools = [y]
        for _ in range(3):
            pools.append(F.max_pool2d(pools[-1], 5, 1, 2))
        y = self.fuse(torch.cat(pools, 1))
        return self.out(self.neck(torch.cat([self.up(y), x], 1)))


class Unet(nn.Module):
    """Ronneberger et al. (2015), with BatchNorm and transposed convolutions."""

    def __init__(self, widths=(32, 64, 128)):
        super().__init__()
        double = lambda i, o: nn.Sequential(*conv(i, o), nn.ReLU(), *conv(o, o), nn.ReLU())
        a, b, c = widths
        self.down = nn.ModuleList([double(3, a), double(a, b), double(b, c)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(c, b, 2, 2), nn.ConvTranspose2d(b, a, 2, 2)])
        self.join, self.out = nn.ModuleList([double(c, b), double(b, a)]), nn.Conv2d(a, 3, 1)

    def forward(self, image):
        a = self.down[0](image)
        b = self.down[1](F.max_pool2d(a, 2))
        x = self.down[2](F.max_pool2d(b, 2))
        x = self.join[0](torch.cat([self.up[0](x), b], 1))
        return self.out(self.join[1](torch.cat([self.up[1](x), a], 1)))


def super_resolution():
    """Lim et al. (2017): no normalization, pixels shuffled at the end."""
    block = lambda: Around([nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 1, 1)])
    return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1), block(), block(), block(), nn.Conv2d(64, 256, 3, 1, 1), nn.PixelShuffle(2),
                         nn.Conv2d(64, 3, 3, 1, 1))


def style():
    """Johnson et al. (2016): InstanceNorm, reflected edges."""
    def layer(inputs, outputs, kernel, stride=1):
        return [nn.ReflectionPad2d(kernel // 2), nn.Conv2d(inputs, outputs, kernel, stride), nn.InstanceNorm2d(outputs, affine=True)]
    body = [Around([*layer(64, 64, 3), nn.ReLU(), *layer(64, 64, 3)]) for _ in range(2)]
    return nn.Sequential(*layer(3, 16, 9), nn.ReLU(), *layer(16, 32, 3, 2), nn.ReLU(), *layer(32, 64, 3, 2), nn.ReLU(), *body,
                         nn.Upsample(scale_factor=2), *layer(64, 32, 3), nn.ReLU(), nn.Upsample(scale_factor=2), *layer(32, 16, 3), nn.ReLU(),
                         nn.ReflectionPad2d(4), nn.Conv2d(16, 3, 9))


def discriminator():
    """Radford et al. (2016)."""
    layers, inputs = [], 3
    for width in 32, 64, 128, 256:
        layers += [nn.Conv2d(inputs, width, 4, 2, 1, bias=False), *([nn.BatchNorm2d(width)] if inputs > 3 else []), nn.LeakyReLU(0.2)]
        inputs = width
    return nn.Sequential(*layers, nn.Conv2d(256, 1, 4), nn.Flatten())


def video():
    """Convolutions in three dimensions (Tran et al., 2015)."""
    step = lambda i, o, s: [nn.Conv3d(i, o, 3, s, 1, bias=False), nn.BatchNorm3d(o), nn.ReLU()]
    return nn.Sequential(*step(3, 16, 1), nn.MaxPool3d((1, 2, 2)), *step(16, 32, 1), nn.MaxPool3d(2), *step(32, 64, 1), *step(64, 64, 1),
                         nn.MaxPool3d(2), *step(64, 128, 1), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(128, 10))


def shifted(x, window, shift):
    n, h, w, c = x.shape
    x = torch.roll(x, (-shift, -shift), (1, 2)) if shift else x
    x = x.view(n, h // window, window, w // window, window, c).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, window * window, c)


class Windows(nn.Module):
    """Liu et al. (2021): attention in windows with a bias per relative position."""

    def __init__(self, width, heads, shift, window=4):
        super().__init__()
        self.heads, self.shift, self.window = heads, shift, window
        self.a, self.b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.bias = nn.Parameter(0.02 * torch.randn((2 * window - 1) ** 2, heads))
        at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = (at[:, :, None] - at[:, None, :]) + window - 1
        self.register_buffer("index", apart[0] * (2 * window - 1) + apart[1])

    def forward(self, x):
        n, h, w, c = x.shape
        y = shifted(self.a(x), self.window, self.shift)
        q, k, v = self.qkv(y).view(-1, self.window ** 2, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        bias = self.bias[self.index.view(-1)].view(self.window ** 2, self.window ** 2, -1).permute(2, 0, 1)
        y = ((q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1) + bias).softmax(-1) @ v
        y = self.out(y.transpose(1, 2).reshape(-1, self.window ** 2, c))
        y = y.view(n, h // self.window, w // self.window, self.window, self.window, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
        x = x + (torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y)
        return x + self.mlp(self.b(x))


class Swin(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 64, 4, 4)
        self.one, self.two = nn.Sequential(Windows(64, 2, 0), Windows(64, 2, 2)), nn.Sequential(Windows(128, 4, 0), Windows(128, 4, 2))
        self.merge, self.norm, self.head = nn.Linear(256, 128, bias=False), nn.LayerNorm(128), nn.Linear(128, 100)

    def forward(self, image):
        x = self.one(self.patches(image).permute(0, 2, 3, 1))
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.head(self.norm(self.two(self.merge(x))).mean((1, 2)))


# ------------------------------------------------------------------ sequences

class Gated(nn.Module):
    """van den Oord et al. (2016): tanh and sigmoid of dilated causal convolutions, sums of skips."""

    def __init__(self, width=32, skip=64):
        super().__init__()
        self.first, dilations = nn.Conv1d(1, width, 1), (1, 2, 4, 8, 16, 32)
        self.dilations = dilations
        self.both = nn.ModuleList([nn.Conv1d(width, 2 * width, 2, dilation=d) for d in dilations])
        self.on, self.skip = (nn.ModuleList([nn.Conv1d(width, o, 1) for _ in dilations]) for o in (width, skip))
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, 1, 1))

    def forward(self, series):
        x, total = self.first(series), 0
        for d, both, on, skip in zip(self.dilations, self.both, self.on, self.skip):
            a, b = both(F.pad(x, (d, 0))).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            x, total = x + on(y), total + skip(y)
        return self.last(total)


class Text(nn.Module):
    """A language model of LSTMs (Zaremba et al., 2014, the middle size)."""

    def __init__(self, width=650, words=10000):
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(words, width), nn.LSTM(width, width, 2, batch_first=True), nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0])


class Lines(nn.Module):
    """Shi et al. (2015): convolutions, then LSTMs along the line."""

    def __init__(self):
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            *conv(64, 128), nn.ReLU(), nn.MaxPool2d((2, 1)), *conv(128, 128), nn.ReLU(), nn.MaxPool2d((4, 1)))
        self.lstm, self.head = nn.LSTM(128, 128, bidirectional=True, batch_first=True), nn.Linear(256, 40)

    def forward(self, image):
        return self.head(self.lstm(self.convolutions(image).squeeze(2).transpose(1, 2))[0])


class Bert(nn.Module):
    """Devlin et al. (2019), written out: four layers of 256, a vocabulary of 8,000."""

    class Layer(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
            self.a, self.b = nn.LayerNorm(width), nn.LayerNorm(width)
            self.up, self.down, self.heads = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), heads

        def forward(self, x):
            q, k, v = (one(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in (self.q, self.k, self.v))
            y = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1) @ v
            x = self.a(x + self.out(y.transpose(1, 2).flatten(2)))
            return self.b(x + self.down(F.gelu(self.up(x))))

    def __init__(self, width=256, words=8000):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(words, width), nn.Embedding(128, width), nn.LayerNorm(width)
        self.layers, self.head = nn.Sequential(*[self.Layer(width, 4) for _ in range(4)]), nn.Linear(width, words)
        self.register_buffer("at", torch.arange(128))

    def forward(self, tokens):
        return self.head(self.layers(self.norm(self.words(tokens) + self.places(self.at))))


class T5(nn.Module):
    """Raffel et al. (2020), the encoder: RMSNorm, a bias of relative positions, gated GELU."""

    class Layer(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.a, self.b = heads, RmsNorm(width), RmsNorm(width)
            self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
            self.gate, self.up, self.down = (nn.Linear(i, o, bias=False) for i, o in ((width, 2 * width), (width, 2 * width), (2 * width, width)))

        def forward(self, x, bias):
            y = self.a(x)
            q, k, v = (one(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in (self.q, self.k, self.v))
            y = (q @ k.transpose(-1, -2) + bias).softmax(-1) @ v
            x = x + self.out(y.transpose(1, 2).flatten(2))
            y = self.b(x)
            return x + self.down(F.gelu(self.gate(y), approximate="tanh") * self.up(y))

    def __init__(self, width=256, words=4000, time=96):
        super().__init__()
        self.words, self.bias, self.norm = nn.Embedding(words, width), nn.Embedding(32, 4), RmsNorm(width)
        self.layers, self.head = nn.ModuleList([self.Layer(width, 4) for _ in range(3)]), nn.Linear(width, 10)
        self.register_buffer("apart", (torch.arange(time)[None] - torch.arange(time)[:, None]).clamp(-16, 15) + 16)

    def forward(self, tokens):
        x, bias = self.words(tokens), self.bias(self.apart).permute(2, 0, 1)
        for layer in self.layers:
            x = layer(x, bias)
        return self.head(self.norm(x).mean(1))


class Conformer(nn.Module):
    """Gulati et al. (2020): attention and a gated depthwise convolution over time."""

    class Layer(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
            self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 4, batch_first=True)
            self.before, self.in_ = nn.LayerNorm(width), nn.Conv1d(width, 2 * width, 1)
            self.deep, self.bn = nn.Conv1d(width, width, 15, padding=7, groups=width), nn.BatchNorm1d(width)
            self.out, self.last = nn.Conv1d(width, width, 1), nn.LayerNorm(width)

        def forward(self, x):
            x = x + 0.5 * self.mlp(x)
            y = self.norm(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            y = F.glu(self.in_(self.before(x).transpose(1, 2)), 1)
            return self.last(x + self.out(F.silu(self.bn(self.deep(y)))).transpose(1, 2))

    def __init__(self, width=144):
        super().__init__()
        self.first, self.layers = nn.Linear(80, width), nn.Sequential(*[self.Layer(width) for _ in range(3)])
        self.head = nn.Linear(width, 40)

    def forward(self, series):
        return self.head(self.layers(self.first(series)))


# ------------------------------------------------------------------ points, graphs and tables

class Points(nn.Module):
    """Qi et al. (2017): layers for each point, the maximum over points."""

    def __init__(self):
        super().__init__()
        layers, inputs = [], 3
        for width in 64, 64, 128, 512:
            layers += [nn.Conv1d(inputs, width, 1), nn.BatchNorm1d(width), nn.ReLU()]
            inputs = width
        self.each = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(512, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 40))

    def forward(self, points):
        return self.head(self.each(points).amax(2))


class Graph(nn.Module):
    """Kipf and Welling (2017) over dense adjacencies."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.head = nn.Linear(64, 128), nn.Linear(128, 128), nn.Linear(128, 128), nn.Linear(128, 10)

    def forward(self, nodes, edges):
        edges = edges.softmax(-1)
        x = F.relu(edges @ self.a(nodes))
        x = F.relu(edges @ self.b(x))
        return self.head(F.relu(edges @ self.c(x)).mean(1))


class Field(nn.Module):
    """Mildenhall et al. (2020): sines of the coordinates, eight layers of 256."""

    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Linear(63, 256), nn.ReLU(), *[one for _ in range(3) for one in (nn.Linear(256, 256), nn.ReLU())])
        self.b = nn.Sequential(nn.Linear(319, 256), nn.ReLU(), *[one for _ in range(3) for one in (nn.Linear(256, 256), nn.ReLU())])
        self.head = nn.Linear(256, 4)
        self.register_buffer("waves", 2.0 ** torch.arange(10))

    def forward(self, places):
        waves = (places[:, :, None] * self.waves).flatten(1)
        x = torch.cat([places, waves.sin(), waves.cos()], 1)
        return self.head(self.b(torch.cat([x, self.a(x)], 1)))


class Factors(nn.Module):
    """He et al. (2017): users and things of large tables, a small perceptron."""

    def __init__(self):
        super().__init__()
        self.users, self.things = nn.Embedding(30000, 64), nn.Embedding(20000, 64)
        self.layers = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, users, things):
        return self.layers(torch.cat([self.users(users), self.things(things)], 1))


def table():
    """A perceptron over columns with BatchNorm and residuals (Gorishniy et al., 2021)."""
    block = lambda: Around([nn.BatchNorm1d(256), nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)])
    return nn.Sequential(nn.Linear(40, 256), block(), block(), block(), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 2))


NETWORKS = {
    "wide": wide_resnet, "squeezenet": squeezenet, "xception": xception, "regnet": regnet, "convmixer": convmixer, "yolo": Yolo,
    "bn-unet": Unet, "edsr": super_resolution, "style": style, "discriminator": discriminator, "video": video, "swin": Swin,
    "wavenet": Gated, "lstm-lm": Text, "crnn": Lines, "bert-lm": Bert, "t5": T5, "conformer": Conformer, "points": Points, "gcn": Graph,
    "field": Field, "factors": Factors, "table": table,
}
