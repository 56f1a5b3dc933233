"""Nothing overflows in the first update of any published architecture, in the precision of its recipe.

Layers, words and tokens are few; widths and heads, which make scores large, are as published.
"""

import re

import pytest
from architectures import PUBLISHED, small
from first_update import first_update, precision_of

WIDTHS = re.compile("(en|de)coder_(embed_dim|head_dim|attention_heads)")


def update(arch, precision, length=8):
    few = {name: size for name, size in small(arch).items() if not WIDTHS.fullmatch(name)}
    return first_update(arch, precision, "cpu", words=204, length=length, **few)


@pytest.mark.parametrize("arch", PUBLISHED)
def test_loss_and_gradients_are_finite(arch):
    assert update(arch, precision_of(arch)) > 0


@pytest.mark.parametrize("arch", ["skip_cross_head_xl_wikitext103", "skip_cross_head_xl_ablation"])
def test_skip_cross_head_of_words_overflows_in_float16_alone(arch):
    with pytest.raises(ValueError, match="in fp16: the loss is nan"):
        update(arch, "fp16", length=64)
    assert update(arch, "bf16") == pytest.approx(update(arch, "fp32"), rel=0.1)
