"""Networks of transformers of other kinds than those of networks_transformers.py: sparse attention, state spaces beside attention,
experts, sound, series of numbers, boxes and masks, pictures with text, videos."""
import torch
from torch import nn

from networks_base import NETWORKS, First, network, rows, tokens
from networks_transformers import BART, BODY, LLAMA, PATCHES, Masked, kinds, sequence, text


def any_of(name, kind, config, inputs, take="logits", **settings):
    """A network by the names of its class and its configuration's, called with these inputs by keyword: name -> function, or what
    is always the same."""
    def make():
        import transformers
        sized = getattr(transformers, config)(**settings)
        for part in [sized] + [p for p in vars(sized).values() if isinstance(p, transformers.PreTrainedConfig)]:
            part._attn_implementation = part._experts_implementation = "eager"
        given = {key: f() for key, f in inputs.items() if callable(f)}
        always = {key: value for key, value in inputs.items() if not callable(value)}
        return Keywords(getattr(transformers, kind)(sized), take, list(given), always), tuple(given.values())
    NETWORKS["transformers/" + name] = make


class Keywords(nn.Module):
    """Takes its inputs by position, and gives one tensor of what a network returns."""

    def __init__(self, net, take, keys, always):
        super().__init__()
        self.net, self.take, self.keys, self.always = net, take, keys, always

    def forward(self, *inputs):
        found = self.net(**dict(zip(self.keys, inputs)), **self.always)
        return getattr(found, self.take) if isinstance(self.take, str) else self.take(found)


# ------------------------------------------------------------------ text

class Evaluated(First):
    """As evaluated: in training it draws what each block sees, which files hold once."""

    def train(self, mode=True):
        return super().train(False)



kinds("DiffLlama ModernBertDecoder", "CausalLM", pad_token_id=0, head_dim=16, **dict(LLAMA, num_key_value_heads=2))
text("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", head_dim=16, layer_types=["sliding_attention", "full_attention"],
     sliding_window=4, pad_token_id=0, wrap=Masked, **LLAMA)
text("openai_gpt", "OpenAIGPTLMHeadModel", "OpenAIGPTConfig", wrap=Masked, n_embd=32, n_layer=2, n_head=2, n_positions=32)
text("ctrl", "CTRLLMHeadModel", "CTRLConfig", wrap=Masked, n_embd=32, dff=48, n_layer=2, n_head=2, n_positions=32)
text("recurrent_gemma", "RecurrentGemmaForCausalLM", "RecurrentGemmaConfig", wrap=Masked, hidden_size=32, num_hidden_layers=3, num_attention_heads=2,
     intermediate_size=96, lru_width=32, attention_window_size=8, block_types=("recurrent", "recurrent", "attention"), pad_token_id=0)
text("falcon_h1", "FalconH1ForCausalLM", "FalconH1Config", wrap=Masked, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=4,
     mamba_chunk_size=8, pad_token_id=0, **LLAMA)
text("lfm2", "Lfm2ForCausalLM", "Lfm2Config", wrap=Masked, layer_types=["conv", "full_attention"], block_multiple_of=16, pad_token_id=0,
     **LLAMA)
text("bamba", "BambaForCausalLM", "BambaConfig", wrap=Masked, attn_layer_indices=[1], mamba_n_heads=4, mamba_d_head=16, mamba_d_state=4,
     mamba_chunk_size=8, pad_token_id=0, **LLAMA)
text("zamba2", "Zamba2ForCausalLM", "Zamba2Config", wrap=Masked, layers_block_type=["mamba", "hybrid"], mamba_d_state=4, n_mamba_heads=4, mamba_ngroups=1,
     mamba_headdim=16, chunk_size=8, attention_head_dim=32, pad_token_id=0, use_mem_eff_path=False, **dict(LLAMA, num_key_value_heads=2))
