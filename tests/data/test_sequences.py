from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import BatchEncoding, PreTrainedTokenizer, PreTrainedTokenizerFast

from plankwise.data import corpus
from plankwise.data import sequences as module
from plankwise.data.corpus import find_shards
from plankwise.data.encode import TokenSequences
from plankwise.data.sequences import Frame, frame_of, open_sequences, write_sequences
from plankwise.errors import ConfigError, DataError

SPECIAL = ["<pad>", "<unk>", "<cls>", "<sep>", "<mask>", "<eos>"]
WORDS = [*"abcdefgh.!?…", "##x", "##y"]
VOCABULARY = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
TEXTS = st.lists(st.lists(st.sampled_from(["a", "b", "cx", "dxy", "\u200b"]), min_size=1, max_size=9), min_size=1)


def build(template="<cls> $A <sep>", pair="<cls> $A <sep> $B:1 <sep>:1", **names):
    words = models.WordPiece(VOCABULARY, unk_token="<unk>")
    tokenizer = Tokenizer(words)
    clean = pre_tokenizers.Split(Regex("\u200b"), "removed")  # a text may be left without a token
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([clean, pre_tokenizers.BertPreTokenizer()])
    if template:
        special = [(name, VOCABULARY[name]) for name in SPECIAL]
        tokenizer.post_processor = processors.TemplateProcessing(single=template, pair=pair, special_tokens=special)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=8, unk_token="<unk>", **names)


@pytest.fixture(scope="module")
def tokenizer():
    return build(sep_token="<sep>", eos_token="<eos>", mask_token="<mask>")


class Slow(PreTrainedTokenizer):
    @property
    def vocab_size(self):
        return len(VOCABULARY)

    def get_vocab(self):
        return VOCABULARY

    def _tokenize(self, text, **kwargs):
        return text.split()

    def _convert_token_to_id(self, token):
        return VOCABULARY[token]

    def _convert_id_to_token(self, index):
        return list(VOCABULARY)[index]


@pytest.fixture
def write(tmp_path, tokenizer):
    """Writes lines as sequences, in shards of a few lines; gives what was written and the rows."""

    def run(lines, *, tokenizer=tokenizer, unit="line", keep=lambda text: True, **options):
        folder = tmp_path / "texts"
        folder.mkdir(exist_ok=True)
        (folder / "a.txt").write_text("\n".join(lines) + "\n", "utf-8")
        shards = find_shards(str(folder), unit=unit, column=None, key="task.path")
        written = write_sequences(shards, tokenizer, tmp_path / "sequences.arrow", keep=keep, **options)
        opened = open_sequences(tmp_path / "sequences.arrow")
        assert written.blocks == len(opened.dataset) == len(opened.lengths)
        assert written.tokens == sum(opened.lengths)
        return written, opened.dataset.to_list()

    return run


@pytest.fixture
def small(monkeypatch):
    """Shards, chunks, pieces and batches of a few texts."""
    for place, name, size in (
        (corpus, "SHARD_BYTES", 40),
        (module, "CHUNK", 3),
        (module, "CHUNK_CHARACTERS", 16),
        (module, "PIECE_CHARACTERS", 7),
        (module, "BATCH_TOKENS", 20),
    ):
        monkeypatch.setattr(place, name, size)


def ids(text):
    return [VOCABULARY[token] for token in text.split()]


def words_of(rows, column="input_ids"):
    names = list(VOCABULARY)
    return [" ".join(names[token] for token in row[column]) for row in rows]


def test_a_frame_is_what_the_tokenizer_adds():
    bert = build(sep_token="<sep>", eos_token="<eos>", mask_token="<mask>")
    assert frame_of(bert) == Frame(ids("<cls>"), ids("<sep>"), ids("<sep>"), VOCABULARY["<sep>"])
    pair = "<cls> $A <eos> <eos> $B <eos>"
    roberta = build("<cls> $A <eos>", pair, sep_token="<eos>", eos_token="<eos>", mask_token="<mask>")
    assert frame_of(roberta) == Frame(ids("<cls>"), ids("<eos> <eos>"), ids("<eos>"), VOCABULARY["<eos>"])
    assert frame_of(build("$A <eos>", "$A <eos> $B <eos>", eos_token="<eos>")).prefix == []


def test_the_separator_ends_texts_where_there_is_no_mask_and_separates_them_where_there_is():
    gpt = build(template=None, sep_token="<sep>", eos_token="<eos>")
    assert frame_of(gpt) == Frame([], [], [], VOCABULARY["<eos>"])
    assert frame_of(build(template=None, sep_token="<sep>")).separator == VOCABULARY["<sep>"]
    assert frame_of(build(template=None, mask_token="<mask>", eos_token="<eos>")).separator == VOCABULARY["<eos>"]
    assert frame_of(build(template=None)).separator is None


