"""Several configurations over one another."""

from slateconf.config import Config


def merge(base, over):
    """A new nested dictionary: `base` with `over` laid on it. Neither argument is changed, nor shared."""
    result = {}
    for name, value in base.items():
        result[name] = merge(value, {}) if isinstance(value, dict) else value
    for name, value in over.items():
        if isinstance(value, dict):
            under = result.get(name)
            result[name] = merge(under if isinstance(under, dict) else {}, value)
        else:
            result[name] = value
    return result


def layered(*configs):
    """One Config from many; later ones win."""
    data = {}
    for config in configs:
        data = merge(data, config.as_dict())
    return Config(data)


def from_environ(environ, prefix="APP_"):
    """A layer from environment variables: `APP_SERVER__PORT=1` is `server.port = 1`."""
    config = Config()
    for name in sorted(environ):
        if name.startswith(prefix) and len(name) > len(prefix):
            key = name[len(prefix) :].lower().replace("__", ".")
            config.set(key, environ[name])
    return config