text("jamba", "JambaForCausalLM", "JambaConfig", wrap=Masked, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=4, expert_layer_offset=3,
     mamba_d_state=4, mamba_dt_rank=4, use_mamba_kernels=False, pad_token_id=0, **LLAMA)
text("qwen3_next", "Qwen3NextForCausalLM", "Qwen3NextConfig", wrap=Masked, head_dim=16, layer_types=["linear_attention", "full_attention"],
     linear_num_value_heads=2, linear_num_key_heads=2, linear_key_head_dim=8, linear_value_head_dim=8, num_experts=0, pad_token_id=0,
     mlp_only_layers=[0, 1], **LLAMA)
EXPERTS = {"moe_intermediate_size": 24, "num_experts_per_tok": 2, "pad_token_id": 0}
text("deepseek_v2", "DeepseekV2ForCausalLM", "DeepseekV2Config", wrap=Masked, n_routed_experts=4, first_k_dense_replace=2, kv_lora_rank=8, q_lora_rank=12,
     qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, **EXPERTS, **dict(LLAMA, num_key_value_heads=2))
text("deepseek_v3", "DeepseekV3ForCausalLM", "DeepseekV3Config", wrap=Masked, n_routed_experts=4, first_k_dense_replace=2, kv_lora_rank=8, q_lora_rank=12,
     qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, n_group=2, topk_group=1, **EXPERTS, **dict(LLAMA, num_key_value_heads=2))
text("deepseek_v3_experts", "DeepseekV3ForCausalLM", "DeepseekV3Config", wrap=Masked, n_routed_experts=4, first_k_dense_replace=1, kv_lora_rank=8, q_lora_rank=12,
     qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, n_group=2, topk_group=1, **EXPERTS, **dict(LLAMA, num_key_value_heads=2))
text("gpt_oss", "GptOssForCausalLM", "GptOssConfig", wrap=Masked, num_local_experts=4, num_experts_per_tok=2, head_dim=16, sliding_window=4,
     layer_types=["sliding_attention", "full_attention"], pad_token_id=0, **LLAMA)
text("granite_moe", "GraniteMoeForCausalLM", "GraniteMoeConfig", wrap=Masked, num_local_experts=4, num_experts_per_tok=2, pad_token_id=0, **LLAMA)
text("longformer", "LongformerForMaskedLM", "LongformerConfig", attention_window=4, pad_token_id=1, **BODY)
text("big_bird", "BigBirdForMaskedLM", "BigBirdConfig", length=16, attention_type="block_sparse", block_size=2, num_random_blocks=1, pad_token_id=0,
     wrap=Evaluated, **BODY)
text("xlnet", "XLNetLMHeadModel", "XLNetConfig", d_model=32, n_layer=2, n_head=2, d_inner=48, pad_token_id=0)
text("reformer", "ReformerForMaskedLM", "ReformerConfig", length=16, is_decoder=False, attention_head_size=16, attn_layers=["local", "local"],
     axial_pos_embds=False, feed_forward_size=48, hidden_size=32, local_attn_chunk_length=4, num_attention_heads=2, max_position_embeddings=32)
text("funnel", "FunnelForMaskedLM", "FunnelConfig", block_sizes=[1, 1], num_decoder_layers=1, d_model=32, n_head=2, d_head=16, d_inner=48)
text("luke", "LukeForMaskedLM", "LukeConfig", entity_vocab_size=8, entity_emb_size=16, **BODY)
text("lilt", "LiltForTokenClassification", "LiltConfig", num_labels=5, channel_shrink_ratio=2, max_2d_position_embeddings=64, **dict(BODY, hidden_size=48))
text("xmod", "XmodForMaskedLM", "XmodConfig", default_language="en_XX", **BODY)
text("flaubert", "FlaubertWithLMHeadModel", "FlaubertConfig", emb_dim=32, n_layers=2, n_heads=2, max_position_embeddings=32)
text("xlm", "XLMWithLMHeadModel", "XLMConfig", emb_dim=32, n_layers=2, n_heads=2, max_position_embeddings=32)
text("splinter", "SplinterForQuestionAnswering", "SplinterConfig", take="start_logits", question_token_id=3, **BODY)
text("markuplm", "MarkupLMForTokenClassification", "MarkupLMConfig", num_labels=5, max_depth=4, xpath_unit_hidden_size=8, **BODY)
text("tapas", "TapasForSequenceClassification", "TapasConfig", num_labels=5, **BODY)
sequence("longt5", "LongT5ForConditionalGeneration", "LongT5Config", d_model=32, d_kv=16, d_ff=48, num_layers=1, num_heads=2, local_radius=3)
sequence("longt5_global", "LongT5ForConditionalGeneration", "LongT5Config", d_model=32, d_kv=16, d_ff=48, num_layers=1, num_heads=2, local_radius=3,
         encoder_attention_type="transient-global", global_block_size=4)
