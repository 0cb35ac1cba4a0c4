"""Networks of diffusers, monai, segmentation_models_pytorch, x-transformers, kornia, torchaudio, peft, open_clip and efficientnet_pytorch."""
import torch
from torch import nn

from networks_base import network, rows, tokens


class Call(nn.Module):
    """A network whose call `how` wraps."""

    def __init__(self, net, how):
        super().__init__()
        self.net, self.how = net, how

    def forward(self, *inputs):
        return self.how(self.net, *inputs)


# ------------------------------------------------------------------ diffusers

UNET = dict(sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4)


def noised(net):
    """One step of denoising: an image, its time, which is a whole number from 2 on."""
    return Call(net, lambda n, x, t: n(x, t[:, 0]).sample), (rows(3, 16, 16), tokens(1, 99))


@network("diffusers/unet")
def diffusers_unet():
    import diffusers
    return noised(diffusers.UNet2DModel(**UNET, down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
                                        attention_head_dim=4))


@network("diffusers/unet_skip")
def diffusers_unet_skip():
    import diffusers
    return noised(diffusers.UNet2DModel(**UNET, down_block_types=("ResnetDownsampleBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "ResnetUpsampleBlock2D"),
                                        attention_head_dim=4, time_embedding_type="fourier", resnet_time_scale_shift="scale_shift"))


def conditioned(net):
    return Call(net, lambda n, x, t, c: n(x, t[:, 0], c).sample), (rows(4, 8, 8), tokens(1, 99), rows(5, 12))


@network("diffusers/unet_condition")
def diffusers_unet_condition():
    import diffusers
    return conditioned(diffusers.UNet2DConditionModel(sample_size=8, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, cross_attention_dim=12,
                                                      attention_head_dim=4, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                                                      up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")))


@network("diffusers/control_net")
def diffusers_control_net():
    import diffusers
    net = diffusers.ControlNetModel(block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, cross_attention_dim=12, attention_head_dim=4,
                                    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), conditioning_embedding_out_channels=(4, 8))
    return Call(net, lambda n, x, t, c, i: n(x, t[:, 0], c, i, return_dict=False)[1]), (rows(4, 8, 8), tokens(1, 99), rows(5, 12), rows(3, 16, 16))


@network("diffusers/vae")
def diffusers_vae():
    import diffusers
    net = diffusers.AutoencoderKL(block_out_channels=(8, 16), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
                                  norm_num_groups=4, latent_channels=2)
    return Call(net, lambda n, x: n(x).sample), (rows(3, 16, 16),)


@network("diffusers/vq")
def diffusers_vq():
    import diffusers
    net = diffusers.VQModel(block_out_channels=(8,), norm_num_groups=4, latent_channels=2, num_vq_embeddings=16)
    return Call(net, lambda n, x: n(x).sample), (rows(3, 8, 8),)


@network("diffusers/dit")
def diffusers_dit():
    import diffusers
    net = diffusers.DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=4, num_layers=2, sample_size=8, patch_size=2,
                                          num_embeds_ada_norm=100, norm_num_groups=4)
    for block in net.transformer_blocks:
        block.norm1.emb.class_embedder.dropout_prob = 0.0
    return Call(net, lambda n, x, t, c: n(x, t[:, 0], c[:, 0]).sample), (rows(4, 8, 8), tokens(1, 99), tokens(1, 9))


@network("diffusers/pixart")
def diffusers_pixart():
    import diffusers
    net = diffusers.PixArtTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=4, num_layers=1, sample_size=8,
                                             cross_attention_dim=16, caption_channels=12, norm_num_groups=4, use_additional_conditions=False)
    return Call(net, lambda n, x, t, c: n(x, encoder_hidden_states=c, timestep=t[:, 0], added_cond_kwargs={}).sample), (rows(4, 8, 8), tokens(1, 99), rows(5, 12))


@network("diffusers/sd3")
def diffusers_sd3():
    import diffusers
    net = diffusers.SD3Transformer2DModel(sample_size=8, in_channels=4, out_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=2, joint_attention_dim=12,
                                          caption_projection_dim=16, pooled_projection_dim=6, pos_embed_max_size=8)
    return Call(net, lambda n, x, t, c, p: n(x, c, p, t[:, 0]).sample), (rows(4, 8, 8), tokens(1, 99), rows(5, 12), rows(6))


