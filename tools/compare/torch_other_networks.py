"""Networks of other kinds than the rows of the goals, for row C15 of tools/compare_torch; torch_further_networks.py and
torch_varied_networks.py have more. NETWORKS: as in torch_networks.py."""
import torch
from torch import nn
from torch.nn import functional as F


def conv(inputs, outputs, kernel=3, stride=1, groups=1):
    """A convolution that keeps the size at stride 1, and BatchNorm."""
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]


def head(inputs, classes):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)]


class Around(nn.Module):
    """`body` around a shortcut, which `other` computes where sizes differ, and an activation."""

    def __init__(self, body, other=None, activation=None):
        super().__init__()
        self.body, self.other, self.activation = nn.Sequential(*body), other or nn.Identity(), activation or nn.Identity()

    def forward(self, x):
        return self.activation(self.other(x) + self.body(x))


# ------------------------------------------------------------------ convolutions

def lenet():
    """LeCun et al. (1998), with the pools and activations of that time."""
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
                         nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10))


def alexnet():
    """Krizhevsky et al. (2012), without one of its layers, for 224 x 224."""
    return nn.Sequential(nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(),
                         nn.MaxPool2d(3, 2), nn.Conv2d(192, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(),
                         nn.MaxPool2d(3, 2), nn.Flatten(), nn.Linear(256 * 36, 512), nn.ReLU(), nn.Linear(512, 100))


class Inception(nn.Module):
    """Szegedy et al. (2014), with BatchNorm: kernels of 1, 3 and 5 and a pool side by side."""

    def __init__(self, inputs, widths):
        super().__init__()
        one, three, five, pool = widths
        self.branches = nn.ModuleList([
            nn.Sequential(*conv(inputs, one, 1), nn.ReLU()),
            nn.Sequential(*conv(inputs, three // 2, 1), nn.ReLU(), *conv(three // 2, three), nn.ReLU()),
            nn.Sequential(*conv(inputs, five // 2, 1), nn.ReLU(), *conv(five // 2, five, 5), nn.ReLU()),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), *conv(inputs, pool, 1), nn.ReLU())])

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def inception():
    return nn.Sequential(*conv(3, 64), nn.ReLU(), Inception(64, (32, 48, 16, 16)), Inception(112, (48, 64, 24, 24)), nn.MaxPool2d(3, 2, 1),
                         Inception(160, (64, 96, 32, 32)), Inception(224, (64, 96, 32, 32)), *head(224, 10))


def grouped(inputs, outputs, stride, groups=8):
    """Xie et al. (2016): ResNet's bottleneck with a grouped convolution."""
    narrow = outputs // 2
    body = [*conv(inputs, narrow, 1), nn.ReLU(), *conv(narrow, narrow, 3, stride, groups), nn.ReLU(), *conv(narrow, outputs, 1)]
    return Around(body, None if inputs == outputs else nn.Sequential(*conv(inputs, outputs, 1, stride)), nn.ReLU())


def resnext():
    shape = [(64, 128, 1), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    return nn.Sequential(*conv(3, 64), nn.ReLU(), *[grouped(*one) for one in shape], *head(512, 10))


class Shuffle(nn.Module):
    """Ma et al. (2018): half of the channels pass, and both halves are mixed."""

    def __init__(self, width):
        super().__init__()
        half = width // 2
        self.body = nn.Sequential(*conv(half, half, 1), nn.ReLU(), *conv(half, half, 3, 1, half), *conv(half, half, 1), nn.ReLU())

    def forward(self, x):
        passed, changed = x.chunk(2, 1)
        x = torch.cat([passed, self.body(changed)], 1)
        batch, channels, height, width = x.shape
        return x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, channels, height, width)


def shufflenet():
    layers, inputs = [*conv(3, 48, 3, 2), nn.ReLU()], 48
    for width in 96, 192:
        layers += [*conv(inputs, width, 3, 2), nn.ReLU(), Shuffle(width), Shuffle(width), Shuffle(width)]
        inputs = width
    return nn.Sequential(*layers, *head(192, 100))


class Weighed(nn.Module):
    """Hu et al. (2017): channels weighed by a perceptron of their means."""

    def __init__(self, channels, gate, squeezed=None):
        super().__init__()
        squeezed = squeezed or channels // 4
        self.weights = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, squeezed, 1), nn.ReLU(),
                                     nn.Conv2d(squeezed, channels, 1), gate())

    def forward(self, x):
        return x * self.weights(x)


def inverted(inputs, outputs, stride, kernel, activation, gate):
    wide = 4 * inputs
    body = [*conv(inputs, wide, 1), activation(), *conv(wide, wide, kernel, stride, wide), activation(), Weighed(wide, gate),
            *conv(wide, outputs, 1)]
    return Around(body) if stride == 1 and inputs == outputs else nn.Sequential(*body)


def efficientnet(activation=nn.SiLU, gate=nn.Sigmoid):
    """Tan and Le (2019); with the arguments of Howard et al. (2019) MobileNetV3."""
    shape = [(16, 24, 2, 3), (24, 24, 1, 3), (24, 40, 2, 5), (40, 40, 1, 5), (40, 80, 2, 3), (80, 80, 1, 3), (80, 112, 1, 5)]
    return nn.Sequential(*conv(3, 16, 3, 2), activation(), *[inverted(*one, activation, gate) for one in shape],
                         *conv(112, 320, 1), activation(), *head(320, 100))


def group_norm_block(inputs, outputs, stride):
    body = [nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.GroupNorm(8, outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.GroupNorm(8, outputs)]
    return Around(body, None if inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride), nn.ReLU())


def group_norm_resnet():
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), group_norm_block(32, 32, 1), group_norm_block(32, 64, 2),
                         group_norm_block(64, 128, 2), group_norm_block(128, 128, 1), *head(128, 10))


def autoencoder():
    encoder = [nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 4, 2, 1), nn.ReLU()]
    decoder = [nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(),
               nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Sigmoid()]
    return nn.Sequential(*encoder, nn.Flatten(), nn.Linear(128 * 64, 128), nn.Linear(128, 128 * 64), nn.Unflatten(1, (128, 8, 8)), *decoder)


def generator():
    """Radford et al. (2015): an image of 32 x 32 from 100 numbers."""
    layers, inputs = [nn.Unflatten(1, (100, 1, 1)), nn.ConvTranspose2d(100, 256, 4, 1, 0, bias=False), nn.BatchNorm2d(256), nn.ReLU()], 256
    for outputs in 128, 64:
        layers += [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        inputs = outputs
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh())


class Pyramid(nn.Module):
    """Chen et al. (2017): dilated convolutions side by side, and the pixels' classes at full size."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(*conv(3, 32, 3, 2), nn.ReLU(), *conv(32, 64, 3, 2), nn.ReLU(), *conv(64, 64), nn.ReLU())
        self.dilated = nn.ModuleList([nn.Sequential(nn.Conv2d(64, 32, 3, padding=d, dilation=d, bias=False), nn.BatchNorm2d(32), nn.ReLU())
                                      for d in (1, 2, 4)])
        self.last = nn.Sequential(*conv(96, 64), nn.ReLU(), nn.Conv2d(64, 3, 1))

    def forward(self, image):
        x = self.first(image)
        x = self.last(torch.cat([one(x) for one in self.dilated], 1))
        return F.interpolate(x, scale_factor=4, mode="bilinear", align_corners=False)


def temporal():
    """Bai et al. (2018): dilated convolutions over time."""
    layers, inputs = [], 32
    for dilation in 1, 2, 4, 8:
        layers += [nn.Conv1d(inputs, 96, 3, padding=dilation, dilation=dilation), nn.BatchNorm1d(96), nn.ReLU()]
        inputs = 96
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(96, 10))


# ------------------------------------------------------------------ text and perceptrons

class Recurrent(nn.Module):
    """Words are embedded, and the mean of the states is classified."""

    def __init__(self, kind, layers=1, bidirectional=False):
        super().__init__()
        self.embedding = nn.Embedding(5000, 128)
        self.recurrent = kind(128, 256, num_layers=layers, batch_first=True, bidirectional=bidirectional)
        self.head = nn.Linear(512 if bidirectional else 256, 10)

    def forward(self, tokens):
        return self.head(self.recurrent(self.embedding(tokens))[0].mean(1))


class TextConvolutions(nn.Module):
    """Kim (2014): convolutions of 3, 4 and 5 words, their maxima over time."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(5000, 128), nn.Linear(300, 10)
        self.convolutions = nn.ModuleList([nn.Conv1d(128, 100, words) for words in (3, 4, 5)])

    def forward(self, tokens):
        x = self.embedding(tokens).transpose(1, 2)
        return self.head(torch.cat([F.relu(one(x)).amax(2) for one in self.convolutions], 1))


class Encoder(nn.Module):
    """PyTorch's own encoder, as a classifier that reads the first position."""

    def __init__(self, width=256, layers=4):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(4000, width), nn.Parameter(0.02 * torch.randn(1, 64, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), nn.Linear(width, 10)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens) + self.positions)[:, 0])


