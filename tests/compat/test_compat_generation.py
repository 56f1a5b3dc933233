"""The patches of compat/generation.py."""

import inspect
import math
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from fairseq import search
from fairseq.data import Dictionary
from fairseq.dataclass.configs import FairseqConfig
from fairseq.distributed import utils as distributed_utils
from fairseq.ngram_repeat_block import NGramRepeatBlock
from torch.profiler import ProfilerActivity, profile

from fairseq_plugins.compat.generation import PLACES  # (applies the patches)


def test_a_forced_token_that_is_too_unlikely_to_draw_is_drawn():
    """As of a prompt, at a low temperature; and a likely one is drawn as before."""
    sampling = search.Sampling(Dictionary(), sampling_topk=2)
    lprobs = torch.full((2, 1, 6), -math.inf)
    lprobs[0, 0, 3], lprobs[1, 0, 2] = -500.0, -0.1
    scores, drawn, _ = sampling.step(0, lprobs, None)
    assert drawn.flatten().tolist() == [3, 2]
    assert scores[1].item() == pytest.approx(-0.1)
    with pytest.raises(RuntimeError, match="invalid multinomial distribution"):
        inspect.unwrap(search.Sampling.step)(sampling, 0, lprobs, None)


def test_the_fillers_of_a_dictionary_are_not_drawn():
    """However likely they are; but a word of the text with such a name is, and so is one that a prompt forces."""
    dictionary = Dictionary()
    dictionary.add_symbol("madeupwords", 7)
    dictionary.pad_to_multiple_(8)
    words, filler = dictionary.index("madeupwords"), dictionary.index("madeupword0000")
    sampling = search.Sampling(dictionary, sampling_topk=8)
    lprobs = torch.full((2, 1, 8), -math.inf)
    lprobs[:, 0, filler], lprobs[0, 0, words] = -0.1, -9.0
    _, drawn, _ = sampling.step(0, lprobs, None)
    assert drawn.flatten().tolist() == [words, filler]
    _, drawn, _ = search.Sampling.step.__wrapped__(sampling, 0, lprobs, None)
    assert drawn.flatten().tolist() == [filler, filler]


@pytest.mark.parametrize("error", [None, KeyError])
def test_the_places_of_fairseq_interactive_end_with_it(error, monkeypatch):
    """Also where it ends in an error; fairseq's make_batches is then its own again."""
    interactive, seen = ModuleType("an_interactive"), []
    batch = SimpleNamespace(ids=torch.arange(5))
    interactive.make_batches = own = lambda lines: iter([batch])
    monkeypatch.setitem(sys.modules, "an_interactive", interactive)

    def main(cfg):
        for lines in (["a"] * 5, ["b"] * 5):
            seen.extend(PLACES.get().tolist() for _ in interactive.make_batches(lines))
        if error:
            raise error

    main.__module__ = "an_interactive"
    config = FairseqConfig()
    config.distributed_training.distributed_world_size = 1
    for _ in range(2):
        with pytest.raises(error) if error else monkeypatch.context():
            distributed_utils.call_main(config, main)
        assert PLACES.get() is None and interactive.make_batches is own
    assert seen == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]] * 2


@pytest.mark.parametrize("size", [1, 2, 3])
def test_banned_words_cost_no_copies_of_all_probabilities(size):
    """Two rows repeat themselves, and all that is left to the second was banned."""
    words = torch.arange(4, 10).repeat(16, 1)
    words[:2] = torch.tensor([4, 5, 6, 4, 5, 6])
    words[1:2, :] = words[:1] if size > 1 else 4
    lprobs = torch.zeros(16, 5000)
    following = {1: [4, 5, 6], 2: [4], 3: [4]}[size]
    lprobs[1] = -math.inf
    lprobs[1, 4] = -0.5
    before = lprobs.clone()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        NGramRepeatBlock(size)(torch.nn.functional.pad(words, (1, 0), value=2), lprobs, 16, 1, 6)
    assert lprobs[0].isinf().nonzero().flatten().tolist() == following
    assert lprobs[1].equal(before[1])  # there are no others
    assert size == 1 or lprobs[2:].equal(before[2:])
    assert max(each.self_cpu_memory_usage for each in seen.key_averages()) < lprobs.nbytes / 2
