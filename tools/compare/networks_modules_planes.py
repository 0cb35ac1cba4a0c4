"""The same as networks_modules.py: pictures, volumes, sound and points."""
import torch
from torch import nn
from torch.nn import functional as F

from networks_base import module, rows


@module("complex_pairs", lambda: rows(16, 2))
class ComplexPairs(nn.Module):
    """Complex products as pairs, rotary, and a Fourier transform as a matrix."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(16, 2) * 0.3), nn.Parameter(torch.randn(16, 16, 2) * 0.2)
        self.head = nn.Linear(32, 6)
        angle = 2 * torch.pi * torch.arange(16).outer(torch.arange(16)) / 16
        self.register_buffer("dft", torch.stack([angle.cos(), -angle.sin()], -1))

    @staticmethod
    def times(a, b):
        return torch.stack([a[..., 0] * b[..., 0] - a[..., 1] * b[..., 1], a[..., 0] * b[..., 1] + a[..., 1] * b[..., 0]], -1)

    def forward(self, x):
        y = self.times(x[:, None], self.dft).sum(2)
        y = self.times(y, self.a) * F.relu((y.square().sum(-1, keepdim=True) + 1e-6).sqrt() - 0.1)
        return self.head(self.times(y[:, None], self.b).sum(2).flatten(1))


@module("fourier_mixer", lambda: rows(12, 8))
class FourierMixer(nn.Module):
    """AFNO and GFNet: a transform along time, a learned filter of its bins, and back."""

    def __init__(self):
        super().__init__()
        self.filter, self.head = nn.Parameter(torch.randn(7, 8, 2) * 0.3), nn.Linear(8, 6)

    def forward(self, x):
        bins = torch.fft.rfft(x, dim=1, norm="ortho")
        return self.head(torch.fft.irfft(bins * torch.view_as_complex(self.filter.contiguous()), n=12, dim=1, norm="ortho"))


@module("stft_mask", lambda: rows(64))
class StftMask(nn.Module):
    """Speech enhancement: a spectrogram's magnitudes through a network."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))
        self.net = nn.Sequential(nn.Conv1d(9, 12, 3, padding=1), nn.ReLU(), nn.Conv1d(12, 9, 3, padding=1), nn.Sigmoid())
        self.head = nn.Linear(9, 6)

    def forward(self, x):
        spectrum = torch.stft(x, 16, 8, window=self.window, return_complex=True)
        size = torch.view_as_real(spectrum).square().sum(-1)
        return self.head((self.net(torch.log1p(size)) * size).mean(2))


@module("learned_front_end", lambda: rows(1, 64))
class LearnedFrontEnd(nn.Module):
    """SincNet's filters: windowed sines of learned cut-offs."""

    def __init__(self):
        super().__init__()
        self.low, self.band = nn.Parameter(torch.rand(6) * 0.1 + 0.02), nn.Parameter(torch.rand(6) * 0.1 + 0.05)
        self.head = nn.Linear(6, 5)
        self.register_buffer("n", torch.arange(-8, 9).float())
        self.register_buffer("window", torch.hamming_window(17, periodic=False))

    def forward(self, x):
        low, high = self.low.abs(), self.low.abs() + self.band.abs()
        filters = (2 * high[:, None] * torch.sinc(2 * high[:, None] * self.n) - 2 * low[:, None] * torch.sinc(2 * low[:, None] * self.n))
        y = F.conv1d(x, (filters * self.window)[:, None], padding=8)
        return self.head(torch.log(y.square().mean(2) + 1e-3))


@module("capsules", lambda: rows(1, 12, 12))
class Capsules(nn.Module):
    """Routing by agreement."""

    def __init__(self):
        super().__init__()
        self.conv, self.weight = nn.Conv2d(1, 16, 5, 2), nn.Parameter(torch.randn(64, 5, 6, 4) * 0.2)

    @staticmethod
    def squash(s):
        square = s.square().sum(-1, keepdim=True)
        return square / (1 + square) * s / torch.sqrt(square + 1e-8)

    def forward(self, x):
        u = self.squash(self.conv(x).view(x.shape[0], 4, 4, 16).transpose(1, 3).reshape(x.shape[0], 64, 4))
        votes = torch.einsum("ijkl,nil->nijk", self.weight, u)
        logits = torch.zeros(x.shape[0], 64, 5, dtype=x.dtype)
        for i in range(3):
            v = self.squash((logits.softmax(2)[..., None] * votes).sum(1))
            if i < 2:
                logits = logits + (votes * v[:, None]).sum(-1)
        return v.norm(dim=-1)


