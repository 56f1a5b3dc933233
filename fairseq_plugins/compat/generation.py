"""Patches of fairseq's search.

B sentences of a batch, K beams, V vocabulary, T tokens.
"""

import math
import sys
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from fairseq import search
from fairseq.distributed import utils as distributed_utils
from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator, SequenceGeneratorWithAlignment
from fairseq.tasks.translation import TranslationTask
from torch import Tensor

from fairseq_plugins.compat.limits import Limits
from fairseq_plugins.compat.patch import replace
from fairseq_plugins.errors import UserError

COLD = 0.01  # a temperature below which logits may overflow; those of float16 end at 65504

PLACES: ContextVar[Tensor | None] = ContextVar("places", default=None)  # of a batch's sentences in all of the input


def sentences_draw_for_themselves():
    """fairseq's sampling draws for all sentences from one stream of random numbers, so a sentence's output depends on
    its batch. It draws the forced tokens of a prompt, too, and if the probability of one rounds to zero, as at a low
    --temperature, it ends in torch's "invalid multinomial distribution". The patch gives each sentence random numbers
    of its own, by the seed and the sentence's place in the input, and always takes a forced token."""

    @replace(search.Sampling, "__init__")
    def __init__(original, self, *args, **kwargs):
        original(self, *args, **kwargs)
        self.seed, self.started, self.draws = int(torch.randint(2**62, ())), 0, {}

    @replace(search.Sampling, "step")
    def step(original, self, step, lprobs, scores, prev_output_tokens=None, original_batch_idxs=None):
        batch, beams, _ = lprobs.shape
        if step == 0:  # all beams are alike
            lprobs = lprobs[:, :1].expand(-1, beams, -1)
        places = range(batch) if original_batch_idxs is None else original_batch_idxs.tolist()
        if step == 0:
            self.draws = {place: np.random.default_rng((place, self.seed)) for place in places}
        uniform = np.stack([self.draws[place].random(beams) for place in places])
        drawn = draw(self, lprobs, torch.from_numpy(uniform).to(lprobs.device))
        found = lprobs.gather(2, drawn.unsqueeze(2)).squeeze(2)
        beam = torch.arange(beams, device=drawn.device).expand(batch, beams).clone()
        return (found, drawn, torch.zeros_like(beam)) if step == 0 else (found + scores[:, :, step - 1], drawn, beam)


def draw(sampling: search.Sampling, lprobs: Tensor, uniform: Tensor) -> Tensor:
    """Tokens [B, K] by their log-probabilities [B, K, V] and uniform random numbers [B, K] from 0 to 1."""
    words, lprobs = None, lprobs.float().log_softmax(-1)  # a forced token gets the probability 1
    if sampling.sampling_topk > lprobs.size(-1):
        raise UserError(
            f"--sampling-topk {sampling.sampling_topk} is larger than the dictionary, which has {lprobs.size(-1)}"
            " symbols; lower it."
        )
    if sampling.sampling_topp > 0:
        probs, words = sampling._sample_topp(lprobs)
    elif sampling.sampling_topk > 0:
        lprobs, words = lprobs.topk(sampling.sampling_topk)
        probs = lprobs.exp()
    else:
        probs = lprobs.exp()
    mass = probs.double().cumsum(-1)
    at = torch.searchsorted(mass, (uniform * mass[..., -1]).unsqueeze(-1), right=True).clamp(max=mass.size(-1) - 1)
    return (at if words is None else words.gather(-1, at)).squeeze(-1)


def fillers_are_not_drawn():
    """fairseq-preprocess fills a dictionary up to a multiple of 8 with madeupword0000 and so on, which stand for no
    text, and fairseq's sampling draws them as any other symbol. The patch draws none, unless a prompt forces it."""

    @replace(search.Sampling, "__init__")
    def __init__(original, self, tgt_dict, *args, **kwargs):
        original(self, tgt_dict, *args, **kwargs)
        entries = enumerate(zip(tgt_dict.symbols, tgt_dict.count))
        found = [at for at, (symbol, count) in entries if not count and symbol.startswith("madeupword")]
        self.fillers = torch.tensor(found, dtype=torch.long)

    @replace(search.Sampling, "step")
    def step(original, self, step, lprobs, *args, **kwargs):
        if len(self.fillers):
            self.fillers = self.fillers.to(lprobs.device)
            others = lprobs.index_fill(-1, self.fillers, -math.inf)
            lprobs = torch.where(others.amax(-1, keepdim=True).isneginf(), lprobs, others)
        return original(self, step, lprobs, *args, **kwargs)