sequence("switch", "SwitchTransformersForConditionalGeneration", "SwitchTransformersConfig", d_model=32, d_kv=16, d_ff=48, num_layers=2,
         num_decoder_layers=2, num_heads=2, num_experts=4, num_sparse_encoder_layers=0, num_sparse_decoder_layers=0)
sequence("led", "LEDForConditionalGeneration", "LEDConfig", pad_token_id=0, attention_window=4, max_encoder_position_embeddings=32,
         max_decoder_position_embeddings=32, **{k: v for k, v in BART.items() if k != "max_position_embeddings"})
sequence("bigbird_pegasus", "BigBirdPegasusForConditionalGeneration", "BigBirdPegasusConfig", pad_token_id=0, attention_type="original_full", **BART)
sequence("pegasus_x", "PegasusXForConditionalGeneration", "PegasusXConfig", pad_token_id=0, block_size=4, num_global_tokens=2, **BART)
sequence("prophetnet", "ProphetNetForConditionalGeneration", "ProphetNetConfig", hidden_size=32, num_encoder_layers=1, num_decoder_layers=1,
         num_encoder_attention_heads=2, num_decoder_attention_heads=2, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=32,
         pad_token_id=0)

# ------------------------------------------------------------------ pictures

IMAGE = {"pixel_values": lambda: rows(3, 32, 32)}
IMAGE64 = {"pixel_values": lambda: rows(3, 64, 64)}
any_of("dpt", "DPTForSemanticSegmentation", "DPTConfig", IMAGE, **dict(PATCHES, num_hidden_layers=4), backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 16, 16],
       fusion_hidden_size=16, num_labels=5, use_auxiliary_head=False)
any_of("glpn", "GLPNForDepthEstimation", "GLPNConfig", IMAGE64, lambda r: r.predicted_depth[:, None], depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32],
       num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16)
any_of("image_gpt", "ImageGPTForCausalImageModeling", "ImageGPTConfig", {"input_ids": lambda: tokens(8, 33), "use_cache": False}, vocab_size=33,
       n_positions=32, n_embd=32, n_layer=2, n_head=2)
any_of("vitdet", "VitDetModel", "VitDetConfig", IMAGE, lambda r: r.last_hidden_state, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
       image_size=32, patch_size=8, window_size=2, window_block_indices=[0], use_relative_position_embeddings=True, residual_block_indices=[1])
any_of("hiera", "HieraForImageClassification", "HieraConfig", IMAGE64, image_size=[64, 64], embed_dim=16, depths=[1, 1, 1], num_heads=[1, 2, 4],
       num_query_pool=2, num_labels=10, mlp_ratio=2.0)
any_of("textnet", "TextNetForImageClassification", "TextNetConfig", IMAGE64, num_labels=10, stem_out_channels=8, hidden_sizes=[8, 8, 16, 16, 16],
       conv_layer_kernel_sizes=[[[3, 3]], [[3, 1]], [[1, 3]], [[3, 3]]], conv_layer_strides=[[2], [2], [1], [2]])
