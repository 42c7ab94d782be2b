"""Help: short, shown as it is written, with every option and an example; and every key with every value it takes."""

import inspect
from typing import Literal, get_args, get_origin

import pytest

from plankwise.config import RunConfig
from plankwise.kinds import list_kinds, load_kind
from plankwise.options import walk


def flat(text: str) -> str:
    """The text as if the terminal had no edge."""
    return " ".join(text.split())


@pytest.mark.parametrize("name", list_kinds("cli"))
def test_help_has_every_option_and_an_example(command, name):
    result = command(name, "--help")
    assert result.code == 0
    out = flat(result.out)
    assert f"Example: plankwise {name}" in out
    for parameter in inspect.signature(load_kind("cli", name, key="command").command).parameters.values():
        argument = next((info for info in parameter.annotation.__metadata__ if "Argument" in type(info).__name__), None)
        assert (argument.metavar if argument else parameter.name) in out
        if not argument and parameter.default not in (inspect.Parameter.empty, None):
            default = parameter.default
            if isinstance(default, bool):
                default = parameter.name if default else f"no-{parameter.name}"
            assert f"[default: {default}]" in out
    assert "--quiet" in out
    assert "--json" in out


@pytest.mark.parametrize("name", list_kinds("cli"))
def test_help_swallows_nothing_that_stands_in_brackets(command, name):
    module = load_kind("cli", name, key="command")
    out = flat(command(name, "--help").out)
    assert flat(module.__doc__) in out
    for parameter in inspect.signature(module.command).parameters.values():
        (info,) = parameter.annotation.__metadata__
        assert flat(info.help) in out


@pytest.mark.parametrize("name", [name for name in list_kinds("cli") if load_kind("cli", name, key="").NEEDS_ARGUMENTS])
def test_help_is_short_and_is_what_a_command_without_arguments_shows(command, name):
    asked, bare = command(name, "--help"), command(name)
    assert (asked.code, bare.code) == (0, 2)
    assert (asked.out + asked.err).strip() == (bare.out + bare.err).strip()
    assert len(asked.out.splitlines()) <= 40
    assert max(len(line) for line in asked.out.splitlines()) <= 80


def test_help_of_compress_has_the_usual_keys_and_says_where_all_are(command):
    out = command("compress", "--help").out
    assert "plankwise list keys" in out
    assert "training.learning_rate=0.00015" in out
    assert "plankwise[demo]" in out


def test_all_commands_are_listed_with_their_whole_first_line(command):
    out = flat(command("--help").out)
    for name in list_kinds("cli"):
        assert f"{name} {load_kind('cli', name, key='').__doc__.splitlines()[0]}" in out


@pytest.fixture(scope="module")
def groups():
    from plankwise.keys import list_keys

    return {group.name: {key.path: key for key in group.keys} for group in list_keys()}


def literals(annotation) -> list[str]:
    inner = [value for member in get_args(annotation) for value in literals(member)]
    return [str(value) for value in get_args(annotation)] if get_origin(annotation) is Literal else inner


def test_every_key_is_listed_with_every_value_that_is_allowed(groups):
    options = {section: type(value) for section, value in RunConfig() if section not in ("task", "method")}
    for folder in ("tasks", "methods"):
        section = folder.removesuffix("s")
        options |= {f"{section}.{name}": load_kind(folder, name, key="").Options for name in list_kinds(folder)}
    for name, kind in options.items():
        for path, field in walk(kind, f"{name.split('.')[0]}."):
            if path.startswith("predecessor.training."):
                continue
            key = groups[name][path]
            assert key.meaning == field.description
            for value in literals(field.annotation):
                assert value in key.allowed.replace("list of ", "").split(" | "), path
    assert groups["training"]["training.lr_schedule"].allowed == "linear | constant | cosine"
    assert groups["predecessor"]["predecessor.finetune"].allowed == "auto | true | false"
    assert groups["training"]["training.warmup_share"].allowed == "number, at least 0 and below 1"
    assert "plateau" in groups["method.replacing"]["method.schedule"].allowed
    assert groups["plan"]["plan.options"].allowed == "section"
    assert "spread" in groups["plan"]["plan.init"].allowed


def test_the_default_that_is_shown_is_the_one_that_counts(groups):
    assert groups["training"]["training.learning_rate"].default == "0.00015"
    assert groups["predecessor"]["predecessor.training"].default == "warmup_share = 0.1"
    assert groups["task.glue"]["task.subset"].default == "needed"
    assert groups["task.glue"]["task.clean"].default == "false"


@pytest.mark.parametrize(
    ("section", "keys"),
    [
        ("analysis", ["analysis.rules", "analysis.margin", "analysis.texts"]),
        ("method.layerdrop", ["method.name", "method.p"]),
        ("training.lr_schedule", ["training.lr_schedule"]),
        ("plan.fitting", [f"plan.fitting{key}" for key in ("", ".share", ".learning_rate", ".start", ".texts")]),
    ],
)
def test_keys_of_a_section_a_kind_or_one_key_can_be_asked_for(command, section, keys):
    out = command("list", "keys", section).out
    assert [line.split()[0] for line in out.splitlines() if line.startswith(f"{section.split('.')[0]}.")][
        -len(keys) :
    ] == keys


def test_the_keys_of_the_predecessors_training_are_shown_when_they_are_asked_for(command):
    assert "predecessor.training.epochs" not in command("list", "keys", "predecessor").out
    assert "predecessor.training.epochs" in command("list", "keys", "predecessor.training").out


def test_a_section_that_there_is_not_is_refused(command):
    result = command("list", "keys", "trainig")
    assert result.code == 2
    assert "keys of 'trainig': there is no such section. Did you mean 'training'?" in result.err


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("epochs=3", "epochs: there is no such key; did you mean training.epochs (or predecessor.training.epochs)?"),
        ("epoch=3", "epoch: there is no such key; did you mean training.epochs (or predecessor.training.epochs)?"),
        ("plan.epochs=3", "plan.epochs: there is no such key; did you mean training.epochs (or"),
        ("sucessors=3", "sucessors: there is no such key; did you mean plan.successors?"),
        ("alpha=0.5", "alpha: there is no such key; did you mean method.alpha?"),
        ("seed=1", "seed: there is no such key; did you mean run.seed?"),
    ],
)
def test_a_key_without_its_section_is_told_in_full(refusal, override, sentence):
    assert sentence in refusal(override)
