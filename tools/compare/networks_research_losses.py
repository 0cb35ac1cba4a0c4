"""The same as networks_research.py: losses inside of the graph, heads, inputs of other types, pictures."""
import torch
from torch import nn
from torch.nn import functional as F

from networks_base import BATCH, module, rows, tokens
from networks_research import OPEN


def mlp(inputs, outputs, width=12):
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


@module("mixture_density", lambda: rows(4), lambda: rows(2), also=OPEN)
class MixtureDensity(nn.Module):
    """Bishop (1994): the negative logarithm of a mixture of three Gaussians."""

    def __init__(self):
        super().__init__()
        self.net = mlp(4, 3 * 5)

    def forward(self, x, y):
        weight, mean, scale = self.net(x).split([3, 6, 6], 1)
        normal = torch.distributions.Normal(mean.view(-1, 3, 2), F.softplus(scale.view(-1, 3, 2)) + 0.1, validate_args=False)
        return -torch.logsumexp(F.log_softmax(weight, 1) + normal.log_prob(y[:, None]).sum(-1), 1).mean()


@module("triplet", lambda: rows(6), lambda: rows(6), lambda: rows(6), also=OPEN)
class Triplet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(6, 5)

    def forward(self, a, p, n):
        a, p, n = (F.normalize(self.net(x), dim=1) for x in (a, p, n))
        return F.triplet_margin_loss(a, p, n, margin=0.6) + 0.1 * F.cosine_embedding_loss(a, n, -torch.ones(a.shape[0]), margin=0.1)


@module("contrastive", lambda: rows(6), lambda: rows(6), also=OPEN)
class Contrastive(nn.Module):
    """SimCLR's NT-Xent: the other view among all samples of the batch."""

    def __init__(self):
        super().__init__()
        self.net = mlp(6, 5)

    def forward(self, x, y):
        z = F.normalize(torch.cat([self.net(x), self.net(y)]), dim=1)
        n = x.shape[0]
        scores = (z @ z.T / 0.5).masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))
        return F.cross_entropy(scores, torch.cat([torch.arange(n) + n, torch.arange(n)]))


@module("redundancy_reduction", lambda: rows(6), lambda: rows(6), also=OPEN)
class RedundancyReduction(nn.Module):
    """Barlow twins' and VICReg's terms, and BYOL's with a detached target."""

    def __init__(self):
        super().__init__()
        self.net, self.predictor = mlp(6, 5), nn.Linear(5, 5)

    def forward(self, x, y):
        a, b = self.net(x), self.net(y)
        byol = 2 - 2 * F.cosine_similarity(self.predictor(a), b.detach()).mean()
        na, nb = (a - a.mean(0)) / (a.std(0) + 1e-3), (b - b.mean(0)) / (b.std(0) + 1e-3)
        c = na.T @ nb / a.shape[0]
        off = (c - torch.diag(torch.diagonal(c))).square().sum()
        spread = F.relu(1 - torch.sqrt(a.var(0) + 1e-4)).mean()
        return byol + (torch.diagonal(c) - 1).square().sum() + 0.05 * off + spread


@module("variational", lambda: rows(8), lambda: rows(3), also=OPEN)
class Variational(nn.Module):
    """A VAE whose noise is an input; its lower bound."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = mlp(8, 6), mlp(3, 8)

    def forward(self, x, noise):
        mean, log_var = self.encoder(x).chunk(2, 1)
        found = self.decoder(mean + torch.exp(0.5 * log_var) * noise)
        kl = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(1)
        return (F.binary_cross_entropy_with_logits(found, torch.sigmoid(x), reduction="none").sum(1) + kl).mean()


@module("quantized_code", lambda: rows(8), also=OPEN)
class QuantizedCode(nn.Module):
    """VQ-VAE: the nearest entry by argmin, straight through, with the loss of the codebook and the commitment."""

    def __init__(self):
        super().__init__()
        self.encoder, self.codes, self.decoder = mlp(8, 6), nn.Embedding(7, 3), mlp(6, 8)

    def forward(self, x):
        z = self.encoder(x).view(-1, 2, 3)
        far = z.square().sum(-1, keepdim=True) - 2 * z @ self.codes.weight.T + self.codes.weight.square().sum(1)
        q = self.codes(far.argmin(-1))
        loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        return F.mse_loss(self.decoder((z + (q - z).detach()).flatten(1)), x) + loss


@module("gumbel", lambda: rows(8), lambda: torch.rand(BATCH, 2, 5) * 0.9 + 0.05, also=OPEN)
class Gumbel(nn.Module):
    """Jang et al. (2016), with uniform numbers as input; the hard choice passes the soft one's gradient."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = mlp(8, 10), mlp(10, 8)

    def forward(self, x, u):
        u = torch.sigmoid(u)
        soft = torch.softmax((self.encoder(x).view(-1, 2, 5) - torch.log(-torch.log(u))) / 0.7, -1)
        hard = torch.zeros_like(soft).scatter(-1, soft.argmax(-1, keepdim=True), 1.0)
        return self.decoder((hard - soft.detach() + soft).flatten(1))


