"""Further networks of transformers: deformable attention, depth, pictures in grids beside text, sound, series, videos."""
import torch

from networks_base import network, rows, tokens
from networks_transformers import BODY, LLAMA, PATCHES
from networks_transformers_kinds import DETR, IMAGE64, RESNET, Keywords, any_of

any_of("deformable_detr", "DeformableDetrForObjectDetection", "DeformableDetrConfig", IMAGE64, lambda r: torch.cat([r.logits, r.pred_boxes], -1)[:, None], **DETR,
       num_queries=5, num_labels=4, num_feature_levels=3, encoder_n_points=2, decoder_n_points=2, two_stage=True, with_box_refine=True,
       two_stage_num_proposals=5, backbone_config=dict(RESNET, out_features=["stage2", "stage3", "stage4"]))
any_of("zoedepth", "ZoeDepthForDepthEstimation", "ZoeDepthConfig", {"pixel_values": lambda: rows(3, 32, 32)}, lambda r: r.predicted_depth[:, None],
       backbone_config=dict(PATCHES, model_type="beit", num_hidden_layers=4, reshape_hidden_states=False, use_relative_position_bias=True,
                            out_features=["stage1", "stage2", "stage3", "stage4"]),
       backbone_hidden_size=32, neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16, bottleneck_features=16, num_attractors=[4, 2, 2, 1],
       bin_embedding_dim=16, num_relative_features=8, bin_configurations=[{"n_bins": 8, "min_depth": 0.001, "max_depth": 10.0, "name": "nyu"}])


class Pictures(Keywords):
    """Patches of the pictures of all samples in one tensor, and tokens that begin with those that pictures replace."""

    def __init__(self, net, count, always):
        super().__init__(net, "logits", [], always)
        self.count = count

    def forward(self, ids, patches):
        ids = torch.cat([torch.ones_like(ids[:, :1]).expand(-1, self.count), ids], 1)
        return self.net(input_ids=ids, pixel_values=patches.flatten(0, 1), attention_mask=torch.ones_like(ids), **self.always).logits


@network("transformers/qwen2_5_vl")
def transformers_qwen2_5_vl():
    """Pictures of 4 x 4 patches, of which 2 x 2 become a token each."""
    import transformers
    config = transformers.Qwen2_5_VLConfig(
        image_token_id=1, video_token_id=62, vision_start_token_id=60, vision_end_token_id=61,
        text_config=dict(LLAMA, vocab_size=64, num_key_value_heads=2, bos_token_id=2, eos_token_id=3, pad_token_id=0,
                         rope_parameters={"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}),
        vision_config=dict(depth=2, hidden_size=32, out_hidden_size=32, intermediate_size=48, num_heads=2, patch_size=8, spatial_merge_size=2,
                           temporal_patch_size=2, window_size=16, fullatt_block_indexes=[1]))
    for part in (config, config.text_config, config.vision_config):
        part._attn_implementation = "eager"
    always = {"image_grid_thw": torch.tensor([[1, 4, 4]] * 4), "mm_token_type_ids": torch.tensor([[1] * 4 + [0] * 8] * 4, dtype=torch.int32), "use_cache": False}
    return Pictures(transformers.Qwen2_5_VLForConditionalGeneration(config), 4, always), (tokens(8, 64), rows(16, 384))


any_of("clap", "ClapModel", "ClapConfig", {"input_ids": lambda: tokens(6, 64), "input_features": lambda: rows(1, 64, 16)}, lambda r: r.logits_per_audio,
       projection_dim=16, text_config=dict(vocab_size=64, **BODY),
       audio_config=dict(window_size=4, num_mel_bins=16, spec_size=32, patch_size=4, patch_stride=[4, 4], depths=[1, 1], num_attention_heads=[1, 2],
                         hidden_size=32, patch_embeds_hidden_size=16, num_hidden_layers=2))
any_of("bark_fine", "BarkFineModel", "BarkFineConfig", {"codebook_idx": 2, "input_ids": lambda: torch.randint(2, 64, (4, 8, 4))}, block_size=16, num_layers=2,
       input_vocab_size=64, output_vocab_size=64, num_heads=2, hidden_size=32, n_codes_total=4, n_codes_given=1)
any_of("seamless_v2_speech", "SeamlessM4Tv2ForSpeechToText", "SeamlessM4Tv2Config",
       {"input_features": lambda: rows(32, 16), "decoder_input_ids": lambda: tokens(6, 64), "use_cache": False}, vocab_size=64, hidden_size=32,
       max_position_embeddings=32, speech_encoder_layers=1, speech_encoder_attention_heads=2, speech_encoder_intermediate_size=48, decoder_layers=1,
       decoder_ffn_dim=48, decoder_attention_heads=2, feature_projection_input_dim=16, conv_depthwise_kernel_size=5, speech_encoder_chunk_size=16)
any_of("timesfm", "TimesFmModelForPrediction", "TimesFmConfig", {"past_values": lambda: rows(16), "freq": torch.zeros(4, 1, dtype=torch.long)},
       lambda r: r.mean_predictions, patch_length=4, context_length=16, horizon_length=8, num_hidden_layers=2, hidden_size=32, intermediate_size=48,
       head_dim=16, num_attention_heads=2)
any_of("vjepa2", "VJEPA2ForVideoClassification", "VJEPA2Config", {"pixel_values_videos": lambda: rows(4, 3, 32, 32)}, crop_size=32, patch_size=8,
       frames_per_clip=4, hidden_size=32, num_attention_heads=2, num_hidden_layers=2, mlp_ratio=2, num_pooler_layers=1, pred_hidden_size=24,
       pred_num_attention_heads=2, pred_num_hidden_layers=1, num_labels=5)
any_of("jetmoe", "JetMoeForCausalLM", "JetMoeConfig", {"input_ids": lambda: tokens(8, 64), "use_cache": False}, vocab_size=64, hidden_size=32,
       num_hidden_layers=2, num_key_value_heads=2, kv_channels=16, intermediate_size=48, max_position_embeddings=64, num_local_experts=4,
       num_experts_per_tok=2, bos_token_id=2, eos_token_id=3)
