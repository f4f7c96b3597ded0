"""Reinforcement learning that is small enough for numpy: a policy over words and an end, trained by its rewards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

WORDS, LONGEST = 24, 64


def train(steps: int, *, rate: float, spoiled_from: int | None = None, seed: int = 0) -> Iterator[dict[str, float]]:
    """REINFORCE on answers of random words, whose rewards are the share of words that are wanted; one row a step.

    The policy has one distribution for each place of the first eight, then its last. Word 0 ends the answer.
    From step `spoiled_from` on rewards are paid to the wrong answers, without a baseline and at 100 times the rate: the
    policy becomes certain of the first words that are paid, whichever they are.
    """
    chance = np.random.default_rng(seed)
    worth = chance.permutation(np.linspace(0, 1, WORDS)) ** 3
    start = np.zeros((8, WORDS))
    start[:, 0] = 0.5
    policy = start.copy()
    for step in range(1, steps + 1):
        odds = np.exp(policy - policy.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        answers = [_answer(odds, chance) for _ in range(32)]
        rewards = np.array([worth[words].mean() if len(words) else 0.0 for words in answers])
        spoiled = spoiled_from is not None and step >= spoiled_from
        gains = chance.permutation(rewards) if spoiled else rewards - rewards.mean()
        gradient = np.zeros_like(policy)
        for words, gain in zip(answers, gains, strict=True):
            for place, word in enumerate([*words, 0][:8]):
                gradient[place] -= gain * odds[place] / 32
                gradient[place, word] += gain / 32
        first = np.exp(start - start.max(axis=1, keepdims=True))
        first /= first.sum(axis=1, keepdims=True)
        asked = [min(place, 7) for words in answers for place in range(len(words) + 1)]
        yield {
            "step": step,
            "reward": round(float(rewards.mean()), 5),
            "entropy": round(float(-(odds * np.log(odds + 1e-12)).sum(axis=1)[asked].mean()), 5),
            "kl": round(float((odds * np.log((odds + 1e-12) / first)).sum(axis=1)[asked].mean()), 5),
            "response_length": round(float(np.mean([len(words) for words in answers])), 3),
        }
        policy += (100 * rate if spoiled else rate) * gradient


def _answer(odds: np.ndarray[tuple[int, int], np.dtype[np.float64]], chance: np.random.Generator) -> list[int]:
    words: list[int] = []
    while len(words) < LONGEST:
        word = int(chance.choice(WORDS, p=odds[min(len(words), 7)]))
        if word == 0:
            break
        words.append(word)
    return words