def sentences_know_their_places():
    """fairseq's search learns the places of sentences in the input from the batches of fairseq-generate, but not from
    those of fairseq-interactive, nor from a caller's own. The patch tells it, so that each sentence has random numbers
    of its own."""

    @replace(distributed_utils, "call_main")
    def call_main(original, cfg, main, **kwargs):
        module: Any = sys.modules[main.__module__]
        if not hasattr(module, "make_batches"):  # not fairseq-interactive
            return original(cfg, main, **kwargs)
        make_batches, before = module.make_batches, PLACES.set(None)
        number_batches(module)
        try:
            return original(cfg, main, **kwargs)
        finally:  # a program may search again, for other sentences
            module.make_batches = make_batches
            PLACES.reset(before)

    @replace(SequenceGenerator, "_generate")
    def _generate(original, self, sample, *args, **kwargs):
        if isinstance(self.search, search.Sampling) and "id" not in sample:
            places, tokens = PLACES.get(), sample["net_input"]["src_tokens"]
            if places is None:
                places = torch.arange(len(tokens)) + self.search.started
            self.search.started += len(tokens)
            sample = {**sample, "id": places.to(tokens.device)}
        return original(self, sample, *args, **kwargs)


def number_batches(interactive) -> None:
    before = [0]

    @replace(interactive, "make_batches")
    def make_batches(original, lines, *args, **kwargs):
        for batch in original(lines, *args, **kwargs):
            PLACES.set(batch.ids + before[0])
            yield batch
        before[0] += len(lines)


def sentences_have_their_limits():
    """fairseq computes the longest output of a batch from its longest source, padding included, so a sentence may
    become longer in a batch than alone. It counts the symbols of a prompt, and cuts a prompt that reaches the limit.
    It never ends where the target is forced to be empty. The patch gives each sentence the limit that it has alone,
    and counts the symbols after the prompt or after --prefix-size."""

    @replace(SequenceGenerator, "_generate")
    def _generate(original, self, sample, prefix_tokens=None, constraints=None, bos_token=None):
        tokens = sample["net_input"].get("src_tokens")
        if tokens is None or tokens.dim() != 2:
            return original(self, sample, prefix_tokens, constraints, bos_token)
        with Limits.of(self, sample["net_input"], prefix_tokens).applied(self):
            return original(self, sample, prefix_tokens, constraints, bos_token)


def short_prompts_have_a_least_length():
    """In a batch with prompts of unequal lengths fairseq lets a sentence end before --min-len, until the longest prompt
    has been read. The patch holds each sentence to it as soon as its own prompt has been read."""

    @replace(SequenceGenerator, "_prefix_tokens")
    def _prefix_tokens(original, self, step, lprobs, scores, tokens, prefix_tokens, beam_size):
        free = prefix_tokens[:, step].eq(self.pad).repeat_interleave(beam_size)
        lprobs, tokens, scores = original(self, step, lprobs, scores, tokens, prefix_tokens, beam_size)
        if step < self.min_len:
            lprobs[:, self.eos].masked_fill_(free, -math.inf)
        if self.token_indices_to_suppress is not None:
            lprobs[:, self.token_indices_to_suppress] = lprobs[:, self.token_indices_to_suppress].masked_fill(
                free.unsqueeze(1), -math.inf
            )
        return lprobs, tokens, scores