@module("norms", lambda: rows(8, 6, 6))
class Norms(nn.Module):
    """Every normalization in a row."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.a, self.b, self.c, self.d = nn.GroupNorm(2, 8), nn.LayerNorm([8, 6, 6]), nn.InstanceNorm2d(8), nn.LocalResponseNorm(3)
        self.e, self.head = nn.RMSNorm(36), nn.Linear(8, 5)

    def forward(self, x):
        x = self.c(self.b(torch.tanh(self.a(self.conv(x))))) * 0.3 + x
        x = self.e(self.d(x).flatten(2)).mean(2)
        return self.head(F.normalize(x, p=3.0) + F.layer_norm(x, (8,)))


@module("volumes", lambda: rows(2, 8, 8, 8))
class Volumes(nn.Module):
    """A 3-D network: strided, transposed, pooled and resampled trilinearly."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.up = nn.Conv3d(2, 4, 3, 2, 1), nn.Conv3d(4, 8, 3, padding=2, dilation=2, groups=2), nn.ConvTranspose3d(8, 4, 2, 2)
        self.last = nn.Conv3d(8, 3, 1)

    def forward(self, x):
        a = F.elu(self.a(x))
        b = F.elu(self.b(F.max_pool3d(a, 2)))
        up = F.interpolate(a, scale_factor=2.0, mode="trilinear", align_corners=False)
        return self.last(torch.cat([F.interpolate(self.up(b), scale_factor=2.0, mode="nearest"), up], 1)) + F.adaptive_avg_pool3d(x, 1)[:, :1]


@module("pools", lambda: rows(4, 9, 9))
class Pools(nn.Module):
    """Pools of every kind, and the way back from one."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4 * (9 + 16 + 25 + 1 + 16), 6)

    def forward(self, x):
        x = torch.tanh(self.conv(x))
        parts = [F.adaptive_avg_pool2d(x, 3), F.max_pool2d(x, 3, 2), F.avg_pool2d(x, 2, 2, ceil_mode=True, count_include_pad=False),
                 F.lp_pool2d(x.abs() + 0.1, 2.0, 9), F.adaptive_max_pool2d(x[..., :8, :8], 4)]
        return self.head(torch.cat([p.flatten(1) for p in parts], 1))


@module("resamples", lambda: rows(3, 6, 6))
class Resamples(nn.Module):
    """Upsamplings: bicubic, nearest, shuffled both ways, with corners aligned, and pads of every kind."""

    def __init__(self):
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8 + 2 + 8 + 32, 3, 3)

    def forward(self, x):
        y = torch.tanh(self.conv(F.pad(x, (1, 1, 1, 1), mode="circular")))
        parts = [F.interpolate(y, scale_factor=2.0, mode="bicubic", align_corners=False), F.pixel_shuffle(y, 2),
                 F.interpolate(y, size=(12, 12), mode="bilinear", align_corners=True),
                 F.interpolate(F.pixel_unshuffle(y, 2), size=12, mode="nearest")]
        return self.last(F.pad(torch.cat(parts, 1), (2, 1, 1, 2), mode="replicate"))


@module("point_set", lambda: rows(10, 3))
class PointSet(nn.Module):
    """DGCNN: the nearest neighbours of every point, and edges to them."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(6, 16), nn.Linear(32, 16), nn.Linear(16, 6)

    def edges(self, x, net):
        apart = torch.cdist(x, x)
        near = apart.topk(4, dim=-1, largest=False).indices
        n, p, c = x.shape
        rows_ = torch.gather(x[:, None].expand(-1, p, -1, -1), 2, near[..., None].expand(-1, -1, -1, c))
        own = x[:, :, None].expand(-1, -1, 4, -1)
        return F.leaky_relu(net(torch.cat([own, rows_ - own], -1)), 0.2).amax(2)

    def forward(self, x):
        return self.head(self.edges(self.edges(x, self.a), self.b).amax(1))


