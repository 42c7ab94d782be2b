import json
import os

import pytest
import torch
from transformers import AutoModelForSequenceClassification, BertConfig, BertForMaskedLM

from plankwise.evaluation import cost
from plankwise.evaluation.cost import Models, measure_cost, measure_peaks
from plankwise.evaluation.latency import measure_latency, threads
from plankwise.evaluation.multiply_adds import count_multiply_adds
from plankwise.evaluation.size import count_by_component, count_parameters
from plankwise.runtimes.torch import TorchPredictor

NAMES = ("negative", "positive")
TEXTS = [("fine film",), ("dull",), ("the film is very dull and weak",)]  # 4, 3 and 9 tokens
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 20}
CHAIN = "bert.encoder.layer"


@pytest.fixture(scope="module")
def paths(tiny, tmp_path_factory):
    """Models of 4 blocks and of one."""
    folder = tmp_path_factory.mktemp("models")
    depths = {"predecessor": 4, "successor": 1}
    return {name: tiny.save_bert(folder / name, names=NAMES, num_hidden_layers=depth) for name, depth in depths.items()}


@pytest.fixture
def measure(paths, make_timed, monkeypatch):
    """Measures with processes that take 1 MB without a model, and with one as many more as its name has letters."""

    def peaks_by_name(given):
        return [1_000_000 * (1 + len((path or "").split("/")[-1])) for path in given["paths"]]

    monkeypatch.setattr(cost, "_probe", peaks_by_name)

    def run(load=AutoModelForSequenceClassification.from_pretrained, paths=paths, max_length=8, **options):
        named = {name: str(path) for name, path in paths.items()}
        models = Models(named, lambda path: TorchPredictor(load(path), path))
        sizes = {"batch_sizes": [1, 2], "predictions": 4, "threads": 1}
        return measure_cost(models, make_timed(TEXTS, max_length), **{**sizes, **options})[0]

    return run


def test_every_figure_is_there_for_every_model_and_can_be_written_as_json(measure, paths):
    rounds = []
    with threads(torch.get_num_threads() + 1):
        found = measure(progress=lambda done, expected: rounds.append((done, expected)))
    assert (found["device"], found["runtime"]) == ("cpu", "torch")
    assert found["threads"] == 1
    for key in ("latency", "load_seconds", "peak_mb", "size_mb", "parameters", "multiply_adds"):
        assert found[key].keys() == paths.keys(), key
    assert all(seconds > 0 for seconds in found["load_seconds"].values())
    assert found["peak_mb"] == {"predecessor": 11.0, "successor": 9.0}
    assert found["peak_batch_size"] == 2
    assert found["size_mb"]["predecessor"] == (paths["predecessor"] / "model.safetensors").stat().st_size / 1e6
    assert rounds[0] == (1, 4 * 2)
    assert rounds[-1][0] == rounds[-1][1] == sum(one["predictions"] for one in found["latency"]["successor"].values())
    assert json.loads(json.dumps(found)) == found


def test_the_speedup_and_its_interval_are_those_of_the_measurement_at_each_batch_size(measure, monkeypatch):
    kept = []
    monkeypatch.setattr(
        cost, "measure_latency", lambda *args, **kwargs: kept.append(measure_latency(*args, **kwargs)) or kept[0]
    )
    found = measure()
    speedups = kept[0].speedups["successor"]
    assert found["speedup"] == {size: one.median for size, one in speedups.items()}
    assert found["speedup_interval"] == {size: [one.low, one.high] for size, one in speedups.items()}
    assert found["speedup_steady"] == {size: one.steady for size, one in speedups.items()}
    assert found["speedup"].keys() == {"1", "2"}


def test_models_are_loaded_three_times_in_turn(measure, paths):
    loaded = []

    def load(path):
        loaded.append(path)
        return AutoModelForSequenceClassification.from_pretrained(path)

    measure(load)
    assert loaded == [str(paths["predecessor"]), str(paths["successor"])] * 3


