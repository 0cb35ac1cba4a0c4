"""Small networks, one for each thing that an exporter does to parameters."""
import copy

import torch
from torch import nn
from torch.nn import functional as F

from networks_base import NETWORKS, SMALL, rows, tokens


class Temperature(nn.Module):
    """A learned scalar, read through Exp."""

    def __init__(self):
        super().__init__()
        self.fc, self.temperature = nn.Linear(8, 6), nn.Parameter(torch.tensor(1.2))

    def forward(self, x):
        return self.fc(x) * self.temperature.exp()


class LogitScale(nn.Module):
    """CLIP's head: cosines of two embeddings, scaled by a learned exponent."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 6), nn.Linear(8, 6)
        self.logit_scale = nn.Parameter(torch.tensor(2.6592))

    def forward(self, x, y):
        a, b = F.normalize(self.a(x), dim=-1), F.normalize(self.b(y), dim=-1)
        return self.logit_scale.exp() * a @ b.t()


class Mix(nn.Module):
    """RWKV's time mixing: a parameter and one minus it."""

    def __init__(self):
        super().__init__()
        self.mix, self.fc = nn.Parameter(torch.rand(8)), nn.Linear(8, 6)

    def forward(self, x):
        return self.fc(x * self.mix + torch.roll(x, 1, 1) * (1 - self.mix))


class WeightNorm(nn.Module):
    """w = g v / |v|."""

    def __init__(self):
        super().__init__()
        self.fc = nn.utils.parametrizations.weight_norm(nn.Linear(8, 6))

    def forward(self, x):
        return self.fc(x)


class Standardised(nn.Module):
    """A convolution whose weights are standardised, with a gain, as in NFNets."""

    def __init__(self):
        super().__init__()
        self.weight, self.gain = nn.Parameter(torch.randn(4, 3, 3, 3)), nn.Parameter(torch.rand(4) + 0.5)
        self.fc = nn.Linear(4, 5)

    def forward(self, x):
        w = self.weight.reshape(1, 4, -1)
        w = F.batch_norm(w, None, None, weight=self.gain * 0.5, training=True, momentum=0.0, eps=1e-6)
        return self.fc(F.relu(F.conv2d(x, w.reshape_as(self.weight), padding=1)).mean((2, 3)))


class Recurrent(nn.Module):
    """LSTM and GRU: the exporter packs their weights and joins their two biases."""

    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(8, 6, batch_first=True), nn.GRU(6, 5, batch_first=True)

    def forward(self, x):
        return self.gru(self.lstm(x)[0])[0][:, -1]


class Tied(nn.Module):
    """An embedding that is the head's weight too."""

    def __init__(self):
        super().__init__()
        self.embed, self.mix = nn.Embedding(20, 8), nn.Linear(8, 8)

    def forward(self, x):
        return F.linear(F.gelu(self.mix(self.embed(x))), self.embed.weight)


class JoinedBias(nn.Module):
    """BEiT's: biases of queries and values are parameters, that of the keys a buffer of zeros."""

    def __init__(self):
        super().__init__()
        self.q_bias, self.v_bias = nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4))
        self.weight = nn.Parameter(torch.randn(12, 8))
        self.register_buffer("k_bias", torch.zeros(4))

    def forward(self, x):
        return F.linear(x, self.weight, torch.cat([self.q_bias, self.k_bias, self.v_bias]))


class StateSpace(nn.Module):
    """Mamba's -exp(A_log)."""

    def __init__(self):
        super().__init__()
        self.A_log, self.D, self.fc = nn.Parameter(torch.rand(8)), nn.Parameter(torch.rand(8)), nn.Linear(8, 6)

    def forward(self, x):
        return self.fc(torch.tanh(x * -torch.exp(self.A_log)) + self.D * x)


class ClassToken(nn.Module):
    """A vector that is expanded to every sample, and positions that are looked up."""

    def __init__(self):
        super().__init__()
        self.token, self.positions = nn.Parameter(torch.randn(1, 1, 8)), nn.Embedding(6, 8)
        self.fc, self.head = nn.Linear(8, 8), nn.Linear(8, 6)

    def forward(self, x):
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions(torch.arange(6) + 0)
        return self.head(F.gelu(self.fc(x)).mean(1))


class LayerScale(nn.Module):
    """Scalars that are parameters: GIN's 1 + eps, and a gate through a sigmoid."""

    def __init__(self):
        super().__init__()
        self.eps, self.gate = nn.Parameter(torch.tensor(0.3)), nn.Parameter(torch.tensor(-0.4))
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 6)

    def forward(self, x):
        return self.b((1 + self.eps) * x + torch.sigmoid(self.gate) * torch.tanh(self.a(x)))


