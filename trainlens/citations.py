"""Papers, handbooks and programs that thresholds point to. One constant a source; `measured` for our own figures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Citation:
    """A source as it is printed: `text` names it, `link` leads to it ("" for a measurement of our own)."""

    text: str
    link: str = ""


def measured(what: str) -> Citation:
    """A figure of our own: `what` names the runs it was measured on and what was seen."""
    return Citation(f"measured: {what}")


OLMO2 = Citation("OLMo 2, section 3.2: spike score", "https://arxiv.org/abs/2501.00656")
PALM = Citation("PaLM, section 5.1: loss spikes", "https://arxiv.org/abs/2204.02311")
LLM_FOUNDRY = Citation("LLM Foundry, KillLossSpike callback", "https://github.com/mosaicml/llm-foundry")
COMPOSER = Citation("Composer, loss spike intervention", "https://github.com/mosaicml/composer")
OLMO_CORE = Citation("OLMo-core, StabilityMonitorCallback", "https://github.com/allenai/OLMo-core")
ZCLIP = Citation("ZClip", "https://arxiv.org/abs/2504.02507")
HAMPEL = Citation("Davies and Gather 1993, The identification of multiple outliers", "https://doi.org/10.2307/2290763")
PRECHELT = Citation("Prechelt 1998, Early stopping - but when?", "https://doi.org/10.1007/3-540-49430-8_3")
BLOOM = Citation("BLOOM-176B training chronicles", "https://github.com/bigscience-workshop/bigscience")
MEGASCALE = Citation("MegaScale", "https://arxiv.org/abs/2402.15627")
TORCH_AMP = Citation("PyTorch torch.amp.GradScaler", "https://docs.pytorch.org/docs/stable/amp.html")
SAGEMAKER = Citation(
    "Amazon SageMaker Debugger, built-in rules",
    "https://docs.aws.amazon.com/sagemaker/latest/dg/debugger-built-in-rules.html",
)
TISSUE = Citation("Tissue et al. 2024, Scaling law with learning rate annealing", "https://arxiv.org/abs/2408.11029")
USUAL = Citation("the usual range in practice")
JUDGEMENT = Citation("a choice of this project, neither measured nor published")
CS231N = Citation("Stanford CS231n, ratio of weight updates to weights", "https://cs231n.github.io/neural-networks-3/")
PALM_MFU = Citation("PaLM, section 4.1: model FLOPs utilization", "https://arxiv.org/abs/2204.02311")
DEEPSPEED_FP16 = Citation("DeepSpeed, fp16 options: min_loss_scale", "https://www.deepspeed.ai/docs/config-json/")
SGDR = Citation("SGDR: stochastic gradient descent with warm restarts", "https://arxiv.org/abs/1608.03983")
CADENCE = Citation("usual practice: the loss each 1,000 steps, evaluation each 5,000, a checkpoint each 2 to 4 hours")
DEEPSEEK_LLM = Citation(
    "DeepSeek LLM, section 2.3: warmup, multi-step schedule, rates", "https://arxiv.org/abs/2401.02954"
)
GPT3 = Citation("GPT-3, table 2.1: batch sizes and rates by model size", "https://arxiv.org/abs/2005.14165")
ZERO = Citation(
    "ZeRO, section 3: memory of weights, gradients and optimizer states", "https://arxiv.org/abs/1910.02054"
)
MEGATRON_3D = Citation(
    "Megatron-LM on GPU clusters: tensor parallelism, pipeline bubble", "https://arxiv.org/abs/2104.04473"
)
ACTIVATIONS = Citation("Reducing activation recomputation in large transformers", "https://arxiv.org/abs/2205.05198")
LM_EVAL = Citation(
    "EleutherAI, lm-evaluation-harness: standard errors of scores",
    "https://github.com/EleutherAI/lm-evaluation-harness",
)
MLPERF = Citation("MLPerf Training: time to a target quality", "https://arxiv.org/abs/1910.01500")
DAPO = Citation("DAPO: an open-source LLM reinforcement learning system at scale", "https://arxiv.org/abs/2503.14476")
PPO = Citation("Schulman et al. 2017, Proximal policy optimization", "https://arxiv.org/abs/1707.06347")
MILLER = Citation("Miller 2024, Adding error bars to evals", "https://arxiv.org/abs/2411.00640")