def test_a_tokenizer_that_refuses_pairs_has_no_middle(monkeypatch, tokenizer):
    class Alone(PreTrainedTokenizerFast):
        def __call__(self, text, pair=None, **options):
            if pair is not None:
                raise ValueError("one text only")
            return super().__call__(text, **options)

    alone = Alone(tokenizer_object=tokenizer._tokenizer, unk_token="<unk>")
    assert frame_of(alone) == Frame(ids("<cls>"), [], ids("<sep>"), None)


def test_a_tokenizer_that_knows_no_word_is_refused():
    empty = Tokenizer(models.BPE())
    with pytest.raises(ConfigError, match=r"does not show its special tokens on texts such as a, A, the, 0, \."):
        frame_of(PreTrainedTokenizerFast(tokenizer_object=empty))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(TEXTS, st.integers(4, 12))
def test_packed_sequences_joined_are_the_texts_with_separators(write, tokenizer, small, texts, length):
    written, rows = write([" ".join(text) for text in texts], length=length, form="packed")
    whole = [tokenizer(" ".join(text), add_special_tokens=False)["input_ids"] for text in texts]
    filled = [text for text in whole if text]
    joined = [token for text in filled for token in (VOCABULARY["<sep>"], *text)][1:]
    if len(joined) % (length - 2) == 1:
        joined.pop()
    assert [token for row in rows for token in row["input_ids"]] == joined
    assert {len(row["input_ids"]) for row in rows[:-1]} <= {length - 2}
    assert (written.texts, written.dropped, written.cut) == (len(filled), len(whole) - len(filled), 0)
    assert written.complete


def test_starts_mark_the_beginnings_of_words_and_separators(write, small):
    _, rows = write(["dxy b cx", "cx", "ax"], length=100, form="packed")
    assert words_of(rows) == ["d ##x ##y b c ##x <sep> c ##x <sep> a ##x"]
    assert [int(start) for start in rows[0]["starts"]] == [1, 0, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0]
    _, rows = write(["dxy b cx", "ax"], length=6, form="single")
    assert [row["starts"] for row in rows] == [[True, False, False, True], [True, False]]


def test_tokens_of_no_word_are_beginnings():
    encoding = BatchEncoding(
        {"input_ids": [[1, 2, 3, 4]]}, [SimpleNamespace(word_ids=[None, None, 0, 0], n_sequences=1)]
    )
    assert module._flatten(encoding).starts.tolist() == [True, True, True, False]


def test_without_a_separator_texts_stand_on_end(write):
    _, rows = write(["a b", "c"], tokenizer=build(template=None), length=2, form="packed")
    assert words_of(rows) == ["a b"]


def test_single_sequences_are_texts_cut_to_the_length(write, small):
    written, rows = write(["a b c d e f g h a b", "a", "\u200b", "a b c d", "dxy bx cx"], length=6, form="single")
    assert words_of(rows) == ["a b c d", "a", "a b c d", "d ##x ##y b"]
    assert (written.texts, written.cut, written.dropped, written.tokens) == (4, 2, 1, 13)


def test_a_tokenizer_without_words_marks_every_token(write):
    _, rows = write(["a ##x b"], tokenizer=Slow(), length=8, form="single")
    assert words_of(rows) == ["a ##x b"]
    assert rows[0]["starts"] == [True, True, True]


def test_pair_sequences_are_cut_at_the_sentence_end_nearest_the_middle(write):
    written, rows = write(["a b c. d! e f… g", "a. b"], length=16, form="pair")
    assert words_of(rows) == ["a b c . d ! e f … g", "a . b"]
    assert [row["cut"] for row in rows] == [4, 2]
    assert [row["text"] for row in rows] == [0, 1]
    assert (written.texts, written.dropped, written.complete) == (2, 0, True)


def test_sentences_are_gathered_into_sequences_that_have_room(write):
    _, rows = write(["a b. c d. e. f. g h. a b c d e."], length=11, form="pair")
    assert words_of(rows) == ["a b . c d . e .", "f . g h ."]
    assert [row["cut"] for row in rows] == [3, 2]
    assert [row["text"] for row in rows] == [0, 0]


@pytest.mark.parametrize(
    ("text", "wanted", "cut"),
    [
        ("a a a a a a a a. b b b b b b b b. c.", "a a a b b b", 3),
        ("a a a a a a a a. b.", "a a a a b .", 4),
        ("a. b b b b b b b.", "a . b b b b", 2),
    ],
)
def test_neighbours_too_long_for_a_sequence_share_it(write, text, wanted, cut):
    _, rows = write([text], length=9, form="pair")
    assert words_of(rows) == [wanted]
    assert rows[0]["cut"] == cut


def test_texts_of_one_sentence_give_no_pair_and_are_counted(write):
    written, rows = write(["a b c", "a. b.", "a 3.5 b", "\u200b. \u200b", "c? d"], length=16, form="pair")
    assert words_of(rows) == ["a . b .", "c ? d"]
    assert (written.texts, written.dropped) == (2, 3)
    assert [row["text"] for row in rows] == [1, 4]


