"""Patches of fairseq's search."""

from fairseq import search

from fairseq_plugins.compat.patch import replace


def sample_forced_tokens():
    """fairseq's sampling draws the forced tokens of a prompt, too. If the probability of one rounds to zero, as at a
    low --temperature, it ends in torch's "invalid multinomial distribution". The patch keeps probabilities above
    zero."""

    @replace(search.Sampling, "step")
    def step(original, self, step, lprobs, *args, **kwargs):
        lprobs[lprobs.isfinite()] = lprobs[lprobs.isfinite()].clamp(min=-80)  # e**-80 is a float32 above 0
        return original(self, step, lprobs, *args, **kwargs)