any_of("efficientnet", "EfficientNetForImageClassification", "EfficientNetConfig", IMAGE64, num_labels=10, image_size=64, hidden_dim=640,
       width_coefficient=0.5, depth_coefficient=0.2)
any_of("mobilevitv2", "MobileViTV2ForSemanticSegmentation", "MobileViTV2Config", IMAGE64, num_labels=5, image_size=64, width_multiplier=0.25,
       base_attn_unit_dims=[32, 48, 64], n_attn_blocks=[1, 1, 1])
any_of("dinov3", "DINOv3ViTModel", "DINOv3ViTConfig", IMAGE, lambda r: r.pooler_output, **PATCHES, num_register_tokens=2,
       pos_embed_rescale=None)
any_of("dinov3_convnext", "DINOv3ConvNextModel", "DINOv3ConvNextConfig", IMAGE, lambda r: r.pooler_output, hidden_sizes=[8, 16, 24, 32],
       depths=[1, 1, 1, 1])
any_of("vit_mae", "ViTMAEForPreTraining", "ViTMAEConfig", dict(IMAGE, noise=lambda: rows(16)), **PATCHES, decoder_hidden_size=16,
       decoder_num_hidden_layers=1, decoder_num_attention_heads=2, decoder_intermediate_size=24)
any_of("clipseg", "CLIPSegForImageSegmentation", "CLIPSegConfig", dict(IMAGE, input_ids=lambda: tokens(8, 64)),
       lambda r: r.logits[:, None], text_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, vocab_size=64,
                                max_position_embeddings=16, eos_token_id=63),
       vision_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2, image_size=32, patch_size=8),
       projection_dim=16, extract_layers=[0, 1, 2], reduce_dim=16, decoder_num_attention_heads=2, decoder_intermediate_size=24)
any_of("upernet", "UperNetForSemanticSegmentation", "UperNetConfig", IMAGE64, num_labels=5, hidden_size=16, pool_scales=[1, 2], use_auxiliary_head=False,
       backbone_config=dict(model_type="convnext", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1],
                            out_features=["stage1", "stage2", "stage3", "stage4"]))
DETR = dict(d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=48,
            decoder_ffn_dim=48)
RESNET = dict(model_type="resnet", embedding_size=16, hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 1, 1], out_features=["stage4"])
any_of("detr", "DetrForObjectDetection", "DetrConfig", IMAGE64, lambda r: torch.cat([r.logits, r.pred_boxes], -1)[:, None], **DETR, num_queries=5,
       num_labels=4, use_timm_backbone=False, backbone_config=dict(RESNET), use_pretrained_backbone=False)
any_of("conditional_detr", "ConditionalDetrForObjectDetection", "ConditionalDetrConfig", IMAGE64, lambda r: torch.cat([r.logits, r.pred_boxes], -1)[:, None],
       **DETR, num_queries=5, num_labels=4, use_timm_backbone=False, backbone_config=dict(RESNET), use_pretrained_backbone=False)
any_of("rt_detr", "RTDetrForObjectDetection", "RTDetrConfig", IMAGE64, lambda r: torch.cat([r.logits, r.pred_boxes], -1)[:, None], d_model=32,
       encoder_hidden_dim=32, encoder_in_channels=[16, 24, 32], feat_strides=[8, 16, 32], encoder_ffn_dim=48, encoder_attention_heads=2,
       decoder_attention_heads=2, decoder_ffn_dim=48, decoder_layers=2, num_queries=5, num_denoising=0, decoder_in_channels=[32, 32, 32],
       num_labels=4, hidden_expansion=0.5,
       backbone_config=dict(model_type="rt_detr_resnet", embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1],
                            layer_type="basic", out_features=["stage2", "stage3", "stage4"]))
any_of("yolos", "YolosForObjectDetection", "YolosConfig", {"pixel_values": lambda: rows(3, 32, 32)}, lambda r: torch.cat([r.logits, r.pred_boxes], -1)[:, None],
       **dict(PATCHES, image_size=[32, 32]), num_detection_tokens=5, num_labels=4)