def test_a_line_end_ends_a_sentence(write):
    _, rows = write(["a b", "", "c"], unit="file", length=16, form="pair")
    assert words_of(rows) == ["a b c"]
    assert rows[0]["cut"] == 2


def test_texts_of_pairs_have_numbers_of_their_own_in_every_chunk(write, small):
    written, rows = write(["a. b."] * 10, length=16, form="pair")
    assert [row["text"] for row in rows] == list(range(10))
    assert written.blocks == 10


def test_only_texts_that_are_wanted_are_used(write):
    written, rows = write(["a", "b", "a", "c"], keep=lambda text: text != "a", length=8, form="packed")
    assert words_of(rows) == ["b <sep> c"]
    assert written.texts == 2


@pytest.mark.parametrize("form", ["packed", "single", "pair"])
def test_it_stops_at_a_number_of_sequences_and_reads_no_further(write, small, monkeypatch, form):
    seen = []
    monkeypatch.setattr(module, "read_shard", lambda shard, tell: seen.append(shard) or corpus.read_shard(shard))
    lines = ["a b. c d." for _ in range(100)]
    written, rows = write(lines, length=9, form=form, most_sequences=4)
    assert len(rows) == written.blocks == 4
    assert not written.complete
    assert written.texts == 4  # a text and its separator are 7 tokens, as long as a sequence
    assert len(seen) <= 2


def test_a_text_behind_the_last_sequence_is_not_counted(write):
    written, rows = write(["a b c", "d e f"], length=6, form="packed", most_sequences=1)
    assert words_of(rows) == ["a b c <sep>"]
    assert written.texts == 1


@pytest.mark.parametrize("form", ["packed", "single", "pair"])
def test_it_stops_at_a_number_of_texts_that_are_used(write, small, form):
    written, rows = write(["\u200b", "a b. c d."] * 20, length=9, form=form, most_texts=5)
    assert (written.texts, written.complete) == (5, False)
    assert [token for row in rows for token in row["input_ids"] if token != VOCABULARY["<sep>"]] == ids(
        "a b . c d ."
    ) * 5


@pytest.mark.parametrize("most", [None, 7])
@pytest.mark.parametrize("form", ["packed", "single"])
def test_progress_gets_the_number_of_new_sequences(write, small, form, most):
    seen = []
    written, _ = write(["a b c d"] * 20, length=6, form=form, most_sequences=most, progress=seen.append)
    assert sum(seen) == written.blocks
    assert len(seen) > 1


def test_a_corpus_without_tokens_gives_a_file_without_sequences(write):
    written, rows = write(["\u200b"], length=8, form="packed")
    assert (written.blocks, written.texts, written.dropped, rows) == (0, 0, 1, [])


def test_sequences_are_read_through_a_memory_map_with_their_lengths(write, tmp_path, small):
    write(["a b c", "a", "a b"] * 30, length=8, form="single")
    opened = open_sequences(tmp_path / "sequences.arrow")
    assert isinstance(opened, TokenSequences)
    assert isinstance(opened.lengths, np.ndarray)
    assert opened.lengths.dtype == np.int32
    assert opened.lengths.tolist() == [3, 1, 2] * 30
    assert opened.dataset[89]["input_ids"] == ids("a b")
    assert opened.dataset.cache_files == [{"filename": str(tmp_path / "sequences.arrow")}]  # empty if it were in memory
    with pa.ipc.open_stream(str(tmp_path / "sequences.arrow")) as stream:
        assert 5 < len(list(stream)) < 30


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DataError("x")])
def test_what_ends_half_way_leaves_the_old_file_and_nothing_else(write, tmp_path, small, error):
    write(["a"], length=8, form="single")
    before = (tmp_path / "sequences.arrow").read_bytes()

    seen = []

    def stop(sequences):
        seen.append(sequences)
        if len(seen) > 10:
            raise error

    with pytest.raises(type(error)):
        write(["a b c d"] * 50, length=8, form="single", progress=stop)
    assert (tmp_path / "sequences.arrow").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sequences.arrow", "texts"]


@pytest.mark.parametrize(("form", "special"), [("packed", 2), ("single", 2), ("pair", 3)])
def test_a_length_without_room_for_two_tokens_is_refused(write, form, special):
    with pytest.raises(
        ConfigError, match=rf"max_length is {special + 1}, .* {special} special .* at least {special + 2}"
    ):
        write(["a"], length=special + 1, form=form)
    assert write(["a. b."], length=special + 2, form=form)[0].blocks > 0


def test_long_texts_are_read_without_a_warning(write):
    fresh = build()
    write(["a " * 50], tokenizer=fresh, length=8, form="packed")
    assert not fresh.deprecation_warnings  # where a tokenizer keeps which warnings it has given
