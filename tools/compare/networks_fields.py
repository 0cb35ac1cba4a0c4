"""Networks of single fields: recommenders, tables, graphs, detection, values of actions, survival, physics, quality of
pictures. Of deepctr-torch, rtdl_revisiting_models, torch_geometric, torchvision and piq, or written by hand."""
import torch
from torch import nn
from torch.nn import functional as F

from networks_base import BATCH, network, rows, tokens
from networks_libraries import Call


def tensors(result):
    """All tensors of numbers in a result."""
    if isinstance(result, torch.Tensor):
        return [result] if result.is_floating_point() else []
    result = result.values() if isinstance(result, dict) else result
    return [tensor for part in result for tensor in tensors(part)] if not isinstance(result, (int, float, type(None))) else []


def joined(result):
    """The same as one of four axes."""
    return torch.cat([tensor.flatten(1) for tensor in tensors(result)], 1)[:, None, None]


# ------------------------------------------------------------------ recommenders

def recommender(kind, **more):
    from deepctr_torch import inputs, models
    columns = [inputs.SparseFeat(f"s{i}", vocabulary_size=20 + i, embedding_dim=8) for i in range(4)] + [inputs.DenseFeat(f"d{i}", 1) for i in range(3)]
    columns = (columns,) if more else (columns, columns)
    net = getattr(models, kind)(*columns, device="cpu", **more)
    return Call(net, lambda n, ids, x: n(torch.cat([ids.to(x.dtype), x], 1))[:, None, None]), (tokens(4, 20), rows(3))


for kind in ("xDeepFM", "DCNMix", "FiBiNET", "AutoInt", "AFN"):
    network(f"fields/{kind.lower()}")(lambda kind=kind: recommender(kind))
network("fields/ple")(lambda: recommender("PLE", task_types=("binary", "binary"), task_names=("a", "b")))


@network("fields/din")
def din():
    from deepctr_torch import inputs, models
    items = inputs.SparseFeat("hist_item", 30, embedding_dim=8, embedding_name="item")
    net = models.DIN([inputs.SparseFeat("user", 20, embedding_dim=8), inputs.SparseFeat("item", 30, embedding_dim=8),
                      inputs.VarLenSparseFeat(items, maxlen=6, length_name="length")], ["item"], device="cpu")
    return Call(net, lambda n, ids, past, size: n(torch.cat([ids, past, size], 1).to(n.out.bias.dtype))[:, None, None]), (tokens(2, 20), tokens(6, 20), tokens(1, 6))


# ------------------------------------------------------------------ tables

@network("fields/ft_transformer")
def ft_transformer():
    import rtdl_revisiting_models
    net = rtdl_revisiting_models.FTTransformer(n_cont_features=4, cat_cardinalities=[5, 7], d_out=3, n_blocks=2, d_block=16, attention_n_heads=2,
                                               attention_dropout=0.0, ffn_d_hidden=None, ffn_d_hidden_multiplier=4 / 3, ffn_dropout=0.0, residual_dropout=0.0,
                                               linformer_kv_compression_ratio=0.5, linformer_kv_compression_sharing="headwise")
    return Call(net, lambda n, x, kinds: n(x, kinds - 2)), (rows(4), tokens(2, 6))


# ------------------------------------------------------------------ graphs

NODES = 6
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2, 1, 3, 5], [1, 2, 3, 4, 5, 0, 3, 0, 4, 1, 2]])


class Graphs(nn.Module):
    """Two layers on a graph for each sample, and pools over its nodes."""

    def __init__(self, make):
        super().__init__()
        self.first, self.head = nn.Linear(5, 8), nn.Linear(16, 4)
        self.layers = nn.ModuleList(make() for _ in range(2))
        self.register_buffer("edges", torch.cat([EDGES + NODES * i for i in range(BATCH)], 1))
        self.register_buffer("batch", torch.arange(BATCH).repeat_interleave(NODES))

    def forward(self, x):
        from torch_geometric.nn import global_max_pool, global_mean_pool
        x = self.first(x).reshape(-1, 8)
        for layer in self.layers:
            x = F.elu(layer(x, self.edges))
        return self.head(torch.cat([pool(x, self.batch, BATCH) for pool in (global_mean_pool, global_max_pool)], 1))


def graphs(make):
    import torch_geometric.nn
    return Graphs(lambda: make(torch_geometric.nn)), (rows(NODES, 5),)


network("fields/gatv2")(lambda: graphs(lambda g: g.GATv2Conv(8, 4, heads=2)))
network("fields/pna")(lambda: graphs(lambda g: g.PNAConv(8, 8, ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"],
                                                         deg=torch.bincount(torch.bincount(EDGES[1], minlength=NODES)))))
network("fields/gen")(lambda: graphs(lambda g: g.GENConv(8, 8, aggr="softmax", learn_t=True)))
network("fields/chebyshev")(lambda: graphs(lambda g: g.ChebConv(8, 8, 3)))


# ------------------------------------------------------------------ detection