def ngrams_are_not_repeated():
    """--no-repeat-ngram-size has no effect on a CPU, nor on a GPU without fairseq's own kernel: fairseq compares the
    end of its buffer, which is padding, and not the last words. The patch compares the words. Forced words, such
    as those of a prompt, may be repeated, and so may words if there are no others."""

    @replace(NGramRepeatBlock, "_no_repeat_ngram")
    def _no_repeat_ngram(original, self, tokens, lprobs, bsz, beam_size, step):
        size, words = self.no_repeat_ngram_size, tokens[:, 1 : step + 1]
        if words.size(1) < size:
            return lprobs
        grams, last = words.unfold(1, size, 1), words[:, words.size(1) - size + 1 :]
        same = (grams[..., :-1] == last.unsqueeze(1)).all(-1)
        rows, at = same.nonzero(as_tuple=True)
        banned = grams[rows, at, -1]
        before = lprobs[rows, banned]
        lprobs[rows, banned] = -math.inf
        again = lprobs.amax(1)[rows].isneginf()  # there are no others
        lprobs[rows[again], banned[again]] = before[again]
        return lprobs


def temperatures_may_be_low():
    """fairseq divides logits by --temperature, which gives infinity at a low one, such as 1e-40, and then "invalid
    multinomial distribution". Below 0.01 the patch divides log-probabilities, in float64, by 0.000001 or more."""

    @replace(EnsembleModel, "forward_decoder")
    def forward_decoder(original, self, tokens, encoder_outs, incremental_states, temperature=1.0):
        if temperature >= COLD:
            return original(self, tokens, encoder_outs, incremental_states, temperature)
        found = []
        for i, model in enumerate(self.models):
            outs = [encoder_outs[i]] if encoder_outs else encoder_outs
            found.append(original(type(self)([model]), tokens, outs, [incremental_states[i]]))
        # in float64 also the sums over long prompts are exact
        cold = torch.stack([(lprobs.double() / max(temperature, 1e-6)).log_softmax(-1) for lprobs, _ in found])
        attention = [weights for _, weights in found if weights is not None]
        return torch.logsumexp(cold, 0) - math.log(len(cold)), sum(attention) / len(attention) if attention else None


def alignments_need_a_source():
    """--print-alignment ends in an IndexError for a language model, which has no source. The patch says so."""

    @replace(SequenceGeneratorWithAlignment, "__init__")
    def __init__(original, self, *args, **kwargs):
        original(self, *args, **kwargs)
        if not self.model.has_encoder():
            raise UserError("--print-alignment is for translations, and this is a language model; leave it out.")


def diverse_groups_count_in_the_batch():
    """--diverse-beam-groups takes the number of a sentence in the data for its number in the batch, and so ends in an
    IndexError, or mixes up sentences. The patch counts in the batch."""

    @replace(search.DiverseBeamSearch, "step")
    def step(original, self, step, lprobs, scores, prev_output_tokens=None, original_batch_idxs=None):
        if original_batch_idxs is None:
            return original(self, step, lprobs, scores, prev_output_tokens, original_batch_idxs)
        if step == 0:
            self.places = original_batch_idxs
        rows = (original_batch_idxs.unsqueeze(1) == self.places).int().argmax(dim=1)
        return original(self, step, lprobs, scores, prev_output_tokens, rows)


def empty_lines_stay_empty():
    """fairseq-interactive and fairseq-generate translate an empty line into words that the model finds likely. The
    patch gives an empty line."""

    @replace(TranslationTask, "inference_step")
    def inference_step(original, self, generator, models, sample, prefix_tokens=None, constraints=None):
        found = original(self, generator, models, sample, prefix_tokens=prefix_tokens, constraints=constraints)
        source, nothing = sample["net_input"]["src_tokens"], self.source_dictionary
        for row in (source.eq(nothing.pad()) | source.eq(nothing.eos())).all(dim=1).nonzero().flatten().tolist():
            best = found[row][0]
            end = best["tokens"].new_tensor([self.target_dictionary.eos()])
            sure = {"score": torch.tensor(0.0), "positional_scores": torch.zeros(1)}
            found[row] = [{**best, **sure, "tokens": end, "attention": torch.empty(0), "alignment": torch.empty(0)}]
        return found