@module("alignments", lambda: rows(9, 6), lambda: torch.randint(1, 6, (BATCH, 3)), also=OPEN)
class Alignments(nn.Module):
    """The CTC loss as a dynamic programme over time, of labels that are an input."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 6)

    def forward(self, x, labels):
        log_p = F.log_softmax(self.net(x), -1)
        blank = torch.zeros_like(labels)
        extended = torch.cat([torch.stack([blank, labels], 2).flatten(1), blank[:, :1]], 1)
        differs = torch.cat([torch.zeros_like(extended[:, :2], dtype=torch.bool), extended[:, 2:] != extended[:, :-2]], 1) & (extended != 0)
        low = -1e5
        alpha = torch.where(torch.arange(7) < 2, log_p[:, 0].gather(1, extended), torch.tensor(low))
        for t in range(1, 9):
            one = F.pad(alpha[:, :-1], (1, 0), value=low)
            two = torch.where(differs, F.pad(alpha[:, :-2], (2, 0), value=low), torch.tensor(low))
            alpha = torch.logsumexp(torch.stack([alpha, one, two]), 0) + log_p[:, t].gather(1, extended)
        return -torch.logsumexp(alpha[:, -2:], 1).mean()


@module("time_warping", lambda: rows(6, 3), lambda: rows(6, 3), also=OPEN)
class TimeWarping(nn.Module):
    """Soft-DTW: a table filled cell by cell."""

    def __init__(self):
        super().__init__()
        self.net = mlp(3, 4)

    def forward(self, x, y):
        d = torch.cdist(self.net(x), self.net(y)) ** 2
        far = torch.full_like(d[:, 0, 0], 1e4)
        r = {(i, j): far for i in range(-1, 6) for j in range(-1, 6)} | {(-1, -1): torch.zeros_like(far)}
        for i in range(6):
            for j in range(6):
                r[i, j] = d[:, i, j] - torch.logsumexp(-torch.stack([r[i - 1, j], r[i, j - 1], r[i - 1, j - 1]], 1), 1)
        return r[5, 5].mean()


@module("quantiles", lambda: rows(5), lambda: rows(1), also=OPEN)
class Quantiles(nn.Module):
    """The pinball loss of heads that cannot cross: the first and steps of softplus."""

    def __init__(self):
        super().__init__()
        self.net = mlp(5, 4)
        self.register_buffer("level", torch.tensor([0.1, 0.4, 0.6, 0.9]))

    def forward(self, x, y):
        first, steps = self.net(x).split([1, 3], 1)
        off = y - torch.cat([first, first + torch.cumsum(F.softplus(steps), 1)], 1)
        return torch.maximum(self.level * off, (self.level - 1) * off).sum(1).mean()


@module("ordinal", lambda: rows(5), also=OPEN)
class Ordinal(nn.Module):
    """Cumulative links: ordered thresholds, classes as differences."""

    def __init__(self):
        super().__init__()
        self.net, self.first, self.steps = mlp(5, 1), nn.Parameter(torch.tensor([-1.0])), nn.Parameter(torch.randn(3) * 0.3)

    def forward(self, x):
        at = torch.cat([self.first, self.first + torch.cumsum(self.steps.exp(), 0)])
        below = torch.sigmoid(at - self.net(x))
        p = torch.diff(torch.cat([torch.zeros_like(below[:, :1]), below, torch.ones_like(below[:, :1])], 1))
        return torch.log(p.clamp(min=1e-6))


@module("angular_margin", lambda: rows(6), lambda: torch.randint(0, 5, (BATCH,)), also=OPEN)
class AngularMargin(nn.Module):
    """ArcFace, center loss and focal weights, of labels that are an input."""

    def __init__(self):
        super().__init__()
        self.net, self.weight, self.centers = mlp(6, 4), nn.Parameter(torch.randn(5, 4)), nn.Embedding(5, 4)

    def forward(self, x, label):
        z = self.net(x)
        cosine = F.linear(F.normalize(z), F.normalize(self.weight)).clamp(-0.99, 0.99)
        hit = F.one_hot(label, 5).bool()
        log_p = F.log_softmax(4 * torch.where(hit, torch.cos(torch.acos(cosine) + 0.2), cosine), 1)
        log_p = log_p.gather(1, label[:, None])[:, 0]
        return (-(1 - log_p.exp()) ** 2 * log_p).mean() + 0.1 * (z - self.centers(label)).square().sum(1).mean()


@module("overlap_losses", lambda: rows(2, 8, 8), lambda: torch.randint(0, 3, (BATCH, 8, 8)), also=OPEN)
class OverlapLosses(nn.Module):
    """Segmentation: Dice, a Lovasz extension by sorting, and a structural similarity by a fixed filter."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 3, 1))
        g = torch.exp(-torch.arange(-2.0, 3.0) ** 2 / 2)
        self.register_buffer("filter", (g.outer(g) / g.sum() ** 2).expand(3, 1, 5, 5).clone())

    def blur(self, x):
        return F.conv2d(x, self.filter, groups=3)

    def forward(self, x, label):
        p, hit = torch.softmax(self.net(x), 1), F.one_hot(label, 3).movedim(-1, 1).to(x.dtype)
        dice = 1 - (2 * (p * hit).sum((0, 2, 3)) + 1) / ((p + hit).sum((0, 2, 3)) + 1)
        errors, order = torch.sort((hit - p).abs()[:, 0].flatten(), descending=True)
        truth = hit[:, 0].flatten()[order]
        union = 1 - (truth.sum() - truth.cumsum(0)) / (truth.sum() + (1 - truth).cumsum(0))
        lovasz = errors @ torch.cat([union[:1], union[1:] - union[:-1]])
        a, b = self.blur(p), self.blur(hit)
        similar = (2 * a * b + 0.01) * (2 * (self.blur(p * hit) - a * b) + 0.03) / ((a ** 2 + b ** 2 + 0.01) * (self.blur(p * p + hit * hit) - a ** 2 - b ** 2 + 0.03))
        return dice.mean() + lovasz + 0.1 * (1 - similar.mean())


