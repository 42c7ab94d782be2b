"""A model with early exits as a chain of graphs gives what it gives in torch, text by text, in every format and precision."""

import json

import pytest
import torch

from exports import FAMILIES, make, run_alone
from plankwise.errors import ConfigError
from plankwise.export import export_model
from plankwise.models.exported import read_exported
from plankwise.models.planned import with_exits
from plankwise.runtimes import open_predictor

BLOCKS = 3
CHAINS = ("onnx", "openvino")
WORDS = ("a", "the", "film", "plot", "is", "was", "very", "fine", "dull", "lovely", "weak", "end")
TEXTS = [
    " ".join(WORDS[(row * step) % len(WORDS)] for step in range(1, 2 + row % 7)) for row in range(1, 33)
]  # of several lengths


def make_leaving(family="bert", *, labels=3):
    """A model whose heads answer differently, so that texts leave after different blocks."""
    model = make(family, blocks=BLOCKS, labels=labels).eval()
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.normal_(0, 0.2, generator=generator)
    model = with_exits(model, patience=1)
    for head in model.exit_heads:
        head.weight.data.normal_(generator=generator)
    return model


@pytest.fixture(scope="module")
def model():
    return make_leaving()


@pytest.fixture(scope="module")
def folders(model, models, tmp_path_factory):
    """The model, exported by each format in fp32."""
    place = tmp_path_factory.mktemp("chains")
    return {name: export_model(model, models.tokenizer, place / name, format=name, max_length=16) for name in CHAINS}


@pytest.fixture
def encode(models):
    def encode(texts):
        return dict(models.tokenizer(list(texts), padding=True, return_tensors="pt"))

    return encode


def open_chain(folder, **exits):
    """The chain at work, with other settings than the folder's if they are given."""
    predictor = open_predictor(read_exported(str(folder)).runtime, str(folder), None)
    predictor.exported.exits.update(exits)
    return predictor


@pytest.mark.parametrize("format", CHAINS)
@torch.no_grad()
def test_logits_and_exits_are_torchs_for_batches_of_any_shape(format, model, folders, encode):
    chain, seen = open_chain(folders[format]), set()
    for texts in (TEXTS, TEXTS[:1], ["film", "dull"], TEXTS[3:8]):
        expected, found = model(**encode(texts)), chain(encode(texts))
        assert found["exits"].tolist() == expected.exits.tolist()
        assert (found["logits"] - expected.logits).abs().max() < 1e-4
        seen |= set(found["exits"].tolist())
    assert seen == {2, 3}  # some left early, some did not


@pytest.mark.parametrize("format", CHAINS)
@torch.no_grad()
def test_a_patience_of_as_many_answers_as_there_are_blocks_is_the_whole_model(format, model, folders, encode):
    for patience in (BLOCKS - 1, BLOCKS, BLOCKS + 5):
        found = open_chain(folders[format], patience=patience)(encode(TEXTS))
        assert found["exits"].tolist() == [BLOCKS] * len(TEXTS)
        assert (found["logits"] - model.logits_by_block(**encode(TEXTS))[:, -1]).abs().max() < 1e-4


@pytest.mark.parametrize("format", CHAINS)
def test_texts_answer_in_a_batch_that_others_leave_as_they_do_alone(format, folders, encode):
    chain = open_chain(folders[format])
    together = chain(encode(TEXTS))
    assert set(together["exits"].tolist()) == {2, 3}
    for row, text in enumerate(TEXTS):
        alone = chain(encode([text]))
        assert alone["exits"].item() == together["exits"][row].item()
        assert (alone["logits"][0] - together["logits"][row]).abs().max() < 1e-4


def test_later_graphs_are_given_the_texts_that_are_left_alone(folders, encode):
    chain, rows = open_chain(folders["onnx"]), []
    chain.graphs = [
        lambda arrays, graph=graph: (rows.append(len(next(iter(arrays.values())))), graph(arrays))[1]
        for graph in chain.graphs
    ]
    exits = chain(encode(TEXTS[:16]))["exits"]
    assert rows == [count for block in range(BLOCKS) if (count := int((exits > block).sum()))]
    assert rows[-1] < 16


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("bert", "electra")])
@torch.no_grad()
def test_every_family_with_exits_is_a_chain_in_onnx(family, models, encode, tmp_path):
    model = make_leaving(family)
    chain = open_chain(export_model(model, models.tokenizer, tmp_path / "out"))
    for texts in (TEXTS, TEXTS[:1]):
        batch = {name: value for name, value in encode(texts).items() if name in chain.exported.inputs}
        expected, found = model(**batch), chain(batch)
        assert found["exits"].tolist() == expected.exits.tolist()
        assert (found["logits"] - expected.logits).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("format", "precision", "quantise"),
    [
        ("onnx", "fp16", None),
        ("onnx", "int8", "dynamic"),
        ("onnx", "int8", "static"),
        ("openvino", "int8", "dynamic"),
    ],
)
def test_a_chain_in_low_precision_is_smaller_and_answers_about_the_same(
    format, precision, quantise, model, folders, models, encode, tmp_path
):
    batches = [encode(TEXTS[start : start + 8]) for start in range(0, len(TEXTS), 8)]
    options = {"format": format, "precision": precision, "quantise": quantise, "calibration": batches}
    chain = open_chain(export_model(model, models.tokenizer, tmp_path / "out", **options), patience=BLOCKS)
    assert chain.size_mb < open_chain(folders[format]).size_mb
    expected = model.logits_by_block(**encode(TEXTS))[:, -1].detach()
    found = chain(encode(TEXTS))["logits"]
    assert (found - expected).abs().max() <= (0.01 if precision == "fp16" else 0.2) * expected.abs().max()


