"""Help: every option, every default, an example."""

import subprocess
import sys

import pytest

from plankwise.config import RunConfig
from plankwise.kinds import list_kinds, load_kind

LIGHT = """
import sys
import plankwise
sys.argv = ["plankwise", "--help"]
from plankwise.cli import main
try:
    main()
except SystemExit as stop:
    assert not stop.code
heavy = {"torch", "transformers", "datasets", "sklearn"} & set(sys.modules)
assert not heavy, heavy
"""


def test_the_package_and_its_help_load_neither_torch_nor_transformers():
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in list_kinds("cli"):
        assert name in done.stdout


@pytest.mark.parametrize("name", list_kinds("cli"))
def test_help_has_every_option_and_an_example(command, name):
    import inspect

    result = command(name, "--help")
    assert result.code == 0
    assert f"Example: plankwise {name}" in result.out
    for parameter in inspect.signature(load_kind("cli", name, key="command").command).parameters.values():
        shown = "KEY=VALUE" if parameter.name == "overrides" else parameter.name
        assert shown in result.out
        if parameter.default not in (inspect.Parameter.empty, None):
            default = {True: parameter.name, False: f"no-{parameter.name}"}.get(parameter.default, parameter.default)
            assert f"[default: {default}]" in result.out


def test_compress_lists_every_key_with_the_default_that_counts(command):
    out = command("compress", "--help").out
    words = out.split()
    for section, options in RunConfig():
        if section in ("task", "method"):
            continue
        for key in type(options).model_fields:
            assert f"{section}.{key}" in words
    for folder, section in (("tasks", "task"), ("methods", "method")):
        for name in list_kinds(folder):
            assert f'{section}.name = "{name}"' in out
            for key in load_kind(folder, name, key="").Options.model_fields:
                assert f"{section}.{key}" in words
    assert "plan.fitting.share" in words
    assert words[words.index("training.learning_rate", words.index("training.epochs")) + 1] == "0.0002"
    assert "plankwise[demo]" in out


def test_no_line_of_help_is_wider_than_the_terminal(command):
    assert max(len(line) for line in command("predict", "--help").out.splitlines()) <= 80
