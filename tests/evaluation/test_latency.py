import itertools

import pytest
import torch

from plankwise.evaluation.latency import measure_latency, threads


@pytest.mark.parametrize("predictions", [1, 5])
def test_each_mean_comes_with_the_count_it_is_taken_over(word_model, make_timed, predictions):
    models = {name: word_model({"fine": [0.0, 1.0]}) for name in ("predecessor", "successor")}
    timed = make_timed([("fine film",), ("dull",)])
    found = measure_latency(models, timed, batch_sizes=[1, 3], predictions=predictions, references={}).latency
    assert found.keys() == models.keys()
    for by_size in found.values():
        assert by_size.keys() == {"1", "3"}
        for summary in by_size.values():
            assert summary["predictions"] == predictions
            assert 0 < summary["p50_ms"] <= summary["p95_ms"] <= summary["p99_ms"]


def test_models_are_timed_in_changing_turns_on_the_same_pairs(word_model, make_timed):
    models = {name: word_model({"fine": [0.0, 1.0]}) for name in ("one", "two")}
    seen = []
    for name, model in models.items():
        model.module.register_forward_pre_hook(
            lambda module, args, kwargs, name=name: seen.append((name, tuple(kwargs["input_ids"].flatten().tolist()))),
            with_kwargs=True,
        )
    measure_latency(models, make_timed([("fine", "film"), ("dull", "end")]), batch_sizes=[1], predictions=2)
    del seen[2 * 5 :]  # what counts multiply-adds
    turns = [name for name, _ in seen]
    assert turns == ["one", "two", "two", "one"] * 2 + ["one", "two"]  # 3 rounds warm up; who goes first changes
    assert all(first[1] == second[1] for first, second in zip(seen[::2], seen[1::2], strict=True))
    assert seen[0][1] != seen[2][1]


def test_tokens_per_second_are_those_of_the_texts_without_padding(word_model, make_timed):
    ticks = itertools.count(0, 0.5)  # each prediction reads the clock twice
    texts = [("fine film",), ("dull",), ("the film is very dull and weak",)]  # 4, 3 and 8 (cut from 9) tokens
    model = word_model({"fine": [0.0, 1.0]})
    sizes = {"batch_sizes": [1, 3], "predictions": 3}
    found = measure_latency({"one": model}, make_timed(texts), **sizes, clock=lambda: next(ticks)).latency["one"]
    assert found["1"]["mean_ms"] == found["1"]["p99_ms"] == 500
    assert found["1"]["std_ms"] == 0
    assert found["1"]["tokens_per_second"] == (4 + 3 + 8) / 1.5
    assert found["3"]["tokens_per_second"] == (4 + 3 + 8) / 0.5


def test_the_number_of_threads_holds_inside_and_is_restored_also_after_an_error():
    before = torch.get_num_threads()
    with threads(before + 2) as count:
        assert count == torch.get_num_threads() == before + 2
    assert torch.get_num_threads() == before
    with pytest.raises(KeyError), threads(before + 1):
        raise KeyError
    assert torch.get_num_threads() == before


def test_without_a_number_the_threads_stay_as_they_are():
    with threads(torch.get_num_threads() + 1) as count, threads(None) as inner:
        assert inner == count