class Translator(nn.Module):
    """PyTorch's own encoder and decoder."""

    def __init__(self, width=128, time=48):
        super().__init__()
        self.embedding, self.head = nn.Embedding(4000, width), nn.Linear(width, 4000)
        self.transformer = nn.Transformer(width, 4, 2, 2, 4 * width, dropout=0.0, batch_first=True)
        self.register_buffer("mask", torch.triu(torch.full((time, time), float("-inf")), 1))

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.head(self.transformer(x, x, tgt_mask=self.mask))


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale


class LlamaBlock(nn.Module):
    """Touvron et al. (2023): rotary positions, fewer heads of keys than of queries, SwiGLU, no bias."""

    def __init__(self, width, heads, kept, hidden):
        super().__init__()
        self.heads, self.kept, self.size = heads, kept, width // heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, self.size * kept, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def heads_of(self, x, count):
        return x.view(*x.shape[:2], count, self.size).transpose(1, 2)

    def shared(self, x):
        batch, kept, time, size = x.shape
        return x[:, :, None].expand(batch, kept, self.heads // kept, time, size).reshape(batch, self.heads, time, size)

    def forward(self, x, turn):
        y = self.norm1(x)
        q, k = turn(self.heads_of(self.q(y), self.heads)), turn(self.heads_of(self.k(y), self.kept))
        y = F.scaled_dot_product_attention(q, self.shared(k), self.shared(self.heads_of(self.v(y), self.kept)), is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(x.shape))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers=4, width=256, time=128, words=4096):
        super().__init__()
        self.embedding, self.head, self.norm = nn.Embedding(words, width), nn.Linear(width, words, bias=False), RmsNorm(width)
        self.blocks = nn.ModuleList([LlamaBlock(width, 8, 4, 704) for _ in range(layers)])
        angles = torch.outer(torch.arange(time).float(), 1e4 ** -(torch.arange(0, width // 8, 2).float() / (width // 8)))
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos())
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin())

    def turn(self, x):
        first, second = x.chunk(2, -1)
        return x * self.cos + torch.cat([-second, first], -1) * self.sin

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.turn)
        return self.head(self.norm(x))