any_of("maskformer", "MaskFormerForInstanceSegmentation", "MaskFormerConfig", IMAGE64, lambda r: r.masks_queries_logits, fpn_feature_size=32, mask_feature_size=32,
       num_labels=4, backbone_config=dict(model_type="swin", image_size=64, patch_size=4, embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 4], window_size=4,
                            out_features=["stage1", "stage2", "stage3", "stage4"]),
       decoder_config=dict(model_type="detr", num_queries=5, use_timm_backbone=False, backbone_config=dict(RESNET), **DETR))
any_of("mask2former", "Mask2FormerForUniversalSegmentation", "Mask2FormerConfig", IMAGE64, lambda r: r.masks_queries_logits, feature_size=32, mask_feature_size=32,
       hidden_dim=32, encoder_feedforward_dim=48, encoder_layers=1, decoder_layers=2, num_attention_heads=2, dim_feedforward=48, num_queries=5, num_labels=4,
       backbone_config=dict(model_type="swin", image_size=64, patch_size=4, embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 4], window_size=4,
                            out_features=["stage1", "stage2", "stage3", "stage4"]))
any_of("swin2sr", "Swin2SRForImageSuperResolution", "Swin2SRConfig", {"pixel_values": lambda: rows(3, 16, 16)}, lambda r: r.reconstruction, image_size=16,
       embed_dim=16, depths=[2], num_heads=[2], window_size=4, upscale=2, upsampler="pixelshuffledirect")
any_of("sam_vision", "SamVisionModel", "SamVisionConfig", IMAGE64, lambda r: r.last_hidden_state, hidden_size=32, output_channels=16, num_hidden_layers=2,
       num_attention_heads=2, image_size=64, patch_size=16, window_size=2, global_attn_indexes=[1], mlp_dim=48)
any_of("vit_pose", "VitPoseForPoseEstimation", "VitPoseConfig", {"pixel_values": lambda: rows(3, 32, 32)}, lambda r: r.heatmaps, num_labels=4,
       backbone_config=dict(model_type="vitpose_backbone", hidden_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=[32, 32], patch_size=[8, 8],
                            out_indices=[2]), use_simple_decoder=False)
any_of("perceiver", "PerceiverForMaskedLM", "PerceiverConfig", {"inputs": lambda: tokens(8, 64)}, num_latents=6, d_latents=32, d_model=24, num_blocks=1,
       num_self_attends_per_block=2, num_self_attention_heads=2, num_cross_attention_heads=2, vocab_size=64, max_position_embeddings=8)
any_of("perceiver_image", "PerceiverForImageClassificationLearned", "PerceiverConfig", {"inputs": lambda: rows(3, 16, 16)}, num_latents=6, d_latents=32, d_model=512,
       num_blocks=1, num_self_attends_per_block=1, num_self_attention_heads=2, num_cross_attention_heads=2, image_size=16, num_labels=5)
any_of("videomae", "VideoMAEForVideoClassification", "VideoMAEConfig", {"pixel_values": lambda: rows(4, 3, 32, 32)}, **PATCHES, num_frames=4, num_labels=10)
any_of("timesformer", "TimesformerForVideoClassification", "TimesformerConfig", {"pixel_values": lambda: rows(2, 3, 32, 32)}, **PATCHES, num_frames=2,
       num_labels=10)
any_of("vivit", "VivitForVideoClassification", "VivitConfig", {"pixel_values": lambda: rows(4, 3, 32, 32)}, **{k: v for k, v in PATCHES.items() if k != "patch_size"},
       num_frames=4, tubelet_size=[2, 8, 8], num_labels=10)
any_of("vilt", "ViltForQuestionAnswering", "ViltConfig", dict(IMAGE, input_ids=lambda: tokens(6, 64)), vocab_size=64, num_labels=10, **PATCHES,
       max_position_embeddings=16)
