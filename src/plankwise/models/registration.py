"""Lets transformers' Auto classes load planned successors, and refuse hybrids, once `plankwise` has been imported.

Importing plankwise does not load transformers: if transformers is there already, registering is done at once, else right after
it has loaded the module that maps model types to configs.
"""

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

TRIGGER = "transformers.models.auto.configuration_auto"


class _AfterLoading(importlib.abc.MetaPathFinder):
    """Finds nothing itself; registers once the module that it waits for has been loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != TRIGGER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load: Any = spec.loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                load(module)
                sys.modules[fullname] = module
                _register()

            spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec


def register_when_loaded() -> None:
    """Registers our configs with transformers, now or as soon as it is loaded."""
    if TRIGGER in sys.modules:
        _register()
    elif not any(isinstance(finder, _AfterLoading) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterLoading())


def _register() -> None:
    from plankwise.models.planned_config import HybridConfig, PlannedConfig

    for kind in (PlannedConfig, HybridConfig):
        sys.modules[TRIGGER].CONFIG_MAPPING.register(kind.model_type, kind, exist_ok=True)
