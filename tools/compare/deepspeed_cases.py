"""The cases of tools/compare_deepspeed: a config that both sides are given, and how far their losses may be apart. Configs turn
clipping off unless they say something else. Rates are such that no loss falls below 0.1: a smaller one is a difference of logits
whose rounding alone is above the bound."""
from dataclasses import dataclass

BOTH = ("MLP", "ConvNet")
EXACT = 1e-6  # relative


@dataclass
class Case:
    name: str
    config: dict
    networks: tuple = BOTH
    bound: float | None = EXACT  # None: known to differ, the remark says why
    remark: str = ""


def with_optimizer(name, kind, params, bound=EXACT, remark="", networks=BOTH, **more):
    return Case(name, {"optimizer": {"type": kind, "params": params}, **more}, networks, bound, remark)


def zero(stage, offload=False):
    section = {"stage": stage, **({"offload_optimizer": {"device": "cpu"}} if offload else {})}
    return {"zero_optimization": section, "zero_allow_untested_optimizer": True}


ADAM = {"lr": 3e-3, "betas": [0.9, 0.99], "eps": 1e-6, "weight_decay": 0.1}
LION = {"lr": 3e-4, "betas": [0.9, 0.98], "weight_decay": 0.1}

OPTIMIZERS = [
    with_optimizer("Adam", "Adam", ADAM),
    with_optimizer("Adam, adam_w_mode false", "Adam", {**ADAM, "adam_w_mode": False}),
    with_optimizer("Adam, no bias_correction", "Adam", {**ADAM, "lr": 1e-3, "bias_correction": False}),
    with_optimizer("Adam, torch_adam", "Adam", {**ADAM, "torch_adam": True}),
    with_optimizer("Adam, torch_adam, not adam_w_mode", "Adam", {**ADAM, "torch_adam": True, "adam_w_mode": False}),
    with_optimizer("Adam, defaults", "Adam", {}),
    with_optimizer("Adam, offload", "Adam", ADAM, **zero(1, True)),
    with_optimizer("Adam, L2, offload", "Adam", {**ADAM, "adam_w_mode": False}, **zero(2, True)),
    with_optimizer("AdamW", "AdamW", ADAM),
    with_optimizer("AdamW, torch_adam, defaults", "AdamW", {"torch_adam": True}),
    with_optimizer("AdamW, offload", "AdamW", ADAM, **zero(2, True)),
    with_optimizer("Adagrad", "Adagrad", {"lr": 1e-2, "eps": 1e-8}),
    with_optimizer("Adagrad, offload", "Adagrad", {"lr": 1e-2, "eps": 1e-8}, **zero(1, True)),
    with_optimizer("Adagrad, weight_decay, offload", "Adagrad", {"lr": 1e-2, "eps": 1e-8, "weight_decay": 0.1}, **zero(1, True)),
    with_optimizer("Lion", "Lion", LION),
    with_optimizer("Lion, offload", "Lion", LION, **zero(1, True)),
    with_optimizer("SGD", "SGD", {"lr": 0.2}),
    with_optimizer("SGD, momentum", "SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
    with_optimizer("SGD, nesterov", "SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    with_optimizer("RMSprop", "RMSprop", {"lr": 1e-3, "alpha": 0.95, "eps": 1e-6, "weight_decay": 0.01}),
    with_optimizer("RMSprop, centered, momentum", "RMSprop", {"lr": 2e-4, "eps": 1e-6, "momentum": 0.9, "centered": True}),
    with_optimizer("Muon", "Muon", {"lr": 0.02, "weight_decay": 0.1}, bound=1e-2,
                   remark="DeepSpeed iterates in fp16 where the CPU has it, otherwise in fp32"),
    with_optimizer("Muon, standard", "Muon", {"muon_lr": 0.02, "adam_lr": 1e-3, "ns_method": "standard"}, bound=1e-2,
                   remark="DeepSpeed iterates in bfloat16"),
    with_optimizer("Lamb", "Lamb", {"lr": 1e-2, "weight_decay": 0.1}),
    with_optimizer("OneBitAdam", "OneBitAdam", {"lr": 1e-3, "freeze_step": 10}),
    with_optimizer("ZeroOneAdam", "ZeroOneAdam", {"lr": 1e-3, "var_freeze_step": 10}),
    with_optimizer("OneBitLamb", "OneBitLamb", {"lr": 1e-3, "freeze_step": 10}),
]

ENGINE = [
    *(with_optimizer(f"AdamW, ZeRO {stage}", "AdamW", ADAM, **zero(stage)) for stage in range(4)),
    with_optimizer("AdamW, ZeRO 3, offload", "AdamW", ADAM, **zero(3, True)),
    with_optimizer("AdamW, gradient_clipping not given", "AdamW", ADAM, bound=None, gradient_clipping=None,
                   remark="DeepSpeed 0.19.8 then clips at 1, ztrain does not clip and says so"),
    with_optimizer("SGD, gradient_clipping", "SGD", {"lr": 0.05, "momentum": 0.9}, gradient_clipping=0.5),
    with_optimizer("AdamW, clipping, ZeRO 1", "AdamW", ADAM, gradient_clipping=0.1, **zero(1)),
    with_optimizer("SGD, clipping, ZeRO 2", "SGD", {"lr": 0.05, "momentum": 0.9}, gradient_clipping=0.5, **zero(2)),
    with_optimizer("SGD, clipping, ZeRO 3", "SGD", {"lr": 0.05, "momentum": 0.9}, gradient_clipping=0.5, **zero(3)),
    with_optimizer("AdamW, 2 micro-batches", "AdamW", ADAM, gradient_accumulation_steps=2),
    with_optimizer("SGD, 2 micro-batches, ZeRO 2", "SGD", {"lr": 0.2}, gradient_accumulation_steps=2, **zero(2)),
]


def scheduled(kind, optimizer="AdamW", values=ADAM, bound=EXACT, remark="", **params):
    name = f"{optimizer}, {kind}" + (f", {params['warmup_type']}" if "warmup_type" in params else "")
    return with_optimizer(name, optimizer, values, bound, remark, networks=("MLP",), scheduler={"type": kind, "params": params})


SCHEDULES = [
    scheduled("WarmupLR", warmup_min_lr=1e-4, warmup_max_lr=5e-3, warmup_num_steps=8, warmup_type="linear"),
    scheduled("WarmupLR", warmup_min_lr=1e-4, warmup_max_lr=5e-3, warmup_num_steps=8, warmup_type="log"),
    scheduled("WarmupDecayLR", total_num_steps=16, warmup_max_lr=5e-3, warmup_num_steps=6, warmup_type="linear"),
    scheduled("WarmupDecayLR", total_num_steps=20, warmup_max_lr=5e-3, warmup_num_steps=6, warmup_type="log"),
    scheduled("WarmupCosineLR", total_num_steps=18, warmup_num_steps=6, warmup_min_ratio=0.1, cos_min_ratio=0.01),
    scheduled("OneCycle", cycle_min_lr=1e-3, cycle_max_lr=8e-3, cycle_first_step_size=6, cycle_second_step_size=8, decay_step_size=2,
              decay_lr_rate=0.1, cycle_min_mom=0.7, cycle_max_mom=0.95, decay_mom_rate=0.01),
    scheduled("LRRangeTest", lr_range_test_min_lr=1e-3, lr_range_test_step_size=4, lr_range_test_step_rate=0.5,
              lr_range_test_staircase=False),
    scheduled("OneCycleLR", max_lr=8e-3, total_steps=20),
    scheduled("OneCycleLR", "SGD", {"lr": 0.05}, max_lr=0.2, epochs=4, steps_per_epoch=5, pct_start=0.4, anneal_strategy="linear", three_phase=True),
    scheduled("CyclicLR", "SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}, base_lr=0.02, max_lr=0.1, step_size_up=3, step_size_down=5,
              mode="triangular2"),
    scheduled("CyclicLR", "RMSprop", {"lr": 1e-3}, base_lr=1e-4, max_lr=5e-4, step_size_up=4, mode="exp_range", gamma=0.95),
    scheduled("MultiStepLR", "SGD", {"lr": 0.05, "momentum": 0.9}, milestones=[6, 12]),
    scheduled("StepLR", "SGD", {"lr": 0.05, "momentum": 0.9}, step_size=5, gamma=0.5),
    scheduled("ExponentialLR", gamma=0.9),
    scheduled("CosineAnnealingLR", T_max=12, eta_min=1e-4),
    scheduled("CosineAnnealingWarmRestarts", T_0=4, T_mult=2, eta_min=1e-4),
    scheduled("ConstantLR", factor=0.25, total_iters=6),
    scheduled("LinearLR", start_factor=0.1, end_factor=0.8, total_iters=10),
    scheduled("PolynomialLR", total_iters=15, power=2.0),
    scheduled("ReduceLROnPlateau", bound=None, factor=0.5, patience=2,
              remark="DeepSpeed gives it the batch size as its value each step, ztrain the loss of each epoch"),
]

CASES = OPTIMIZERS + ENGINE + SCHEDULES