class OutputBias(nn.Module):
    """BART's final_logits_bias: a buffer of zeros behind the head."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 6)
        self.register_buffer("final_logits_bias", torch.zeros(1, 6))

    def forward(self, x):
        return self.fc(x) + self.final_logits_bias


class Sinusoids(nn.Module):
    """Whisper's and BEATs' positions: a fixed parameter."""

    def __init__(self):
        super().__init__()
        steps = torch.arange(6)[:, None] * torch.exp(-torch.arange(4) / 3.0 * 9.21)
        self.positions = nn.Parameter(torch.cat([steps.sin(), steps.cos()], 1), requires_grad=False)
        self.fc, self.head = nn.Linear(8, 8), nn.Linear(8, 6)

    def forward(self, x):
        return self.head(F.gelu(self.fc(x + self.positions)).mean(1))


class Tables(nn.Module):
    """Buffers that somebody wrote down or computed: a window, frequencies, a filter that finds edges, a mask, centres."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(8, 8), nn.Linear(5, 6)
        self.register_buffer("window", torch.hann_window(8))
        self.register_buffer("frequencies", 1.7 ** torch.arange(6))
        self.register_buffer("edges", torch.tensor([[[[1.0, 0, -1], [2, 0, -2], [1, 0, -1]]]]))
        self.register_buffer("mask", torch.ones(8, 8).tril())
        self.register_buffer("centres", torch.linspace(-1.3, 2, 5))

    def forward(self, x):
        waves = (self.inner(x * self.window)[..., None] * self.frequencies).sin()
        mixed = (waves @ waves.transpose(1, 2)) * self.mask
        edges = F.conv2d(mixed[:, None], self.edges).mean((1, 2))
        return self.head(torch.exp(-(edges[..., None] - self.centres) ** 2).mean(1))


class Normalized(nn.Module):
    """A normalization behind a convolution, and another that nothing can be folded into."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.last, self.fc = nn.BatchNorm1d(4), nn.Linear(4, 5)

    def forward(self, x):
        return self.fc(self.last(F.relu(self.norm(self.conv(x))).mean((2, 3))))


class Volume(nn.Module):
    """A convolution of volumes without bias: dynamo writes a bias of zeros that has two axes."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv3d(2, 3, 2, bias=False), nn.BatchNorm3d(3), nn.Linear(3, 5)

    def forward(self, x):
        return self.fc(F.elu(self.norm(self.conv(x))).mean((2, 3, 4)))


class Sinc(nn.Module):
    """SincNet's filters, of learned cut-offs: torch.sinc at 0."""

    def __init__(self):
        super().__init__()
        self.cut, self.fc = nn.Parameter(torch.rand(4) * 0.3 + 0.1), nn.Linear(4, 5)
        self.register_buffer("steps", torch.arange(-3, 4).float())

    def forward(self, x):
        return self.fc(F.conv1d(x, (2 * self.cut[:, None] * torch.sinc(2 * self.cut[:, None] * self.steps))[:, None]).square().mean(2))


class Merged(nn.Module):
    """Parameters of equal contents: fresh ones and zeros."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.fc = nn.LayerNorm(8), nn.LayerNorm(8), nn.Linear(8, 6)

    def forward(self, x):
        return self.fc(self.b(torch.tanh(self.a(x))))


class ZeroBiases(nn.Module):
    """Biases of zeros, which the exporter removes."""

    def __init__(self):
        super().__init__()
        self.fc, self.up = nn.Linear(8, 12), nn.ConvTranspose1d(2, 6, 3, groups=2)
        self.conv, self.head = nn.Conv1d(6, 5, 3), nn.Linear(5, 6)
        for module in (self.fc, self.up, self.conv, self.head):
            nn.init.zeros_(module.bias)

    def forward(self, x):
        x = torch.tanh(self.fc(x)).reshape(-1, 2, 6)
        return self.head(self.conv(torch.tanh(self.up(x))).mean(2))


class EqualTensors(nn.Module):
    """Parameters that equal constants and statistics, and two that are one."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.batch = nn.Embedding(20, 8), nn.LayerNorm(8), nn.BatchNorm1d(8)
        self.last, self.head = nn.LayerNorm(8), nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.batch(self.norm(self.embed(ids)).transpose(1, 2)).transpose(1, 2)
        return self.head(self.last(torch.tanh(x) * torch.ones(8) + torch.zeros(8)))


