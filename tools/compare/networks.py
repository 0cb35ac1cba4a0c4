"""Networks that tools/compare_models exports: small ones, one for each thing that an exporter does to parameters, and real
ones of torchvision, timm and transformers, small in size, with random weights.

Each row of NETWORKS is a function that returns (module, inputs): the module takes the inputs and returns one tensor. Class
scores come as [N, classes], or as [N, time, classes] for token models; anything else is compared by its squares.
"""
import torch
from torch import nn
from torch.nn import functional as F

BATCH = 4
NETWORKS = {}  # name -> function


def network(function):
    NETWORKS[function.__name__] = function
    return function


class First(nn.Module):
    """The first tensor of what a network returns."""

    def __init__(self, net, take=None, **always):
        super().__init__()
        self.net, self.take, self.always = net, take, always

    def forward(self, *inputs):
        result = self.net(*inputs, **self.always)
        if self.take:
            return getattr(result, self.take)
        return result if isinstance(result, torch.Tensor) else result[0]


def rows(*shape):
    return torch.randn(BATCH, *shape)


def tokens(length, words):
    return torch.randint(2, words, (BATCH, length))


# ------------------------------------------------------------------ small: one for each root cause

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


class Normalized(nn.Module):
    """A normalization behind a convolution, and another that nothing can be folded into."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.last, self.fc = nn.BatchNorm1d(4), nn.Linear(4, 5)

    def forward(self, x):
        return self.fc(self.last(F.relu(self.norm(self.conv(x))).mean((2, 3))))


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


SMALL = {}


def small(name, kind, *inputs, fresh=False):
    def make():
        return kind(), tuple(f() for f in inputs)
    make.fresh = fresh  # parameters keep the contents that their constructors give them
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
small("normalized", Normalized, lambda: rows(3, 6, 6))
small("merged", Merged, lambda: rows(8), fresh=True)
small("zero_biases", ZeroBiases, lambda: rows(8), fresh=True)
small("equal_tensors", EqualTensors, lambda: tokens(5, 20), fresh=True)


# ------------------------------------------------------------------ torchvision

def vision(name, size=64, **arguments):
    def make():
        import torchvision
        return First(getattr(torchvision.models, name)(num_classes=10, **arguments)), (rows(3, size, size),)
    NETWORKS["torchvision/" + name] = make


vision("resnet18", 32)
vision("squeezenet1_1")
vision("mobilenet_v3_small")
vision("shufflenet_v2_x0_5")
vision("mnasnet0_5")
vision("efficientnet_b0", 32)
vision("regnet_y_400mf", 32)


@network
def torchvision_vit():
    from torchvision.models import VisionTransformer
    return VisionTransformer(32, 8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=10), (rows(3, 32, 32),)


@network
def torchvision_swin():
    from torchvision.models import SwinTransformer
    return SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10, stochastic_depth_prob=0.0), (rows(3, 32, 32),)


@network
def torchvision_swin_v2():
    from torchvision.models.swin_transformer import PatchMergingV2, SwinTransformer, SwinTransformerBlockV2
    return SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10, stochastic_depth_prob=0.0,
                           block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2), (rows(3, 32, 32),)


@network
def torchvision_convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt
    return ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 2)], num_classes=10), (rows(3, 32, 32),)


# ------------------------------------------------------------------ timm

def timm(name, size=64, **arguments):
    def make():
        import timm as library
        return library.create_model(name, num_classes=10, **arguments), (rows(3, size, size),)
    NETWORKS["timm/" + name] = make


timm("vit_tiny_patch16_224", 32, img_size=32, patch_size=8, embed_dim=48, depth=2)
timm("beit_base_patch16_224", 32, img_size=32, patch_size=8, embed_dim=48, depth=2, num_heads=3)
timm("cait_xxs24_224", 32, img_size=32, patch_size=8, embed_dim=48, depth=2, num_heads=3)
timm("xcit_nano_12_p16_224", 32, img_size=32, patch_size=8, embed_dim=48, depth=2, num_heads=4)
timm("swinv2_cr_tiny_224", 32, img_size=32, patch_size=4, window_size=4, embed_dim=24, depths=(2, 2), num_heads=(2, 4))
timm("mixer_s32_224", 64, img_size=64)
timm("gmlp_ti16_224", 64, img_size=64)
timm("resmlp_12_224", 64, img_size=64)
timm("convnextv2_atto", 32, depths=(1, 1, 1, 1), dims=(16, 24, 32, 40))
timm("nf_resnet26", 32)
timm("resnetv2_50", 32, layers=(1, 1, 1, 1))
timm("edgenext_xx_small", 64)
timm("poolformer_s12", 64)
timm("ghostnet_050", 64)
timm("levit_128s", 64, img_size=64)
timm("mobilevit_xxs", 64)


# ------------------------------------------------------------------ transformers

class Masked(First):
    """With a mask of ones: without one, recent versions look for packed sequences, which TorchScript cannot export."""

    def forward(self, ids):
        return getattr(self.net(ids, attention_mask=torch.ones_like(ids), **self.always), self.take)


def text(name, kind, config, length=8, words=64, take="logits", wrap=First, **settings):
    """A network of transformers by the names of its class and its configuration's."""
    def make():
        import transformers
        sized = getattr(transformers, config)(vocab_size=words, **settings)
        sized._attn_implementation = "eager"
        net = getattr(transformers, kind)(sized)
        always = {"use_cache": False} if "use_cache" in sized.to_dict() else {}
        return wrap(net, take, **always), (tokens(length, words),)
    NETWORKS["transformers/" + name] = make


