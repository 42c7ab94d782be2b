"""Tiny examples of every kind of task: each has a file `example_KIND.py` somewhere under tests, with a `section(folder)`.

Kinds whose models are no encoders add a `model(folder)`, which saves one, with all of its weights.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

TESTS = Path(__file__).parent


def find_example(kind: str) -> ModuleType:
    found = list(TESTS.rglob(f"example_{kind}.py"))
    assert len(found) == 1, (
        f"write tests/task_kinds/example_{kind}.py with section(folder): its files, and its [task] section"
    )
    spec = importlib.util.spec_from_file_location(f"example_{kind}", found[0])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