class Copies(nn.Module):
    """Layers that are copies of one, and one that is used twice."""

    def __init__(self):
        super().__init__()
        layer = nn.Linear(8, 8)
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(2))
        self.shared, self.head = nn.Linear(8, 8, bias=False), nn.Linear(8, 6)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(self.shared(torch.tanh(layer(x))))
        return self.head(x)


class Looped(nn.Module):
    """A layer that is used twice, whose transposed weight is too large for the exporter to merge the two, and weights of zeros."""

    def __init__(self):
        super().__init__()
        self.layer, self.zeros, self.head = nn.Linear(33, 33), nn.Linear(33, 32), nn.Linear(32, 6)
        nn.init.zeros_(self.zeros.weight)

    def forward(self, x):
        h = torch.tanh(self.layer(torch.tanh(self.layer(x))))
        return self.head(torch.tanh(self.zeros(h)) * self.zeros(x))


class EqualNumbers(nn.Module):
    """Scalar parameters that equal numbers of the code, and what a function is made of: attention scales q and k by 0.5."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.tensor(0.001)), nn.Parameter(torch.tensor([0.5]))
        self.fc, self.head = nn.Linear(16, 16), nn.Linear(16, 6)

    def forward(self, x):
        x = x * self.second + self.first * torch.tanh(self.fc(x) + 0.001)
        q, k, v = (f(x)[:, None] for f in (torch.cos, torch.tanh, self.fc))
        return self.head(F.scaled_dot_product_attention(q, k, v)[:, 0, 0])


class EqualBuffer(nn.Module):
    """Buffers of zeros and ones, which TorchScript does not tell from parameters, beside parameters that equal them."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 6)
        self.register_buffer("offset", torch.zeros(8))
        self.register_buffer("scale", torch.ones(8))

    def forward(self, x):
        return self.head(torch.tanh(self.norm(self.first(x))) * self.scale + self.offset)


class Detached(nn.Module):
    """What passes no gradient: a straight-through rounding, a target, a parameter that another place trains."""

    def __init__(self):
        super().__init__()
        self.fc, self.scale, self.head = nn.Linear(8, 8), nn.Parameter(torch.rand(8) + 0.5), nn.Linear(8, 6)

    def forward(self, x):
        h = torch.tanh(self.fc(x)) * self.scale
        rounded = h + (torch.round(4 * h) / 4 - h).detach()
        return self.head(rounded * torch.sigmoid(h.detach()) + h * self.scale.detach())


class StraightThrough(nn.Module):
    """Estimates of what has no gradient: rounding, the nearest of some vectors, the one-hot of the largest."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.codes, self.head = nn.Linear(8, 8), nn.Linear(8, 4), nn.Linear(8, 5), nn.Embedding(9, 4), nn.Linear(17, 6)

    def forward(self, x):
        h, z, soft = torch.tanh(self.a(x)), self.b(x), self.c(x).softmax(-1)
        code = self.codes((z[:, None] - self.codes.weight).square().sum(-1).argmin(-1))
        hard = torch.zeros_like(soft).scatter(-1, soft.argmax(-1, keepdim=True), 1.0)
        return self.head(torch.cat([h + (torch.round(4 * h) / 4 - h).detach(), z + (code - z).detach(), hard - soft.detach() + soft], -1))


class SignsByMode(nn.Module):
    """Signs, which have no gradient, and an estimate of it in training only."""

    def __init__(self):
        super().__init__()
        self.enter, self.head = nn.Linear(8, 8), nn.Linear(8, 6)

    def forward(self, x):
        h = torch.tanh(self.enter(x))
        signs = torch.where(h > 0, torch.ones_like(h), -torch.ones_like(h))
        return self.head(h + (signs - h).detach() if self.training else signs)


class ResidualRounding(nn.Module):
    """Residual quantization: a finer rounding of what a coarse one leaves, which is detached; TorchScript's file lacks that."""

    def __init__(self):
        super().__init__()
        self.enter, self.head = nn.Linear(8, 8), nn.Linear(8, 6)

    def forward(self, x):
        rest = total = torch.tanh(self.enter(x))
        parts = []
        for steps in (2, 8):
            parts.append(rest + (torch.round(rest * steps) / steps - rest).detach())
            rest = rest - parts[-1].detach()
        return self.head(sum(parts) * total)


