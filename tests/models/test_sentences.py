"""Sentence encoders against sentence-transformers itself: the same vectors from the same folders, and folders that it loads."""

import importlib
import json
import shutil

import pytest
import torch

from plankwise.config import PlanOptions
from plankwise.errors import ConfigError
from plankwise.models.loading import Loader
from plankwise.models.planned_config import PlannedConfig
from plankwise.models.plans import make_plan, try_plan
from plankwise.models.sentences import POOLINGS, load_sentence_encoder, pool, read_sentence_files
from plankwise.solving.effect import find_answer

TEXTS = ["the film is fine", "a dull plot", "the actor was very great and the music was lovely"]


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def modules(library):
    return importlib.import_module("sentence_transformers.sentence_transformer.modules")


@pytest.fixture(scope="module")
def folder(library, modules, tiny_model_folder, tmp_path_factory):
    """A folder as sentence-transformers writes it today: cls and mean joined, unit length, prompts."""
    place = tmp_path_factory.mktemp("models") / "sentences"
    transformer = modules.Transformer(str(tiny_model_folder), max_seq_length=8)
    pooling = modules.Pooling(32, pooling_mode=("cls", "mean"))
    chain = [transformer, pooling, modules.Normalize()]
    prompts = {"query": "film ", "passage": "plot "}
    library.SentenceTransformer(modules=chain, prompts=prompts, default_prompt_name="query").save(str(place))
    return place


def encode(path, texts, prompt="", length=8):
    model = load_sentence_encoder(Loader(), str(path)).eval()
    given = [f"{prompt}{text}" for text in texts]
    batch = Loader().tokenizer(str(path))(given, padding=True, truncation=True, max_length=length, return_tensors="pt")
    with torch.inference_mode():
        return model(**batch)["sentence_embedding"]


@pytest.mark.parametrize("mode", POOLINGS)
def test_states_are_pooled_as_the_library_pools_them(mode, modules):
    states = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1]])
    pooling = modules.Pooling(4, pooling_mode=mode)
    expected = pooling({"token_embeddings": states, "attention_mask": mask})["sentence_embedding"]
    torch.testing.assert_close(pool(states, mask, mode), expected)


def test_a_folder_of_the_library_gives_the_librarys_vectors(library, folder):
    expected = torch.from_numpy(library.SentenceTransformer(str(folder)).encode(TEXTS))
    found = encode(folder, TEXTS, prompt="film ")
    torch.testing.assert_close(found, expected)
    assert found.shape == (3, 64)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(3))


def test_a_folders_files_say_prompts_and_are_written_beside_what_is_saved(library, folder, tmp_path):
    files = read_sentence_files(str(folder))
    assert files.prompt == files.prompt_for("query") == "film "
    assert files.prompt_for("document", "passage") == "plot "
    assert files.prompt_for("no such") == "film "
    load_sentence_encoder(Loader(), str(folder)).save_pretrained(tmp_path)
    Loader().tokenizer(str(folder)).save_pretrained(tmp_path)
    assert read_sentence_files(str(tmp_path)) == files
    before, after = (library.SentenceTransformer(str(place)) for place in (folder, tmp_path))
    assert (after.prompts, after.default_prompt_name) == (before.prompts, "query")
    assert after.max_seq_length == before.max_seq_length == 8
    assert (after.encode(TEXTS) == before.encode(TEXTS)).all()


def test_folders_of_earlier_versions_are_read_too(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    kinds = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for kind, path in kinds.items()]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    shutil.rmtree(tmp_path / "2_Normalize")  # which had no file then
    modes = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **modes}))
    lengths = {"max_seq_length": 6, "do_lower_case": True}
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps(lengths))
    files = read_sentence_files(str(tmp_path))
    assert (files.pooling, files.normalise, files.max_length, files.lower) == (("cls", "mean"), True, 6, True)
    assert torch.equal(encode(tmp_path, TEXTS), encode(folder, TEXTS))


def test_a_plain_encoder_becomes_a_folder_that_the_library_loads(library, tiny_model_folder, tmp_path):
    assert read_sentence_files(str(tiny_model_folder)) is None
    model = load_sentence_encoder(Loader(), str(tiny_model_folder), pooling="max")
    model.save_pretrained(tmp_path)
    Loader().tokenizer(str(tiny_model_folder)).save_pretrained(tmp_path)
    assert read_sentence_files(str(tmp_path)).pooling == ("max",)
    expected = torch.from_numpy(library.SentenceTransformer(str(tmp_path)).encode(TEXTS))
    torch.testing.assert_close(encode(tmp_path, TEXTS, length=64), expected)


def test_a_model_whose_other_modules_would_be_lost_is_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    modules = json.loads((folder / "modules.json").read_text())
    dense = {"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"}
    (tmp_path / "modules.json").write_text(json.dumps([*modules, dense]))
    with pytest.raises(ConfigError, match="made of Transformer, Pooling, Normalize, Dense"):
        read_sentence_files(str(tmp_path))
    with pytest.raises(ConfigError, match=r"task\.pooling is 'mean', but .* pools by cls and mean"):
        load_sentence_encoder(Loader(), str(folder), pooling="mean")


def test_a_successor_of_another_kind_of_block_is_saved_with_its_plan(folder, tmp_path):
    model = load_sentence_encoder(Loader(), str(folder))
    plan = make_plan(model, PlanOptions(successors=2, part="bottleneck"))
    successor = try_plan(model, plan, init="lower", seed=0)
    successor.save_pretrained(tmp_path)
    assert isinstance(successor.config, PlannedConfig)
    again = load_sentence_encoder(Loader(), str(tmp_path)).eval()
    ids = torch.tensor([[2, 5, 9, 3]])
    assert torch.equal(again(ids)["sentence_embedding"], successor(ids)["sentence_embedding"])


def test_losses_are_distances_and_the_end_effect_is_twice_one_less_the_cosine(tiny_model_folder):
    target = torch.randn(2, 32, generator=torch.Generator().manual_seed(0))
    ids = torch.tensor([[2, 5, 9, 3], [2, 7, 12, 3]])
    for squared in (False, True):
        model = load_sentence_encoder(Loader(), str(tiny_model_folder), squared=squared).eval()
        output = model(ids, target=target)
        vectors = output["sentence_embedding"]
        cosine = torch.nn.functional.cosine_similarity(vectors, target)
        expected = (vectors - target).square().sum(1).mean() if squared else (1 - cosine).mean()
        torch.testing.assert_close(output["loss"], expected)
    ours, are_logits = find_answer(model(ids))
    theirs, _ = find_answer({"sentence_embedding": target})
    assert not are_logits
    torch.testing.assert_close((ours - theirs).square().sum() / theirs.square().sum(), 2 * (1 - cosine).mean())
