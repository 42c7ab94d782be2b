import pytest
from transformers import AutoTokenizer

from plankwise.errors import RunError
from plankwise.models.loading import load
from plankwise.models.saving import save, saved_size_mb, size_on_disk_mb


def test_the_size_is_that_of_the_weights_alone(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"x" * 1_500_000)
    (tmp_path / "b.safetensors").write_bytes(b"x" * 500_000)
    (tmp_path / "tokenizer.json").write_bytes(b"x" * 999)
    assert size_on_disk_mb(tmp_path) == 2.0


def test_a_model_is_saved_with_its_tokenizer_and_loads_again(tmp_path, tiny_classifier_folder):
    model = load(tiny_classifier_folder)
    folder = save(model, tmp_path / "saved", AutoTokenizer.from_pretrained(tiny_classifier_folder))
    assert saved_size_mb(model, str(folder)) == size_on_disk_mb(folder) > 0
    assert AutoTokenizer.from_pretrained(folder).tokenize("fine film") == ["fine", "film"]
    assert {name: value.shape for name, value in load(folder).state_dict().items()} == {
        name: value.shape for name, value in model.state_dict().items()
    }


def test_a_place_that_cannot_be_written_is_said(tmp_path, tiny_classifier_folder):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match="cannot be written"):
        save(load(tiny_classifier_folder), tmp_path / "file" / "model")
