"""The end effect, on answers worked out by hand."""

from types import SimpleNamespace

import pytest
import torch
import transformers
from torch import nn

from plankwise.core.chain import find_chains
from plankwise.core.plan import even_plan
from plankwise.models.plans import assemble, build_successors
from plankwise.solving import effect
from plankwise.solving.effect import EndEffect, find_answer


@pytest.fixture(autouse=True)
def no_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


class Shift(nn.Module):
    def __init__(self, amount: float) -> None:
        super().__init__()
        self.inner = nn.Identity()
        self.amount = nn.Parameter(torch.tensor(amount))

    def forward(self, state):
        return self.inner(state) + self.amount


class Answering(nn.Module):
    """Shifts its input by 1 in each block; `answer` makes the output of it."""

    def __init__(self, answer, *, two_sides: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Shift(1.0) for _ in range(2))
        self.answer = answer
        self.config = SimpleNamespace(is_encoder_decoder=two_sides)

    def forward(self, state, attention_mask=None, decoder_attention_mask=None):
        for block in self.blocks:
            state = block(state)
        return self.answer(state)


def measure(answer, *batches, **options):
    model = Answering(answer, **options)
    plan = even_plan(find_chains(model))
    found = EndEffect(assemble(model, plan, [Shift(5.0)]), list(batches))
    assert found.measure([False]) == 0.0  # the predecessor itself
    return found.measure([True])


def test_of_a_plain_tensor_it_is_the_squared_distance_over_the_square():
    batches = {"state": torch.tensor([[1.0], [2.0]])}, {"state": torch.tensor([[-5.0]])}
    assert measure(lambda state: state, *batches) == pytest.approx(3 * 9 / (9 + 16 + 9))


def test_of_another_hybrid_of_the_same_predecessor_it_is_measured_against_the_same_answers():
    batches, plan = [{"state": torch.tensor([[1.0], [2.0]])}], even_plan(find_chains(Answering(lambda state: state)))
    found = EndEffect(assemble(Answering(lambda state: state), plan, [Shift(5.0)]), batches)
    other = found.of(assemble(Answering(lambda state: state), plan, [Shift(3.0)]))
    assert (found.measure([True]), other.measure([True])) == (pytest.approx(18 / 25), pytest.approx(2 / 25))


def test_of_a_single_number_it_is_the_same():
    answer = lambda state: {"logits": state.sum(-1, keepdim=True)}  # noqa: E731
    assert measure(answer, {"state": torch.tensor([[0.0, 1.0]])}) == pytest.approx(6**2 / 5**2)


def test_of_logits_it_is_the_divergence_a_text():
    batches = {"state": torch.tensor([[0.0, 1.0], [3.0, -1.0]])}, {"state": torch.tensor([[0.5, 2.0]])}
    answer = lambda state: {"logits": state.square()}  # noqa: E731
    states = torch.cat([batch["state"] for batch in batches])
    before, after = (torch.softmax((states + shift).square(), -1) for shift in (2, 5))
    expected = (before * (before.log() - after.log())).sum() / 3
    assert measure(answer, *batches) == pytest.approx(float(expected), rel=1e-5)


def test_of_tokens_those_that_are_padding_do_not_count():
    state = torch.randn(2, 3, 4)
    answer = lambda state: {"logits": state.square()}  # noqa: E731
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    alone = {"state": state[mask.bool()][None]}
    assert measure(answer, {"state": state, "attention_mask": mask}) == pytest.approx(measure(answer, alone), rel=1e-5)


def test_a_decoders_answers_are_not_masked_by_the_encoders_mask():
    state = torch.randn(2, 3, 4)
    answer = lambda state: {"logits": state.square()}  # noqa: E731
    masks = {"attention_mask": torch.tensor([[1, 0, 0], [1, 0, 0]])}
    everything = measure(answer, {"state": state})
    assert measure(answer, {"state": state, **masks}, two_sides=True) == pytest.approx(everything, rel=1e-5)
    masks["decoder_attention_mask"] = torch.tensor([[1, 1, 1], [1, 1, 0]])
    some = {"state": state[masks["decoder_attention_mask"].bool()][None]}
    found = measure(answer, {"state": state, **masks}, two_sides=True)
    assert found == pytest.approx(measure(answer, some), rel=1e-5)


def test_of_many_answers_only_some_are_kept(monkeypatch):
    monkeypatch.setattr(effect, "MOST_NUMBERS", 8)
    model = Answering(lambda state: state)
    plan = even_plan(find_chains(model))
    found = EndEffect(assemble(model, plan, [Shift(5.0)]), [{"state": torch.randn(10, 4)} for _ in range(2)])
    assert found.every == 10
    assert sum(answer.numel() for answer, _ in found.answers) == 8
    assert found.measure([False]) == 0.0


@pytest.mark.parametrize(
    ("class_name", "name", "are_logits"),
    [
        ("BertForSequenceClassification", "logits", True),
        ("BertForMaskedLM", "logits", True),
        ("BertModel", "last_hidden_state", False),
    ],
)
def test_what_a_model_answers_is_found_by_its_output(class_name, name, are_logits, toys):
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    model = getattr(transformers, class_name)(transformers.BertConfig(**sizes, vocab_size=99)).eval()
    output = model(**toys.make_tokens(1)[0])
    answer, found = find_answer(output)
    assert torch.equal(answer, output[name])
    assert found == are_logits


def test_the_predecessor_itself_has_no_effect(toys):
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**sizes, vocab_size=99)).eval()
    plan = even_plan(find_chains(model), 2)
    hybrid = assemble(model, plan, build_successors(model, plan, init="lower", seed=0))
    assert EndEffect(hybrid, toys.make_tokens(2)).measure([True, True]) == 0.0
