"""Hand-written modules, one for each way of writing a layer that libraries have seldom: rows and sequences."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize

from networks_base import module, rows, tokens


@module("cumsum_pool", lambda: rows(7, 8))
class CumsumPool(nn.Module):
    """Means over everything so far, and products of gates so far."""

    def __init__(self):
        super().__init__()
        self.fc, self.gate, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(16, 6)

    def forward(self, x):
        y, count = self.fc(x), torch.arange(1, x.shape[1] + 1, device=x.device).view(1, -1, 1)
        kept = torch.cumprod(torch.sigmoid(self.gate(x)) + 0.5, 1)
        return self.head(torch.cat([torch.cumsum(y, 1) / count, kept * torch.logcumsumexp(y, 1)], 2))


@module("top_k_experts", lambda: rows(5, 8))
class TopKExperts(nn.Module):
    """A sparse mixture: weights of the two best experts, the rest scattered to zero."""

    def __init__(self):
        super().__init__()
        self.gate, self.head = nn.Linear(8, 4), nn.Linear(8, 6)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)) for _ in range(4))

    def forward(self, x):
        best, which = self.gate(x).topk(2, dim=-1)
        weights = torch.zeros_like(self.gate(x)).scatter(-1, which, best.softmax(-1))
        return self.head(sum(weights[..., i:i + 1] * expert(x) for i, expert in enumerate(self.experts)))


@module("sorted_pool", lambda: rows(9, 8))
class SortedPool(nn.Module):
    """SortPool: rows in the order of their last feature; and the median of each."""

    def __init__(self):
        super().__init__()
        self.fc, self.head = nn.Linear(8, 8), nn.Linear(40, 6)

    def forward(self, x):
        y = torch.tanh(self.fc(x))
        order = torch.sort(y[..., -1], dim=1, descending=True).indices[:, :4]
        picked = torch.gather(y, 1, order[..., None].expand(-1, -1, 8))
        return self.head(torch.cat([picked.flatten(1), torch.sort(y, dim=1).values[:, 4]], 1))


@module("message_passing", lambda: rows(7, 6), lambda: tokens(10, 7), lambda: tokens(10, 7))
class MessagePassing(nn.Module):
    """GraphSAGE with edges as indices: gather, scatter_add, and softmax over the edges of a node."""

    def __init__(self):
        super().__init__()
        self.message, self.score, self.own, self.head = nn.Linear(12, 16), nn.Linear(16, 1), nn.Linear(6, 16), nn.Linear(16, 5)

    def forward(self, x, source, target):
        at = source[..., None].expand(-1, -1, 6)
        to = target[..., None].expand(-1, -1, 6)
        m = F.elu(self.message(torch.cat([x.gather(1, at), x.gather(1, to)], -1)))
        score = F.leaky_relu(self.score(m), 0.2).exp()
        total = torch.zeros(x.shape[0], 7, 1, dtype=x.dtype).scatter_add(1, target[..., None], score)
        m = m * score / (total.gather(1, target[..., None]) + 1e-6)
        held = torch.zeros(x.shape[0], 7, 16, dtype=x.dtype).scatter_add(1, target[..., None].expand(-1, -1, 16), m)
        return self.head(F.relu(self.own(x) + held))


@module("index_add", lambda: rows(6, 8))
class IndexAdd(nn.Module):
    """Rows added to, copied into and put at fixed places."""

    def __init__(self):
        super().__init__()
        self.fc, self.head = nn.Linear(8, 8), nn.Linear(8, 6)
        self.register_buffer("place", torch.tensor([0, 2, 2, 1, 3, 0]))

    def forward(self, x):
        y = torch.tanh(self.fc(x))
        base = torch.zeros(x.shape[0], 4, 8, dtype=x.dtype).index_add(1, self.place, y)
        base = base.index_copy(1, torch.tensor([3]), y[:, :1] * 2)
        return self.head(base.index_select(1, torch.tensor([1, 3, 0])))


@module("max_aggregate", lambda: rows(6, 8), lambda: tokens(6, 4))
class MaxAggregate(nn.Module):
    """PointNet's maxima over groups: scatter_reduce."""

    def __init__(self):
        super().__init__()
        self.fc, self.head = nn.Linear(8, 8), nn.Linear(16, 6)

    def forward(self, x, group):
        y, to = torch.tanh(self.fc(x)), group[..., None].expand(-1, -1, 8)
        zero = torch.zeros(x.shape[0], 5, 8, dtype=x.dtype)
        top = zero.scatter_reduce(1, to, y, "amax", include_self=False)
        low = zero.scatter_reduce(1, to, y, "amin", include_self=True)
        return self.head(torch.cat([top, low], 2))


