"""The networks of tools/compare_torch as PyTorch modules, and those of tools/gpu_suite that both have. Those of tools/export are taken
from there. NETWORKS: name -> function that makes one; torch_rows.py says what each is fed with.
"""
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "export"))
import torch_further_networks  # noqa: E402
import torch_other_networks  # noqa: E402
import torch_varied_networks  # noqa: E402
from torch_other_networks import conv, head  # noqa: E402
from torch_torchscript import Block, ConvNet, ResNet20  # noqa: E402


# ------------------------------------------------------------------ convolutions

def resnet18():
    """He et al. (2015), for 224 x 224."""
    blocks = [Block(64 << stage - bool(stage and block == 0), 64 << stage, 2 if stage and block == 0 else 1)
              for stage in range(4) for block in range(2)]
    return nn.Sequential(*conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks, *head(512, 1000))


class Bottleneck(nn.Module):
    """He et al. (2015): 1 x 1 to a quarter of the channels, 3 x 3, 1 x 1 back."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        narrow = outputs // 4
        self.body = nn.Sequential(*conv(inputs, narrow, 1), nn.ReLU(), *conv(narrow, narrow, 3, stride), nn.ReLU(), *conv(narrow, outputs, 1))
        self.shortcut = nn.Identity() if inputs == outputs else nn.Sequential(*conv(inputs, outputs, 1, stride))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def resnet50():
    """He et al. (2015), for 224 x 224."""
    blocks, inputs = [], 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for block in range(count):
            blocks.append(Bottleneck(inputs, 256 << stage, 2 if stage and block == 0 else 1))
            inputs = 256 << stage
    return nn.Sequential(*conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks, *head(2048, 1000))


class Inverted(nn.Module):
    """Sandler et al. (2018): 1 x 1 to four times the channels, depthwise 3 x 3, 1 x 1 back."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.same, wide = stride == 1 and inputs == outputs, 4 * inputs
        self.body = nn.Sequential(*conv(inputs, wide, 1), nn.ReLU6(), *conv(wide, wide, 3, stride, wide), nn.ReLU6(),
                                  *conv(wide, outputs, 1))

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


def mobilenet():
    shape = [(16, 16, 1), (16, 24, 2), (24, 24, 1), (24, 40, 2), (40, 40, 1), (40, 80, 2), (80, 80, 1), (80, 80, 1)]
    return nn.Sequential(*conv(3, 16, 3, 2), nn.ReLU6(), *[Inverted(*one) for one in shape], *conv(80, 320, 1), nn.ReLU6(), *head(320, 100))


def vgg():
    layers, inputs = [], 3
    for outputs in 32, 64, 128:
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        inputs = outputs
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 256), nn.ReLU(), nn.Linear(256, 10))


class TwoBranch(nn.Module):
    """Two branches of other kernels, joined by their channels, and a pool in one of them that overlaps."""

    def __init__(self):
        super().__init__()
        self.small = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 48, 3, padding=1), nn.ReLU())
        self.large = nn.Sequential(nn.Conv2d(3, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 48, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 1, 1))
        self.joined = nn.Sequential(*conv(96, 64), nn.ReLU(), nn.MaxPool2d(2), *head(64, 10))

    def forward(self, x):
        return self.joined(torch.cat([self.small(x), self.large(x)], 1))


def odd():
    """Channels 3, 17 and 48, sizes 31, 15 and 7, kernels of 7, 5, 3 and 1."""
    return nn.Sequential(nn.Conv2d(3, 17, 7, padding=3), nn.ReLU(), nn.Conv2d(17, 48, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(48, 48, 3, 2), nn.ReLU(), nn.Conv2d(48, 17, 1), nn.ReLU(), nn.Conv2d(17, 48, 3, padding=1), nn.ReLU(),
                         nn.Flatten(), nn.Linear(48 * 7 * 7, 10))


class Dense(nn.Module):
    """Huang et al. (2016): what a layer makes goes beside what it read."""

    def __init__(self, inputs, growth):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), *conv(inputs, 4 * growth, 1), nn.ReLU(),
                                  nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.body(x)], 1)


def densenet():
    layers, width, growth = [nn.Conv2d(3, 32, 3, padding=1, bias=False)], 32, 16
    for block in range(3):
        if block:
            layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
            width //= 2
        for _ in range(4):
            layers.append(Dense(width, growth))
            width += growth
    return nn.Sequential(*layers, nn.BatchNorm2d(width), nn.ReLU(), *head(width, 10))


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of [N, C, H, W]."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Next(nn.Module):
    """Liu et al. (2022): depthwise 7 x 7, LayerNorm and a perceptron over the channels, scaled."""

    def __init__(self, width):
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
        self.up, self.down, self.scale = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


