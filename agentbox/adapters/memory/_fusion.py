"""Two rankings made one, by reciprocal rank."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

__all__ = ["CONSTANT", "fused", "reciprocal"]

CONSTANT = 10
"""
How slowly a place further down loses weight. Chosen on the development half of `make retrieval`, where the customary 60
finds less: with it, two middling places outweigh a first one.
"""

H = TypeVar("H", bound=Hashable)


def reciprocal(*ranks: int | None) -> float:
    """The score of something that has these places, from 1, in as many rankings; None where it does not occur."""
    return sum((CONSTANT + 1) / (CONSTANT + rank) for rank in ranks if rank is not None) / len(ranks)


def fused(*rankings: Sequence[H]) -> dict[H, float]:
    """Everything that occurs in a ranking, best first there, with its score: 1 is first in all of them."""
    scores: dict[H, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + reciprocal(rank) / len(rankings)
    return scores
