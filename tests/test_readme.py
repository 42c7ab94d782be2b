"""The README's code blocks, run in the order in which they stand, on a small model and table of the names it uses."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny):
    """A folder with what the examples expect a reader to have."""
    folder = tmp_path_factory.mktemp("readme")
    tiny.save_bert(folder / "my-finetuned-bert", num_hidden_layers=12)
    rows = tiny.make_rows(200)
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
    # A tiny untrained model needs more than the default to learn anything; the recipe itself is used as it stands.
    quick = "\n[predecessor.training]\nepochs = 8\nlearning_rate = 3e-3\nbatch_size = 8\n"
    quick += "[evaluation]\nlatency_predictions = 2\nfloor = false\n"
    (place / "recipe.toml").write_text(blocks("toml")[0] + quick)
    validate_config(tomllib.loads(blocks("toml")[1]))
    (place / "domain.toml").write_text(blocks("toml")[2] + quick)
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("plankwise ")]
    assert len(commands) >= 5
    for command in commands:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as done:
            main()
        assert not done.value.code, (command, capsys.readouterr())
    assert (place / "runs" / "four" / "successor" / "config.json").is_file()
    assert len((place / "predictions.csv").read_text().splitlines()) == 201


def test_the_make_targets_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {line.split()[1] for block in blocks("sh") for line in block.splitlines() if line.startswith("make ")}
    assert named
    assert named <= targets


def test_the_tree_names_every_source_file_and_nothing_else():
    tree = README.split("## The tree")[1]
    named = set(re.findall(r"^\s*([\w.-]+\.(?:py|toml))\b", tree, re.MULTILINE))
    files = {
        path.name
        for folder in ("src", "benchmarks", "recipes")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".py", ".toml")
    }
    assert files - named - {"__init__.py"} == set()
    assert named - files == set()
