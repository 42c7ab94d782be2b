from torch import nn

from plankwise.evaluation.size import count_parameters, size_on_disk_mb


def test_shared_parameters_are_counted_once():
    first, second = nn.Linear(3, 4, bias=False), nn.Linear(3, 4, bias=False)
    assert count_parameters(nn.Sequential(first, second)) == 24
    second.weight = first.weight
    assert count_parameters(nn.Sequential(first, second)) == 12


def test_the_size_is_that_of_the_weights_alone(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"x" * 1_500_000)
    (tmp_path / "b.safetensors").write_bytes(b"x" * 500_000)
    (tmp_path / "tokenizer.json").write_bytes(b"x" * 999)
    assert size_on_disk_mb(tmp_path) == 2.0