@module("bilinear", lambda: rows(8), lambda: rows(6))
class Bilinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair, self.head = nn.Bilinear(8, 6, 7), nn.Linear(7, 5)

    def forward(self, a, b):
        return self.head(F.softsign(self.pair(a, b)))


@module("spectral_norm", lambda: rows(3, 8, 8))
class SpectralNorm(nn.Module):
    """SNGAN's discriminator; evaluated, as training would write the vectors of the power iteration."""

    def __init__(self):
        super().__init__()
        norm = parametrizations.spectral_norm
        self.net = nn.Sequential(norm(nn.Conv2d(3, 8, 4, 2, 1)), nn.LeakyReLU(0.1), norm(nn.Conv2d(8, 8, 4, 2, 1)), nn.LeakyReLU(0.1),
                                 nn.Flatten(), norm(nn.Linear(32, 5)))
        self.eval()

    def train(self, mode=True):
        return super().train(False)

    def forward(self, x):
        return self.net(x)


@module("orthogonal", lambda: rows(8))
class Orthogonal(nn.Module):
    """A Cayley rotation: (1 + A)^-1 (1 - A) of a skew matrix, by Neumann's series, as no exporter has solve."""

    def __init__(self):
        super().__init__()
        self.skew, self.head = nn.Parameter(0.1 * torch.randn(8, 8)), nn.Linear(8, 6)

    def forward(self, x):
        a = self.skew.triu(1) - self.skew.triu(1).T
        inverse = power = torch.eye(8, dtype=x.dtype)
        for _ in range(6):
            power = power @ -a
            inverse = inverse + power
        return self.head(x @ (inverse @ (torch.eye(8, dtype=x.dtype) - a)))


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).transpose(-1, -2)


class Positive(nn.Module):
    def forward(self, w):
        return F.softplus(w)


