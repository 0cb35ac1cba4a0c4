"""PyTorch's side of tools/compare_ops: times its op for a case of tests/ops, forward and backward.

    python torch_ops.py --threads N < requests

A request is a line of JSON: a case as `run_ops list` prints it, with "variant" ("plain" or "channels_last") and
"seconds". The answer is a line of JSON: {"forward_ms": ..., "backward_ms": ...}, medians of the runs that fit in the seconds,
or {"none": why}. The last case stays ready, so that asking for it again measures at once. Results and gradients that PyTorch
gives as views (of Transpose, Slice, Expand ...) are made tensors of their own, as ztrain's are.
"""
import argparse
import json
import re
import statistics
import sys
import time

import torch
import torch.nn.functional as F

DTYPES = {"float": torch.float32, "double": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16,
          "int64": torch.int64, "int32": torch.int32, "uint32": torch.int32, "uint8": torch.uint8, "int8": torch.int8, "bool": torch.bool}
ONNX_TYPES = {1: torch.float32, 7: torch.int64, 9: torch.bool, 10: torch.float16, 16: torch.bfloat16}


# ------------------------------------------------------------------ cases as tests/ops/cases.h writes them

def numbers(text):
    return [float(x) if "." in x or "e" in x else int(x) for x in text.split(",") if x]


def tensor(text):
    """An input of a case; None where it is omitted."""
    if text == "-":
        return None
    name, kind, body, rest = re.fullmatch(r"(\w+)([\[{(])([^\])}]*)[\])}](.*)", text).groups()
    dtype = DTYPES[name]
    if kind == "{":
        return torch.tensor(numbers(body), dtype=dtype)
    if kind == "(":
        return torch.tensor(numbers(body)[0], dtype=dtype)
    shape, span = numbers(body), re.fullmatch(r":(.+)\.\.(.+)", rest)
    low, high = (float(span[1]), float(span[2])) if span else (0, 1 if dtype == torch.bool else 9)
    if dtype.is_floating_point:
        made = low + (high - low) * torch.rand(shape) if span else torch.randn(shape)
    else:
        made = torch.randint(int(low), int(high) + 1, shape)
    return made.to(dtype)


def attributes(text):
    found = {}
    for word in text.split():
        name, value = word.split("=")
        is_number = re.fullmatch(r"-?[\d.]+", value)
        found[name] = numbers(value[1:-1]) if value[0] == "[" else numbers(value)[0] if is_number else value
    return found


def ints(x):
    return [int(v) for v in x.flatten()]


# ------------------------------------------------------------------ ops: f(attributes, inputs) -> result or results

def pads(a, rank):
    """Symmetric pads of a window."""
    p = a.get("pads", [0] * 2 * rank)
    assert p[:rank] == p[rank:]
    return p[:rank]


def conv(a, x, w, b=None):
    rank = x.dim() - 2
    f = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    return f(x, w, b, a.get("strides", [1] * rank), pads(a, rank), a.get("dilations", [1] * rank), a.get("group", 1))


def conv_transpose(a, x, w, b=None):
    rank = x.dim() - 2
    return F.conv_transpose2d(x, w, b, a.get("strides", [1] * rank), pads(a, rank))


def deform_conv(a, x, w, offset, b=None, mask=None):
    from torchvision.ops import deform_conv2d
    return deform_conv2d(x, offset, w, b, a.get("strides", [1, 1]), pads(a, 2), a.get("dilations", [1, 1]), mask)


def roi_align(a, x, rois, batch):
    from torchvision.ops import roi_align
    boxes = torch.cat([batch[:, None].to(rois.dtype), rois.detach()], 1)
    return roi_align(x, boxes, (a["output_height"], a["output_width"]), a.get("spatial_scale", 1.0),
                     a.get("sampling_ratio", 0), a.get("coordinate_transformation_mode", "half_pixel") == "half_pixel")


def pad(a, x, p, value=None):
    p, rank = ints(p), x.dim()
    modes = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    order = [v for k in reversed(range(rank)) for v in (p[k], p[rank + k])]
    while len(order) > 2 and not any(order[-2:]):
        order = order[:-2]
    return F.pad(x, order, modes[a.get("mode", "constant")])


def slice_(a, x, starts, ends, axes, steps=None):
    for s, e, k, t in zip(ints(starts), ints(ends), ints(axes), ints(steps) if steps is not None else [1] * x.dim()):
        x = x[(slice(None),) * k + (slice(s, e, t),)]
    return x


