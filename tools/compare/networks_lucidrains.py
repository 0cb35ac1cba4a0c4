"""Networks of vit-pytorch and other packages of its author: vision transformers, attention that is linear or routed, quantizers,
a mixture of experts, an equivariant network."""
import importlib

import torch
from torch import nn

from networks_base import First, network, rows, tokens
from networks_libraries import Call

ALL = ("dynamo", "torchscript", "dynamo-train", "torchscript-train")

VIT = dict(image_size=32, patch_size=8, num_classes=10, dim=32, depth=2, heads=2, dim_head=16, mlp_dim=48)


def vit(name, kind, size=32, **settings):
    """A network of vit_pytorch/NAME.py for images."""
    @network("vit_pytorch/" + name)
    def make():
        net = getattr(importlib.import_module("vit_pytorch." + name), kind)(**settings)
        return First(net), (rows(3, size, size),)


def plain(name, kind="SimpleViT", **settings):
    vit(name, kind, **VIT | settings)


plain("jet_vit", "JetViT", window_size=3)
vit("look_vit", "LookViT", image_size=32, dim=32, num_classes=10, depth=1, patch_size=16, heads=2, mlp_factor=2, dim_head=16, highres_patch_size=8, highres_mlp_factor=2,
    cross_attn_heads=2, cross_attn_dim_head=16, dropout=0.0)
vit("looped_vit", "LoopedViT", num_classes=10, dim=32, image_size=32, patch_size=8, pre_loop_depth=1, num_looped_blocks=1, post_loop_depth=1, loop_depth=2, heads=2, dim_head=16,
    mlp_dim=48)
plain("normalized_vit", "nViT")
vit("regionvit", "RegionViT", 64, dim=(16, 16, 32, 32), depth=(1, 1, 1, 1), window_size=2, num_classes=10, use_peg=True)
plain("rvt", "RvT")
vit("scalable_vit", "ScalableViT", 64, num_classes=10, dim=16, depth=(1, 1), heads=(2, 2), reduction_factor=(4, 2), window_size=(4, None), iwsa_dim_key=8, iwsa_dim_value=8,
    ssa_dim_key=8, ssa_dim_value=8)
plain("simple_vit_with_fft", freq_patch_size=8)
plain("simple_vit_with_hyper_connections", num_residual_streams=2)
vit("t2t", "T2TViT", image_size=32, num_classes=10, dim=32, depth=1, heads=2, mlp_dim=48, t2t_layers=((7, 4), (3, 2)))


def package(name, take, *inputs, how=None):
    """What `take` makes of a package; `how` calls it. Exported in all ways: these fold parameters."""
    @network("lucidrains/" + name)
    def make():
        net = take(importlib.import_module(name.split("/")[0]))
        return Call(net, how) if how else First(net), tuple(f() for f in inputs)
    make.ways = ALL


def words():
    return tokens(16, 32)


def vectors():
    return rows(16, 32)


package("denoising_diffusion_pytorch/unet_fourier", lambda p: p.Unet(dim=8, dim_mults=(1, 2), attn_heads=2, attn_dim_head=8, learned_sinusoidal_cond=True),
        lambda: rows(3, 16, 16), lambda: rows(1), how=lambda n, x, t: n(x, t[:, 0]))
package("perceiver_pytorch/perceiver", lambda p: p.Perceiver(num_freq_bands=2, depth=2, max_freq=10.0, num_latents=8, latent_dim=24, latent_heads=2, cross_dim_head=8,
        latent_dim_head=8, num_classes=10, weight_tie_layers=True), lambda: rows(8, 8, 3))
package("performer_pytorch/relu", lambda p: p.PerformerLM(num_tokens=32, max_seq_len=16, dim=32, depth=2, heads=2, dim_head=16, generalized_attention=True, use_rezero=True,
        ff_glu=True, tie_embed=True), words)
package("reformer_pytorch/full", lambda p: p.ReformerLM(num_tokens=32, dim=32, depth=1, max_seq_len=16, heads=2, dim_head=16, bucket_size=4, n_hashes=2, ff_chunks=2, causal=True,
        use_full_attn=True, axial_position_emb=True, axial_position_shape=(4, 4)), words)
package("g_mlp_pytorch/lm", lambda p: p.gMLP(num_tokens=32, dim=32, depth=2, seq_len=16, causal=True, circulant_matrix=True, heads=2), words)
package("egnn_pytorch/network", lambda p: p.EGNN_Network(num_tokens=21, num_positions=8, dim=16, depth=2, num_nearest_neighbors=3, norm_coors=True, coor_weights_clamp_value=2.0),
        lambda: tokens(8, 21), lambda: rows(8, 3))
package("soft_moe_pytorch/soft_moe", lambda p: p.SoftMoE(dim=32, seq_len=16, num_experts=2, expert_mult=2, geglu=True), vectors)
package("colt5_attention/sinkhorn", lambda p: p.ConditionalRoutedFeedForward(32, num_heavy_tokens=4), vectors)


def quantizer(name, kind, **settings):
    """A quantizer between layers; some make their estimate of a gradient in training only."""
    @network("quantize/" + name)
    def make():
        import vector_quantize_pytorch as v
        return Quantized(getattr(v, kind)(**settings)), (rows(8, 16),)
    make.ways = ALL


class Quantized(nn.Module):
    def __init__(self, quantize):
        super().__init__()
        self.enter, self.quantize, self.leave = nn.Linear(16, 8), quantize, nn.Linear(8, 10)

    def forward(self, x):
        found = self.quantize(torch.tanh(self.enter(x)))
        return self.leave(found[0] if isinstance(found, tuple) else found)


quantizer("vq", "VectorQuantize", dim=8, codebook_size=16, ema_update=False)
quantizer("residual_fsq", "ResidualFSQ", levels=[5, 4, 3], dim=8, num_quantizers=2)
quantizer("lfq", "LFQ", dim=8, codebook_size=16)