class Codebook(nn.Module):
    """VQ-VAE: the codes are read by look-up, and by a matrix product and as squares where no gradient flows."""

    def __init__(self):
        super().__init__()
        self.a, self.codes, self.head = nn.Linear(8, 4), nn.Embedding(7, 4), nn.Linear(4, 6)
        self.codes.weight.data *= 0.3

    def forward(self, x):
        z = self.a(x)
        far = z.square().sum(-1, keepdim=True) - 2 * z @ self.codes.weight.T + self.codes.weight.square().sum(1)
        code = self.codes(far.argmin(-1))
        lost = (code - z.detach()).square() + 0.25 * (z - code.detach()).square()
        return self.head(z + (code - z).detach()) + lost.sum(-1, keepdim=True) * self.head.bias


class Computed(nn.Module):
    """A buffer of decimals, a softmax of a parameter before a product, a weight beside a product of low rank that is fixed."""

    def __init__(self):
        super().__init__()
        self.base, self.a, self.b = nn.Linear(8, 8).requires_grad_(False), nn.Parameter(torch.randn(2, 8) * 0.3), nn.Parameter(torch.randn(8, 2) * 0.3)
        self.mix = nn.Parameter(torch.randn(8, 6))
        self.register_buffer("level", torch.tensor([0.1, 0.25, 0.4, 0.5, 0.6, 0.9]))

    def forward(self, x):
        h = torch.tanh(torch.nn.functional.linear(x, self.base.weight + 2 * self.b @ self.a, self.base.bias))
        return (h[:, None] @ torch.softmax(self.mix, -1))[:, 0] * 5 - self.level * h[:, :6]


class DetachedFactor(nn.Module):
    """The same where the exporter makes several nodes of the call that reads it."""

    def __init__(self):
        super().__init__()
        self.fc, self.head = nn.Linear(8, 8), nn.Linear(8, 6)

    def forward(self, x):
        h = torch.tanh(self.fc(x))
        return self.head(torch.addcmul(h, torch.sigmoid(h), h.detach()))


class Bags(nn.Module):
    """Sums, means and maxima of embeddings, and a weighted sum."""

    def __init__(self, **more):
        super().__init__()
        self.sum, self.mean, self.max, self.weighted = (nn.EmbeddingBag(20, 4, mode=m, **more) for m in ("sum", "mean", "max", "sum"))
        self.head = nn.Linear(16, 6)

    def forward(self, x, w):
        return self.head(torch.cat([self.sum(x), self.mean(x), self.max(x), self.weighted(x, per_sample_weights=w)], 1))


class PaddedBags(Bags):
    """The same without the indices of padding."""

    def __init__(self):
        super().__init__(padding_idx=3)


class Padding(nn.Module):
    """Embeddings with a padding row; one is the head's weight too, which trains that row."""

    def __init__(self):
        super().__init__()
        self.words, self.kinds, self.mix = nn.Embedding(20, 8, padding_idx=3), nn.Embedding(20, 8, padding_idx=-1), nn.Linear(8, 8)

    def forward(self, x):
        return F.linear(F.gelu(self.mix(self.words(x) + self.kinds(x))), self.words.weight)


class OffsetBags(nn.Module):
    """Bags of any length: the indices of all samples in a row, and where each bag starts."""

    def __init__(self):
        super().__init__()
        self.sum, self.mean, self.head = nn.EmbeddingBag(20, 4, mode="sum"), nn.EmbeddingBag(20, 4, mode="mean"), nn.Linear(8, 6)

    def forward(self, x):
        starts = torch.cumsum(1 + x[:, 0] % 4, 0) - 1
        return self.head(torch.cat([self.sum(x.reshape(-1), starts - starts[0]), self.mean(x.reshape(-1), starts - starts[0])], 1))


class Frozen(nn.Module):
    """A backbone without gradients below layers that train."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.LSTM(12, 8, batch_first=True))
        self.fc, self.head = nn.Linear(8, 8), nn.Linear(8, 6)

    def forward(self, x):
        with torch.no_grad():
            h = self.backbone(x)[0]
        return self.head(torch.tanh(self.fc(h)))


class Bootstrap(nn.Module):
    """Values of a state against the best of the next one, from the same network, in a block without gradients."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 3))

    def aim(self, after):
        with torch.no_grad():
            return self.net(after)

    def forward(self, x, after):
        return F.mse_loss(self.net(x).amax(1), 0.9 * self.aim(after).amax(1))