any_of("layoutlmv3", "LayoutLMv3ForTokenClassification", "LayoutLMv3Config", {"input_ids": lambda: tokens(8, 64)}, vocab_size=64, num_labels=5,
       visual_embed=False, coordinate_size=6, shape_size=4, max_2d_position_embeddings=64, **BODY)
any_of("lxmert", "LxmertForQuestionAnswering", "LxmertConfig", {"input_ids": lambda: tokens(6, 64), "visual_feats": lambda: rows(4, 12),
       "visual_pos": lambda: rows(4, 4)}, lambda r: r.question_answering_score, vocab_size=64, visual_feat_dim=12, num_qa_labels=5, l_layers=1, x_layers=1, r_layers=1,
       hidden_size=32, num_attention_heads=2, intermediate_size=48, max_position_embeddings=32)
any_of("owlvit", "OwlViTForObjectDetection", "OwlViTConfig", {"input_ids": lambda: tokens(6, 64), "pixel_values": lambda: rows(3, 32, 32)},
       lambda r: torch.cat([r.logits, r.pred_boxes], -1)[:, None],
       text_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2, vocab_size=64, max_position_embeddings=16),
       vision_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2, image_size=32, patch_size=8), projection_dim=32)
any_of("blip", "BlipForImageTextRetrieval", "BlipConfig", {"input_ids": lambda: tokens(6, 64), "pixel_values": lambda: rows(3, 32, 32), "use_itm_head": True},
       lambda r: r.itm_score, image_text_hidden_size=16,
       text_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2, vocab_size=64, max_position_embeddings=16,
                        encoder_hidden_size=32, bos_token_id=1, sep_token_id=2, pad_token_id=0),
       vision_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2, image_size=32, patch_size=8))
any_of("mgp_str", "MgpstrForSceneTextRecognition", "MgpstrConfig", {"pixel_values": lambda: rows(3, 32, 64)}, lambda r: r.logits[0], image_size=[32, 64],
       patch_size=8, max_token_length=5, num_character_labels=12, num_bpe_labels=13, num_wordpiece_labels=14, hidden_size=32, num_hidden_layers=1,
       num_attention_heads=2)

# ------------------------------------------------------------------ sound

SOUND = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48, conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3),
             num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, apply_spec_augment=False, num_feat_extract_layers=2, vocab_size=32)
WAVE = {"input_values": lambda: rows(400)}
for kind in ("Hubert", "WavLM", "UniSpeech", "Wav2Vec2Conformer", "SEW"):
    any_of(kind.lower(), f"{kind}ForCTC", f"{kind}Config", WAVE, **SOUND, **({"squeeze_factor": 2} if kind == "SEW" else {}))
any_of("wav2vec2_bert", "Wav2Vec2BertForCTC", "Wav2Vec2BertConfig", {"input_features": lambda: rows(8, 16)}, vocab_size=32, hidden_size=32,
       num_hidden_layers=1, num_attention_heads=2, intermediate_size=48, feature_projection_input_dim=16, apply_spec_augment=False,
       conv_depthwise_kernel_size=3)
any_of("ast", "ASTForAudioClassification", "ASTConfig", {"input_values": lambda: rows(32, 16)}, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
       intermediate_size=48, patch_size=8, frequency_stride=4, time_stride=4, max_length=32, num_mel_bins=16, num_labels=10)
any_of("speech2text", "Speech2TextForConditionalGeneration", "Speech2TextConfig", {"input_features": lambda: rows(16, 8), "decoder_input_ids": lambda: tokens(6, 32),
       "use_cache": False}, vocab_size=32, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
       encoder_ffn_dim=48, decoder_ffn_dim=48, input_feat_per_channel=8, conv_channels=16, max_source_positions=32, max_target_positions=32, pad_token_id=0)
