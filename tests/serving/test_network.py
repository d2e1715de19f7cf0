"""The tiny network learns: its gradients are those of its loss, by finite differences in double precision."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "tiny"))
from network import Shape, initial, step

SHAPE = Shape(vocab=30, hidden=16, heads=2, inner=24, layers=2)
IDS = np.random.default_rng(1).integers(0, 30, (3, 12))
PLACES = np.array([[2, 3, 4, 9], [5, 6, 7, 0], [0, 1, 10, 0]])
TARGETS = np.array([[1, 2, 3, 4], [5, 6, 7, -1], [8, 9, 10, -1]])


@pytest.mark.parametrize("name", initial(SHAPE))
def test_gradients(name):
    draw = np.random.default_rng(2)
    weights = {key: value + 0.1 * draw.standard_normal(value.shape) for key, value in initial(SHAPE).items()}
    _, grads = step(weights, SHAPE, IDS, PLACES, TARGETS)
    direction = draw.standard_normal(weights[name].shape)

    def loss(distance: float) -> float:
        found, _ = step(weights | {name: weights[name] + distance * direction}, SHAPE, IDS, PLACES, TARGETS)
        return -float(np.log(found).sum())

    assert (loss(1e-5) - loss(-1e-5)) / 2e-5 == pytest.approx(float((grads[name] * direction).sum()), rel=1e-4)


def test_padding_is_not_learned_from():
    longer = np.pad(IDS, ((0, 0), (0, 5)))
    found, grads = step(initial(SHAPE), SHAPE, IDS, PLACES, TARGETS)
    same, padded = step(initial(SHAPE), SHAPE, longer, PLACES, TARGETS)
    assert np.allclose(found, same)
    assert (found[1:, 3] == 1.0).all()
    assert all(np.allclose(grads[name], padded[name], atol=1e-4) for name in grads)
