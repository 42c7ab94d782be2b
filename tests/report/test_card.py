import pytest
import yaml
from huggingface_hub import ModelCard

from plankwise.report.card import base_model, make_card, write_card


def front_matter(text):
    return yaml.safe_load(text.split("---\n")[1])


def test_the_hub_reads_the_scores(records):
    results = ModelCard(make_card(records.plain())).data.eval_results
    assert {one.metric_type: one.metric_value for one in results} == {"accuracy": 0.786, "f1": 0.786 - 0.004}
    assert {one.task_type for one in results} == {"text-classification"}
    assert {one.dataset_name for one in results} == {"reviews/sentences"}


def test_the_front_matter_names_the_library_and_the_base(records):
    data = front_matter(make_card(records.plain()))
    assert data["library_name"] == "transformers"
    assert data["base_model"] == "acme/bert-small"
    assert "plankwise" in data["tags"]


@pytest.mark.parametrize(
    "path", ["/home/me/models/bert", "./bert", "~/bert", "embedded", "models/a/b", "runs/demo", "C:\\bert"]
)
def test_no_path_of_the_machine_stands_in_the_card(records, path):
    record = records.plain()
    record["config"]["predecessor"]["path"] = path
    record["config"]["run"] |= {"name": "/home/me/runs/x", "folder": "/home/me/runs/x"}
    for name in ("predecessor", "successor", "truncated"):
        record[name]["path"] = f"/home/me/runs/x/{name}"
    card = make_card(record)
    assert "base_model" not in front_matter(card)
    assert "/home/me" not in card
    assert base_model(record) is None


def test_a_folder_that_exists_is_no_hub_name(records, tmp_path, monkeypatch):
    (tmp_path / "acme" / "bert-small").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert base_model(records.plain()) is None


@pytest.mark.parametrize(
    ("objective", "pipeline"), [("mlm", "fill-mask"), ("mlm+nsp", "fill-mask"), ("clm", "text-generation")]
)
def test_a_language_model_has_its_own_task_and_perplexity(records, objective, pipeline):
    record = records.plain()
    record["task"] = records.text_task(objective, pipeline)
    record["successor"]["metrics"] = {"perplexity": 11.7}
    (result,) = ModelCard(make_card(record)).data.eval_results
    assert (result.task_type, result.metric_type, result.metric_value) == (pipeline, "perplexity", 11.7)
    card = make_card(record)
    assert f'pipeline("{pipeline}"' in card
    assert "5 held-out pieces of text" in card


def test_an_unknown_kind_of_task_is_shown_as_its_record_says(records):
    card = make_card(records.tagged(records.plain()))
    task = front_matter(card)["model-index"][0]["results"][0]["task"]
    assert task == {"type": "token-classification", "name": "Token classification"}
    assert 'pipeline("token-classification"' in card
    assert "| size | F1 of entities |" in card
    assert "| successor | 17.4 M | 69.6 MB | 88.8 |" in card
    assert "30 held-out sentences" in card


def test_names_from_data_cannot_break_the_card(records):
    record = records.plain()
    record["task"]["name"] = 'evil"\n---\nlicense: x # <script>alert(1)</script> | cell'
    record["config"]["run"]["name"] = "a: b\n- c"
    data = front_matter(make_card(record))
    assert data["model-index"][0]["results"][0]["dataset"]["name"] == record["task"]["name"]
    assert "license" not in data
    body = make_card(record).split("---\n", 2)[2]
    assert "<script" not in body


def test_a_score_that_is_not_a_number_is_left_out(records):
    record = records.plain()
    record["successor"]["metrics"] = {"accuracy": 0.5, "f1": float("nan")}
    (result,) = ModelCard(make_card(record)).data.eval_results
    assert result.metric_type == "accuracy"


DEAD = {
    "constant": "'bad *one*'",
    "constant_score": 0.645,
    "answered": 1,
    "most_answered": "bad *one*",
    "most_answered_share": 1.0,
    "p": 1.0,
    "shown": False,
}


def test_a_model_that_answers_one_class_is_called_that_and_its_share_is_marked(records):
    record = records.plain()
    record["successor"]["beyond_constant"] = DEAD
    card = make_card(record)
    assert "The successor answers only 'bad \\*one\\*': train longer (training.epochs)" in card
    assert "| successor | 17.4 M | 69.6 MB | 0.7860 | 98.5%\\* | 1.79× |" in card
    assert "\n\\* the successor answers only 'bad \\*one\\*': train longer" in card
    assert "| truncated | 17.4 M | 69.6 MB | 0.7780 | 97.5% |" in card
    assert "keeps 98.5%" not in card


def test_steps_for_int8_are_told(records):
    record = records.plain()
    assert "int8" not in make_card(record)
    record["stages"]["quantising"] = {**record["stages"]["replacing"], "steps": 45}
    assert "In the last 45 of the steps it was trained for int8" in make_card(record)


def test_the_limits_say_that_dev_chose_and_what_a_half_says_that_did_not(records):
    record = records.plain()
    assert "half of dev" not in make_card(record)
    record["successor"]["held_back"] = {"score": 0.7712, "chosen_among": 4}
    told = "- Dev chose among 4 evaluations; the score on a half of dev that did not choose is 0.7712.\n"
    assert told in make_card(record)


def test_the_limits_name_guards_that_were_ignored(records):
    record = records.plain() | {"ignored_guards": {"majority": "the predecessor runs/x scores 0.5"}}
    told = "- The guard majority was ignored (evaluation.ignore\\_guards): the predecessor runs/x scores 0.5.\n"
    assert told in make_card(record)


def test_the_body_has_the_table_and_the_limits(records, tmp_path):
    path = write_card(records.plain(), tmp_path)
    text = path.read_text("utf-8")
    assert path.name == "README.md"
    assert "| successor | 17.4 M | 69.6 MB | 0.7860 | 98.5% | 1.79× |" in text
    assert "## Limits" in text
    assert "cut at 64 tokens" in text
    assert "6 modules of the predecessor were replaced by 3 successors" in text


def test_a_seed_that_someone_put_markup_in_is_shown_as_it_is(records):
    card = make_card(records.plain() | {"seed": "[x](http://y) <b>"})
    assert "with seed \\[x\\](http://y) &lt;b>." in card
