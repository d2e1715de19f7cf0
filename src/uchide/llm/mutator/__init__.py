"""`mutator`: the embedded default model, a seeded rule-based repairer that plays the phases agent's part.

It has no weights and no network. What it says is a pure function of the conversation and the seed: `playbook.yaml`
lists, phase by phase, the commands it asks for; the search itself is the sandbox tool `try_edits`, offered to no other
model. It sees what every model sees, and gives up honestly. It is the floor that language models are compared with.
"""

from uchide.llm.mutator.model import Mutator, MutatorConfig, create

__all__ = ["Mutator", "MutatorConfig", "create"]
