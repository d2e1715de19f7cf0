"""What each part does: one module per part, with `MODELS`, `VOLATILE_FILES` and `run(work)`.

Modules import the engines inside their functions, so that a program with several parts loads only what its job needs.
"""
