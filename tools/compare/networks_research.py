"""Hand-written networks of kinds that research code and courses export: memories, halting, state spaces, sets, graphs, flows.
Exported in all ways, also with a batch that the file leaves open."""
import torch
from torch import nn
from torch.nn import functional as F

from networks_base import module, rows, tokens

OPEN = ("dynamo-dynamic", "torchscript-dynamic")


@module("adaptive_computation", lambda: rows(8), also=OPEN)
class AdaptiveComputation(nn.Module):
    """Graves (2016): halting by a mask over a fixed number of steps."""

    def __init__(self):
        super().__init__()
        self.cell, self.halt, self.head = nn.GRUCell(8, 12), nn.Linear(12, 1), nn.Linear(12, 5)

    def forward(self, x):
        h, mean = x.new_zeros(x.shape[0], 12), x.new_zeros(x.shape[0], 12)
        total, going = x.new_zeros(x.shape[0], 1), x.new_ones(x.shape[0], 1)
        for step in range(5):
            h = self.cell(x, h)
            p = torch.sigmoid(self.halt(h))
            last = ((total + p * going >= 0.99) | torch.tensor(step == 4)).to(x.dtype) * going
            weight = torch.where(last > 0, 1 - total, p * going)
            mean, total, going = mean + weight * h, total + weight, going - last
        return self.head(mean)


@torch.jit.script
def ponder(h, w, u, limit: int):
    total, mean, n = torch.zeros_like(h[:, :1]), torch.zeros_like(h), 0
    while bool(total.min() < 0.95) and n < limit:
        h = torch.tanh(h @ w)
        p = torch.sigmoid(h @ u) * (1 - total)
        total, mean, n = total + p, mean + p * h, n + 1
    return mean


class Ponder(nn.Module):
    """Halting by a loop that runs as long as a sample of the batch goes on, at most 12 times."""

    def __init__(self):
        super().__init__()
        self.stem, self.w, self.u = nn.Linear(8, 12), nn.Parameter(torch.randn(12, 12) * 0.4), nn.Parameter(torch.randn(12, 1) * 0.5)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        return self.head(ponder(self.stem(x), self.w, self.u, 12))


module("ponder", lambda: rows(8), ways=("torchscript", "torchscript-train", "torchscript-dynamic"))(Ponder)


@module("selective_scan", lambda: rows(10, 6), also=OPEN)
class SelectiveScan(nn.Module):
    """Mamba's block in a Python loop: gates, a causal convolution over each channel, steps that depend on the input."""

    def __init__(self, width=8, state=4):
        super().__init__()
        self.inner, self.conv = nn.Linear(6, 2 * width), nn.Conv1d(width, width, 3, padding=2, groups=width)
        self.project, self.delta = nn.Linear(width, 2 * state + 1, bias=False), nn.Linear(1, width)
        self.a_log, self.d = nn.Parameter(torch.log(torch.rand(width, state) * 3 + 1)), nn.Parameter(torch.rand(width))
        self.head, self.state = nn.Linear(width, 5), state

    def forward(self, x):
        u, gate = self.inner(x).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2))
        delta, b, c = self.project(u).split([1, self.state, self.state], -1)
        delta, a = F.softplus(self.delta(delta)), -torch.exp(self.a_log)
        h, out = x.new_zeros(x.shape[0], *a.shape), []
        for t in range(10):
            h = torch.exp(delta[:, t, :, None] * a) * h + (delta[:, t] * u[:, t])[..., None] * b[:, t, None]
            out.append((h * c[:, t, None]).sum(-1))
        return self.head(((torch.stack(out, 1) + self.d * u) * F.silu(gate)).mean(1))


@module("scan_by_cumsum", lambda: rows(10, 6), also=OPEN)
class ScanByCumsum(nn.Module):
    """The same recurrence as sums of logarithms along time (Heinsen 2023)."""

    def __init__(self):
        super().__init__()
        self.gates, self.head = nn.Linear(6, 16), nn.Linear(8, 5)

    def forward(self, x):
        f, v = self.gates(x).chunk(2, -1)
        log_f = F.logsigmoid(f)
        log_v = torch.log(F.softplus(v)) + F.logsigmoid(-f)
        a = torch.cumsum(log_f, 1)
        return self.head(torch.exp(a + torch.logcumsumexp(log_v - a, 1))[:, -1])


