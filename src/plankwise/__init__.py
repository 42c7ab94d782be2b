"""plankwise makes a trained transformer smaller and faster by progressive module replacing."""

import importlib
from typing import TYPE_CHECKING, Any

from plankwise.models.registration import register_when_loaded

if TYPE_CHECKING:  # the same names as below, for type checkers and editors
    from plankwise.api.comparing import compare as compare
    from plankwise.api.compressing import compress as compress
    from plankwise.api.evaluating import evaluate as evaluate
    from plankwise.core.schedule import Anti as Anti
    from plankwise.core.schedule import Constant as Constant
    from plankwise.core.schedule import Cosine as Cosine
    from plankwise.core.schedule import Linear as Linear
    from plankwise.core.schedule import Logarithmic as Logarithmic
    from plankwise.core.schedule import Plateau as Plateau
    from plankwise.core.schedule import Slope as Slope
    from plankwise.core.schedule import Steps as Steps
    from plankwise.errors import PlankwiseError as PlankwiseError
    from plankwise.models.loading import load as load
    from plankwise.training.ship import hybrid as hybrid

_PUBLIC = {
    "compress": "api.compressing",
    "compare": "api.comparing",
    "evaluate": "api.evaluating",
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