@module("prototypes", lambda: rows(6, 5), also=OPEN)
class Prototypes(nn.Module):
    """Few-shot learning: each sample is an episode of two examples of two classes and two queries."""

    def __init__(self):
        super().__init__()
        self.net = mlp(5, 4)

    def forward(self, x):
        z = self.net(x.flatten(0, 1)).unflatten(0, (-1, 6))
        center = z[:, :4].unflatten(1, (2, 2)).mean(2)
        return -torch.cdist(z[:, 4:], center) ** 2


@module("bytes_and_flags", lambda: torch.randint(0, 255, (BATCH, 3, 8, 8), dtype=torch.uint8), lambda: torch.rand(BATCH, 6) < 0.5,
        lambda: torch.randint(0, 9, (BATCH, 2), dtype=torch.int32), also=OPEN)
class BytesAndFlags(nn.Module):
    """Pixels as bytes, flags as booleans, and categories as numbers of 32 bits."""

    def __init__(self):
        super().__init__()
        self.conv, self.words, self.head = nn.Conv2d(3, 6, 3, 2), nn.Embedding(10, 4), nn.Linear(6 + 6 + 8, 5)

    def forward(self, pixels, flags, kinds):
        h = F.relu(self.conv((pixels.to(self.head.weight.dtype) / 255 - 0.5) / 0.25)).mean((2, 3))
        h = torch.where(flags, h, -h)
        return self.head(torch.cat([h, flags.to(h.dtype), self.words(kinds).flatten(1)], 1))


