"""Patches of fairseq's search."""

import torch
from fairseq import search
from fairseq.tasks.translation import TranslationTask

from fairseq_plugins.compat.patch import replace


def sample_forced_tokens():
    """fairseq's sampling draws the forced tokens of a prompt, too. If the probability of one rounds to zero, as at a
    low --temperature, it ends in torch's "invalid multinomial distribution". The patch keeps probabilities above
    zero."""

    @replace(search.Sampling, "step")
    def step(original, self, step, lprobs, *args, **kwargs):
        lprobs[lprobs.isfinite()] = lprobs[lprobs.isfinite()].clamp(min=-80)  # e**-80 is a float32 above 0
        return original(self, step, lprobs, *args, **kwargs)


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
