import numpy as np
import pytest

from plankwise.data.word_vectors import WordVectors, read_vectors

LINES = "the 0 1\nfilm 1 0\nmovie 2 0.1\nMovie 2 0.1\n, 1 1\nplot 0 -3\nempty 0 0\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "glove.txt"

    def write(text):
        path.write_text(text, "utf-8")
        return str(path)

    return write


def test_the_nearest_words_are_those_of_the_smallest_angle_each_in_one_case_only(file):
    vectors = read_vectors(file(LINES))
    assert vectors.words == ["the", "film", "movie", "Movie", "plot"]
    assert vectors.nearest(["film", "Film", "MOVIE", "ship"], 2) == [
        ["movie", "the"],
        ["movie", "the"],
        ["film", "the"],
        [],
    ]
    assert vectors.nearest(["the"], 9) == [["movie", "film", "plot"]]


def test_of_equally_near_words_the_first_come_first():
    words = [f"w{number}" for number in range(600)]
    vectors = WordVectors(words, np.ones((600, 3), np.float32))
    assert vectors.nearest(["w9", "w0"], 3) == [["w0", "w1", "w2"], ["w1", "w2", "w3"]]


def test_a_first_line_with_the_number_of_words_is_passed_over(file):
    assert read_vectors(file("2 2\nfilm 1 0\nplot 0 1\n")).words == ["film", "plot"]


def test_a_token_with_blanks_is_passed_over(file):
    assert read_vectors(file("film 1 0\nat name@domain.com 0.1 2\nplot 0 1\n")).words == ["film", "plot"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("film 1 0\nplot 1\n", "line 2 has no 2 numbers, as before, after the word"),
        ("film one 0\n", "line 1 has no numbers after the word"),
        ("film 1 nan\n", "line 1 has no numbers after the word"),
        (", 1 0\n", "which has no words"),
        ("", "which has no words"),
    ],
)
def test_a_file_of_something_else_is_refused_with_the_line(text, why, file):
    from plankwise.errors import DataError

    with pytest.raises(DataError, match=why):
        read_vectors(file(text))
    with pytest.raises(DataError, match=r"method\.augmentation\.vectors is none\.txt, which cannot be read"):
        read_vectors("none.txt")