class Boxes(nn.Module):
    """Mask R-CNN's second stage on given boxes: a pyramid, two pools of regions, classes, boxes and masks."""

    def __init__(self):
        super().__init__()
        from torchvision import ops
        from torchvision.models.detection import faster_rcnn, mask_rcnn
        self.body = nn.ModuleList(nn.Sequential(nn.Conv2d(i, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.ReLU()) for i in (3, 16, 16))
        self.pyramid = ops.FeaturePyramidNetwork([16] * 3, 16)
        self.pool, self.mask_pool = ops.MultiScaleRoIAlign(["0", "1", "2"], 7, 2), ops.MultiScaleRoIAlign(["0"], 6, 2)
        self.box, self.predict = faster_rcnn.TwoMLPHead(16 * 49, 16), faster_rcnn.FastRCNNPredictor(16, 4)
        self.mask, self.predict_mask = mask_rcnn.MaskRCNNHeads(16, (16,), 1), mask_rcnn.MaskRCNNPredictor(16, 8, 4)

    def forward(self, x, boxes):
        levels = {}
        for i, layer in enumerate(self.body):
            levels[str(i)] = x = layer(x)
        levels, boxes = self.pyramid(levels), 10 * boxes.abs()
        boxes = list(torch.cat([boxes[..., :2], boxes[..., :2] + boxes[..., 2:] + 4], -1).unbind(0))
        sizes = [(64, 64)] * len(boxes)
        results = (*self.predict(self.box(self.pool(levels, boxes, sizes))), self.predict_mask(self.mask(self.mask_pool(levels, boxes, sizes))))
        return joined(result.reshape(len(boxes), -1) for result in results)


network("fields/boxes")(lambda: (Boxes(), (rows(3, 64, 64), rows(3, 4))))


# ------------------------------------------------------------------ quality of pictures

class Quality(nn.Module):
    """A picture against another, by what eyes see."""

    def __init__(self, kind):
        super().__init__()
        self.net, self.kind = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GELU(), nn.Conv2d(8, 3, 3, padding=1)), kind

    def forward(self, x, other):
        import piq
        return getattr(piq, self.kind)(data_range=1.0)(torch.sigmoid(self.net(x)), torch.sigmoid(other))


for kind in ("GMSDLoss", "VIFLoss", "HaarPSILoss"):
    network(f"fields/{kind.removesuffix('Loss').lower()}")(lambda kind=kind: (Quality(kind), (rows(3, 64, 64), rows(3, 64, 64))))


# ------------------------------------------------------------------ values of actions

class Returns(nn.Module):
    """C51: the distribution over returns of the action taken, against that of the next state, laid on the same numbers."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4 * 11))
        self.register_buffer("numbers", torch.linspace(-3, 3, 11))

    def aim(self, reward, after):
        odds = self.net(after).view(-1, 4, 11).softmax(2)
        best = (odds * self.numbers).sum(2).argmax(1)
        odds = odds.gather(1, best[:, None, None].expand(-1, 1, 11)).squeeze(1)
        at = ((reward + 0.9 * self.numbers).clamp(-3, 3) + 3) / 0.6
        low, high = at.floor().clamp(0, 10).long(), at.ceil().clamp(0, 10).long()
        aim = torch.zeros_like(odds).scatter_add(1, low, odds * (high.to(at.dtype) - at + (low == high).to(at.dtype)))
        return aim.scatter_add(1, high, odds * (at - low.to(at.dtype)))

    def forward(self, state, action, reward, after):
        logs = self.net(state).view(-1, 4, 11).log_softmax(2).gather(1, (action[:, :, None] - 2).expand(-1, 1, 11)).squeeze(1)
        return -(self.fixed_aim(reward, after) * logs).sum(1).mean()

    def fixed_aim(self, *of):
        return self.aim(*of).detach()


class ReturnsWithoutGradients(Returns):
    """The same in a block without gradients, as most write it."""

    def fixed_aim(self, *of):
        with torch.no_grad():
            return self.aim(*of)


for name, kind in (("returns", Returns), ("returns_no_grad", ReturnsWithoutGradients)):
    network(f"fields/{name}")(lambda kind=kind: (kind(), (rows(8), tokens(1, 6), rows(1), rows(8))))


# ------------------------------------------------------------------ survival, physics

class Hazard(nn.Module):
    """Cox: the partial likelihood of events among those who live as long."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.SELU(), nn.Linear(16, 1, bias=False))

    def forward(self, x, time, event):
        order = time[:, 0].argsort(descending=True)
        risk, event = self.net(x).flatten()[order], (event[:, 0] > 2).to(x.dtype)[order]
        return -((risk - risk.logcumsumexp(0)) * event).sum() / (event.sum() + 1e-3)


network("fields/hazard")(lambda: (Hazard(), (rows(6), rows(1), tokens(1, 5))))


class Residual(nn.Module):
    """Burgers' equation: a network's derivatives in time and place, forward over forward."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x):
        none, one = torch.zeros_like(x[:, 0]), torch.ones_like(x[:, 0])
        place, time = torch.stack([one, none], 1), torch.stack([none, one], 1)
        value, over_time = torch.func.jvp(self.net, (x,), (time,))
        slope, bend = torch.func.jvp(lambda at: torch.func.jvp(self.net, (at,), (place,))[1], (x,), (place,))
        return (over_time + value * slope - 0.01 * bend).square().mean()


@network("fields/residual")
def residual():
    return Residual(), (rows(2),)


residual.ways = ("dynamo", "dynamo-train")  # TorchScript has no forward derivatives