class Mixer(nn.Module):
    """Tolstikhin et al. (2021): perceptrons over positions and over channels in turn."""

    def __init__(self, positions=64, width=192):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.positions = nn.Sequential(nn.Linear(positions, 96), nn.GELU(), nn.Linear(96, positions))
        self.channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.positions(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class MixerClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.mixers, self.head = nn.Conv2d(3, 192, 8, 8), nn.Sequential(*[Mixer() for _ in range(6)]), nn.Linear(192, 100)

    def forward(self, image):
        return self.head(self.mixers(self.patches(image).flatten(2).transpose(1, 2)).mean(1))


def perceptron():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


NETWORKS = {
    "lenet": lenet, "alexnet": alexnet, "inception": inception, "resnext": resnext, "shufflenet": shufflenet, "efficientnet": efficientnet,
    "mobilenetv3": lambda: efficientnet(nn.Hardswish, nn.Hardsigmoid), "groupnorm": group_norm_resnet, "autoencoder": autoencoder,
    "generator": generator, "pyramid": Pyramid, "temporal": temporal, "gru": lambda: Recurrent(nn.GRU), "elman": lambda: Recurrent(nn.RNN),
    "bilstm": lambda: Recurrent(nn.LSTM, 2, True), "text": TextConvolutions, "encoder": Encoder, "translator": Translator, "llama": Llama,
    "mixer": MixerClassifier, "perceptron": perceptron,
}