@module("detector", lambda: rows(3, 32, 32))
class Detector(nn.Module):
    """A head of boxes: distances by a softmax over bins (DFL), anchors, strides, sigmoids."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.SiLU())
        self.down = nn.Sequential(nn.Conv2d(16, 16, 3, 2, 1), nn.SiLU())
        self.boxes, self.classes = nn.Conv2d(16, 32, 1), nn.Conv2d(16, 3, 1)
        self.register_buffer("bins", torch.arange(8).float())

    def forward(self, x):
        a = self.stem(x)
        found = []
        for stride, y in ((4, a), (8, self.down(a))):
            n, _, h, w = y.shape
            ys, xs = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            anchors = torch.stack([xs, ys], -1).view(1, h * w, 2).to(x.dtype)
            reach = self.boxes(y).view(n, 4, 8, h * w).softmax(2).permute(0, 3, 1, 2) @ self.bins
            box = torch.cat([anchors - reach[..., :2], anchors + reach[..., 2:]], -1) * stride / 32
            found.append(torch.cat([box, self.classes(y).flatten(2).transpose(1, 2).sigmoid()], -1))
        return torch.cat(found, 1)[:, None]


@module("dynamic_conv", lambda: rows(4, 8, 8))
class DynamicConv(nn.Module):
    """A kernel for each sample: a grouped convolution over the batch."""

    def __init__(self):
        super().__init__()
        self.kernels, self.gate, self.head = nn.Parameter(torch.randn(3, 6, 4, 3, 3) * 0.3), nn.Linear(4, 3), nn.Linear(6, 5)

    def forward(self, x):
        n, c, h, w = x.shape
        mix = self.gate(x.mean((2, 3))).softmax(1)
        kernel = torch.einsum("nk,koihw->noihw", mix, self.kernels).reshape(n * 6, c, 3, 3)
        return self.head(torch.tanh(F.conv2d(x.reshape(1, n * c, h, w), kernel, groups=n)).view(n, 6, 36).mean(2))


@module("wavelet", lambda: rows(2, 16))
class Wavelet(nn.Module):
    """Lifting: even and odd samples, predicted and updated, with reflected pads, flips and rolls."""

    def __init__(self):
        super().__init__()
        self.predict, self.update, self.head = nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 3), nn.Linear(32, 6)

    def forward(self, x):
        even, odd = x[..., ::2], x[..., 1::2]
        odd = odd - self.predict(F.pad(even, (1, 1), mode="reflect"))
        even = even + self.update(F.pad(odd, (1, 1), mode="reflect"))
        return self.head(torch.cat([even.flip(-1), torch.roll(odd, 3, -1)], -1).flatten(1))


@module("shared_siamese", lambda: rows(1, 12), lambda: rows(1, 12))
class Siamese(nn.Module):
    """One tower over two inputs, a depthwise correlation of the two."""

    def __init__(self):
        super().__init__()
        self.tower, self.head = nn.Sequential(nn.Conv1d(1, 4, 3), nn.Hardswish(), nn.Conv1d(4, 4, 3)), nn.Linear(4, 5)

    def forward(self, a, b):
        a, b = self.tower(a), self.tower(b)
        return self.head((a[..., None] * b[..., None, :]).softmax(-1).diagonal(dim1=2, dim2=3).sum(-1) + (a - b).abs().mean(2))


@module("involution", lambda: rows(8, 6, 6))
class Involution(nn.Module):
    """Kernels computed from the image: unfold, and fold back."""

    def __init__(self):
        super().__init__()
        self.kernel, self.head = nn.Conv2d(8, 18, 1), nn.Linear(8, 6)

    def forward(self, x):
        n, c, h, w = x.shape
        patches = F.unfold(x, 3, padding=1).view(n, 2, c // 2, 9, h, w)
        weights = self.kernel(x).view(n, 2, 1, 9, h, w)
        y = (patches * weights.softmax(3))
        back = F.fold(y.reshape(n, c * 9, h * w), (h, w), 3, padding=1)
        return self.head((y.sum(3).reshape(n, c, h, w) + torch.tanh(back)).mean((2, 3)))


@module("spatial_transformer", lambda: rows(2, 8, 8))
class SpatialTransformer(nn.Module):
    """A learned affine grid, sampled bilinearly."""

    def __init__(self):
        super().__init__()
        self.place, self.conv, self.head = nn.Linear(128, 6), nn.Conv2d(2, 4, 3), nn.Linear(4, 6)

    def forward(self, x):
        theta = 0.1 * self.place(x.flatten(1)).view(-1, 2, 3) + torch.tensor([[1.0, 0, 0], [0, 1, 0]])
        grid = F.affine_grid(theta, x.shape, align_corners=False)
        return self.head(F.relu(self.conv(F.grid_sample(x, grid, align_corners=False, padding_mode="border"))).mean((2, 3)))


@module("optical_flow", lambda: rows(3, 8, 8), lambda: rows(3, 8, 8))
class OpticalFlow(nn.Module):
    """RAFT in short: all pairs of correlations, a lookup around the flow, a recurrent update, a convex upsampling."""

    def __init__(self):
        super().__init__()
        self.encode, self.update = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8 + 9 + 2, 8, 3, padding=1)
        self.flow, self.mask = nn.Conv2d(8, 2, 3, padding=1), nn.Conv2d(8, 36, 1)

    def forward(self, a, b):
        a, b = torch.tanh(self.encode(a)), torch.tanh(self.encode(b))
        n, c, h, w = a.shape
        pairs = torch.einsum("nchw,ncij->nhwij", a, b).reshape(n * h * w, 1, h, w) / c ** 0.5
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        base = torch.stack([xs, ys], 0).to(a.dtype)
        around = torch.stack(torch.meshgrid(torch.arange(-1, 2), torch.arange(-1, 2), indexing="ij"), -1).to(a.dtype)
        flow, state = torch.zeros(n, 2, h, w, dtype=a.dtype), a
        for _ in range(2):
            at = (base + flow).permute(0, 2, 3, 1).reshape(n * h * w, 1, 1, 2) + around
            at = 2 * at / torch.tensor([w - 1.0, h - 1.0]).to(a.dtype) - 1
            seen = F.grid_sample(pairs, at, align_corners=True).view(n, h, w, 9).permute(0, 3, 1, 2)
            state = torch.tanh(self.update(torch.cat([state, seen, flow], 1)))
            flow = flow + self.flow(state)
        mask = self.mask(state).view(n, 1, 9, 2, 2, h, w).softmax(2)
        up = F.unfold(2 * flow, 3, padding=1).view(n, 2, 9, 1, 1, h, w)
        return (mask * up).sum(2).permute(0, 1, 4, 2, 5, 3).reshape(n, 2, 2 * h, 2 * w)
