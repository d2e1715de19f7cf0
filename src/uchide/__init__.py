"""Uchide: one push runs a whole software-repair experiment, and any one stage re-runs with the rest held fixed."""

__version__ = "0.1.0"
