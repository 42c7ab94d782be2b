"""The README's code blocks, run in the order in which they stand, on a small model and table of the names it uses."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
ROWS = 60
# The recipes and commands are used as they stand; this is added to them, for a tiny model and so that it takes seconds.
QUICK = """
[predecessor.training]
max_steps = 10
learning_rate = 3e-3
batch_size = 8
[evaluation]
latency_predictions = 1
truncated = false
"""
LESS = {"compare": ("--seeds", "1"), "analyse": ("--predictions", "1")}  # the last of two counts


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny):
    """A folder with what the examples expect a reader to have."""
    folder = tmp_path_factory.mktemp("readme")
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 12}
    tiny.save_expert(folder / "my-finetuned-bert", names=("LABEL_0", "LABEL_1"), **sizes)
    rows = tiny.make_rows(ROWS)
    for name in ("train", "new"):
        numbered = [(text, ["negative", "positive"].index(label)) for text, label in rows]
        (folder / f"{name}.csv").write_text(
            "sentence,label\n" + "".join(f"{text},{label}\n" for text, label in numbered)
        )
    (folder / "corpus.txt").write_text("\n".join(text for text, _ in rows))
    return folder


def test_the_python_blocks_run(place, monkeypatch):
    monkeypatch.chdir(place)
    names = {}
    for code in blocks("python"):
        exec(compile(code, "README.md", "exec"), names)
    assert (place / "successor" / "model.safetensors").is_file()


def test_the_commands_run_on_the_recipe(place, monkeypatch, capsys):
    from plankwise.cli import main
    from plankwise.config import validate_config

    monkeypatch.chdir(place)
    (place / "recipe.toml").write_text(blocks("toml")[0] + QUICK)
    validate_config(tomllib.loads(blocks("toml")[1]))
    (place / "domain.toml").write_text(blocks("toml")[2] + QUICK + "estimate = false\n")
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("plankwise ")]
    assert len(commands) >= 5
    for command in commands:
        words = shlex.split(command)
        monkeypatch.setattr(sys, "argv", [*words, *LESS.get(words[1], ())])
        with pytest.raises(SystemExit) as done:
            main()
        assert not done.value.code, (command, capsys.readouterr())
    assert (place / "runs" / "four" / "successor" / "config.json").is_file()
    assert len((place / "predictions.csv").read_text().splitlines()) == ROWS + 1


def test_the_make_targets_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {line.split()[1] for block in blocks("sh") for line in block.splitlines() if line.startswith("make ")}
    assert named
    assert named <= targets
