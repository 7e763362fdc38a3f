"""Vectors for texts: texts that share words are near each other."""

import base64
import hashlib
from array import array
from typing import Any

DIMENSIONS = 64


def embedded(request: dict[str, Any]) -> dict[str, Any]:
    """Return a vector for each text of an embeddings request, as numbers or as base64."""
    texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
    data: list[dict[str, Any]] = []
    for index, text in enumerate(texts):
        vector = array("f", [1.0] * DIMENSIONS)
        for word in str(text).lower().split():
            vector[int(hashlib.sha256(word.encode()).hexdigest(), 16) % DIMENSIONS] += 0.2
        is_plain = request.get("encoding_format") != "base64"
        packed = list(vector) if is_plain else base64.b64encode(vector.tobytes()).decode()
        data.append({"object": "embedding", "index": index, "embedding": packed})
    usage = {"prompt_tokens": 7, "total_tokens": 7}
    return {"object": "list", "data": data, "model": request.get("model", ""), "usage": usage}