@module("parametrized", lambda: rows(8))
class Parametrized(nn.Module):
    """torch's parametrizations: a symmetric weight and a positive one."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(8, 8), nn.Linear(8, 8, bias=False), nn.Linear(8, 6)
        parametrize.register_parametrization(self.a, "weight", Symmetric())
        parametrize.register_parametrization(self.b, "weight", Positive())

    def forward(self, x):
        return self.head(torch.tanh(self.b(torch.tanh(self.a(x)))))


@module("old_weight_norm", lambda: rows(4, 16))
class OldWeightNorm(nn.Module):
    """nn.utils.weight_norm over a transposed convolution, as HiFi-GAN has it."""

    def __init__(self):
        super().__init__()
        self.up = nn.utils.weight_norm(nn.ConvTranspose1d(4, 6, 4, 2, 1))
        self.a, self.last = nn.utils.weight_norm(nn.Conv1d(6, 6, 3, padding=1)), nn.Conv1d(6, 1, 7, padding=3)

    def forward(self, x):
        x = self.up(x)
        return torch.tanh(self.last(F.leaky_relu(x + self.a(F.leaky_relu(x, 0.1)), 0.1)))[..., None]


@module("unrolled_gru_cell", lambda: rows(5, 6))
class UnrolledCells(nn.Module):
    """Cells called step by step, with a learned state."""

    def __init__(self):
        super().__init__()
        self.gru, self.lstm, self.rnn = nn.GRUCell(6, 7), nn.LSTMCell(7, 5), nn.RNNCell(5, 4)
        self.h, self.head = nn.Parameter(torch.randn(7)), nn.Linear(4, 6)

    def forward(self, x):
        h = self.h.expand(x.shape[0], -1)
        s, c = (torch.zeros(x.shape[0], 5, dtype=x.dtype) for _ in range(2))
        r = torch.zeros(x.shape[0], 4, dtype=x.dtype)
        for t in range(x.shape[1]):
            h = self.gru(x[:, t], h)
            s, c = self.lstm(h, (s, c))
            r = self.rnn(s, r)
        return self.head(r)


@module("pointer", lambda: rows(6, 8))
class Pointer(nn.Module):
    """A pointer network: attention over the inputs, masked where it has been."""

    def __init__(self):
        super().__init__()
        self.key, self.query, self.score, self.step = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1), nn.Linear(8, 8)

    def forward(self, x):
        state, seen, out = x.mean(1), torch.zeros(x.shape[0], 6, dtype=torch.bool), []
        for _ in range(3):
            scores = self.score(torch.tanh(self.key(x) + self.query(state)[:, None]))[..., 0]
            scores = scores.masked_fill(seen, -10.0)
            out.append(scores)
            seen = seen | F.one_hot(scores.argmax(1), 6).bool()
            state = torch.tanh(self.step((scores.softmax(1)[..., None] * x).sum(1)))
        return torch.stack(out, 1)


@module("vector_quantizer", lambda: rows(5, 8))
class VectorQuantizer(nn.Module):
    """VQ-VAE: the nearest code, straight through, and the codes' loss as part of the output."""

    def __init__(self):
        super().__init__()
        self.encode, self.codes, self.decode = nn.Linear(8, 4), nn.Embedding(16, 4), nn.Linear(8, 6)

    def forward(self, x):
        z = self.encode(x)
        far = (z[..., None, :] - self.codes.weight).square().sum(-1)
        code = self.codes(far.argmin(-1))
        return self.decode(torch.cat([z + (code - z).detach(), code], -1))


@module("gumbel_free", lambda: rows(8))
class Straight(nn.Module):
    """A hard choice whose gradient is a softmax's."""

    def __init__(self):
        super().__init__()
        self.gate, self.table, self.head = nn.Linear(8, 5), nn.Parameter(torch.randn(5, 8)), nn.Linear(8, 6)

    def forward(self, x):
        soft = self.gate(x).softmax(-1)
        hard = F.one_hot(soft.argmax(-1), 5).to(x.dtype)
        return self.head((hard - soft.detach() + soft) @ self.table)


@module("kan", lambda: rows(6))
class Splines(nn.Module):
    """A Kolmogorov-Arnold layer: B-splines by Cox and de Boor's recursion."""

    def __init__(self):
        super().__init__()
        self.register_buffer("grid", torch.arange(-3, 9).float() * 0.4 - 1)
        self.base, self.spline = nn.Parameter(torch.randn(8, 6) * 0.3), nn.Parameter(torch.randn(8, 6, 8) * 0.3)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x, g = torch.tanh(x), self.grid
        u = x[..., None]
        basis = ((u >= g[:-1]) & (u < g[1:])).to(x.dtype)
        for k in range(1, 4):
            basis = ((u - g[:-k - 1]) / (g[k:-1] - g[:-k - 1]) * basis[..., :-1] + (g[k + 1:] - u) / (g[k + 1:] - g[1:-k]) * basis[..., 1:])
        return self.head(F.linear(F.silu(x), self.base) + F.linear(basis.flatten(1), self.spline.flatten(1)))