@module("crosses", lambda: tokens(4, 12), lambda: rows(3), also=OPEN)
class Crosses(nn.Module):
    """A factorization machine, DCN's cross layers and DIN's attention over a history."""

    def __init__(self):
        super().__init__()
        self.words, self.linear, self.cross = nn.Embedding(12, 4), nn.Embedding(12, 1), nn.ModuleList([nn.Linear(19, 19) for _ in range(2)])
        self.score, self.head = nn.Linear(8, 1), nn.Linear(19 + 4 + 2, 4)

    def forward(self, x, dense):
        e = self.words(x)
        fm = 0.5 * (e.sum(1).square() - e.square().sum(1)).sum(1, keepdim=True)
        first = c = torch.cat([e.flatten(1), dense], 1)
        for layer in self.cross:
            c = first * layer(c) + c
        w = self.score(torch.cat([e[:, :3], e[:, 3:].expand(-1, 3, -1)], -1)).sigmoid()
        return self.head(torch.cat([c, (w * e[:, :3]).sum(1), fm, self.linear(x).sum(1)], 1))


@module("lora", lambda: rows(8), also=OPEN)
class Lora(nn.Module):
    """A frozen layer and a learned product of low rank, scaled; DoRA's magnitudes."""

    def __init__(self):
        super().__init__()
        self.base, self.a, self.b = nn.Linear(8, 10).requires_grad_(False), nn.Parameter(torch.randn(2, 8) * 0.3), nn.Parameter(torch.randn(10, 2) * 0.3)
        self.size, self.head = nn.Parameter(torch.rand(10, 1) + 0.5), nn.Linear(10, 5)

    def forward(self, x):
        weight = self.base.weight + 2 * self.b @ self.a
        return self.head(torch.tanh(F.linear(x, self.size * weight / weight.norm(dim=1, keepdim=True), self.base.bias)))


@module("basis_forecast", lambda: rows(16), also=OPEN)
class BasisForecast(nn.Module):
    """N-BEATS: blocks that take their backcast away, with trend and seasons as fixed bases; DLinear's moving average."""

    def __init__(self):
        super().__init__()
        t, s = torch.linspace(0, 1, 16), torch.linspace(0, 1, 5)
        self.register_buffer("trend", torch.stack([t ** k for k in range(3)]))
        self.register_buffer("trend_on", torch.stack([(1 + s) ** k for k in range(3)]))
        self.register_buffer("season", torch.cat([torch.cos(2 * torch.pi * k * t)[None] for k in (1, 2)] + [torch.sin(2 * torch.pi * k * t)[None] for k in (1, 2)]))
        self.a, self.b, self.c, self.out = mlp(16, 6), mlp(16, 4), nn.Linear(4, 5), nn.Linear(16, 5)

    def forward(self, x):
        smooth = F.avg_pool1d(F.pad(x[:, None], (2, 2), mode="replicate"), 5, 1)[:, 0]
        back, on = self.a(x).chunk(2, 1)
        x = x - back @ self.trend
        season = self.b(x)
        return on @ self.trend_on + self.c(season) + self.out(x - season @ self.season + smooth)


@module("fourier_operator", lambda: rows(2, 8, 8), also=OPEN)
class FourierOperator(nn.Module):
    """Li et al. (2020): the low modes of a plane are multiplied by learned complex matrices; coordinates are appended."""

    def __init__(self):
        super().__init__()
        self.lift, self.weight, self.skip, self.head = nn.Conv2d(4, 4, 1), nn.Parameter(torch.randn(4, 4, 3, 3, 2) * 0.2), nn.Conv2d(4, 4, 1), nn.Linear(4, 5)

    def forward(self, x):
        at = torch.linspace(0, 1, 8, dtype=x.dtype)
        grid = torch.stack(torch.meshgrid(at, at, indexing="ij")).expand(x.shape[0], 2, 8, 8)
        h = self.lift(torch.cat([x, grid], 1))
        modes = torch.fft.fft(torch.fft.rfft(h, dim=3), dim=2)[:, :, :3, :3]
        re, im = modes.real, modes.imag
        a, b = self.weight.unbind(-1)
        real = torch.einsum("nixy,ioxy->noxy", re, a) - torch.einsum("nixy,ioxy->noxy", im, b)
        imag = torch.einsum("nixy,ioxy->noxy", re, b) + torch.einsum("nixy,ioxy->noxy", im, a)
        k = torch.arange(3.0, dtype=x.dtype)
        angle = 2 * torch.pi * (k[:, None, None, None] * at[:, None] + k[:, None, None] * at) * 7 / 8
        plane = torch.einsum("noxy,xyij->noij", real, torch.cos(angle)) - torch.einsum("noxy,xyij->noij", imag, torch.sin(angle))
        return self.head(F.gelu(plane / 16 + self.skip(h)).mean((2, 3)))