BODY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48,
        "max_position_embeddings": 32}
LLAMA = dict(BODY, num_key_value_heads=1)

text("gpt2", "GPT2LMHeadModel", "GPT2Config", wrap=Masked, n_embd=32, n_layer=2, n_head=2, n_positions=32)
text("gpt_neo", "GPTNeoForCausalLM", "GPTNeoConfig", wrap=Masked, hidden_size=32, num_layers=2, num_heads=2, intermediate_size=48,
     max_position_embeddings=32, attention_types=[[["global", "local"], 1]], window_size=4)
text("opt", "OPTForCausalLM", "OPTConfig", wrap=Masked, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, ffn_dim=48,
     max_position_embeddings=32, word_embed_proj_dim=32)
text("llama", "LlamaForCausalLM", "LlamaConfig", wrap=Masked, **LLAMA)
text("qwen2", "Qwen2ForCausalLM", "Qwen2Config", wrap=Masked, tie_word_embeddings=True, **LLAMA)
text("gemma", "GemmaForCausalLM", "GemmaConfig", wrap=Masked, head_dim=16, **LLAMA)
text("bert", "BertForMaskedLM", "BertConfig", **BODY)
text("roberta", "RobertaForMaskedLM", "RobertaConfig", **BODY)
text("albert", "AlbertForMaskedLM", "AlbertConfig", embedding_size=16, **BODY)
text("electra", "ElectraForMaskedLM", "ElectraConfig", embedding_size=16, **BODY)
text("distilbert", "DistilBertForMaskedLM", "DistilBertConfig", dim=32, n_layers=2, n_heads=2, hidden_dim=48,
     max_position_embeddings=32)
text("mpnet", "MPNetForMaskedLM", "MPNetConfig", **BODY)
text("deberta_v2", "DebertaV2ForMaskedLM", "DebertaV2Config", relative_attention=True, position_buckets=8,
     pos_att_type=["p2c", "c2p"], **BODY)
text("rwkv", "RwkvForCausalLM", "RwkvConfig", hidden_size=32, num_hidden_layers=2, attention_hidden_size=32,
     intermediate_size=48, context_length=16)
text("mamba", "MambaForCausalLM", "MambaConfig", hidden_size=16, state_size=4, num_hidden_layers=2, expand=2,
     time_step_rank=4)


class Both(nn.Module):
    """Encoder and decoder read the same tokens."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, ids):
        return self.net(input_ids=ids, decoder_input_ids=ids, use_cache=False).logits


def sequence(name, kind, config, words=64, **settings):
    def make():
        import transformers
        sized = getattr(transformers, config)(vocab_size=words, **settings)
        sized._attn_implementation = "eager"
        return Both(getattr(transformers, kind)(sized)), (tokens(8, words),)
    NETWORKS["transformers/" + name] = make


BART = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 32}
sequence("t5", "T5ForConditionalGeneration", "T5Config", d_model=32, d_kv=16, d_ff=48, num_layers=1, num_heads=2)
sequence("bart", "BartForConditionalGeneration", "BartConfig", **BART)
sequence("marian", "MarianMTModel", "MarianConfig", pad_token_id=0, **BART)


@network
def transformers_whisper():
    import transformers
    config = transformers.WhisperConfig(vocab_size=64, num_mel_bins=8, max_source_positions=16, max_target_positions=16,
                                        d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                                        decoder_attention_heads=2, encoder_ffn_dim=48, decoder_ffn_dim=48,
                                        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    config._attn_implementation = "eager"

    class Speech(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = transformers.WhisperForConditionalGeneration(config)

        def forward(self, sound, ids):
            return self.net(input_features=sound, decoder_input_ids=ids, use_cache=False,
                            decoder_attention_mask=torch.ones_like(ids)).logits

    return Speech(), (rows(8, 32), tokens(8, 64))


@network
def transformers_clip():
    import transformers
    part = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.CLIPConfig(text_config=dict(part, vocab_size=64, max_position_embeddings=16, eos_token_id=63),
                                     vision_config=dict(part, image_size=32, patch_size=8), projection_dim=16)
    config._attn_implementation = "eager"

    class Pairs(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = transformers.CLIPModel(config)

        def forward(self, ids, image):
            return self.net(input_ids=ids, pixel_values=image).logits_per_image

    return Pairs(), (tokens(8, 64), rows(3, 32, 32))


@network
def transformers_wav2vec2():
    import transformers
    config = transformers.Wav2Vec2Config(vocab_size=32, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                                         intermediate_size=48, conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3),
                                         num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, apply_spec_augment=False,
                                         num_feat_extract_layers=2)
    config._attn_implementation = "eager"
    return First(transformers.Wav2Vec2ForCTC(config), "logits"), (rows(400),)


@network
def transformers_segformer():
    import transformers
    config = transformers.SegformerConfig(num_labels=10, depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32],
                                          num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=32)
    return First(transformers.SegformerForImageClassification(config), "logits"), (rows(3, 64, 64),)
