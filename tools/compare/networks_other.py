"""Hand-written networks, one for each kind that has no library here."""
import torch
from torch import nn
from torch.nn import functional as F

from networks_base import network, rows, tokens


@network("other/mlp")
def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10)), (rows(16),)


@network("other/lenet")
def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
                         nn.Flatten(), nn.Linear(256, 84), nn.Tanh(), nn.Linear(84, 10)), (rows(1, 28, 28),)


@network("other/autoencoder")
def autoencoder():
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ELU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ELU(), nn.ConvTranspose2d(16, 8, 4, 2, 1),
                         nn.ELU(), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Sigmoid()), (rows(3, 16, 16),)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.middle, self.up = self.block(3, 8), self.block(8, 16), self.block(24, 8)
        self.out = nn.Conv2d(8, 4, 1)

    @staticmethod
    def block(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.SiLU())

    def forward(self, x):
        skip = self.down(x)
        deep = F.interpolate(self.middle(F.max_pool2d(skip, 2)), scale_factor=2.0, mode="bilinear")
        return self.out(self.up(torch.cat([skip, deep], 1)))


@network("other/unet")
def unet():
    return UNet(), (rows(3, 16, 16),)


class Recurrent(nn.Module):
    def __init__(self, kind, **arguments):
        super().__init__()
        self.embed, self.net = nn.Embedding(32, 12), kind(12, 16, batch_first=True, **arguments)
        self.head = nn.Linear(32 if arguments.get("bidirectional") else 16, 32)

    def forward(self, ids):
        return self.head(self.net(self.embed(ids))[0])


@network("other/char_lstm")
def char_lstm():
    return Recurrent(nn.LSTM, num_layers=2), (tokens(8, 32),)


@network("other/char_gru")
def char_gru():
    return Recurrent(nn.GRU, bidirectional=True), (tokens(8, 32),)


@network("other/char_rnn")
def char_rnn():
    return Recurrent(nn.RNN), (tokens(8, 32),)


class Encoder(nn.Module):
    """torch.nn's Transformer: its layers are copies of one."""

    def __init__(self, norm_first):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=norm_first)
        self.embed, self.net = nn.Embedding(32, 16), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 32)

    def forward(self, ids):
        return self.head(self.net(self.embed(ids)))


@network("other/encoder")
def encoder():
    return Encoder(False), (tokens(8, 32),)


@network("other/encoder_norm_first")
def encoder_norm_first():
    return Encoder(True), (tokens(8, 32),)


class Recommender(nn.Module):
    """DLRM: dense features and embeddings, whose products go on."""

    def __init__(self):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.tables = nn.ModuleList(nn.Embedding(20, 8) for _ in range(3))
        self.top = nn.Sequential(nn.Linear(8 + 6, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, dense, ids):
        x = self.bottom(dense)
        all_ = torch.stack([x] + [table(ids[:, i]) for i, table in enumerate(self.tables)], 1)
        products = all_ @ all_.transpose(1, 2)
        pairs = torch.stack([products[:, i, k] for i in range(4) for k in range(i)], 1)
        return self.top(torch.cat([x, pairs], 1))


@network("other/recommender")
def recommender():
    return Recommender(), (rows(6), tokens(3, 20))


class Dilated(nn.Module):
    """WaveNet's gated convolutions."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 8, 1)
        self.filters = nn.ModuleList(nn.Conv1d(8, 16, 2, dilation=2 ** i) for i in range(3))
        self.skips = nn.ModuleList(nn.Conv1d(8, 8, 1) for _ in range(3))
        self.last = nn.Conv1d(8, 6, 1)

    def forward(self, x):
        x, total = self.first(x), 0
        for i, (filter_, skip) in enumerate(zip(self.filters, self.skips)):
            a, b = filter_(F.pad(x, (2 ** i, 0))).chunk(2, 1)
            y = skip(torch.tanh(a) * torch.sigmoid(b))
            x, total = x + y, total + y
        return self.last(F.relu(total)).mean(2)


@network("other/wavenet")
def wavenet():
    return Dilated(), (rows(1, 24),)


class Field(nn.Module):
    """A radiance field: sines of the place, and a skip."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(24, 32), nn.Linear(56, 32), nn.Linear(32, 4)

    def forward(self, x):
        waves = torch.cat([f(x * 2.0 ** i) for i in range(4) for f in (torch.sin, torch.cos)], 1)
        return self.out(F.relu(self.b(torch.cat([waves, F.relu(self.a(waves))], 1))))


@network("other/radiance_field")
def radiance_field():
    return Field(), (rows(3),)


@network("other/generator")
def generator():
    return nn.Sequential(nn.Unflatten(1, (8, 1, 1)), nn.ConvTranspose2d(8, 16, 4), nn.BatchNorm2d(16), nn.ReLU(),
                         nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh()), (rows(8),)


class Experts(nn.Module):
    """A soft mixture: every expert runs, a gate weighs them."""

    def __init__(self):
        super().__init__()
        self.gate, self.weight = nn.Linear(8, 4), nn.Parameter(0.3 * torch.randn(4, 8, 6))

    def forward(self, x):
        return torch.einsum("nd,edo,ne->no", x, self.weight, self.gate(x).softmax(1))


@network("other/experts")
def experts():
    return Experts(), (rows(8),)


class Graph(nn.Module):
    """Convolutions over a graph that is an input."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 5)

    def forward(self, x, adjacency):
        weights = torch.softmax(adjacency, -1)
        return self.b(weights @ F.leaky_relu(self.a(weights @ x)))


@network("other/graph")
def graph():
    return Graph(), (rows(7, 6), rows(7, 7))


class Highway(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 16) for _ in range(3))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        for layer in self.layers:
            a, gate = layer(x).chunk(2, 1)
            gate = torch.sigmoid(gate)
            x = torch.relu(a) * gate + x * (1 - gate)
        return self.head(x)


@network("other/highway")
def highway():
    return Highway(), (rows(8),)


@network("other/instance_norm")
def instance_norm():
    return nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True), nn.PReLU(8),
                         nn.PixelShuffle(2), nn.Conv2d(2, 3, 3)), (rows(3, 8, 8),)
