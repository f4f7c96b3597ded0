"""Scores that others published, to hold a run's benchmarks against: base models, in per cent, few-shot as in the paper.

Source: DeepSeek-AI, "DeepSeek LLM: Scaling Open-Source Language Models with Longtermism" (arXiv:2401.02954), the tables
of base models, where all of them were measured by one procedure. A run whose prompts or number of shots differ is not
measured so; a reference says roughly where a model of that size and training stands.
"""

from __future__ import annotations

import re

SOURCE = "arXiv:2401.02954"
MODELS = ("llama-2-7b", "llama-2-70b", "deepseek-llm-7b", "deepseek-llm-67b")

_SCORES: dict[str, tuple[float, ...]] = {
    "hellaswag": (75.6, 84.0, 75.4, 84.0),
    "piqa": (78.0, 82.0, 79.2, 83.6),
    "winogrande": (69.6, 80.4, 70.5, 79.8),
    "racemiddle": (60.7, 70.1, 63.2, 69.9),
    "racehigh": (45.8, 54.3, 46.5, 50.7),
    "triviaqa": (63.8, 79.5, 59.7, 78.9),
    "naturalquestions": (25.5, 36.1, 22.2, 36.6),
    "mmlu": (45.8, 69.0, 48.2, 71.3),
    "arceasy": (69.1, 76.5, 67.9, 76.9),
    "arcchallenge": (49.0, 59.5, 48.1, 59.0),
    "gsm8k": (15.5, 58.4, 17.4, 63.4),
    "humaneval": (14.6, 28.7, 26.2, 42.7),
    "mbpp": (21.8, 45.6, 39.0, 57.4),
    "drop": (34.0, 63.6, 34.9, 61.0),
    "openbookqa": (57.4, 60.4, 55.8, 60.2),
    "bbh": (38.5, 62.9, 39.5, 68.7),
    "agieval": (22.8, 37.2, 26.4, 41.3),
    "cluewsc": (64.0, 76.5, 73.1, 81.0),
    "chid": (37.9, 55.5, 89.3, 92.1),
    "ceval": (33.9, 51.4, 45.0, 66.1),
    "cmmlu": (32.6, 53.1, 47.2, 70.8),
}
# Other names of a benchmark, without case, signs and the number of shots.
_ALIASES = {
    "nq": "naturalquestions", "nqopen": "naturalquestions", "bigbenchhard": "bbh", "arce": "arceasy",
    "arcc": "arcchallenge",
    "race": "racehigh", "obqa": "openbookqa", "gsm8kcot": "gsm8k", "mmlu5shot": "mmlu", "cevalvalid": "ceval",
    "bbhcotfewshot": "bbh", "humanevalinstruct": "humaneval", "winograndexl": "winogrande",
}  # fmt: skip
_SIGNS = re.compile(r"[^a-z0-9]+")
_SHOTS = re.compile(r"(?:^|[-_ (])\d+[-_ ]?shots?\)?$|[-_ ](?:pass@1|em|acc(?:_norm)?)$")


def published(model: str, benchmark: str) -> float | None:
    """The model's score as a share of 1; None where it was not measured."""
    name = _SIGNS.sub("", _SHOTS.sub("", benchmark.lower()))
    row = _SCORES.get(_ALIASES.get(name, name))
    return row[MODELS.index(model)] / 100 if row and model in MODELS else None