@module("kalman", lambda: rows(8, 2), also=OPEN)
class Kalman(nn.Module):
    """A learned filter of two states: predict, gain by a 2 x 2 inverse, update; the likelihood of the innovations."""

    def __init__(self):
        super().__init__()
        self.f, self.q, self.r = nn.Parameter(torch.eye(2) + 0.1 * torch.randn(2, 2)), nn.Parameter(torch.randn(2, 2) * 0.3), nn.Parameter(torch.zeros(2))
        self.head = nn.Linear(3, 4)

    def forward(self, x):
        one = torch.eye(2, dtype=x.dtype)
        mean, cov = torch.zeros_like(x[:, 0]), one.expand(x.shape[0], 2, 2)
        noise, observed, score = self.q @ self.q.T + 0.1 * one, torch.diag(self.r.exp()), x.new_zeros(x.shape[0], 1)
        for t in range(8):
            mean, cov = mean @ self.f.T, self.f @ cov @ self.f.T + noise
            s = cov + observed
            det = s[:, 0, 0] * s[:, 1, 1] - s[:, 0, 1] * s[:, 1, 0]
            adjugate = torch.stack([torch.stack([s[:, 1, 1], -s[:, 0, 1]], -1), torch.stack([-s[:, 1, 0], s[:, 0, 0]], -1)], 1)
            inverse, off = adjugate / det[:, None, None], x[:, t] - mean
            gain = cov @ inverse
            score = score - 0.5 * (torch.log(det)[:, None] + torch.einsum("bi,bij,bj->b", off, inverse, off)[:, None])
            mean, cov = mean + (gain @ off[..., None])[..., 0], cov - gain @ cov
        return self.head(torch.cat([mean, score], 1))


@module("turing_machine", lambda: rows(6, 5), also=OPEN)
class TuringMachine(nn.Module):
    """Graves et al. (2014): content addressing, gate, circular shift, sharpening; erase and add."""

    def __init__(self):
        super().__init__()
        self.cell, self.control, self.head = nn.LSTMCell(5 + 4, 10), nn.Linear(10, 4 + 1 + 1 + 3 + 1 + 4 + 4), nn.Linear(10, 5)
        self.memory = nn.Parameter(torch.randn(7, 4) * 0.3)

    def forward(self, x):
        n = x.shape[0]
        h, c, read = x.new_zeros(n, 10), x.new_zeros(n, 10), x.new_zeros(n, 4)
        memory, w = self.memory.expand(n, 7, 4), F.one_hot(torch.zeros(n, dtype=torch.long), 7).to(x.dtype)
        for t in range(6):
            h, c = self.cell(torch.cat([x[:, t], read], 1), (h, c))
            key, beta, gate, shift, gamma, erase, add = self.control(h).split([4, 1, 1, 3, 1, 4, 4], 1)
            content = torch.softmax(F.softplus(beta) * F.cosine_similarity(memory, key[:, None], dim=-1), 1)
            w = torch.sigmoid(gate) * content + (1 - torch.sigmoid(gate)) * w
            shift = torch.softmax(shift, 1)
            w = sum(shift[:, k:k + 1] * torch.roll(w, k - 1, 1) for k in range(3))
            w = (w + 1e-6) ** (1 + F.softplus(gamma))
            w = w / w.sum(1, keepdim=True)
            read = torch.einsum("nm,nmd->nd", w, memory)
            memory = memory * (1 - w[..., None] * torch.sigmoid(erase)[:, None]) + w[..., None] * torch.tanh(add)[:, None]
        return self.head(h)


@module("hopfield", lambda: rows(8), also=OPEN)
class Hopfield(nn.Module):
    """Ramsauer et al. (2020): three updates of the state from stored patterns."""

    def __init__(self):
        super().__init__()
        self.patterns, self.query, self.beta, self.head = nn.Parameter(torch.randn(9, 6)), nn.Linear(8, 6), nn.Parameter(torch.tensor(1.5)), nn.Linear(6, 5)

    def forward(self, x):
        state = F.layer_norm(self.query(x), (6,))
        for _ in range(3):
            state = torch.softmax(self.beta * state @ self.patterns.T, -1) @ self.patterns
        return self.head(state)


