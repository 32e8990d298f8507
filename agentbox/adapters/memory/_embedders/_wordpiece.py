"""Text into the word pieces of an uncased BERT vocabulary."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

__all__ = ["WordPieces"]

LONGEST_WORD = 100
_WORDS = re.compile(r"[a-z0-9]+|[^a-z0-9\s]")
# Where the vocabulary has one piece for each ideograph, and a word is therefore one ideograph.
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPieces:
    """
    Knows one vocabulary. Lower case, without accents; a sign of punctuation is a word of its own.

    The names of the special pieces (`[SEP]`…) are plain text when they come in a text: nobody steers the model by them.
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._vocabulary = dict(vocabulary)
        self._first, self._last = vocabulary["[CLS]"], vocabulary["[SEP]"]
        self._unknown = [vocabulary["[UNK]"]]
        self._plain = _Plain()
        self._pieces = lru_cache(maxsize=65_536)(self._cut)

    @classmethod
    def load(cls, path: Path) -> WordPieces:
        """The vocabulary of a `tokenizer.json`. Raises ValueError when it is of another kind."""
        model = json.loads(path.read_text("utf-8"))["model"]
        if model["type"] != "WordPiece" or model["continuing_subword_prefix"] != "##":
            raise ValueError(f"{path} holds no WordPiece vocabulary")
        return cls(model["vocab"])

    def encode(self, text: str, *, limit: int) -> list[int]:
        """The pieces of *text*, at most *limit* with the two that begin and end it."""
        found = [self._first]
        for word in self._words(text, limit):
            found += self._pieces(word)
            if len(found) >= limit:
                break
        return [*found[: limit - 1], self._last]

    def _words(self, text: str, limit: int) -> list[str]:
        # A word is at least one piece, but may be long, and much may be dropped: far more text than can count is cut.
        text = text[: limit * (LONGEST_WORD + 1) * 4]
        if text.isascii():
            return _WORDS.findall(text.translate(_CONTROLS).lower())
        return text.translate(self._plain).split()

    def _cut(self, word: str) -> list[int]:
        """The longest piece that begins *word*, then the longest that goes on; one unknown piece when that fails."""
        if len(word) > LONGEST_WORD:
            return self._unknown
        found: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                piece = self._vocabulary.get(mark + word[start:end])
                if piece is not None:
                    break
            else:
                return self._unknown
            found.append(piece)
            start = end
        return found


class _Plain(dict[int, str]):
    """What each character becomes, worked out when it is first met: a table for `str.translate`."""

    def __missing__(self, code: int) -> str:
        self[code] = found = _plain(chr(code))
        return found


def _plain(character: str) -> str:
    if character in _BREAKS:
        return " "
    if character in "\0\ufffd" or unicodedata.category(character) in _DROPPED:
        return ""
    if character.isspace():
        return " "
    if any(low <= ord(character) <= high for low, high in _IDEOGRAPHS):
        return f" {_lower(character)} "
    return "".join(map(_apart, _lower(character)))


def _lower(character: str) -> str:
    parts = unicodedata.normalize("NFD", character)
    return "".join(part.lower() for part in parts if unicodedata.category(part) != "Mn")


def _apart(character: str) -> str:
    """With blanks around it, if it is punctuation."""
    sign = not character.isalnum() if character.isascii() else unicodedata.category(character).startswith("P")
    return f" {character} " if sign else character


_BREAKS = "\t\n\r"
_DROPPED = ("Cc", "Cf", "Co", "Cs")
_CONTROLS = {code: None for code in range(128) if not chr(code).isprintable() and chr(code) not in _BREAKS}
