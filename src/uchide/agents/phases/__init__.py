"""The phases agent: a declared graph of phases, each with its prompt, its products and one action per turn."""

from uchide.agents.phases.agent import create
from uchide.agents.phases.own import with_files
from uchide.agents.phases.spec import PhasesSpec, load_spec

__all__ = ["PhasesSpec", "create", "load_spec", "with_files"]