def depth_to_space(a, x):
    b, (n, c, h, w) = a["blocksize"], x.shape
    if a.get("mode") == "CRD":
        return F.pixel_shuffle(x, b)
    return x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)


def space_to_depth(a, x):
    b, (n, c, h, w) = a["blocksize"], x.shape
    return x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)


def gather(a, x, i):
    axis = a.get("axis", 0)
    return F.embedding(i, x) if axis == 0 and x.dim() == 2 else torch.index_select(x, axis, i)


def gather_nd(a, x, i):
    batch = a.get("batch_dims", 0)
    lead = [torch.arange(n).reshape([-1 if k == d else 1 for k in range(i.dim() - 1)]) for d, n in enumerate(x.shape[:batch])]
    return x[(*lead, *i.unbind(-1))]


def scatter_elements(a, x, i, u):
    return x.scatter_add(a["axis"], i, u) if a.get("reduction") == "add" else x.scatter(a["axis"], i, u)


def scatter_nd(a, x, i, u):
    return x.index_put(i.unbind(-1), u, accumulate=a.get("reduction") == "add")


def reverse_sequence(a, x, lengths):
    steps = torch.arange(x.shape[0])[:, None]
    turned = torch.where(steps < lengths, lengths - 1 - steps, steps)
    return x[turned, torch.arange(x.shape[1])]


def rotary(a, x, cos, sin, positions):
    cos, sin = cos[positions][:, None], sin[positions][:, None]
    left, right = x.chunk(2, -1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), -1)


def reduce(f):
    def run(a, x, axes=None):
        return f(x, ints(axes) if axes is not None else list(range(x.dim())))
    return run


def reduce_prod(x, axes):
    return x.prod(axes[0], keepdim=True)