def test_multiply_adds_are_of_the_text_of_median_length_cut_as_the_model_reads_it(measure, paths, tokenizer):
    model = AutoModelForSequenceClassification.from_pretrained(paths["successor"])
    assert measure()["multiply_adds"]["successor"] == {
        "tokens": 4,
        "count": count_multiply_adds(model, tokenizer(["fine film"], return_tensors="pt")),
    }
    assert measure(max_length=3)["multiply_adds"]["successor"]["tokens"] == 3


def test_parameters_by_component_add_up_also_where_one_block_is_left(measure, paths):
    found = measure()["parameters"]
    for name, path in paths.items():
        model = AutoModelForSequenceClassification.from_pretrained(path)
        assert sum(found[name].values()) == count_parameters(model)
    assert found["predecessor"]["blocks"] == 4 * found["successor"]["blocks"] > 0
    assert found["predecessor"]["head"] == found["successor"]["head"] == 32 * 32 + 32 + 32 * 2 + 2


def test_a_head_that_shares_its_weights_counts_with_the_embeddings_and_once():
    model = BertForMaskedLM(BertConfig(**SMALL))
    found = count_by_component(model, [CHAIN])
    assert found["head"] == 16 * 16 + 16 + 2 * 16 + 20  # dense, norm, and the bias over words
    assert sum(found.values()) == count_parameters(model)


def test_a_model_without_chains_has_no_components(measure, tiny, tmp_path):
    folder = tiny.save_bert(tmp_path / "shallow", names=NAMES, num_hidden_layers=1)
    found = measure(paths={"predecessor": folder})
    assert found["parameters"] == {}
    assert found["speedup"] == {}


def test_weights_that_are_not_in_the_folder_are_weighed_as_they_would_be_saved(measure, paths, tmp_path):
    source = paths["successor"]
    (tmp_path / "config.json").write_bytes((source / "config.json").read_bytes())
    found = measure(lambda path: AutoModelForSequenceClassification.from_pretrained(source), {"successor": tmp_path})
    assert found["size_mb"]["successor"] == (source / "model.safetensors").stat().st_size / 1e6


def peaks(paths, make_timed, runtime="torch"):
    models = Models({name: str(path) for name, path in paths.items()}, lambda path: None, runtime)
    return measure_peaks(models, dict.fromkeys(paths, make_timed(TEXTS).encode(TEXTS)), threads=1)


def test_the_peak_holds_the_weights_and_not_what_this_process_holds(tiny, tmp_path, make_timed):
    ballast = torch.ones(100_000_000)  # 400 MB, of which the model knows nothing
    wide = tiny.save_bert(tmp_path / "wide", names=NAMES, intermediate_size=100_000)  # 102 MB
    assert 100 < peaks({"wide": wide}, make_timed)["wide"] < ballast.nbytes / 1e6


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system's cache cannot be emptied here")
def test_two_models_of_one_shape_take_the_same_memory_whoever_has_read_their_files_before(tiny, tmp_path, make_timed):
    shape = {
        "names": NAMES,
        "vocab_size": 100_000,
        "hidden_size": 128,
    }  # 51 MB of embeddings, of which a batch needs some
    paths = {name: str(tiny.save_bert(tmp_path / name, **shape)) for name in ("read", "unread")}
    with (tmp_path / "unread" / "model.safetensors").open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # out of the system's cache
    batch = {"input_ids": torch.arange(0, 100_000, 200).reshape(10, 50)}
    found = measure_peaks(Models(paths, lambda path: None), dict.fromkeys(paths, batch), threads=1)
    assert found["unread"] == pytest.approx(found["read"], rel=0.02)


def test_a_process_that_fails_leaves_no_peak(tmp_path, make_timed):
    (tmp_path / "config.json").write_text("{}")
    assert peaks({"damaged": tmp_path}, make_timed) == {"damaged": None}
