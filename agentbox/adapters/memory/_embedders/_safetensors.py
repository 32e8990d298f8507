"""Read a safetensors file: a header of JSON that says where each tensor lies, then the bytes."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_tensors"]

LONGEST_HEADER = 100_000_000
_TYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I64": "<i8", "I32": "<i4", "U8": "u1"}


def read_tensors(path: Path) -> dict[str, NDArray[np.float32]]:
    """
    The tensors of *path* by name, as 32-bit floats, mapped from the file where they are such already.

    Raises:
        ValueError: It is no safetensors file, or not a whole one.
    """
    raw = np.memmap(path, dtype=np.uint8, mode="r")
    try:
        (length,) = struct.unpack("<Q", raw[:8].tobytes())
        if length > min(LONGEST_HEADER, raw.size - 8):
            raise ValueError("the header is longer than the file")
        entries = json.loads(raw[8 : 8 + length].tobytes())
        body = raw[8 + length :]
        return {name: _tensor(body, entry) for name, entry in entries.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise ValueError(f"{path} is no whole safetensors file: {error}") from error


def _tensor(body: NDArray[np.uint8], entry: dict[str, Any]) -> NDArray[np.float32]:
    start, end = entry["data_offsets"]
    if end > body.size:
        raise ValueError(f"it ends at {body.size}, and a tensor at {end}")
    values = body[start:end].view(_TYPES[entry["dtype"]])
    return np.asarray(values.reshape(entry["shape"]), dtype=np.float32)