@module("radial_basis", lambda: rows(5), also=OPEN)
class RadialBasis(nn.Module):
    """Learned centers and widths, normalised; FiLM by a second network."""

    def __init__(self):
        super().__init__()
        self.centers, self.width, self.film, self.head = nn.Parameter(torch.randn(7, 5)), nn.Parameter(torch.rand(7)), mlp(5, 14), nn.Linear(7, 4)

    def forward(self, x):
        phi = torch.exp(-self.width.exp() * (x[:, None] - self.centers).pow(2).sum(-1))
        phi = phi / phi.sum(1, keepdim=True).clamp_min(1e-9)
        scale, shift = self.film(x).chunk(2, 1)
        return self.head((1 + scale) * phi + shift)


@module("hash_grid", lambda: rows(2), also=OPEN)
class HashGrid(nn.Module):
    """Instant NGP: corners of a cell hashed by exclusive or and a remainder, joined bilinearly; SIREN behind it."""

    def __init__(self):
        super().__init__()
        self.table, self.a, self.b = nn.Parameter(torch.randn(3, 16, 2) * 0.3), nn.Linear(6, 12), nn.Linear(12, 3)

    def forward(self, x):
        x, found = torch.sigmoid(x), []
        for level, cells in enumerate((3, 6, 12)):
            at = x * cells
            low = at.floor()
            f, low = at - low, low.long()
            value = 0
            for i in (0, 1):
                for j in (0, 1):
                    place = ((low[:, 0] + i) ^ ((low[:, 1] + j) * 2654435)) % 16
                    weight = (f[:, 0] if i else 1 - f[:, 0]) * (f[:, 1] if j else 1 - f[:, 1])
                    value = value + weight[:, None] * self.table[level][place]
            found.append(value)
        return self.b(torch.sin(5 * self.a(torch.cat(found, 1))))


@module("sampled_offsets", lambda: rows(3, 8, 8), also=OPEN)
class SampledOffsets(nn.Module):
    """Deformable attention and convolution written by grid_sample with learned offsets."""

    def __init__(self):
        super().__init__()
        self.offset, self.mask, self.value, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 4, 1), nn.Conv2d(3, 5, 1), nn.Linear(5, 4)

    def forward(self, x):
        at = torch.linspace(-1, 1, 8)
        grid = torch.stack(torch.meshgrid(at, at, indexing="ij")[::-1], -1)
        offset = torch.tanh(self.offset(x)).unflatten(1, (4, 2)).permute(0, 1, 3, 4, 2) * 0.4
        w, v, total = torch.softmax(self.mask(x), 1), self.value(x), 0
        for k in range(4):
            total = total + w[:, k:k + 1] * F.grid_sample(v, grid + offset[:, k], padding_mode="border", align_corners=False)
        return self.head(F.relu(total).mean((2, 3)))


@module("pixel_shuffles", lambda: rows(3, 8, 8), also=OPEN)
class PixelShuffles(nn.Module):
    """PixelUnshuffle, channel shuffle, folded windows, PixelShuffle, a residual of a resized picture."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(12, 12, 3, padding=1, groups=3), nn.Conv2d(12, 12, 1), nn.Linear(9 * 3, 3)

    def forward(self, x):
        h = F.gelu(self.a(F.pixel_unshuffle(x, 2)))
        h = F.pixel_shuffle(self.b(F.channel_shuffle(h, 3)), 2)
        windows = F.unfold(h, 3, padding=1).transpose(1, 2)
        h = F.fold((windows * self.c(windows).softmax(-1).repeat(1, 1, 9)).transpose(1, 2), (8, 8), 3, padding=1)
        return h + F.interpolate(F.avg_pool2d(x, 2), scale_factor=2, mode="bicubic", align_corners=False)


@module("seasonal_memory", lambda: rows(12, 3), lambda: torch.tensor([12, 7, 9, 4]), also=OPEN)
class SeasonalMemory(nn.Module):
    """Sequences of various lengths: both directions of an LSTM, a causal mask, the last step that counts."""

    def __init__(self):
        super().__init__()
        self.lstm, self.layer = nn.LSTM(3, 4, batch_first=True, bidirectional=True), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x, lengths):
        h, _ = self.lstm(x)
        padded = torch.arange(12) >= lengths[:, None]
        h = self.layer(h, src_mask=torch.triu(torch.ones(12, 12, dtype=torch.bool), 1), src_key_padding_mask=padded)
        return self.head(h[torch.arange(x.shape[0]), lengths - 1])
