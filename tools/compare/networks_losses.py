"""Losses that a graph computes itself: of reinforcement learning, alignments without given times, segmentation, ranking,
preferences, distributions; written by hand, as their fields write them."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from networks_base import network, rows, tokens


class Loss(nn.Module):
    """Parts by their names, and what computes a loss from them and the inputs."""

    def __init__(self, how, parts):
        super().__init__()
        self.how = how
        for name, part in parts.items():
            self.register_buffer(name, part) if type(part) is torch.Tensor else setattr(self, name, part)

    def forward(self, *inputs):
        return self.how(self, *inputs)


def loss(name, parts, *inputs):
    """Registers a function of the parts and the inputs, which functions make."""
    def keep(how):
        network(f"losses/{name}")(lambda: (Loss(how, parts()), tuple(make() for make in inputs)))
        return how
    return keep


def r(*shape):
    return lambda: rows(*shape)


def t(length, words):
    return lambda: tokens(length, words)


def mlp(inputs, outputs, act=nn.Tanh):
    return nn.Sequential(nn.Linear(inputs, 16), act(), nn.Linear(16, outputs))


# ------------------------------------------------------------------ reinforcement learning

@loss("soft_actor_critic", lambda: dict(pi=mlp(6, 4), q1=mlp(8, 1), q2=mlp(8, 1), t1=mlp(8, 1), t2=mlp(8, 1), log_alpha=nn.Parameter(torch.tensor([-0.7]))),
      r(6), r(2), r(1), r(6), r(2), r(2))
def soft_actor_critic(m, s, a, reward, after, noise, noise_after):
    """Squashed Gaussians, two critics, their targets in a block without gradients, a learned temperature."""
    def act(state, noise):
        mean, log = m.pi(state).chunk(2, 1)
        log = 2 * torch.tanh(log)
        u = mean + noise * log.exp()
        odds = torch.distributions.Normal(mean, log.exp(), validate_args=False).log_prob(u)
        return torch.cat([state, torch.tanh(u)], 1), (odds - 2 * (math.log(2) - u - F.softplus(-2 * u))).sum(1, keepdim=True)
    with torch.no_grad():
        x, odds = act(after, noise_after)
        aim = reward + 0.9 * (torch.min(m.t1(x), m.t2(x)) - m.log_alpha.exp() * odds)
    x = torch.cat([s, a], 1)
    critic = F.mse_loss(m.q1(x), aim) + F.mse_loss(m.q2(x), aim)
    x, odds = act(s, noise)
    actor = (m.log_alpha.exp().detach() * odds - torch.min(m.q1(x), m.q2(x))).mean()
    return critic + actor - (m.log_alpha * (odds.detach() - 2)).mean()


@loss("clipped_policy", lambda: dict(body=mlp(6, 16), pi=nn.Linear(16, 4), v=nn.Linear(16, 1)), r(6), t(1, 6), r(1), r(1), r(1), r(1))
def clipped_policy(m, s, a, old, gain, returns, old_value):
    """PPO: clipped ratios and values, normalized gains, entropy."""
    h = torch.tanh(m.body(s))
    odds, v = torch.distributions.Categorical(logits=m.pi(h), validate_args=False), m.v(h)
    gain = (gain - gain.mean()) / (gain.std() + 1e-8)
    ratio = torch.exp(odds.log_prob(a[:, 0] - 2)[:, None] + 1.4 - 0.1 * old)
    clipped = old_value + (v - old_value).clamp(-0.2, 0.2)
    value = torch.max((v - returns) ** 2, (clipped - returns) ** 2).mean()
    return 0.25 * value - torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean() - 0.01 * odds.entropy().mean()


@loss("v_trace", lambda: dict(cell=nn.GRUCell(6, 12), pi=nn.Linear(12, 3), v=nn.Linear(12, 1)), r(5, 6), t(5, 5), r(5), r(5), t(5, 4))
def v_trace(m, x, a, other, reward, done):
    """IMPALA: a recurrent policy that forgets at the end of an episode, corrected returns in a block without gradients."""
    keep, h, steps = (done == 2).to(x.dtype), x.new_zeros(x.shape[0], 12), []
    for i in range(5):
        h = m.cell(x[:, i], h * keep[:, i:i + 1])
        steps.append(h)
    h = torch.stack(steps, 1)
    logs, v = m.pi(h).log_softmax(-1), m.v(h).squeeze(2)
    log = logs.gather(2, (a - 2)[..., None]).squeeze(2)
    with torch.no_grad():
        rho = torch.exp(log - 0.3 * other + 1).clamp(max=1.0)
        change = rho * (reward + 0.9 * keep * torch.cat([v[:, 1:], v[:, -1:]], 1) - v)
        sums = [change[:, 4]]
        for i in (3, 2, 1, 0):
            sums.insert(0, change[:, i] + 0.9 * keep[:, i] * rho[:, i] * sums[0])
        aim = torch.stack(sums, 1) + v
        gain = rho * (reward + 0.9 * keep * torch.cat([aim[:, 1:], v[:, -1:]], 1) - v)
    return (aim - v).square().mean() - (log * gain).mean() + 0.01 * (logs.exp() * logs).sum(-1).mean()


def symlog(x):
    return x.sign() * torch.log1p(x.abs())


@loss("dreamer", lambda: dict(enter=mlp(5, 8, nn.SiLU), cell=nn.GRUCell(12, 8), prior=mlp(8, 12), post=mlp(16, 12), leave=mlp(20, 5)), r(4, 5), r(4, 3, 4))
def dreamer(m, x, noise):
    """DreamerV3: codes by hard + soft - soft.detach(), balanced divergences with free bits."""
    h, z, total = x.new_zeros(x.shape[0], 8), x.new_zeros(x.shape[0], 12), 0
    for i in range(4):
        h, seen = m.cell(z, h), symlog(x[:, i])
        prior, post = (torch.log(0.99 * odds.view(-1, 3, 4).softmax(2) + 0.0025) for odds in (m.prior(h), m.post(torch.cat([h, m.enter(seen)], 1))))
        hard = F.one_hot((post + 0.5 * noise[:, i]).argmax(2), 4).to(x.dtype)
        z = (hard + post.exp() - post.exp().detach()).flatten(1)
        for scale, p, q in ((1.0, post.detach(), prior), (0.1, post, prior.detach())):
            total = total + scale * (p.exp() * (p - q)).sum((1, 2)).clamp(min=0.1).mean()
        total = total + F.mse_loss(m.leave(torch.cat([h, z], 1)), seen)
    return total


@loss("scaled_gradient", lambda: dict(enter=mlp(6, 8), step=mlp(11, 8), predict=mlp(8, 3)), r(6), t(3, 5), r(3, 3))
def scaled_gradient(m, x, a, odds):
    """MuZero: unrolled steps that pass half of the gradient."""
    h, total = m.enter(x), 0
    for i in range(3):
        total = total - (odds[:, i].softmax(1) * m.predict(h).log_softmax(1)).sum(1).mean()
        h = m.step(torch.cat([h, F.one_hot(a[:, i] - 2, 3).to(h.dtype)], 1))
        h = 0.5 * h + 0.5 * h.detach()
    return total


@loss("mixed_values", lambda: dict(each=nn.GRU(5, 8, batch_first=True), q=nn.Linear(8, 3), w1=nn.Linear(6, 24), b1=nn.Linear(6, 8), w2=nn.Linear(6, 8), b2=mlp(6, 1)),
      r(3, 4, 5), t(3, 5), r(6), r(1))
def mixed_values(m, seen, a, s, aim):
    """QMIX: values of agents, mixed by positive weights that another network makes."""
    q = m.q(m.each(seen.flatten(0, 1))[0][:, -1]).view(-1, 3, 3).gather(2, (a - 2)[..., None]).view(-1, 1, 3)
    h = F.elu(torch.bmm(q, m.w1(s).abs().view(-1, 3, 8)) + m.b1(s)[:, None])
    return F.mse_loss(torch.bmm(h, m.w2(s).abs()[:, :, None])[:, 0] + m.b2(s), aim)


# ------------------------------------------------------------------ alignments without given times

@loss("ctc", lambda: dict(f=nn.GRU(5, 8, batch_first=True), head=nn.Linear(8, 6)), r(7, 5), t(3, 6))
def ctc(m, x, y):
    """Connectionist temporal classification by its sums over paths."""
    n, odds = x.shape[0], m.head(m.f(x)[0]).log_softmax(-1)
    path = torch.zeros(n, 7, dtype=torch.long)
    path[:, 1::2] = y
    stays = torch.ones(n, 7, dtype=torch.bool)
    stays[:, 3::2] = y[:, 1:] == y[:, :-1]
    at = odds.gather(2, path[:, None].expand(-1, 7, -1))
    a = torch.cat([at[:, 0, :2], torch.full((n, 5), -1e9, dtype=x.dtype)], 1)
    for i in range(1, 7):
        two = F.pad(a[:, :-2], (2, 0), value=-1e9).masked_fill(stays, -1e9)
        a = torch.logsumexp(torch.stack([a, F.pad(a[:, :-1], (1, 0), value=-1e9), two]), 0) + at[:, i]
    return -torch.logsumexp(a[:, -2:], 1).mean()


@loss("transducer", lambda: dict(f=nn.LSTM(5, 8, batch_first=True), words=nn.Embedding(6, 8), g=nn.GRU(8, 8, batch_first=True), head=nn.Linear(8, 6)), r(4, 5), t(3, 6))
def transducer(m, x, y):
    """RNN-T: sums over the grid of times and words."""
    seen, said = m.f(x)[0], m.g(F.pad(m.words(y), (0, 0, 1, 0)))[0]
    odds = m.head(torch.tanh(seen[:, :, None] + said[:, None])).log_softmax(-1)
    blank, word = odds[..., 0], odds[:, :, :-1].gather(3, y[:, None, :, None].expand(-1, 4, -1, 1)).squeeze(3)
    row = [torch.zeros_like(blank[:, 0, 0])]
    for u in range(3):
        row.append(row[-1] + word[:, 0, u])
    for i in range(1, 4):
        above, row = row, [row[0] + blank[:, i - 1, 0]]
        for u in range(1, 4):
            row.append(torch.logsumexp(torch.stack([above[u] + blank[:, i - 1, u], row[-1] + word[:, i, u - 1]]), 0))
    return -(row[-1] + blank[:, -1, -1]).mean()


# ------------------------------------------------------------------ segmentation, detection

def classes():
    return dict(f=nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1)))


@loss("lovasz", classes, r(3, 8, 8), r(3, 8, 8))
def lovasz(m, x, y):
    """Lovasz-Softmax: errors in order, weighted by what each adds to the Jaccard index."""
    odds, y, total = m.f(x).softmax(1), y.argmax(1).flatten(), 0
    for c in range(3):
        of = (y == c).to(x.dtype)
        errors, order = torch.sort((of - odds[:, c].flatten()).abs(), 0, descending=True)
        of = of[order]
        jaccard = 1 - (of.sum() - of.cumsum(0)) / (of.sum() + (1 - of).cumsum(0))
        total = total + torch.dot(errors, torch.cat([jaccard[:1], jaccard[1:] - jaccard[:-1]]))
    return total / 3


@loss("hard_pixels", classes, r(3, 8, 8), r(3, 8, 8))
def hard_pixels(m, x, y):
    """The hardest pixels by their number, and by a bound."""
    each = F.cross_entropy(m.f(x), y.argmax(1), reduction="none").flatten()
    return each.topk(40).values.mean() + each[each.detach() > 0.0].mean()


@loss("complete_iou", lambda: dict(f=mlp(6, 8)), r(6), r(8))
def complete_iou(m, x, y):
    """Overlap, distance and form of boxes; the weight of the form in a block without gradients."""
    def sides(z):
        middle, size = z.view(-1, 2, 4).split(2, -1)
        return torch.cat([middle - size.exp(), middle + size.exp()], -1).unbind(-1)
    (x1, y1, x2, y2), (u1, v1, u2, v2) = sides(m.f(x)), sides(y)
    both = (torch.min(x2, u2) - torch.max(x1, u1)).clamp(0) * (torch.min(y2, v2) - torch.max(y1, v1)).clamp(0)
    iou = both / ((x2 - x1) * (y2 - y1) + (u2 - u1) * (v2 - v1) - both)
    far = (torch.max(x2, u2) - torch.min(x1, u1)) ** 2 + (torch.max(y2, v2) - torch.min(y1, v1)) ** 2
    apart = ((x1 + x2 - u1 - u2) ** 2 + (y1 + y2 - v1 - v2) ** 2) / 4
    form = 4 / math.pi ** 2 * (torch.atan((u2 - u1) / (v2 - v1)) - torch.atan((x2 - x1) / (y2 - y1))) ** 2
    with torch.no_grad():
        weight = form / (1 - iou + form + 1e-6)
    return (1 - iou + apart / far + weight * form).mean()


# ------------------------------------------------------------------ ranking, preferences

@loss("hard_triplets", lambda: dict(f=mlp(6, 5)), r(6), r(6), t(1, 4))
def hard_triplets(m, a, b, y):
    """Triplets of which the negative is farther than the positive, but not by the margin."""
    z, y = F.normalize(torch.cat([m.f(a), m.f(b)]), dim=1), torch.cat([y, y])[:, 0]
    far, same = (2 - 2 * z @ z.T).clamp(min=1e-12).sqrt(), y[:, None] == y[None]
    each = far[:, :, None] - far[:, None] + 0.5
    of = (same & ~torch.eye(len(z), dtype=torch.bool))[:, :, None] & ~same[:, None] & (each > 0)
    return (each * of).sum() / of.sum().clamp(min=1)


@loss("lambda_rank", lambda: dict(f=mlp(5, 1)), r(6, 5), t(6, 6))
def lambda_rank(m, x, y):
    """Pairs by what their exchange changes in the discounted gain."""
    s, gain = m.f(x).squeeze(2), 2.0 ** (y - 2).to(x.dtype) - 1
    discount = 1 / torch.log2(2.0 + s.detach().argsort(1, descending=True).argsort(1).to(x.dtype))
    best = (gain.sort(1, descending=True).values / torch.log2(torch.arange(2, 8).to(x.dtype))).sum(1)[:, None, None] + 1e-6
    weight = ((gain[:, :, None] - gain[:, None]) * (discount[:, :, None] - discount[:, None])).abs() / best
    return (weight * F.softplus(s[:, None] - s[:, :, None]) * (y[:, :, None] > y[:, None])).sum((1, 2)).mean()


@loss("group_policy", lambda: dict(words=nn.Embedding(12, 8), f=nn.GRU(8, 8, batch_first=True), head=nn.Linear(8, 12)), t(6, 12), r(1), r(5), r(5))
def group_policy(m, words, reward, old, other):
    """GRPO: answers against their group, an estimate of the divergence from another model, masked words."""
    log = m.head(m.f(m.words(words))[0])[:, :-1].log_softmax(-1).gather(2, words[:, 1:, None]).squeeze(2)
    gain, counts, other = (reward - reward.mean()) / (reward.std() + 1e-4), (words[:, 1:] != 3).to(log.dtype), 0.3 * other - 2
    ratio = torch.exp(log - log.detach() + 0.1 * old)
    each = 0.04 * (torch.exp(other - log) - (other - log) - 1) - torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
    return ((each * counts).sum(1) / counts.sum(1).clamp(min=1)).mean()