def crop_pad(a, x, shape):
    """Each axis cut or padded with zeros around its middle."""
    around = []
    for axis, size in zip(reversed(a["axes"]), reversed(ints(shape))):
        missing = size - x.shape[axis]
        around += [missing // 2, missing - missing // 2]
    return F.pad(x, around)


class Recurrent:
    """nn.LSTM, GRU or RNN with the case's weights' shapes; what is differentiated are its own parameters."""

    def __init__(self, kind, a, x, w):
        self.module = kind(x.shape[2], w.shape[2], bidirectional=a.get("direction") == "bidirectional")

    def __call__(self, a, x, *weights):
        return self.module(x)[0]


def attention(a, q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=bool(a.get("is_causal", 0)))


def linear_attention(a, q, k, v, past=None, decay=None, beta=None):
    """All steps as one chunk: with c the running sum of decays and R[t, s] = exp(c[t] - c[s]) for s <= t, u solves
    (1 + beta strictly_lower(R k k^T)) u = beta v, or is v; y = scale (R q k^T) u."""
    heads, steps = a["q_num_heads"], q.shape[1]
    q, k, v = (x.unflatten(2, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    ratio = torch.ones(steps, steps).tril()
    if decay is not None:
        c = decay.transpose(1, 2).cumsum(2)
        ratio = torch.exp((c.unsqueeze(3) - c.unsqueeze(2)).tril()) * ratio
    if beta is not None:
        beta = beta.transpose(1, 2).unsqueeze(3)
        v = torch.linalg.solve_triangular(torch.eye(steps) + beta * (ratio * (k @ k.mT)).tril(-1), beta * v, upper=False)
    return (ratio * (q @ k.mT) @ v * q.shape[3] ** -0.5).transpose(1, 2).flatten(2)


def causal_conv(a, x, w, bias):
    return F.silu(F.conv1d(F.pad(x, (w.shape[2] - 1, 0)), w, bias, groups=x.shape[1]))


def tensor_scatter(a, cache, update, places):
    rows = places.reshape(-1, 1, 1, 1) + torch.arange(update.shape[2]).reshape(1, 1, -1, 1)
    return cache.scatter(2, rows.expand(update.shape), update)


def pool(f):
    def run(a, x):
        return f(x, a["kernel_shape"], a.get("strides", 1), pads(a, 2))
    return run


def resize(a, x, roi, scales):
    mode = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}[a["mode"]]
    return F.interpolate(x, scale_factor=[float(s) for s in scales[2:]], mode=mode)


def batch_norm(a, x, scale, shift, mean, variance):
    return F.batch_norm(x, mean, variance, scale, shift, training=True)


def mean_variance(a, x):
    mean = x.mean((0, 2, 3), keepdim=True)
    return (x - mean) / torch.sqrt(((x - mean) ** 2).mean((0, 2, 3), keepdim=True) + 1e-9)


def dft(a, x, length, axis):
    """Over pairs of real numbers, as the standard has complex ones."""
    axis, n = int(axis), int(length) if length is not None else None
    if a.get("inverse") and a.get("onesided"):
        return torch.fft.irfft(torch.view_as_complex(x), n, axis).unsqueeze(-1)
    z = torch.view_as_complex(x) if x.shape[-1] == 2 else x.squeeze(-1)
    f = torch.fft.ifft if a.get("inverse") else torch.fft.rfft if a.get("onesided") else torch.fft.fft
    return torch.view_as_real(f(z, n, axis))


def stft(a, x, step, window):
    y = torch.stft(x.squeeze(-1), len(window), int(step), window=window, center=False, onesided=True, return_complex=True)
    return torch.view_as_real(y.transpose(1, 2))


def unary(f):
    return lambda a, x: f(x)


def binary(f):
    return lambda a, x, y: f(x, y)


def cross_entropy(a, x, target):
    return F.cross_entropy(x, target)


def fake_quantize(a, x, scale, zero):
    """int8; LSQ's gradient of the scale, where it is wanted, without its factor."""
    if scale.dim():
        return torch._fake_quantize_learnable_per_channel_affine(x, scale, zero.float(), a.get("axis", 1), -128, 127, 1.0)
    return torch._fake_quantize_learnable_per_tensor_affine(x, scale.reshape(1), zero.float().reshape(1), -128, 127, 1.0)


def likelihood(a, x, target):
    return F.nll_loss(x, target)


OPS = {
    "Add": binary(torch.add), "Sub": binary(torch.sub), "Mul": binary(torch.mul), "Div": binary(torch.div),
    "Pow": lambda a, x, y: torch.pow(x, y.item() if y.dim() == 0 else y),
    "Mod": binary(torch.fmod), "Max": binary(torch.maximum), "Min": binary(torch.minimum),
    "Sum": lambda a, x, y, z: x + y + z, "Mean": lambda a, x, y, z: (x + y + z) / 3,
    "PRelu": lambda a, x, s: F.prelu(x, s.flatten()), "Where": lambda a, c, x, y: torch.where(c, x, y),
    "Clip": lambda a, x, low, high: torch.clamp(x, low.item(), high.item()),
    "FakeQuantize": fake_quantize,
    "Relu": unary(F.relu), "Sigmoid": unary(torch.sigmoid), "Tanh": unary(torch.tanh), "Erf": unary(torch.erf),
    "Exp": unary(torch.exp), "Gelu": lambda a, x: F.gelu(x, approximate=a.get("approximate", "none")),
    "Sqrt": unary(torch.sqrt), "Abs": unary(torch.abs), "Neg": unary(torch.neg), "Reciprocal": unary(torch.reciprocal),
    "Log": unary(torch.log), "Sin": unary(torch.sin), "Cos": unary(torch.cos), "Tan": unary(torch.tan),
    "Asin": unary(torch.asin), "Acos": unary(torch.acos), "Atan": unary(torch.atan), "Sinh": unary(torch.sinh),
    "Cosh": unary(torch.cosh), "Asinh": unary(torch.asinh), "Acosh": unary(torch.acosh), "Atanh": unary(torch.atanh),
    "LeakyRelu": unary(F.leaky_relu), "Elu": unary(F.elu), "Selu": unary(F.selu), "Celu": unary(F.celu),
    "ThresholdedRelu": lambda a, x: F.threshold(x, 1.0, 0.0), "HardSigmoid": unary(F.hardsigmoid),
    "HardSwish": unary(F.hardswish), "Softplus": unary(F.softplus), "Softsign": unary(F.softsign), "Mish": unary(F.mish),
    "Swish": unary(F.silu), "Shrink": unary(F.hardshrink), "Sign": unary(torch.sign), "Floor": unary(torch.floor),
    "Ceil": unary(torch.ceil), "Round": unary(torch.round), "IsNaN": unary(torch.isnan), "IsInf": unary(torch.isinf),
    "Equal": binary(torch.eq), "Less": binary(torch.lt), "LessOrEqual": binary(torch.le), "Greater": binary(torch.gt),
    "GreaterOrEqual": binary(torch.ge), "And": binary(torch.logical_and), "Or": binary(torch.logical_or),
    "Xor": binary(torch.logical_xor), "Not": unary(torch.logical_not), "BitwiseAnd": binary(torch.bitwise_and),
    "BitwiseOr": binary(torch.bitwise_or), "BitwiseXor": binary(torch.bitwise_xor), "BitwiseNot": unary(torch.bitwise_not),
    "BitShift": binary(torch.bitwise_left_shift), "Cast": lambda a, x: x.to(ONNX_TYPES[a["to"]]),
    "SwiGLU": lambda a, x, y: F.silu(x) * y, "RandomNormal": lambda a: torch.randn(a["shape"]),
    "RandomUniform": lambda a: torch.rand(a["shape"]), "Bernoulli": unary(torch.bernoulli),
    "Multinomial": lambda a, x: torch.multinomial(torch.softmax(x, 1), a["sample_size"], replacement=True),
    "CenterCropPad": crop_pad, "Col2Im": lambda a, x, size, block: F.fold(x, ints(size), ints(block), padding=pads(a, 2)),
    "MaxUnpool": lambda a, x, i: F.max_unpool2d(x, i, a["kernel_shape"], a["strides"]),
    "Dropout": lambda a, x, ratio, training: F.dropout(x, ratio.item()),
    "Transpose": lambda a, x: x.permute(a.get("perm", list(range(x.dim()))[::-1])).contiguous(),
    "Concat": lambda a, *x: torch.cat(x, a["axis"]),
    "Split": lambda a, x: [y.contiguous() for y in x.chunk(a["num_outputs"], a["axis"])],
    "Slice": lambda *all: slice_(*all).contiguous(), "Pad": pad, "Tile": lambda a, x, times: x.repeat(ints(times)),
    "Expand": lambda a, x, shape: x.expand(ints(shape)).contiguous(), "Trilu": unary(torch.tril),
    "DepthToSpace": depth_to_space, "SpaceToDepth": space_to_depth, "Gather": gather,
    "GatherElements": lambda a, x, i: torch.gather(x, a["axis"], i), "GatherND": gather_nd,
    "ScatterElements": scatter_elements, "ScatterND": scatter_nd,
    "OneHot": lambda a, i, depth, values: F.one_hot(i, depth.item()).float(), "ReverseSequence": reverse_sequence,
    "CumSum": lambda a, x, axis: torch.cumsum(x, axis.item()), "CumProd": lambda a, x, axis: torch.cumprod(x, axis.item()),
    "TopK": lambda a, x, k: torch.topk(x, k.item())[0],
    "Range": lambda a, start, end, step: torch.arange(start.item(), end.item(), step.item()),
    "EyeLike": lambda a, x: torch.eye(*x.shape), "Einsum": lambda a, *x: torch.einsum(a["equation"], *x),
    "RotaryEmbedding": rotary, "ReduceSum": reduce(lambda x, k: x.sum(k, keepdim=True)),
    "ReduceMean": reduce(lambda x, k: x.mean(k, keepdim=True)), "ReduceMax": reduce(lambda x, k: x.amax(k, keepdim=True)),
    "ReduceMin": reduce(lambda x, k: x.amin(k, keepdim=True)), "ReduceProd": reduce(reduce_prod),
    "ReduceL1": reduce(lambda x, k: torch.linalg.vector_norm(x, 1, k, True)),
    "ReduceL2": reduce(lambda x, k: torch.linalg.vector_norm(x, 2, k, True)),
    "ReduceLogSum": reduce(lambda x, k: x.sum(k, keepdim=True).log()),
    "ReduceLogSumExp": reduce(lambda x, k: torch.logsumexp(x, k, True)),
    "ReduceSumSquare": reduce(lambda x, k: x.square().sum(k, keepdim=True)),
    "ArgMax": lambda a, x: torch.argmax(x, a["axis"], keepdim=True),
    "ArgMin": lambda a, x: torch.argmin(x, a["axis"], keepdim=True), "MatMul": binary(torch.matmul),
    "DFT": dft, "STFT": stft, "Det": unary(torch.linalg.det),
    "Gemm": lambda a, x, y, c: torch.addmm(c, x.T if a.get("transA") else x, y.T if a.get("transB") else y), "Conv": conv,
    "ConvTranspose": conv_transpose, "Attention": attention,
    "LinearAttention": linear_attention, "CausalConvWithState": causal_conv, "TensorScatter": tensor_scatter, "LSTM": torch.nn.LSTM, "GRU": torch.nn.GRU, "RNN": torch.nn.RNN,
    "MaxPool": pool(F.max_pool2d), "AveragePool": pool(F.avg_pool2d),
    "GlobalAveragePool": lambda a, x: F.adaptive_avg_pool2d(x, 1),
    "GlobalMaxPool": lambda a, x: F.adaptive_max_pool2d(x, 1),
    "LpPool": lambda a, x: F.lp_pool2d(x, 2.0, a["kernel_shape"], a["strides"]), "Resize": resize,
    "GridSample": lambda a, x, grid: F.grid_sample(x, grid, align_corners=False),
    "DeformConv": deform_conv, "RoiAlign": roi_align,
    "AffineGrid": lambda a, theta, size: F.affine_grid(theta, ints(size), align_corners=False),
    "BatchNormalization": batch_norm, "LayerNormalization": lambda a, x, s, b: F.layer_norm(x, s.shape, s, b),
    "RMSNormalization": lambda a, x, s: F.rms_norm(x, s.shape, s, 1e-5),
    "GroupNormalization": lambda a, x, s, b: F.group_norm(x, a["num_groups"], s, b),
    "InstanceNormalization": lambda a, x, s, b: F.instance_norm(x, weight=s, bias=b),
    "LRN": lambda a, x: F.local_response_norm(x, a["size"]), "LpNormalization": unary(F.normalize),
    "MeanVarianceNormalization": mean_variance, "Softmax": lambda a, x: torch.softmax(x, a.get("axis", -1)),
    "LogSoftmax": lambda a, x: torch.log_softmax(x, a.get("axis", -1)),
    "Hardmax": lambda a, x: F.one_hot(x.argmax(-1), x.shape[-1]).float(), "CrossEntropy": cross_entropy, "SoftCrossEntropy": cross_entropy,
    "NegativeLogLikelihood": likelihood, "SquaredError": binary(F.mse_loss), "AbsoluteError": binary(F.l1_loss),
    "SmoothAbsoluteError": binary(F.smooth_l1_loss), "Huber": binary(F.huber_loss),
    "BinaryCrossEntropy": binary(F.binary_cross_entropy_with_logits), "SoftmaxCrossEntropyLoss": cross_entropy,
    "NegativeLogLikelihoodLoss": likelihood,
}


# ------------------------------------------------------------------ one case, ready to be timed

class Case:
    def __init__(self, request):
        torch.manual_seed(0)
        self.attributes, self.f = attributes(request["attrs"]), OPS[request["op"]]
        self.inputs = [tensor(text) for text in request["inputs"].split()]
        self.images = request["image"]
        if request["variant"] == "channels_last":
            self.inputs = [self.channels_last(x) for x in self.inputs]
        self.wanted = [x.requires_grad_() for i, x in enumerate(self.inputs) if request["grad"] >> i & 1]
        if isinstance(self.f, type):
            self.f = Recurrent(self.f, self.attributes, *self.inputs[:2])
            self.wanted = [self.inputs[0], *self.f.module.parameters()]
        results = self.forward()
        self.cotangents = [torch.randn_like(y) for y in results if y.is_floating_point()]
        self.forward_and_backward()

    @staticmethod
    def channels_last(x):
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        return x.contiguous(memory_format=formats[x.dim()]) if x is not None and x.dim() in formats else x

    def forward(self):
        results = self.f(self.attributes, *self.inputs)
        return results if isinstance(results, (list, tuple)) else [results]

    def forward_and_backward(self):
        """Seconds of both."""
        began = time.perf_counter()
        results = self.forward()
        between = time.perf_counter()
        if self.wanted:
            grads = torch.autograd.grad([y for y in results if y.is_floating_point()], self.wanted, self.cotangents)
            for g in grads:  # what is a view of less memory is made a tensor, as ztrain's gradients are
                if not self.images and not g.is_contiguous():
                    g.contiguous()
        return between - began, time.perf_counter() - between


def measure(case, seconds):
    runs, end = [], time.perf_counter() + seconds
    while not runs or time.perf_counter() < end:
        runs.append(case.forward_and_backward())
    return {"forward_ms": 1e3 * statistics.median(r[0] for r in runs), "backward_ms": 1e3 * statistics.median(r[1] for r in runs)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, required=True)
    torch.set_num_threads(parser.parse_args().threads)
    print(json.dumps({"torch": torch.__version__}), flush=True)
    case, key = None, None
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] not in OPS:
            print(json.dumps({"none": "no PyTorch op"}), flush=True)
            continue
        if (request["case"], request["variant"]) != key:
            case, key = None, (request["case"], request["variant"])
            case = Case(request)
        print(json.dumps(measure(case, request["seconds"])), flush=True)


if __name__ == "__main__":
    main()