class BootstrapDetached(Bootstrap):
    """The same, with detach()."""

    def aim(self, after):
        return self.net(after).detach()


class AttentionScale(nn.Module):
    """PatchTST's attention: its scale is a parameter that does not train, and scores go on to the next layer."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList(nn.Linear(8, 8) for _ in "qkv") for _ in range(2))
        self.scale = nn.ParameterList(nn.Parameter(torch.tensor(8 ** -0.5), requires_grad=False) for _ in range(2))
        self.head = nn.Linear(8, 6)

    def forward(self, x):
        before = 0
        for (q, k, v), scale in zip(self.layers, self.scale):
            before = torch.matmul(q(x), k(x).transpose(1, 2)) * scale + before
            x = x + torch.matmul(F.softmax(before, dim=-1), v(x))
        return self.head(x.mean(1))


def small(name, kind, *inputs, fresh=False, ways=None, freeze=None):
    def make():
        return kind(), tuple(f() for f in inputs)
    make.fresh = fresh  # parameters keep the contents that their constructors give them
    make.ways = ways  # of exporting; None: all
    make.freeze = freeze  # ztrain.freeze with which every file is right; None: none is needed
    SMALL[name] = NETWORKS[name] = make


small("temperature", Temperature, lambda: rows(8))
small("logit_scale", LogitScale, lambda: rows(8), lambda: rows(8))
small("mix", Mix, lambda: rows(8))
small("weight_norm", WeightNorm, lambda: rows(8))
small("standardised", Standardised, lambda: rows(3, 6, 6))
small("recurrent", Recurrent, lambda: rows(5, 8))
small("tied", Tied, lambda: tokens(5, 20))
small("joined_bias", JoinedBias, lambda: rows(8))
small("state_space", StateSpace, lambda: rows(8))
small("class_token", ClassToken, lambda: rows(5, 8))
small("layer_scale", LayerScale, lambda: rows(8))
small("output_bias", OutputBias, lambda: rows(8))
small("sinusoids", Sinusoids, lambda: rows(6, 8))
small("tables", Tables, lambda: rows(8))
small("normalized", Normalized, lambda: rows(3, 6, 6))
small("volume", Volume, lambda: rows(2, 3, 3, 3), ways=("dynamo", "dynamo-train"))
small("sinc", Sinc, lambda: rows(1, 12), ways=("dynamo", "dynamo-train"))
small("merged", Merged, lambda: rows(8), fresh=True)
small("zero_biases", ZeroBiases, lambda: rows(8), fresh=True)
small("equal_tensors", EqualTensors, lambda: tokens(5, 20), fresh=True)
small("copies", Copies, lambda: rows(5, 8), fresh=True)
small("looped", Looped, lambda: rows(3, 33), fresh=True, ways=("dynamo",))
small("equal_numbers", EqualNumbers, lambda: rows(3, 16), fresh=True, ways=("dynamo",))
small("equal_buffer", EqualBuffer, lambda: rows(5, 8), fresh=True, ways=("dynamo", "dynamo-train"))
small("detached", Detached, lambda: rows(8), ways=("dynamo", "dynamo-train"))
small("straight_through", StraightThrough, lambda: rows(8))
small("signs_by_mode", SignsByMode, lambda: rows(8), ways=("dynamo", "torchscript", "dynamo-train"))
small("residual_rounding", ResidualRounding, lambda: rows(8), ways=("dynamo", "torchscript"))
small("codebook", Codebook, lambda: rows(8))
small("computed", Computed, lambda: rows(8))
small("detached_factor", DetachedFactor, lambda: rows(8), ways=("dynamo", "dynamo-train"))
small("bags", Bags, lambda: tokens(5, 20), lambda: rows(5))
small("padded_bags", PaddedBags, lambda: tokens(5, 20), lambda: rows(5), ways=("dynamo", "dynamo-train"))
small("padding", Padding, lambda: tokens(5, 20))
small("offset_bags", OffsetBags, lambda: tokens(5, 20))
small("frozen", Frozen, lambda: rows(5, 8), ways=("dynamo", "dynamo-train"), freeze=["backbone.*"])
small("bootstrap", Bootstrap, lambda: rows(8), lambda: rows(8), ways=("dynamo", "dynamo-train"))
small("bootstrap_detached", BootstrapDetached, lambda: rows(8), lambda: rows(8), ways=("dynamo", "dynamo-train"))
small("attention_scale", AttentionScale, lambda: rows(5, 8), ways=("dynamo", "dynamo-train"), freeze=["scale.*"])
