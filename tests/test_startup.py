"""What answers at once imports nothing that takes seconds to load; counted in modules, not measured in time."""

import json
import subprocess
import sys

import pytest

from plankwise.kinds import list_kinds

HEAVY = ("torch", "transformers", "sklearn", "scipy", "pandas", "datasets", "accelerate")
LIGHT_ROOMS = ("methods", "parts", "tasks", "runtimes", "export", "families", "studies", "cli")
START = f"""
import json, sys
import plankwise.kinds

plankwise.kinds.entry_points = lambda group: ()  # a plug-in of another distribution imports what it likes
HEAVY = {HEAVY!r}


def found():
    return [name for name in HEAVY if name in sys.modules]
"""
COMMANDS = """
import contextlib, io
from plankwise.cli import main

answers = []
for arguments in json.loads(sys.argv[1]):
    sys.argv, code, said = ["plankwise", *arguments], 0, io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    answers.append([arguments, code, said.getvalue(), found()])
print(json.dumps(answers))
"""
KINDS = """
loaded = {}
for folder in json.loads(sys.argv[1]):
    for name in plankwise.kinds.list_kinds(folder):
        plankwise.kinds.load_kind(folder, name, key="name")
        loaded[f"{folder}/{name}.py"] = found()
print(json.dumps(loaded))
"""


def ask(program: str, given: object):
    done = subprocess.run(
        [sys.executable, "-c", START + program, json.dumps(given)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_kind_of_ours_imports_torch_or_the_like_when_it_is_loaded():
    loaded = ask(KINDS, LIGHT_ROOMS)
    assert len(loaded) > 30
    assert not {name: heavy for name, heavy in loaded.items() if heavy}


@pytest.fixture
def mistakes(tmp_path):
    """Commands that cannot be done, which is found before anything is trained."""
    recipe = tmp_path / "reviews.toml"
    recipe.write_text("[plan]\nsuccessors = 2\n", "utf-8")
    model, table = str(tmp_path), str(tmp_path / "table.csv")
    return [
        ["comprss"],
        ["list", "methds"],
        ["compress", str(tmp_path / "none.toml")],
        *(
            [*command, "plan.sucessors=3"]
            for command in (
                ["compress", str(recipe)],
                ["plan", str(recipe)],
                ["compare", str(recipe)],
                ["study", "schedule", str(recipe)],
                ["finetune", str(recipe), "--model", model],
                ["evaluate", model, "task.name=reviews"],
                ["predict", model, "--table", table, "--text", "a"],
                ["export", model, "--check", "task.name=reviews"],
                ["demo"],
            )
        ),
        ["compress", str(recipe), "method.name=replacin"],
        ["compress", str(recipe), "plan.part=layer"],
        ["study", "schedul", str(recipe)],
        ["export", model, "--to", "onx"],
        ["report", str(tmp_path / "none")],
        ["analyse", str(tmp_path / "none")],
    ]


def test_a_mistake_is_told_before_anything_slow_is_imported(mistakes):
    for arguments, code, said, heavy in ask(COMMANDS, mistakes):
        assert (code, heavy) == (2, []), f"{arguments}: {said}"
        assert "Traceback" not in said


def test_help_and_lists_import_nothing_slow():
    from plankwise.cli.list import LISTED

    asked = [["--help"], ["--version"], ["list"], *(["list", what] for what in LISTED)]
    asked += [[name, "--help"] for name in list_kinds("cli")]
    for arguments, code, said, heavy in ask(COMMANDS, asked):
        assert (code, heavy) == (0, []), f"{arguments}: {said}"