@module("coupling_flow", lambda: rows(8))
class CouplingFlow(nn.Module):
    """RealNVP: affine couplings, a learned permutation, and the log of the determinant as a column."""

    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)) for _ in range(3))
        self.mix = nn.Parameter(torch.eye(8) + 0.1 * torch.randn(8, 8))

    def forward(self, x):
        total = 0
        for net in self.nets:
            a, b = (x @ self.mix).chunk(2, 1)
            s, t = net(a).chunk(2, 1)
            s = torch.tanh(s)
            x, total = torch.cat([b * s.exp() + t, a], 1), total + s.sum(1, keepdim=True)
        return torch.cat([x, total], 1)


@module("neural_ode", lambda: rows(8))
class NeuralOde(nn.Module):
    """Four steps of Runge and Kutta through one field."""

    def __init__(self):
        super().__init__()
        self.f, self.head = nn.Sequential(nn.Linear(9, 16), nn.Softplus(), nn.Linear(16, 8)), nn.Linear(8, 6)

    def field(self, t, y):
        return self.f(torch.cat([y, torch.full_like(y[:, :1], t)], 1))

    def forward(self, y):
        step = 0.25
        for i in range(4):
            t = i * step
            a = self.field(t, y)
            b = self.field(t + step / 2, y + step / 2 * a)
            c = self.field(t + step / 2, y + step / 2 * b)
            d = self.field(t + step, y + step * c)
            y = y + step / 6 * (a + 2 * b + 2 * c + d)
        return self.head(y)


@module("linear_attention", lambda: rows(8, 16))
class LinearAttention(nn.Module):
    """Causal linear attention by cumulative sums of outer products, and a retention's decay."""

    def __init__(self):
        super().__init__()
        self.qkv, self.head, self.decay = nn.Linear(16, 48), nn.Linear(16, 6), nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, 2, 8).permute(2, 0, 3, 1, 4)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        held = torch.cumsum(torch.einsum("nhtd,nhte->nhtde", k, v), 2)
        y = torch.einsum("nhtd,nhtde->nhte", q, held) / torch.einsum("nhtd,nhtd->nht", q, k.cumsum(2))[..., None]
        place = torch.arange(t)
        apart = (place[:, None] - place[None, :]).clamp(min=0).to(x.dtype)
        decay = torch.exp(-apart * torch.sigmoid(self.decay)[:, None, None]).tril()
        y = y + (q @ k.transpose(-1, -2) * decay) @ v / 8
        return self.head(y.transpose(1, 2).reshape(n, t, 16))


@module("delta_rule", lambda: rows(6, 16))
class DeltaRule(nn.Module):
    """DeltaNet: a state of products, written over by error."""

    def __init__(self):
        super().__init__()
        self.qkv, self.beta, self.head = nn.Linear(16, 48), nn.Linear(16, 1), nn.Linear(16, 6)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        k, beta = F.normalize(k, dim=-1), torch.sigmoid(self.beta(x))
        state, out = torch.zeros(x.shape[0], 16, 16, dtype=x.dtype), []
        for t in range(x.shape[1]):
            old = torch.einsum("nij,nj->ni", state, k[:, t])
            state = state + torch.einsum("ni,nj->nij", beta[:, t] * (v[:, t] - old), k[:, t])
            out.append(torch.einsum("nij,nj->ni", state, q[:, t]))
        return self.head(torch.stack(out, 1))


@module("relative_attention", lambda: rows(6, 16))
class RelativeAttention(nn.Module):
    """Transformer-XL's shift, ALiBi, and torch's own attention with a mask."""

    def __init__(self):
        super().__init__()
        self.qkv, self.place, self.u = nn.Linear(16, 48), nn.Linear(8, 16), nn.Parameter(torch.randn(2, 8))
        self.head = nn.Linear(16, 6)
        self.register_buffer("waves", torch.randn(6, 8))

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, 2, 8).permute(2, 0, 3, 1, 4)
        r = self.place(self.waves).view(t, 2, 8).permute(1, 2, 0)
        bd = F.pad(q @ r, (1, 0)).view(n, 2, t + 1, t)[:, :, 1:].reshape(n, 2, t, t)
        alibi = -(torch.arange(t)[None] - torch.arange(t)[:, None]).abs() * torch.tensor([0.5, 0.25])[:, None, None]
        y = F.scaled_dot_product_attention(q + self.u[:, None], k, v, attn_mask=bd / 8 ** 0.5 + alibi.to(x.dtype))
        y = y + F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(y.transpose(1, 2).reshape(n, t, 16))


