"""plankwise makes a trained transformer smaller and faster by progressive module replacing."""

import importlib
from typing import Any

from plankwise.models.registration import register_when_loaded

_PUBLIC = {
    "hybrid": "training.ship",
    "load": "models.loading",
    "Anti": "core.schedule",
    "Constant": "core.schedule",
    "Cosine": "core.schedule",
    "Linear": "core.schedule",
    "Logarithmic": "core.schedule",
    "Plateau": "core.schedule",
    "Slope": "core.schedule",
    "Steps": "core.schedule",
    "PlankwiseError": "errors",
}

__all__ = list(_PUBLIC)
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Loads a public name when it is first used, so that `import plankwise` stays light."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'plankwise' has no attribute {name!r}")
    return getattr(importlib.import_module(f"plankwise.{_PUBLIC[name]}"), name)


register_when_loaded()
