"""A Qwen2 in numpy, forward and backward: small enough to learn a few conversations by heart in a minute on one core.

Weights are a dictionary named as in the published checkpoints, so that saving it is exporting it. One head of keys and
values serves all heads of queries; the embedding is tied to the output.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]
Weights = dict[str, Array]
EPSILON = 1e-6
THETA = 10_000.0


@dataclass(frozen=True)
class Shape:
    """Sizes of a network."""

    vocab: int
    hidden: int = 64
    heads: int = 2
    inner: int = 128
    layers: int = 1
    """One is enough to learn by heart, and costs a quarter of two: its queries are only those of the learned places."""

    @property
    def head(self) -> int:
        return self.hidden // self.heads


def initial(shape: Shape, seed: int = 0) -> Weights:
    """Random weights."""
    draw = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> Array:
        return (draw.standard_normal((rows, columns)) / columns**0.5).astype(np.float32)

    hidden, inner, head = shape.hidden, shape.inner, shape.head
    weights = {
        "model.embed_tokens.weight": 0.4 * matrix(shape.vocab, hidden),
        "model.norm.weight": np.ones(hidden, np.float32),
    }
    for layer in range(shape.layers):
        at = f"model.layers.{layer}."
        for name, rows in (("q", hidden), ("k", head), ("v", head)):
            weights[f"{at}self_attn.{name}_proj.weight"] = matrix(rows, hidden)
            weights[f"{at}self_attn.{name}_proj.bias"] = np.zeros(rows, np.float32)
        weights[f"{at}self_attn.o_proj.weight"] = matrix(hidden, hidden)
        weights[f"{at}mlp.gate_proj.weight"] = matrix(inner, hidden)
        weights[f"{at}mlp.up_proj.weight"] = matrix(inner, hidden)
        weights[f"{at}mlp.down_proj.weight"] = matrix(hidden, inner)
        weights[f"{at}input_layernorm.weight"] = np.ones(hidden, np.float32)
        weights[f"{at}post_attention_layernorm.weight"] = np.ones(hidden, np.float32)
    return weights


def step(weights: Weights, shape: Shape, ids: Any, places: Any, targets: Any) -> tuple[Array, Weights]:
    """Probabilities of the targets, and the gradient of their summed negative logarithms.

    ids (batch, length): tokens, padded at the end. places (batch, n): positions whose next token is learned, padded
    with 0. targets (batch, n): those tokens, -1 where padded. Probabilities (batch, n) are 1 where padded.
    """
    grads: Weights = {}
    embedding = weights["model.embed_tokens.weight"]
    x, backs = embedding[ids], []
    for layer in range(shape.layers):
        # Only the places that are learned from need the last layer's queries.
        at = places if layer == shape.layers - 1 else np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        x, back = _layer(weights, grads, f"model.layers.{layer}.", shape, x, at)
        backs.append(back)
    x, norm_back = _norm(weights, grads, "model.norm.weight", x)
    logits = x @ embedding.T
    real = targets >= 0
    wanted = np.where(real, targets, 0)[..., None]
    chances = np.exp(logits - logits.max(-1, keepdims=True))
    chances /= chances.sum(-1, keepdims=True)
    found = np.take_along_axis(chances, wanted, -1)[..., 0]
    np.put_along_axis(chances, wanted, found[..., None] - 1.0, -1)
    chances *= real[..., None]
    grad = _flat(chances).T @ _flat(x)
    dx = norm_back(chances @ embedding)
    for back in reversed(backs):
        dx = back(dx)
    np.add.at(grad, ids.reshape(-1), _flat(dx))
    grads["model.embed_tokens.weight"] = grad
    return np.where(real, found, 1.0), grads


def _flat(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


def _linear(weights: Weights, grads: Weights, name: str, x: Array) -> tuple[Array, Any]:
    weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")

    def back(dy: Array) -> Array:
        grads[f"{name}.weight"] = _flat(dy).T @ _flat(x)
        if bias is not None:
            grads[f"{name}.bias"] = _flat(dy).sum(0)
        return dy @ weight

    return (x @ weight.T if bias is None else x @ weight.T + bias), back


def _norm(weights: Weights, grads: Weights, name: str, x: Array) -> tuple[Array, Any]:
    gain = weights[name]
    scale = 1.0 / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(EPSILON))
    unit = x * scale

    def back(dy: Array) -> Array:
        grads[name] = _flat(dy * unit).sum(0)
        dunit = dy * gain
        return scale * (dunit - unit * (dunit * unit).mean(-1, keepdims=True))

    return unit * gain, back


def rotation(places: Any, head: int) -> tuple[Array, Array]:
    """Cosine and sine (..., head / 2) of the rotary position embedding."""
    angle = places[..., None] * THETA ** (-np.arange(0, head, 2) / head)
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def _rotate(x: Array, cos: Array, sin: Array) -> Array:
    first, second = np.split(x, 2, -1)
    return np.concatenate((first * cos - second * sin, second * cos + first * sin), -1)


def _layer(weights: Weights, grads: Weights, at: str, shape: Shape, x: Array, places: Any) -> tuple[Array, Any]:
    attended, attention_back = _attention(weights, grads, at, shape, x, places)
    normed, norm_back = _norm(weights, grads, f"{at}post_attention_layernorm.weight", attended)
    gate, gate_back = _linear(weights, grads, f"{at}mlp.gate_proj", normed)
    up, up_back = _linear(weights, grads, f"{at}mlp.up_proj", normed)
    sigmoid = 1.0 / (1.0 + np.exp(-gate))
    silu = gate * sigmoid
    down, down_back = _linear(weights, grads, f"{at}mlp.down_proj", silu * up)

    def back(dy: Array) -> Array:
        inner = down_back(dy)
        dgate = inner * up * (sigmoid + silu * (1.0 - sigmoid))
        return attention_back(dy + norm_back(gate_back(dgate) + up_back(inner * silu)))

    return attended + down, back


def _attention(weights: Weights, grads: Weights, at: str, shape: Shape, x: Array, places: Any) -> tuple[Array, Any]:
    """Residual included: (batch, length, hidden) -> (batch, n, hidden) at `places`."""
    (batch, length, _), n, heads, head = x.shape, places.shape[1], shape.heads, shape.head
    pick = places[..., None]
    normed, norm_back = _norm(weights, grads, f"{at}input_layernorm.weight", x)
    q, q_back = _linear(weights, grads, f"{at}self_attn.q_proj", np.take_along_axis(normed, pick, 1))
    k, k_back = _linear(weights, grads, f"{at}self_attn.k_proj", normed)
    v, v_back = _linear(weights, grads, f"{at}self_attn.v_proj", normed)
    q_turn = tuple(part[:, :, None] for part in rotation(places, head))
    k_turn = rotation(np.arange(length), head)
    k = _rotate(k, *k_turn)
    # All heads of queries meet the same keys: they are laid one after the other.
    q = _rotate(q.reshape(batch, n, heads, head), *q_turn).reshape(batch, n * heads, head)
    scores = (q @ k.transpose(0, 2, 1)) * np.float32(head**-0.5)
    scores = scores.reshape(batch, n, heads, length)
    scores += np.where(np.arange(length) > pick, np.float32(-1e9), np.float32(0))[:, :, None]
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(-1, keepdims=True)
    share = scores.reshape(batch, n * heads, length)
    mixed, o_back = _linear(weights, grads, f"{at}self_attn.o_proj", (share @ v).reshape(batch, n, heads * head))

    def back(dy: Array) -> Array:
        dmixed = o_back(dy).reshape(batch, n * heads, head)
        dshare = dmixed @ v.transpose(0, 2, 1)
        dshare -= (dshare * share).sum(-1, keepdims=True)
        dscores = dshare * share * np.float32(head**-0.5)
        dq = (dscores @ k).reshape(batch, n, heads, head)
        dk = _rotate(dscores.transpose(0, 2, 1) @ q, k_turn[0], -k_turn[1])
        dnormed = k_back(dk) + v_back(share.transpose(0, 2, 1) @ dmixed)
        dpicked = q_back(_rotate(dq, q_turn[0], -q_turn[1]).reshape(batch, n, heads * head))
        dx = np.zeros_like(x)
        rows = np.arange(batch)[:, None]
        np.add.at(dnormed, (rows, places), dpicked)
        np.add.at(dx, (rows, places), dy)
        return dx + norm_back(dnormed)

    return np.take_along_axis(x, pick, 1) + mixed, back


@dataclass
class Adam:
    """The optimiser, its gradient clipped to length 1."""

    rate: float
    first: Weights
    second: Weights
    steps: int = 0

    @classmethod
    def of(cls, weights: Weights, rate: float) -> "Adam":
        return cls(
            rate, {k: np.zeros_like(w) for k, w in weights.items()}, {k: np.zeros_like(w) for k, w in weights.items()}
        )

    def update(self, weights: Weights, grads: Weights) -> None:
        """Move the weights in place."""
        self.steps += 1
        length = float(np.sqrt(sum(float((grad * grad).sum()) for grad in grads.values())))
        shrink = np.float32(1.0 / max(1.0, length))
        warm = min(1.0, self.steps / 20)
        fix1, fix2 = 1 - 0.9**self.steps, 1 - 0.99**self.steps
        for name, grad in grads.items():
            grad = grad * shrink
            self.first[name] += np.float32(0.1) * (grad - self.first[name])
            self.second[name] += np.float32(0.01) * (grad * grad - self.second[name])
            move = self.rate * warm / fix1 * self.first[name] / (np.sqrt(self.second[name] / fix2) + 1e-8)
            weights[name] -= move.astype(np.float32)