@module("multihead", lambda: rows(6, 16), lambda: rows(4, 12))
class Multihead(nn.Module):
    """torch's MultiheadAttention with keys of another width, an added bias of keys, and a decoder layer."""

    def __init__(self):
        super().__init__()
        self.cross = nn.MultiheadAttention(16, 2, kdim=12, vdim=12, batch_first=True, add_bias_kv=True, add_zero_attn=True)
        self.layer, self.head = nn.TransformerDecoderLayer(16, 2, 24, 0.0, activation="gelu", batch_first=True), nn.Linear(16, 6)

    def forward(self, x, y):
        z = self.cross(x, y, y, need_weights=False)[0]
        mask = nn.Transformer.generate_square_subsequent_mask(6).to(x.dtype)
        return self.head(self.layer(x + z, z, tgt_mask=mask))


@module("activations", lambda: rows(32))
class Activations(nn.Module):
    """All of torch's smooth activations, and those with a kink."""

    def __init__(self):
        super().__init__()
        self.a, self.head, self.prelu = nn.Linear(32, 48), nn.Linear(48, 6), nn.PReLU(2)

    def forward(self, x):
        parts = self.a(x).chunk(24, 1)
        parts = [f(p) for f, p in zip((F.celu, F.selu, F.mish, F.hardswish, F.hardsigmoid, F.softshrink, F.hardshrink, F.tanhshrink,
                                       F.logsigmoid, F.relu6, F.hardtanh, F.silu, F.softsign, F.elu, F.glu, self.prelu, torch.erf,
                                       torch.atan, torch.asinh, torch.sin, torch.cos, torch.sinh,
                                       torch.cosh, lambda z: F.threshold(z, 0.1, 0.2)), parts)]
        parts[14] = torch.cat([parts[14]] * 2, 1)
        return self.head(torch.cat(parts, 1))


@module("crf", lambda: rows(5, 8))
class Crf(nn.Module):
    """Forward scores of a conditional random field: logsumexp over transitions."""

    def __init__(self):
        super().__init__()
        self.emit, self.move = nn.Linear(8, 6), nn.Parameter(torch.randn(6, 6))

    def forward(self, x):
        scores = self.emit(x)
        alpha = scores[:, 0]
        for t in range(1, 5):
            alpha = torch.logsumexp(alpha[:, :, None] + self.move, 1) + scores[:, t]
        return alpha


@module("hyper", lambda: rows(8), lambda: rows(3))
class Hyper(nn.Module):
    """A network whose weights another computes, FiLM, and a batch of products."""

    def __init__(self):
        super().__init__()
        self.make, self.film, self.head = nn.Linear(3, 8 * 6 + 6), nn.Linear(3, 12), nn.Linear(6, 5)

    def forward(self, x, z):
        w, b = self.make(z).split([48, 6], 1)
        y = torch.baddbmm(b[:, None], x[:, None], w.view(-1, 8, 6))[:, 0]
        scale, shift = self.film(z).chunk(2, 1)
        return self.head(torch.addcmul(shift, y, 1 + scale))


