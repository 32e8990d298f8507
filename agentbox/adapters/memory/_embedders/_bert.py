"""A BERT encoder that makes one vector of unit length of each text, with numpy alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

__all__ = ["Bert"]

Floats = NDArray[np.float32]

TINY = 1e-12
ROWS = 64
"""As many rows of the widest layer at a time as stay in the processor's cache."""

# x·Φ(x) = x / (1 + exp(-2t)) with t = artanh(erf(x/√2)), an odd function that a short polynomial meets within 3e-6.
GELU = (1.1126309e-06, -3.0467181e-05, -0.000125476315, 0.036469931, 0.797827576)
GELU_BOUND = 5.2


@attrs.frozen(eq=False)
class _Norm:
    weight: Floats
    bias: Floats

    def __call__(self, x: Floats) -> Floats:
        x = x - x.mean(axis=1, keepdims=True)
        spread = np.sqrt(np.einsum("ij,ij->i", x, x) / x.shape[1] + TINY)
        x /= spread[:, None]
        x *= self.weight
        x += self.bias
        return x


@attrs.frozen(eq=False)
class _Dense:
    weight: Floats
    bias: Floats

    def __call__(self, x: Floats) -> Floats:
        x = x @ self.weight
        x += self.bias
        return x


@attrs.frozen(eq=False)
class _Layer:
    attention: _Dense
    mixed: _Dense
    mixed_norm: _Norm
    wide: _Dense
    narrow: _Dense
    norm: _Norm


class Bert:
    """
    The encoder with the weights *tensors* and *heads* attention heads.

    The tokens of all texts of a batch lie behind one another, without padding; only attention looks at texts one by
    one, those of equal length together. So a short text costs no more beside a long one.
    """

    def __init__(self, tensors: Mapping[str, Floats], *, heads: int) -> None:
        self._heads = heads
        self._words = tensors["embeddings.word_embeddings.weight"]
        self.dimensions = self._words.shape[1]
        positions = tensors["embeddings.position_embeddings.weight"]
        self._positions = positions + tensors["embeddings.token_type_embeddings.weight"][0]
        self._norm = _norm(tensors, "embeddings.LayerNorm")
        self._layers = [_layer(tensors, number, heads) for number in range(_count(tensors))]

    def encode(self, texts: Sequence[Sequence[int]]) -> Floats:
        """A row of unit length for each of *texts*, which are lists of pieces: the mean over its tokens."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        lengths = [len(texts[place]) for place in order]
        x = self._words[np.concatenate([np.asarray(texts[place]) for place in order])]
        x = self._norm(x + self._positions[np.concatenate([np.arange(length) for length in lengths])])
        groups = list(_groups(lengths))
        for layer in self._layers:
            x = layer.mixed_norm(x + layer.mixed(self._attend(layer.attention(x), groups)))
            x = layer.norm(x + layer.narrow(_gelu(layer.wide(x))))
        starts = np.cumsum([0, *lengths[:-1]])
        means = np.add.reduceat(x, starts, axis=0) / np.asarray(lengths, dtype=np.float32)[:, None]
        found = np.empty((len(texts), self.dimensions), dtype=np.float32)
        found[order] = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), TINY)
        return found

    def _attend(self, qkv: Floats, groups: list[tuple[int, int, int]]) -> Floats:
        width = qkv.shape[1] // 3
        found = np.empty((qkv.shape[0], width), dtype=np.float32)
        for start, count, length in groups:
            end = start + count * length
            parts = qkv[start:end].reshape(count, length, 3, self._heads, width // self._heads)
            q, k, v = (parts[:, :, part].transpose(0, 2, 1, 3) for part in range(3))
            scores = np.matmul(q, k.transpose(0, 1, 3, 2))
            scores -= scores.max(axis=-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=-1, keepdims=True)
            found[start:end] = np.matmul(scores, v).transpose(0, 2, 1, 3).reshape(-1, width)
        return found


def _groups(lengths: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """The first token, the number of texts and their length, for each run of equal *lengths*."""
    start = first = 0
    for place in range(1, len(lengths) + 1):
        if place == len(lengths) or lengths[place] != lengths[first]:
            yield start, place - first, lengths[first]
            start += (place - first) * lengths[first]
            first = place


def _gelu(x: Floats) -> Floats:
    """*x* times the normal distribution's function of it, in place."""
    for start in range(0, len(x), ROWS):
        part = x[start : start + ROWS]
        near = np.clip(part, -GELU_BOUND, GELU_BOUND)
        square = near * near
        t = square * np.float32(GELU[0])
        for coefficient in GELU[1:-1]:
            t += np.float32(coefficient)
            t *= square
        t += np.float32(GELU[-1])
        t *= near
        t *= np.float32(-2)
        np.exp(t, out=t)
        t += np.float32(1)
        part /= t
    return x


def _count(tensors: Mapping[str, Floats]) -> int:
    return 1 + max(int(name.split(".")[2]) for name in tensors if name.startswith("encoder.layer."))


def _layer(tensors: Mapping[str, Floats], number: int, heads: int) -> _Layer:
    at = f"encoder.layer.{number}"
    query, key, value = (_dense(tensors, f"{at}.attention.self.{part}") for part in ("query", "key", "value"))
    scale = np.float32((query.bias.size // heads) ** -0.5)
    joined = _Dense(
        np.ascontiguousarray(np.hstack([query.weight * scale, key.weight, value.weight])),
        np.concatenate([query.bias * scale, key.bias, value.bias]),
    )
    return _Layer(
        attention=joined,
        mixed=_dense(tensors, f"{at}.attention.output.dense"),
        mixed_norm=_norm(tensors, f"{at}.attention.output.LayerNorm"),
        wide=_dense(tensors, f"{at}.intermediate.dense"),
        narrow=_dense(tensors, f"{at}.output.dense"),
        norm=_norm(tensors, f"{at}.output.LayerNorm"),
    )


def _dense(tensors: Mapping[str, Any], name: str) -> _Dense:
    return _Dense(np.ascontiguousarray(tensors[f"{name}.weight"].T), tensors[f"{name}.bias"])


def _norm(tensors: Mapping[str, Any], name: str) -> _Norm:
    return _Norm(tensors[f"{name}.weight"], tensors[f"{name}.bias"])