@network("diffusers/flux")
def diffusers_flux():
    import diffusers
    net = diffusers.FluxTransformer2DModel(in_channels=8, num_layers=1, num_single_layers=1, attention_head_dim=8, num_attention_heads=2, joint_attention_dim=12,
                                           pooled_projection_dim=6, axes_dims_rope=(2, 2, 4))
    places = torch.stack([torch.zeros(16), torch.arange(16) // 4, torch.arange(16) % 4], 1)
    return (Call(net, lambda n, x, t, c, p: n(x, c, p, t, img_ids=places, txt_ids=torch.zeros(5, 3)).sample),
            (rows(16, 8), torch.rand(4), rows(5, 12), rows(6)))


@network("diffusers/sana")
def diffusers_sana():
    import diffusers
    net = diffusers.SanaTransformer2DModel(in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=8, num_layers=1, num_cross_attention_heads=2,
                                           cross_attention_head_dim=8, cross_attention_dim=16, caption_channels=12, sample_size=8, patch_size=1)
    return Call(net, lambda n, x, t, c: n(x, c, t[:, 0]).sample), (rows(4, 8, 8), tokens(1, 99), rows(5, 12))


# ------------------------------------------------------------------ monai

@network("monai/unetr")
def monai_unetr():
    from monai.networks.nets import UNETR
    return UNETR(in_channels=1, out_channels=2, img_size=(16, 16, 16), feature_size=4, hidden_size=24, mlp_dim=32, num_heads=2), (rows(1, 16, 16, 16),)


@network("monai/swin_unetr")
def monai_swin_unetr():
    from monai.networks.nets import SwinUNETR
    return SwinUNETR(in_channels=1, out_channels=2, feature_size=12, depths=(1, 1, 1, 1), num_heads=(1, 1, 2, 2), spatial_dims=2), (rows(1, 64, 64),)


@network("monai/dynunet")
def monai_dynunet():
    from monai.networks.nets import DynUNet
    return DynUNet(3, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2], filters=[4, 8, 16], res_block=True), (rows(1, 16, 16, 16),)


@network("monai/segresnet")
def monai_segresnet():
    from monai.networks.nets import SegResNet
    return SegResNet(init_filters=8, blocks_down=(1, 1, 1), blocks_up=(1, 1)), (rows(1, 16, 16, 16),)


@network("monai/attention_unet")
def monai_attention_unet():
    from monai.networks.nets import AttentionUnet
    return AttentionUnet(2, 1, 2, (8, 16, 16), (2, 2)), (rows(1, 32, 32),)


@network("monai/highresnet")
def monai_highresnet():
    from monai.networks.nets import HighResNet
    return HighResNet(spatial_dims=3, in_channels=1, out_channels=2), (rows(1, 8, 8, 8),)


@network("monai/unet_residual")
def monai_unet():
    from monai.networks.nets import UNet
    return UNet(3, 1, 2, (4, 8, 16), (2, 2), num_res_units=1), (rows(1, 16, 16, 16),)


@network("monai/mednext")
def monai_mednext():
    from monai.networks.nets import MedNeXt
    return MedNeXt(spatial_dims=2, init_filters=8, in_channels=1, out_channels=2, encoder_expansion_ratio=2, decoder_expansion_ratio=2, bottleneck_expansion_ratio=2,
                   blocks_down=(1, 1), blocks_bottleneck=1, blocks_up=(1, 1)), (rows(1, 16, 16),)


# ------------------------------------------------------------------ segmentation_models_pytorch

def segmentation(name, kind, size=64, encoder="resnet18", **settings):
    @network("smp/" + name)
    def make():
        import segmentation_models_pytorch as smp
        return getattr(smp, kind)(encoder, encoder_weights=None, classes=2, **settings), (rows(3, size, size),)


segmentation("unet_scse", "Unet", decoder_channels=(32, 32, 16, 16, 16), decoder_attention_type="scse")
segmentation("linknet", "Linknet")
segmentation("fpn", "FPN", decoder_dropout=0.0)
segmentation("manet", "MAnet", decoder_channels=(32, 32, 16, 16, 16))
segmentation("pan", "PAN", 128)
segmentation("segformer", "Segformer", encoder="mit_b0")
segmentation("unetplusplus", "UnetPlusPlus", decoder_channels=(32, 32, 16, 16, 16))
segmentation("deeplabv3plus", "DeepLabV3Plus", decoder_channels=32, decoder_aspp_dropout=0.0)
segmentation("pspnet", "PSPNet", psp_dropout=0.0)

# ------------------------------------------------------------------ x-transformers

def x_transformer(name, **settings):
    @network("x_transformers/" + name)
    def make():
        import x_transformers as x
        return x.TransformerWrapper(num_tokens=32, max_seq_len=8, attn_layers=x.Decoder(dim=32, depth=2, heads=2, attn_dim_head=16, **settings)), (tokens(8, 32),)


x_transformer("rotary", rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True, ff_swish=True)
x_transformer("alibi", alibi_pos_bias=True, alibi_num_heads=1, attn_qk_norm=True)
x_transformer("gated", attn_gate_values=True, gate_residual=True)
x_transformer("shifted", shift_tokens=1, attn_sparse_topk=4, ff_relu_squared=True)
x_transformer("scaled", use_scalenorm=True, rel_pos_bias=True, macaron=True)

# ------------------------------------------------------------------ torchaudio and kornia


def audio(name, make_net, take, *inputs):
    @network("torchaudio/" + name)
    def make():
        import torchaudio
        net = make_net(torchaudio)
        return Call(net, take), tuple(f() for f in inputs)


audio("conformer", lambda t: t.models.Conformer(16, 2, 24, 1, 3), lambda n, x: n(x, torch.full((x.shape[0],), 8))[0], lambda: rows(8, 16))
audio("emformer", lambda t: t.models.Emformer(16, 2, 24, 1, 4, right_context_length=2), lambda n, x: n(x, torch.full((x.shape[0],), 10))[0], lambda: rows(10, 16))
audio("conv_tasnet", lambda t: t.models.ConvTasNet(2, 8, 16, 3, 8, 12, 2, 1), lambda n, x: n(x)[:, None], lambda: rows(1, 64))
audio("deep_speech", lambda t: t.models.DeepSpeech(8, 16, 5), lambda n, x: n(x), lambda: rows(1, 6, 8))
audio("wavernn", lambda t: t.models.WaveRNN([2, 2], 8, 4, n_res_block=1, n_rnn=8, n_fc=8, kernel_size=3, n_freq=6, n_hidden=8, n_output=8),
      lambda n, x, s: n(x, s)[:, 0], lambda: rows(1, 16), lambda: rows(1, 6, 6))
audio("hdemucs", lambda t: t.models.HDemucs(["a"], audio_channels=1, channels=4, nfft=64, depth=2, freq_emb=0), lambda n, x: n(x), lambda: rows(1, 256))
audio("mel", lambda t: nn.Sequential(t.transforms.MelSpectrogram(n_fft=32, hop_length=16, n_mels=6), nn.Conv1d(6, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
                                     nn.Linear(8, 5)), lambda n, x: n(x), lambda: rows(128))


@network("kornia/blur_vit")
def kornia_vit():
    import kornia
    net = nn.Sequential(kornia.filters.GaussianBlur2d((3, 3), (1.0, 1.0)), kornia.filters.Sobel(), nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                        nn.Linear(8, 5))
    return net, (rows(3, 12, 12),)


# ------------------------------------------------------------------ peft

@network("peft/lora")
def peft_lora():
    import peft
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 5))
    model = peft.get_peft_model(net, peft.LoraConfig(r=2, target_modules=["0", "2"], modules_to_save=["4"], lora_dropout=0.0, init_lora_weights=False))
    return model, (rows(8),)


# ------------------------------------------------------------------ open_clip and efficientnet_pytorch

@network("open_clip/clip")
def open_clip_clip():
    from open_clip.model import CLIP
    net = CLIP(embed_dim=16, vision_cfg=dict(image_size=32, layers=2, width=32, head_width=16, patch_size=8),
               text_cfg=dict(context_length=16, vocab_size=64, width=32, heads=2, layers=2))

    def similarities(n, x, t):
        image, text, scale = n(x, t)
        return image @ text.T * scale
    return Call(net, similarities), (rows(3, 32, 32), tokens(16, 63))


@network("efficientnet_pytorch/b0")
def efficientnet_pytorch_b0():
    from efficientnet_pytorch import EfficientNet
    return EfficientNet.from_name("efficientnet-b0", num_classes=10, image_size=64, drop_connect_rate=0.0, dropout_rate=0.0), (rows(3, 64, 64),)
