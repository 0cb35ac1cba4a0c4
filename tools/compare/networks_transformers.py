"""Networks of transformers, from configurations."""
import torch
from torch import nn

from networks_base import NETWORKS, First, network, rows, tokens


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
        sized._experts_implementation = "eager"  # the other ones have no float64
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


@network("transformers/whisper")
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


@network("transformers/clip")
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


@network("transformers/wav2vec2")
def transformers_wav2vec2():
    import transformers
    config = transformers.Wav2Vec2Config(vocab_size=32, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                                         intermediate_size=48, conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3),
                                         num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, apply_spec_augment=False,
                                         num_feat_extract_layers=2)
    config._attn_implementation = "eager"
    return First(transformers.Wav2Vec2ForCTC(config), "logits"), (rows(400),)


@network("transformers/segformer")
def transformers_segformer():
    import transformers
    config = transformers.SegformerConfig(num_labels=10, depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32],
                                          num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=32)
    return First(transformers.SegformerForImageClassification(config), "logits"), (rows(3, 64, 64),)


# ------------------------------------------------------------------ of one form

def kinds(names, form, **settings):
    """Architectures that take the same settings, each by the name of its classes."""
    for name in names.split():
        text(name.lower(), f"{name}For{form}", f"{name}Config", wrap=Masked if form == "CausalLM" else First, **settings)


kinds("Mistral Ministral Qwen3 Phi Phi3 StableLm Starcoder2 Olmo Olmo2 Olmo3 Cohere Cohere2 Granite Nemotron Persimmon SmolLM3 "
      "Helium Glm Glm4 Arcee SeedOss Exaone4 HunYuanDenseV1 Apertus Ernie4_5 NanoChat BitNet Cwm Jais2 Gemma2 VaultGemma "
      "Mixtral Olmoe Qwen2Moe Qwen3Moe", "CausalLM", pad_token_id=0, head_dim=16, **LLAMA)
kinds("GPTNeoX Falcon GPTNeoXJapanese", "CausalLM", **BODY)
kinds("GPTJ CodeGen", "CausalLM", n_embd=32, n_layer=2, n_head=2, n_positions=32, rotary_dim=8)
kinds("GPTBigCode", "CausalLM", n_embd=32, n_layer=2, n_head=2, n_positions=32)
kinds("Bloom", "CausalLM", hidden_size=32, n_layer=2, n_head=2)
kinds("Mpt", "CausalLM", d_model=32, n_layers=2, n_heads=2, max_seq_len=32, expansion_ratio=2)
kinds("BioGpt", "CausalLM", **BODY)
kinds("Mamba2", "CausalLM", hidden_size=16, state_size=4, num_hidden_layers=2, expand=2, num_heads=4, head_dim=8, n_groups=1,
      chunk_size=8)
kinds("FalconMamba", "CausalLM", hidden_size=16, state_size=4, num_hidden_layers=2, expand=2, time_step_rank=4)
kinds("Camembert Data2VecText Ernie MegatronBert RemBert RoFormer RobertaPreLayerNorm XLMRoberta XLMRobertaXL IBert FNet "
      "LayoutLM Nystromformer ConvBert Esm ModernBert NomicBert EuroBert Deberta", "MaskedLM",
      pad_token_id=0, **BODY)
kinds("RoCBert", "MaskedLM", pad_token_id=1, **BODY)  # it reads row 0 of two embeddings, whose padding_idx no file keeps
kinds("SqueezeBert", "MaskedLM", embedding_size=32, **BODY)
for encoder_decoder in ("MBart", "Pegasus", "Blenderbot", "BlenderbotSmall", "PLBart", "Mvp", "M2M100"):
    sequence(encoder_decoder.lower(), f"{encoder_decoder}ForConditionalGeneration", f"{encoder_decoder}Config", pad_token_id=0, **BART)
for like_t5 in ("MT5", "UMT5"):
    sequence(like_t5.lower(), f"{like_t5}ForConditionalGeneration", f"{like_t5}Config", d_model=32, d_kv=16, d_ff=48, num_layers=1,
             num_heads=2)


def image(name, size=32, **settings):
    """A classifier of images by the name of its classes."""
    def make():
        import transformers
        config = getattr(transformers, f"{name}Config")(num_labels=10, **settings)
        config._attn_implementation = "eager"
        return First(getattr(transformers, f"{name}ForImageClassification")(config), "logits"), (rows(3, size, size),)
    NETWORKS["transformers/" + name.lower()] = make


PATCHES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48, "image_size": 32,
           "patch_size": 8}
WINDOWS = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
for vit in ("ViT", "DeiT", "Beit", "Data2VecVision", "Dinov2", "Dinov2WithRegisters", "ViTMSN", "IJepa"):
    image(vit, **PATCHES)
for swin in ("Swin", "Swinv2", "DonutSwin"):
    image(swin, **WINDOWS)
for next_ in ("ConvNext", "ConvNextV2"):
    image(next_, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])
for residual, more in (("ResNet", {}), ("RegNet", {}), ("Bit", {"num_groups": 4})):
    image(residual, 64, embedding_size=16, hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 1, 1], **more)
image("FocalNet", image_size=32, embed_dim=16, depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3])
image("PoolFormer", 64, depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32])
image("MobileNetV1", 64, depth_multiplier=0.25)
image("MobileNetV2", 64, depth_multiplier=0.35)
image("Pvt", 64, image_size=64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4])
image("PvtV2", 64, image_size=64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4])
image("Levit", 64, image_size=64, hidden_sizes=[32, 48, 64], num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[8, 8, 8])
image("MobileViT", 64, image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32])
image("Siglip", vision_config=dict(PATCHES))
image("SwiftFormer", 64, depths=[1, 1, 1, 1], embed_dims=[8, 16, 24, 32])
