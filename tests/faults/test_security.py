"""What comes from others is never run: weights, code, names, texts; and what the environment holds is never written."""

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import yaml

from plankwise.config import load_config
from plankwise.errors import ConfigError
from plankwise.kinds import load_kind
from plankwise.report.card import make_card
from plankwise.training.checkpoint import find_fault

SECRETS = {"HF_TOKEN": "hf_s3cr3t", "AWS_SECRET_ACCESS_KEY": "aws-s3cr3t", "DATABASE_URL": "postgres://u:s3cr3t@h/d"}


class Bomb:
    """What leaves a file behind when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.fixture
def mark(tmp_path):
    return tmp_path / "went off"


def test_the_bomb_of_these_tests_goes_off_where_it_is_unpickled(mark):
    pickle.loads(pickle.dumps(Bomb(mark)))
    assert mark.exists()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors", "model.bin", "pytorch_model.pt"])
@pytest.mark.parametrize("key", ["predecessor.path", "plan.init"])
def test_a_pickle_in_place_of_weights_is_refused_and_not_read(
    refusal, tiny_classifier_folder, tmp_path, mark, name, key
):
    folder = tmp_path / "model"
    shutil.copytree(tiny_classifier_folder, folder)
    os.remove(folder / "model.safetensors")
    (folder / name).write_bytes(pickle.dumps(Bomb(mark)))
    assert str(folder) in refusal(f"{key}={folder}")
    assert not mark.exists()


def test_pickles_beside_good_weights_are_not_read(command, quick_recipe, tiny_expert_folder, tmp_path, mark):
    folder = tmp_path / "model"
    shutil.copytree(tiny_expert_folder, folder)
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (folder / name).write_bytes(pickle.dumps(Bomb(mark)))
    result = command("compress", quick_recipe, f"predecessor.path={folder}", "training.max_steps=1")
    assert result.code == 0, result.err
    assert not mark.exists()


def test_a_checkpoint_of_pickles_is_no_checkpoint(tmp_path, mark):
    for name in ("optimizer.pt", "rng_state.pth", "optimiser.safetensors", "weights.safetensors", "state.json"):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb(mark)))
    assert "checksums.json" in find_fault(tmp_path)
    assert not mark.exists()


# Without its own code a model of an unknown type cannot be read, but its tokenizer can: transformers knows the format.
@pytest.mark.parametrize(("file", "code"), [("config.json", 2), ("tokenizer_config.json", 0)])
def test_code_that_comes_with_a_model_is_not_run_unless_that_is_asked_for(
    refusal, command, quick_recipe, tiny_expert_folder, tmp_path, mark, file, code
):
    folder = tmp_path / "model"
    shutil.copytree(tiny_expert_folder, folder)
    (folder / "foreign.py").write_text(f"from pathlib import Path\nPath({str(mark)!r}).touch()\n")
    config = json.loads((folder / file).read_text())
    names = {"config.json": {"AutoConfig": "foreign.C", "AutoModelForSequenceClassification": "foreign.M"}}
    config["auto_map"] = names.get(file, {"AutoTokenizer": ["foreign.T", "foreign.T"]})
    config |= {"model_type": "foreign"} if file == "config.json" else {"tokenizer_class": "ForeignTokenizer"}
    (folder / file).write_text(json.dumps(config))
    result = command("compress", quick_recipe, f"predecessor.path={folder}", "training.max_steps=1")
    assert not mark.exists()
    assert result.code == code, result.err


@pytest.mark.parametrize(
    "name", ["../cli/__init__", "..", "/etc/passwd", "os", "_blocks", "layers.py", "plankwise.cli"]
)
@pytest.mark.parametrize("folder", ["parts", "methods", "tasks", "runtimes", "export"])
def test_a_kind_is_one_of_a_list_and_never_a_path(folder, name):
    with pytest.raises(ConfigError, match="there is no such"):
        load_kind(folder, name, key="key")


def test_a_runs_name_cannot_lead_out_of_its_folder():
    for name in ("..", ".", "...", "../x", "a/b", "a\\b", "", "~", "$HOME"):
        with pytest.raises(ConfigError, match=r"run\.name"):
            load_config(None, [f"run.name='{name}'"])
    assert load_config(None, ["run.name=v1.2-a"]).run.folder == "runs/v1.2-a"


HOSTILE = 'x"\nlicense: mit\n---\n<script>alert(1)</script> [a](javascript:b) ${HOME} {{7*7}}'


def test_hostile_names_stay_text_in_a_card(tmp_path):
    model = {"score": 0.5, "metrics": {HOSTILE: 0.5}, "parameters": 3}
    task = {
        "name": HOSTILE,
        "kind": "labels",
        "shown": {"metric": HOSTILE, "unit": HOSTILE},
        "facts": [],
        "labels": [HOSTILE],
    }
    record = {
        "predecessor": model, "successor": model, "stages": {}, "task": task, "seed": HOSTILE,
        "plan": [{"path": "a", "span": [0], "part": HOSTILE}], "config": {"run": {"name": HOSTILE}, "method": {"name": HOSTILE},
        "training": {"max_length": HOSTILE}},
        "machine": {"versions": {"plankwise": HOSTILE}},
    }  # fmt: skip
    card = make_card(record)
    _, front, body = card.split("---\n", 2)
    assert "license" not in yaml.safe_load(front)
    assert "<script" not in body
    assert "[a](" not in body.replace("\\[a\\](", "")


def test_what_the_environment_keeps_secret_is_nowhere_in_a_runs_folder(command, quick_recipe, tmp_path, monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    result = command("compress", quick_recipe, "training.max_steps=1")
    assert result.code == 0, result.err
    assert command("report", tmp_path / "run").code == 0
    written = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {"record.json", "log.txt", "report.html", "config.toml", "README.md"} <= {path.name for path in written}
    texts = [path.read_bytes() for path in written] + [result.out.encode(), result.err.encode()]
    assert not [value for value in SECRETS.values() for text in texts if value.encode() in text]
