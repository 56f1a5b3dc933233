"""The longest output of each sentence of a batch.

B sentences of a batch, K beams, V vocabulary.
"""

import math
from contextlib import contextmanager

import torch
from torch import Tensor

from fairseq_plugins.compat.patch import temporarily
from fairseq_plugins.errors import NO_MEMORY, OutOfMemory, UserError

MANY = 10**6  # symbols of a sentence


class Limits:
    """Holds the search of one batch to the limits of its sentences.

    Args:
        longest: [B]: the step in which a sentence ends at the latest, counted from 0
        steps: the step in which fairseq's search of the batch ends at the latest
        eos: the token that ends a sentence
    """

    def __init__(self, longest: Tensor, steps: int, eos: int):
        self.longest, self.steps, self.eos = longest, steps, eos
        self.first = int(longest.min())
        self.places = self.rows = torch.empty(0, dtype=torch.long)  # of the sentences in the search, and their rows

    @classmethod
    def of(cls, generator, net_input: dict, prefix: Tensor | None) -> "Limits":
        """The limits of a batch. Raises UserError if a prompt is as long as the model takes, or --min-len is more."""
        tokens = net_input["src_tokens"]
        words = tokens.ne(generator.pad)
        prefix = tokens[:, :0] if prefix is None else prefix
        ends = prefix.eq(generator.eos)
        if generator.match_source_len:
            longest = net_input.get("src_lengths", (words & tokens.ne(generator.eos)).sum(1))
        else:
            room, forced = generator.max_len - 1, prefix.ne(generator.pad).sum(1)
            if generator.min_len > room:
                raise UserError(
                    f"--min-len {generator.min_len} is above the {room} tokens that the model takes; lower it to"
                    f" {room}, or less."
                )
            open_ended = forced.masked_fill(ends.any(1), 0)
            if prefix.size(1) and int(open_ended.max()) >= room:
                raise UserError(
                    f"a prompt (or the prefix of --prefix-size) has {int(open_ended.max())} tokens, but the model takes"
                    f" {room} in all, with the tokens that follow; shorten it to {room - 1}, or less."
                )
            longest = forced + (generator.max_len_a * words.sum(1).double() + generator.max_len_b).long()
            longest = longest.clamp(min=generator.min_len, max=room)
        if prefix.size(1):  # a target that is forced to end does so
            longest = torch.where(ends.any(1), ends.int().argmax(1), longest)
        steps = max(int(longest.max()), generator.min_len, prefix.size(1))
        return cls(longest, steps, generator.eos)

    @contextmanager
    def applied(self, generator):
        """Hold the generator to the limits, in this context."""
        step, is_finished = generator.search.step, generator.is_finished

        def limited_step(number, lprobs, scores, tokens, places):
            if number == 0:
                self.places = places
            if number >= self.first:
                self.rows = (places.unsqueeze(1) == self.places).int().argmax(dim=1)
                end = lprobs[..., self.eos].clone()
                lprobs.masked_fill_((self.longest[self.rows] <= number).view(-1, 1, 1), -math.inf)
                lprobs[..., self.eos] = end
            return step(number, lprobs, scores, tokens, places)

        def is_finished_at_its_limit(number, sentence, *args):
            at_limit = number >= self.first and number >= int(self.longest[self.rows[sentence]])
            return at_limit or is_finished(number, sentence, *args)

        limited = {"max_len_a": 0, "max_len_b": self.steps, "is_finished": is_finished_at_its_limit}
        try:
            with temporarily(generator, **limited), temporarily(generator.search, step=limited_step):
                yield
        except RuntimeError as error:
            if self.steps < MANY or not NO_MEMORY.search(str(error)):
                raise
            raise OutOfMemory(
                f"--max-len-a and --max-len-b allow {self.steps} symbols, for which there is not enough memory; lower"
                " them."
            ) from error