class Attend(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention, self.norm, self.norm2 = nn.MultiheadAttention(width, 2, batch_first=True), nn.LayerNorm(width), nn.LayerNorm(width)
        self.ff = nn.Linear(width, width)

    def forward(self, x, y):
        h = self.norm(x + self.attention(x, y, y, need_weights=False)[0])
        return self.norm2(h + F.relu(self.ff(h)))


@module("set_transformer", lambda: rows(9, 8), also=OPEN)
class SetTransformer(nn.Module):
    """Lee et al. (2019): induced points and a pooling seed."""

    def __init__(self):
        super().__init__()
        self.points, self.seed = nn.Parameter(torch.randn(1, 3, 8)), nn.Parameter(torch.randn(1, 1, 8))
        self.a, self.b, self.pool, self.head = Attend(8), Attend(8), Attend(8), nn.Linear(8, 5)

    def forward(self, x):
        h = self.a(self.points.expand(x.shape[0], -1, -1), x)
        h = self.b(x, h)
        return self.head(self.pool(self.seed.repeat(x.shape[0], 1, 1), h)[:, 0])


@module("deep_sets", lambda: rows(7, 6), lambda: torch.tensor([3, 7, 2, 5]), also=OPEN)
class DeepSets(nn.Module):
    """Sets of various lengths: sum, mean and maximum over what is there."""

    def __init__(self):
        super().__init__()
        self.phi, self.rho = nn.Sequential(nn.Linear(6, 10), nn.ELU(), nn.Linear(10, 8)), nn.Sequential(nn.Linear(24, 10), nn.ELU(), nn.Linear(10, 5))

    def forward(self, x, lengths):
        mask = (torch.arange(x.shape[1]) < lengths[:, None])[..., None]
        h = self.phi(x)
        total = (h * mask).sum(1)
        most = h.masked_fill(~mask, -1e9).amax(1)
        return self.rho(torch.cat([total, total / lengths[:, None], most], 1))


@module("sparse_attention", lambda: rows(9, 8), also=OPEN)
class SparseAttention(nn.Module):
    """Each query attends to its three best keys, with a bias that falls with the distance (ALiBi)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.head = nn.Linear(8, 24), nn.Linear(8, 5)
        self.register_buffer("slope", torch.tensor([0.5, 0.25, 0.125, 0.0625]).view(4, 1, 1))

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (4, 2)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        at = torch.arange(x.shape[1])
        scores = q @ k.transpose(-1, -2) / 2 - self.slope * (at[:, None] - at).abs()
        kth = scores.topk(3, -1).values[..., -1:]
        w = torch.softmax(scores.masked_fill(scores < kth, float("-inf")), -1)
        return self.head((w @ v).transpose(1, 2).flatten(2).mean(1))


@module("random_features", lambda: rows(9, 8), also=OPEN)
class RandomFeatures(nn.Module):
    """Performer: positive random features in place of the softmax."""

    def __init__(self):
        super().__init__()
        self.qkv, self.head = nn.Linear(8, 24), nn.Linear(8, 5)
        self.register_buffer("omega", torch.randn(8, 16) * 0.5)

    def features(self, x):
        y = x @ self.omega
        return torch.exp(y - x.square().sum(-1, keepdim=True) / 2 - y.amax((-1, -2), keepdim=True).detach()) + 1e-4

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = self.features(q), self.features(k)
        kv = torch.einsum("ntf,ntd->nfd", k, v)
        z = 1 / torch.einsum("ntf,nf->nt", q, k.sum(1))
        return self.head(torch.einsum("ntf,nfd,nt->ntd", q, kv, z).mean(1))


@module("graph_attention", lambda: rows(6, 5), also=OPEN)
class GraphAttention(nn.Module):
    """Velickovic et al. (2017) over a list of edges: softmax by maxima and sums that are scattered."""

    def __init__(self):
        super().__init__()
        self.lin, self.a, self.head = nn.Linear(5, 8, bias=False), nn.Parameter(torch.randn(16) * 0.4), nn.Linear(8, 4)
        self.register_buffer("edges", torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2, 4, 1], [1, 2, 3, 4, 5, 0, 3, 5, 1, 4]]))

    def forward(self, x):
        source, target = self.edges
        h = self.lin(x)
        e = F.leaky_relu(torch.cat([h[:, source], h[:, target]], -1) @ self.a, 0.2)
        at = target.expand_as(e)
        most = torch.full_like(h[..., 0], -1e9).scatter_reduce(1, at, e, "amax")
        e = torch.exp(e - most.gather(1, at))
        total = torch.zeros_like(most).scatter_add(1, at, e)
        out = torch.zeros_like(h).index_add(1, target, h[:, source] * (e / total.gather(1, at))[..., None])
        return self.head(F.elu(out).mean(1))


@module("message_distances", lambda: rows(6, 3), also=OPEN)
class MessageDistances(nn.Module):
    """SchNet and EGNN: radial basis of distances with a cosine cutoff; positions move along their differences."""

    def __init__(self):
        super().__init__()
        self.embed, self.filter = nn.Parameter(torch.randn(6, 8) * 0.4), nn.Sequential(nn.Linear(10, 8), nn.Softplus(), nn.Linear(8, 8))
        self.move, self.head = nn.Linear(8, 1), nn.Linear(11, 4)
        self.register_buffer("centers", torch.linspace(0, 3, 10))

    def forward(self, x):
        between = x[:, :, None] - x[:, None]
        off = 1 - torch.eye(6)
        d = (between.square().sum(-1) + 1e-6).sqrt()
        basis = torch.exp(-4 * (d[..., None] - self.centers) ** 2)
        cut = torch.where(d < 3, 0.5 * (torch.cos(torch.pi * d / 3) + 1), torch.zeros_like(d)) * off
        w = self.filter(basis) * cut[..., None]
        h = self.embed + torch.einsum("nijc,jc->nic", w, self.embed)
        x = x + (between * self.move(w * h[:, :, None])).mean(2)
        return self.head(torch.cat([h.sum(1), x.std(1)], 1))


@module("triangle_updates", lambda: rows(5, 5, 6), also=OPEN)
class TriangleUpdates(nn.Module):
    """AlphaFold's pair representation: products along the third edge, attention along rows with a bias of pairs."""

    def __init__(self):
        super().__init__()
        self.norm, self.ab, self.gate, self.out = nn.LayerNorm(6), nn.Linear(6, 16), nn.Linear(6, 6), nn.Linear(8, 6)
        self.qkv, self.bias, self.head = nn.Linear(6, 3 * 6, bias=False), nn.Linear(6, 2, bias=False), nn.Linear(6, 4)

    def forward(self, z):
        y = self.norm(z)
        a, b = (torch.sigmoid(self.ab(y)) * self.ab(y)).chunk(2, -1)
        z = z + torch.sigmoid(self.gate(y)) * self.out(torch.einsum("nikc,njkc->nijc", a, b))
        q, k, v = self.qkv(z).unflatten(-1, (3, 2, 3)).unbind(-3)
        w = torch.einsum("nijhc,nikhc->nhijk", q, k) + torch.einsum("njkh->nhjk", self.bias(z))[:, :, None]
        z = z + torch.einsum("nhijk,nikhc->nijhc", torch.softmax(w, -1), v).flatten(-2)
        return self.head(torch.einsum("niic->nc", z))


@module("sinkhorn", lambda: rows(5, 6), also=OPEN)
class Sinkhorn(nn.Module):
    """A soft permutation by eight normalisations in the logarithm, and SuperGlue's dustbin."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.bin = nn.Linear(6, 8), nn.Linear(6, 8), nn.Parameter(torch.tensor(0.3))

    def forward(self, x):
        s = self.a(x) @ self.b(x.flip(1)).transpose(1, 2) / 8 ** 0.5
        n = s.shape[0]
        s = torch.cat([torch.cat([s, self.bin.expand(n, 5, 1)], 2), self.bin.expand(n, 1, 6)], 1)
        for _ in range(8):
            s = s - torch.logsumexp(s, 2, keepdim=True)
            s = s - torch.logsumexp(s, 1, keepdim=True)
        return s.exp().flatten(1)


@module("neural_sort", lambda: rows(6), also=OPEN)
class NeuralSort(nn.Module):
    """Grover et al. (2019): a relaxed permutation from distances of scores."""

    def __init__(self):
        super().__init__()
        self.score, self.value = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)), nn.Linear(1, 3)

    def forward(self, x):
        s = self.score(x[..., None])
        spread = (s - s.transpose(1, 2)).abs().sum(2)
        factor = 7 - 2 * torch.arange(1, 7, dtype=x.dtype)
        p = torch.softmax((factor[:, None] * s.transpose(1, 2) - spread[:, None]) / 0.7, -1)
        return (p @ self.value(x[..., None])).flatten(1)


@module("soft_tree", lambda: rows(8), also=OPEN)
class SoftTree(nn.Module):
    """A tree of depth 3: products of left and right along paths, classes at the leaves."""

    def __init__(self):
        super().__init__()
        self.nodes, self.leaves = nn.Linear(8, 7), nn.Parameter(torch.randn(8, 5))

    def forward(self, x):
        p, path, first = torch.sigmoid(self.nodes(x)), torch.ones_like(x[:, :1]), 0
        for depth in range(3):
            here = p[:, first:first + 2 ** depth]
            path = torch.stack([path * here, path * (1 - here)], -1).flatten(1)
            first += 2 ** depth
        return torch.log(path @ torch.softmax(self.leaves, -1) + 1e-8)


@module("masked_autoregressive", lambda: rows(6), also=OPEN)
class MaskedAutoregressive(nn.Module):
    """MADE: products with masked weights; the log-likelihood of a Gaussian."""

    def __init__(self):
        super().__init__()
        degrees = [torch.arange(6), torch.arange(16) % 5, torch.arange(6)]
        self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 12)
        self.register_buffer("mask_a", (degrees[1][:, None] >= degrees[0]).float())
        self.register_buffer("mask_b", (degrees[2][:, None] > degrees[1]).float().repeat(2, 1))

    def forward(self, x):
        h = F.relu(F.linear(x, self.a.weight * self.mask_a, self.a.bias))
        mean, log_scale = F.linear(h, self.b.weight * self.mask_b, self.b.bias).chunk(2, 1)
        z = (x - mean) * torch.exp(-log_scale)
        return torch.cat([z, -0.5 * z.square() - log_scale], 1)


@module("householder_flow", lambda: rows(5), also=OPEN)
class HouseholderFlow(nn.Module):
    """Reflections, a matrix from a skew one by its series, planar steps and their determinant."""

    def __init__(self):
        super().__init__()
        self.v, self.skew = nn.Parameter(torch.randn(3, 5)), nn.Parameter(torch.randn(5, 5) * 0.3)
        self.u, self.w, self.b = nn.Parameter(torch.randn(2, 5) * 0.5), nn.Parameter(torch.randn(2, 5) * 0.5), nn.Parameter(torch.zeros(2))

    def forward(self, x):
        for v in self.v:
            x = x - 2 * torch.outer(x @ v, v) / (v @ v)
        a = torch.triu(self.skew, 1)
        one = torch.eye(5, dtype=x.dtype)
        a, term, whole = a - a.T, one, one
        for k in range(1, 9):
            term = term @ a / k
            whole = whole + term
        x, logdet = x @ whole, x.new_zeros(x.shape[0])
        for u, w, b in zip(self.u, self.w, self.b):
            u = u + (F.softplus(w @ u) - 1 - w @ u) * w / (w @ w)
            h = torch.tanh(x @ w + b)
            x, logdet = x + h[:, None] * u, logdet + torch.log((1 + (1 - h ** 2) * (w @ u)).abs())
        return torch.cat([x, logdet[:, None]], 1)


@module("quaternions", lambda: rows(8), also=OPEN)
class Quaternions(nn.Module):
    """A linear layer whose weight is made of four by Hamilton's product; norm of the parts."""

    def __init__(self):
        super().__init__()
        self.parts, self.head = nn.Parameter(torch.randn(4, 2, 3) * 0.4), nn.Linear(3, 5)

    def forward(self, x):
        r, i, j, k = self.parts
        weight = torch.cat([torch.cat([r, i, j, k], 1), torch.cat([-i, r, k, -j], 1), torch.cat([-j, -k, r, i], 1), torch.cat([-k, j, -i, r], 1)], 0)
        return self.head(torch.linalg.vector_norm((x @ weight).unflatten(1, (4, 3)), dim=1))


@module("greedy_decoder", lambda: tokens(5, 11), also=OPEN)
class GreedyDecoder(nn.Module):
    """Additive attention; each step reads the embedding of the word that the last one found best."""

    def __init__(self):
        super().__init__()
        self.words, self.encoder, self.cell = nn.Embedding(11, 8), nn.GRU(8, 8, batch_first=True), nn.GRUCell(16, 8)
        self.wa, self.ua, self.va, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1), nn.Linear(8, 11)

    def forward(self, x):
        memory, h = self.encoder(self.words(x))
        h, word, scores = h[0], torch.ones_like(x[:, 0]), []
        for _ in range(4):
            w = torch.softmax(self.va(torch.tanh(self.wa(h)[:, None] + self.ua(memory))), 1)
            h = self.cell(torch.cat([self.words(word), (w * memory).sum(1)], 1), h)
            scores.append(self.out(h))
            word = scores[-1].argmax(-1)
        return torch.stack(scores, 1)
