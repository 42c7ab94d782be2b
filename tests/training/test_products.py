"""Float32 products by oneDNN: as exact as torch's own, and torch's settings are put back."""

import pytest
import torch
from torch import nn

from plankwise.training import products
from plankwise.training.products import fast_products, is_faster

has_switch = pytest.mark.skipif(products._settings() is None, reason="this torch has no such switch")


def settings():
    backends = torch.backends
    return (
        backends.mkldnn.matmul.fp32_precision,
        backends.cuda.flash_sdp_enabled(),
        backends.cuda.mem_efficient_sdp_enabled(),
    )


@has_switch
@pytest.mark.parametrize(("switch", "changed"), [(True, True), (False, False), ("auto", is_faster())])
def test_the_switch_decides_and_what_was_set_before_is_set_again(switch, changed):
    before = settings()
    with fast_products(switch):
        assert (settings() != before) == changed
    assert settings() == before
    with pytest.raises(ValueError, match="stop"), fast_products(switch):
        raise ValueError("stop")
    assert settings() == before


@has_switch
def test_on_another_device_nothing_changes():
    before = settings()
    with fast_products(True, torch.device("cuda")):
        assert settings() == before


@pytest.mark.skipif(not is_faster(), reason="oneDNN is not asked on this processor")
def test_a_layer_and_its_gradients_are_as_exact_as_float32():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
    states, signs = torch.randn(2, 8, 16, 128)

    def run(layer, states):
        layer.zero_grad()
        output = layer(states)
        (output * signs).sum().backward()
        return [output.detach(), *(one.grad.clone() for one in layer.parameters())]

    with fast_products():
        found = run(layer, states)
    expected = run(layer.double(), states.double())
    for one, other in zip(found, expected, strict=True):
        assert (one - other).abs().max() <= 1e-5 * other.abs().max()


@has_switch
def test_where_products_would_be_rounded_torch_keeps_its_own(monkeypatch):
    monkeypatch.setattr(products, "EXACT", 0.0)
    is_faster.cache_clear()
    try:
        assert not is_faster()
    finally:
        is_faster.cache_clear()


def test_what_a_processor_is_decides_by_its_name(monkeypatch):
    monkeypatch.setattr(products, "is_intel", lambda: True)
    is_faster.cache_clear()
    try:
        assert not is_faster()
    finally:
        is_faster.cache_clear()