def test_the_heads_of_an_int8_chain_stay_in_floats_but_for_the_models_own(model, models, tmp_path):
    import onnx

    folder = export_model(model, models.tokenizer, tmp_path / "out", precision="int8")
    for block in range(1, BLOCKS + 1):
        graph = onnx.load(folder / f"block-{block}.onnx").graph
        in_floats = {one.name for one in graph.initializer if one.data_type == onnx.TensorProto.FLOAT}
        for name in ("head.weight", "model.bert.pooler.dense.weight"):
            assert (name in in_floats) == (block < BLOCKS)
        assert any(node.op_type == "MatMulInteger" for node in graph.node)


def test_numbers_are_the_same_answer_within_the_tolerance(models, encode, tmp_path):
    model = make_leaving(labels=1)
    chain = open_chain(export_model(model, models.tokenizer, tmp_path / "out"))
    with torch.no_grad():
        steps = model.logits_by_block(**encode(TEXTS)).diff(dim=1).abs().flatten()
        model.config.exits = {**model.config.exits, "tolerance": float(steps.median())}
        expected = model(**encode(TEXTS))
    chain.exported.exits["tolerance"] = float(steps.median())
    found = chain(encode(TEXTS))
    assert found["exits"].tolist() == expected.exits.tolist()
    assert len(set(found["exits"].tolist())) > 1


def test_the_folder_says_how_texts_leave(folders):
    exported = read_exported(str(folders["onnx"]))
    assert exported.graphs == exported.files == tuple(f"block-{block}.onnx" for block in range(1, BLOCKS + 1))
    assert exported.outputs == ("logits", "exits")
    assert (exported.exits["patience"], exported.exits["tolerance"], exported.exits["blocks"]) == (1, 0.1, BLOCKS)
    assert "a text leaves once 1 answers" in (folders["onnx"] / "README.md").read_text("utf-8")


@pytest.mark.parametrize(("format", "runtime"), [("onnx", "onnxruntime"), ("openvino", "openvino")])
@torch.no_grad()
def test_predict_py_lets_texts_leave_with_the_runtime_tokenizers_and_numpy_alone(
    format, runtime, model, folders, encode
):
    lines = run_alone(folders[format], runtime, *TEXTS[:8])
    output = model(**encode(TEXTS[:8]))
    shares = output.logits.softmax(-1)
    assert [line.split("\t")[0] for line in lines] == [
        model.config.id2label[int(one)] for one in output.logits.argmax(-1)
    ]
    assert [float(line.split("\t")[1]) for line in lines] == pytest.approx(shares.max(-1).values.tolist(), abs=6e-4)
    whole = model.logits_by_block(**encode(TEXTS[:8]))[:, -1].softmax(-1)
    assert (whole - shares).abs().max() > 6e-4  # the whole model would have answered otherwise
    assert len((folders[format] / "predict.py").read_text("utf-8").splitlines()) < 80


def test_the_torch_format_writes_one_checkpoint(model, models, tmp_path):
    folder = export_model(model, models.tokenizer, tmp_path / "out", format="torch")
    exported = json.loads((folder / "export.json").read_text("utf-8"))
    assert (exported["exits"], exported["files"]) == (None, ["model.safetensors"])


def test_blocks_that_are_given_tensors_of_their_own_are_refused(model, models, tmp_path, monkeypatch):
    from plankwise.export import _chain

    def run_first_block(model, inputs):
        state, calls = original(model, inputs)
        return state, [*calls[:-1], (calls[-1][0], {**calls[-1][1], "more": torch.ones(1)})]

    original = _chain.run_first_block
    monkeypatch.setattr(_chain, "run_first_block", run_first_block)
    with pytest.raises(ConfigError, match=r"are each given tensors of their own, .* export it to torch"):
        export_model(make_leaving(), models.tokenizer, tmp_path / "out")
    assert not list(tmp_path.iterdir())