any_of("speecht5", "SpeechT5ForSpeechToText", "SpeechT5Config", {"input_values": lambda: rows(400), "decoder_input_ids": lambda: tokens(6, 32), "use_cache": False},
       **{k: v for k, v in SOUND.items() if not k.startswith(("num_hidden", "num_att", "interm"))}, encoder_layers=1, decoder_layers=1,
       encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=48, decoder_ffn_dim=48)
any_of("moonshine", "MoonshineForConditionalGeneration", "MoonshineConfig", {"input_values": lambda: rows(1600), "decoder_input_ids": lambda: tokens(6, 32),
       "use_cache": False}, vocab_size=32, hidden_size=32, intermediate_size=48, encoder_num_hidden_layers=1, decoder_num_hidden_layers=1,
       encoder_num_attention_heads=2, decoder_num_attention_heads=2, pad_token_id=0)

@network("transformers/encodec")
def transformers_encodec():
    """Its encoder and decoder, without the quantizer between."""
    import transformers
    config = transformers.EncodecConfig(num_filters=4, hidden_size=8, upsampling_ratios=[2, 2], kernel_size=3, last_kernel_size=3, codebook_size=16,
                                        codebook_dim=8)
    net = transformers.EncodecModel(config)
    return nn.Sequential(net.encoder, net.decoder, nn.Unflatten(1, (1, 1))), (rows(1, 64),)


@network("transformers/dac")
def transformers_dac():
    import transformers
    config = transformers.DacConfig(encoder_hidden_size=8, downsampling_ratios=[2, 2], decoder_hidden_size=16, n_codebooks=2, codebook_size=16,
                                    codebook_dim=4, hidden_size=32)
    return Keywords(transformers.DacModel(config), lambda r: r.audio_values[:, None, None], ["input_values"], {}), (rows(1, 64),)


# ------------------------------------------------------------------ series of numbers

any_of("patch_tst", "PatchTSTForPrediction", "PatchTSTConfig", {"past_values": lambda: rows(16, 3)}, lambda r: r.prediction_outputs[:, None], num_input_channels=3,
       context_length=16, prediction_length=4, patch_length=4, patch_stride=4, d_model=16, num_attention_heads=2, num_hidden_layers=2, ffn_dim=24,
       loss="mse", head_dropout=0.0, use_cls_token=False)
any_of("patch_tsmixer", "PatchTSMixerForPrediction", "PatchTSMixerConfig", {"past_values": lambda: rows(16, 3)}, lambda r: r.prediction_outputs[:, None],
       num_input_channels=3, context_length=16, prediction_length=4, patch_length=4, patch_stride=4, d_model=16, num_layers=2, loss="mse",
       mode="mix_channel", gated_attn=True)
SERIES = dict(prediction_length=4, context_length=8, lags_sequence=[1, 2], num_time_features=2, d_model=16, encoder_layers=1, decoder_layers=1,
              encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24)
PAST = {"past_values": lambda: rows(10), "past_time_features": lambda: rows(10, 2), "past_observed_mask": torch.ones(4, 10),
        "future_values": lambda: rows(4), "future_time_features": lambda: rows(4, 2)}
for kind in ("TimeSeriesTransformer", "Informer"):
    any_of(kind.lower(), f"{kind}ForPrediction", f"{kind}Config", PAST, lambda r: torch.stack(r.params, -1)[:, None], **SERIES,
           **({"sampling_factor": 2} if kind == "Informer" else {}))
any_of("decision_transformer", "DecisionTransformerModel", "DecisionTransformerConfig",
       {"states": lambda: rows(5, 6), "actions": lambda: rows(5, 3), "rewards": lambda: rows(5, 1), "returns_to_go": lambda: rows(5, 1),
        "timesteps": lambda: tokens(5, 16), "attention_mask": torch.ones(4, 5)}, lambda r: r.action_preds[:, None], state_dim=6, act_dim=3, hidden_size=32,
       max_ep_len=16, n_layer=1, n_head=2, n_inner=48)
