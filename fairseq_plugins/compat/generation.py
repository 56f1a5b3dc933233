"""Mends of fairseq's search."""

from fairseq import search

from fairseq_plugins.compat.patch import replace


def sample_forced_tokens():
    """Sampling draws the forced tokens of a prompt too: one whose probability rounds to zero, as happens at a low
    --temperature, ends in torch's "invalid multinomial distribution"."""

    @replace(search.Sampling, "step")
    def step(original, self, step, lprobs, *args, **kwargs):
        lprobs[lprobs.isfinite()] = lprobs[lprobs.isfinite()].clamp(min=-80)  # e**-80 is above float32's smallest
        return original(self, step, lprobs, *args, **kwargs)
