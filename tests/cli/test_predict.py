import csv

import pytest


@pytest.fixture
def predict(command, tiny_classifier_folder, table_file, tmp_path):
    def run(*arguments, table=table_file):
        given = ["--table", table, "--out", tmp_path / "out.csv", "training.max_length=16", *arguments]
        return command("predict", tiny_classifier_folder, *given)

    return run


def test_a_table_keeps_its_columns_and_gets_the_predictions_behind_them(predict, tiny, tmp_path):
    result = predict("--text", "sentence")
    assert (result.code, result.out) == (0, f"written: {tmp_path}/out.csv\n")
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [(row["sentence"], row["label"]) for row in rows] == tiny.make_rows(48)
    assert list(rows[0]) == ["sentence", "label", "prediction", "confidence"]
    assert {row["prediction"] for row in rows} <= {"negative", "positive"}
    assert all(0.5 <= float(row["confidence"]) <= 1 for row in rows)


def test_texts_that_are_cut_are_counted(predict):
    assert (
        "48 of 48 texts were longer than 5 tokens and cut" in predict("--text", "sentence", "training.max_length=5").out
    )


def test_pairs_and_other_separators_are_read(predict, tmp_path):
    (tmp_path / "pairs.txt").write_text("the film;was fine\na plot;is dull\n")
    assert (
        predict("--text", "0", "--text", "1", "--separator", ";", "--no-header", table=tmp_path / "pairs.txt").code == 0
    )
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert len(lines) == 3
    assert lines[0] == "0,1,prediction,confidence"
    assert lines[1].startswith("the film,was fine,")


def test_columns_that_the_table_has_already_are_not_overwritten(predict, tmp_path):
    (tmp_path / "a.csv").write_text("prediction,text,prediction_2,confidence\nold,the film,older,0.1\n")
    result = predict("--text", "text", table=tmp_path / "a.csv")
    assert "the table has a column 'prediction' already, so the new one is 'prediction_3'\n" in result.out
    assert "the table has a column 'confidence' already, so the new one is 'confidence_2'\n" in result.out
    head, row = (tmp_path / "out.csv").read_text().splitlines()
    assert head == "prediction,text,prediction_2,confidence,prediction_3,confidence_2"
    assert row.startswith("old,the film,older,0.1,")


def test_predictions_can_take_the_place_of_their_table(command, tiny_classifier_folder, table_file):
    given = ["--table", table_file, "--text", "sentence", "--out", table_file, "training.max_length=16"]
    assert command("predict", tiny_classifier_folder, *given).code == 0
    lines = table_file.read_text().splitlines()
    assert len(lines) == 49
    assert lines[0] == "sentence,label,prediction,confidence"


def test_lines_that_quotes_have_joined_are_said(predict, tmp_path):
    (tmp_path / "a.tsv").write_text('text\tn\n"the film\t1\nwas\t2\nso "fine\t3\na plot\t4\n')
    result = predict("--text", "text", table=tmp_path / "a.tsv")
    assert "a.tsv: 4 lines became 2 rows" in result.out
    assert "joined by stray quotes; set --no-quoting\n" in result.out
    assert "became" not in predict("--text", "text", "--no-quoting", table=tmp_path / "a.tsv").out
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "--table is given without --text; name the column"),
        (["--text", "a", "--text", "b", "--text", "c"], "--text is given 3 times; a model takes one text or a pair"),
        (["--text", "sentenc"], "reviews.csv, column 'sentenc': there is no such column. Did you mean 'sentence'?"),
        (["--text", "2", "--no-header"], "Known: 0, 1; columns are numbered because of --no-header"),
        (["--text", "sentence", "--separator", ";;"], "--separator is ';;'; give one ASCII character"),
        (["--text", "sentence", "--encoding", "utf-9"], "--encoding is 'utf-9'; Python has no such encoding"),
        (["--text", "sentence", "--encoding", "ascii"], "is not ascii; set --encoding to what the file is written in"),
        (["--text", "sentence", "training.max_length=99"], "training.max_length is 99, but"),
        (["--text", "sentence", "trainig.max_length=99"], "trainig: there is no such key. Did you mean 'training'?"),
    ],
)
def test_what_cannot_be_predicted_is_refused_and_nothing_written(predict, table_file, tmp_path, arguments, sentence):
    with table_file.open("a", encoding="utf-8") as file:
        file.write("schön,positive\n")
    result = predict(*arguments)
    assert result.code == 2
    assert sentence in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


def test_a_folder_is_no_place_for_a_table(predict, tmp_path):
    (tmp_path / "out.csv").mkdir()
    assert "out.csv, which is a folder; give the name of a csv file" in predict("--text", "sentence").err


def test_without_a_table_or_a_task_there_is_nothing_to_predict(command, tiny_classifier_folder):
    result = command("predict", tiny_classifier_folder)
    assert result.code == 2
    assert "give --table and --text, or say which task's test files are meant" in result.err
    assert "--text is given without --table" in command("predict", tiny_classifier_folder, "--text", "sentence").err
