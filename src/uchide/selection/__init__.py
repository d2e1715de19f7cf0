"""Cross-agent selection: the matrix of patches and suites, and the selectors that pick from it."""

from uchide.selection.config import SELECTORS, MatrixSettings, SelectionConfig, Weights
from uchide.selection.selectors import pick

__all__ = ["SELECTORS", "MatrixSettings", "SelectionConfig", "Weights", "pick"]