@module("tensor_train", lambda: rows(4, 4, 4))
class TensorTrain(nn.Module):
    """Einsums of many indices: a weight in parts."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Parameter(torch.randn(4, 3, 5)), nn.Parameter(torch.randn(5, 4, 3, 5)), nn.Parameter(torch.randn(5, 4, 3))
        self.head = nn.Linear(27, 6)

    def forward(self, x):
        y = torch.einsum("nijk,iap,pjbq,qkc->nabc", x, self.a, self.b, self.c)
        trace = torch.einsum("niij->nj", x)
        return self.head(torch.tanh(y).flatten(1)) + torch.einsum("nj,nk->njk", trace, trace).flatten(1)[:, :6]


@module("buffers", lambda: rows(8))
class Buffers(nn.Module):
    """Standardisation by stored statistics, a mask that prunes, a table of Hadamard signs, quantization levels."""

    def __init__(self):
        super().__init__()
        self.fc, self.head = nn.Linear(8, 8), nn.Linear(8, 6)
        self.register_buffer("mean", torch.randn(8))
        self.register_buffer("deviation", torch.rand(8) + 0.5)
        self.register_buffer("mask", (torch.rand(8, 8) > 0.3).float())
        two = torch.tensor([[1.0, 1], [1, -1]])
        self.register_buffer("signs", torch.kron(torch.kron(two, two), two))

    def forward(self, x):
        x = (x - self.mean) / self.deviation
        return self.head(torch.tanh(F.linear(x @ self.signs, self.fc.weight * self.mask, self.fc.bias)))


@module("prune", lambda: rows(8))
class Pruned(nn.Module):
    """torch's own pruning."""

    def __init__(self):
        super().__init__()
        from torch.nn.utils import prune
        self.fc, self.head = nn.Linear(8, 8), nn.Linear(8, 6)
        prune.l1_unstructured(self.fc, "weight", 0.4)

    def forward(self, x):
        return self.head(torch.tanh(self.fc(x)))


@module("low_rank", lambda: rows(8))
class LowRank(nn.Module):
    """LoRA by hand over a weight that is fixed."""

    def __init__(self):
        super().__init__()
        self.base, self.a, self.b = nn.Linear(8, 8), nn.Parameter(torch.randn(2, 8)), nn.Parameter(torch.randn(8, 2))
        self.base.requires_grad_(False)
        self.head = nn.Linear(8, 6)

    def forward(self, x):
        return self.head(torch.tanh(self.base(x) + 0.5 * x @ self.a.T @ self.b.T))


@module("ternary_where", lambda: rows(8))
class Where(nn.Module):
    """Branches by data: where, clamp by learned bounds, minimum and maximum, sign, floor, modulo."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.low, self.high = nn.Linear(8, 8), nn.Linear(8, 8), nn.Parameter(torch.tensor(-0.7)), nn.Parameter(torch.tensor(0.6))
        self.head = nn.Linear(16, 6)

    def forward(self, x):
        a, b = self.a(x), self.b(x)
        y = torch.where(a > b, a.square(), torch.exp(-b))
        z = torch.minimum(torch.maximum(a, self.low), self.high) + torch.remainder(b, 0.7) - torch.floor(a) * 0.1 + torch.sign(b) * a
        return self.head(torch.cat([y, z], 1))


@module("distances", lambda: rows(6, 8))
class Distances(nn.Module):
    """Prototypes: cosines, distances, a triplet of margins, and a variance."""

    def __init__(self):
        super().__init__()
        self.fc, self.centres = nn.Linear(8, 8), nn.Parameter(torch.randn(5, 8))

    def forward(self, x):
        x = self.fc(x)
        near = -torch.cdist(x, self.centres.expand(x.shape[0], -1, -1))
        cosine = F.cosine_similarity(x[:, :, None], self.centres, dim=-1)
        return near + 3 * cosine + torch.linalg.vector_norm(x, ord=1, dim=-1, keepdim=True) * 0.01 + x.var(-1, keepdim=True) + x.std(1, keepdim=True)[..., :5]


@module("loop_script", lambda: rows(5, 8))
class LoopScript(nn.Module):
    """A scan with a state that is a slice of a tensor written in place."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 6)

    def forward(self, x):
        out = torch.zeros_like(x)
        state = torch.zeros_like(x[:, 0])
        for t in range(x.shape[1]):
            state = torch.tanh(self.a(x[:, t]) + self.b(state))
            out[:, t] = state
        out[..., ::2] *= 2
        out[:, 1:] += out[:, :-1].clone()
        return self.head(out)
