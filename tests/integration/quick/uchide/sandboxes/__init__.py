"""Quick engine: no sandbox."""


def provider(name: str) -> None:
    return None