def convnext():
    layers = [nn.Conv2d(3, 48, 4, 4), ChannelNorm(48)]
    for width in 48, 96, 192:
        layers += [ChannelNorm(width // 2), nn.Conv2d(width // 2, width, 2, 2)] if width > 48 else []
        layers += [Next(width), Next(width)]
    return nn.Sequential(*layers, *head(192, 100))


class Residual(nn.Module):
    """Ho et al. (2020): GroupNorm, SiLU and a convolution, twice."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.body = nn.Sequential(nn.GroupNorm(8, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1),
                                  nn.GroupNorm(8, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1))
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        return self.body(x) + self.shortcut(x)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 32, 3, padding=1), nn.Sequential(nn.GroupNorm(8, 32), nn.SiLU(), nn.Conv2d(32, 3, 3, padding=1))
        self.down = nn.ModuleList([Residual(32, 32), Residual(64, 64)])
        self.smaller = nn.ModuleList([nn.Conv2d(32, 64, 3, 2, 1), nn.Conv2d(64, 128, 3, 2, 1)])
        self.middle = Residual(128, 128)
        self.larger = nn.ModuleList([nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(128, 64, 2, 2)])
        self.up = nn.ModuleList([Residual(64, 32), Residual(128, 64)])

    def forward(self, x):
        x, kept = self.first(x), []
        for block, smaller in zip(self.down, self.smaller):
            kept.append(block(x))
            x = smaller(kept[-1])
        x = self.middle(x)
        for at in 1, 0:
            x = self.up[at](torch.cat([self.larger[at](x), kept[at]], 1))
        return self.last(x)


# ------------------------------------------------------------------ transformers and others

class Attending(nn.Module):
    """A transformer's block: attention and a perceptron, each after a LayerNorm and around a shortcut."""

    def __init__(self, width, heads, causal=True, approximate="tanh"):
        super().__init__()
        self.heads, self.causal, self.approximate = heads, causal, approximate
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (t.view(batch, time, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, time, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate=self.approximate))


class Gpt2(nn.Module):
    """Radford et al. (2019); the output layer is the embedding again where `tied`."""

    def __init__(self, layers, width, heads, context, vocabulary, tied=True):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Attending(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), None if tied else nn.Linear(width, vocabulary, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens):
        x = self.norm(self.blocks(self.token(tokens) + self.position.weight))
        return self.head(x) if self.head else F.linear(x, self.token.weight)


class Vit(nn.Module):
    """Dosovitskiy et al. (2020), with a class token: 65 positions of 8 x 8 pixels."""

    def __init__(self, layers=6, width=192, heads=3, patch=8, positions=64, classes=100):
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, width, patch, patch), nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, positions + 1, width))
        self.blocks = nn.Sequential(*[Attending(width, heads, causal=False, approximate="none") for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class Lstm(nn.Module):
    """Two layers of 256; the last state is classified."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(256, 256, num_layers=2, batch_first=True), nn.Linear(256, 10)

    def forward(self, series):
        return self.head(self.lstm(series)[0][:, -1])


class Dlrm(nn.Module):
    """Naumov et al. (2019): embeddings and a perceptron's output, their products in pairs, another perceptron."""

    def __init__(self, tables=8, words=4000, width=32):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(words, width) for _ in range(tables)])
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        self.register_buffer("pairs", torch.tensor([i * (tables + 1) + j for i in range(tables + 1) for j in range(i)]))
        self.top = nn.Sequential(nn.Linear(width + tables * (tables + 1) // 2, 512), nn.ReLU(),
                                 nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 2))

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        all_of = torch.stack([x] + [table(sparse[:, at]) for at, table in enumerate(self.tables)], 1)
        products = (all_of @ all_of.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([x, products[:, self.pairs]], 1))


NETWORKS = {
    "convnet": ConvNet, "resnet20": ResNet20, "resnet18": resnet18, "mobilenet": mobilenet, "vgg": vgg, "two-branch": TwoBranch, "odd": odd,
    "densenet": densenet, "convnext": convnext, "unet": UNet, "vit": Vit, "lstm": Lstm, "dlrm": Dlrm,
    "gpt2-124m": lambda: Gpt2(12, 768, 12, 256, 50257), "vit-b16": lambda: Vit(12, 768, 12, 16, 196, 1000), "resnet50": resnet50,
    "gpt": lambda: Gpt2(4, 256, 4, 256, 4096), "gpt-768": lambda: Gpt2(6, 768, 12, 128, 16384, tied=False),
    **torch_other_networks.NETWORKS, **torch_further_networks.NETWORKS, **torch_varied_networks.NETWORKS,
}
