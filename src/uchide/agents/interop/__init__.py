"""Trajectories of other projects beside ours: `load` reads any of them into one model, `mini` and `atif` also write.

This folder owns the foreign formats and nothing else; the format of Uchide itself is `uchide.agents.trajectory`.
"""

from uchide.agents.interop.loading import load
from uchide.agents.interop.model import Act, Imported, Step

__all__ = ["Act", "Imported", "Step", "load"]
