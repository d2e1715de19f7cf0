"""Where commands run. A provider is asked for by name; today there is one, `bwrap`."""

from uchide.errors import ConfigError
from uchide.protocols import SandboxProvider
from uchide.sandboxes.bwrap import BwrapProvider

PROVIDERS = {"bwrap": BwrapProvider}


def provider(name: str) -> SandboxProvider:
    """Return the provider called `name`. Raises ConfigError listing the known ones."""
    if name not in PROVIDERS:
        raise ConfigError(f"no sandbox {name!r}", hint=f"known: {', '.join(sorted(PROVIDERS))}")
    return PROVIDERS[name]()
