import pytest

from plankwise.evaluation.latency import measure_latency


@pytest.mark.parametrize("predictions", [1, 5])
def test_each_mean_comes_with_the_count_it_is_taken_over(word_model, tokenizer, predictions):
    models = {name: word_model({"fine": [0.0, 1.0]}) for name in ("predecessor", "successor")}
    found = measure_latency(
        models, tokenizer, [("fine film",), ("dull",)], max_length=8, batch_sizes=[1, 3], predictions=predictions
    )
    assert found.keys() == models.keys()
    for by_size in found.values():
        assert by_size.keys() == {"1", "3"}
        for summary in by_size.values():
            assert summary["predictions"] == predictions
            assert 0 < summary["p50_ms"] <= summary["p95_ms"]


def test_models_are_timed_in_changing_turns_on_the_same_pairs(word_model, tokenizer):
    models = {name: word_model({"fine": [0.0, 1.0]}) for name in ("one", "two")}
    seen = []
    for name, model in models.items():
        model.register_forward_pre_hook(
            lambda module, args, kwargs, name=name: seen.append((name, tuple(kwargs["input_ids"].flatten().tolist()))),
            with_kwargs=True,
        )
    measure_latency(
        models, tokenizer, [("fine", "film"), ("dull", "end")], max_length=8, batch_sizes=[1], predictions=2
    )
    turns = [name for name, _ in seen]
    assert turns == ["one", "two", "two", "one"] * 2 + ["one", "two"]  # 3 rounds warm up; who goes first changes
    assert all(first[1] == second[1] for first, second in zip(seen[::2], seen[1::2], strict=True))
    assert seen[0][1] != seen[2][1]
