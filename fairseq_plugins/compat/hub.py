"""Patches of fairseq's interface for Python, the result of ``from_pretrained``."""

import re
from argparse import Namespace
from contextlib import contextmanager
from dataclasses import fields
from difflib import get_close_matches

import torch
from fairseq import hub_utils
from fairseq.dataclass.configs import GenerationConfig

from fairseq_plugins.compat.patch import replace
from fairseq_plugins.errors import UserError
from fairseq_plugins.options import combinations, ranges

# Arguments of a search that work from Python; those for whole numbers and numbers are in ``options/ranges.py``
SWITCHES = ("match_source_len", "unnormalized", "sampling", "score_reference")
NUMBERS = (
    "beam", "nbest", "max_len_a", "max_len_b", "min_len", "lenpen", "unkpen", "no_repeat_ngram_size", "sampling_topk",
    "sampling_topp", "temperature", "diverse_beam_groups", "diverse_beam_strength", "diversity_rate",
)  # fmt: skip
ALIGNMENTS = {"hard": "hard", "soft": "soft", True: "hard", False: None, None: None}
# fairseq's other arguments, which have no effect from Python, and the way out
ELSEWHERE = {
    "replace_unk": "fairseq keeps no words of the source that the model does not know; leave it out",
    "constraints": "fairseq-interactive --constraints takes them, after a tab in each line; leave it out",
    "prefix_size": "fairseq-generate --prefix-size takes it; leave it out",
    "lm_path": "fairseq-generate --lm-path takes it; leave it out",
    "lm_weight": "fairseq-generate --lm-weight takes it; leave it out",
    "retain_dropout": "it is set as the model is loaded: give it to from_pretrained, as generation_args",
    "retain_dropout_modules": "it is set as the model is loaded: give it to from_pretrained, as generation_args",
}


def arguments_have_an_effect():
    """Models in Python take any argument of a search, also a misspelt one, and ignore those that fairseq does not
    know, nbest, replace_unk and others. Wrong numbers end in tracebacks, and print_alignment finds no attention. The
    patch makes nbest and print_alignment work, and refuses every other argument that would have no effect."""

    @replace(hub_utils.GeneratorHubInterface, "generate")
    def generate(
        original, self, tokenized_sentences, beam=5, verbose=False, skip_invalid_size_inputs=False,
        inference_step_args=None, prefix_allowed_tokens_fn=None, **options,
    ):  # fmt: skip
        others = (verbose, skip_invalid_size_inputs, inference_step_args, prefix_allowed_tokens_fn)
        if torch.is_tensor(tokenized_sentences) and tokenized_sentences.dim() == 1:
            return self.generate([tokenized_sentences], beam, *others, **options)[0]
        check_arguments({"beam": beam, **options})
        if options.get("score_reference") and hasattr(self.models[0], "encoder"):
            raise UserError(
                "score is for language models, and this is a translation model: take generate, whose hypotheses have"
                " scores."
            )
        best = options.pop("nbest", None)
        if options.get("print_alignment"):
            options["print_alignment"] = align(self.models, options["print_alignment"], verbose)
        with names_of_arguments():
            found = original(self, tokenized_sentences, beam, *others, **options)
        return [hypotheses[:best] for hypotheses in found]

    @replace(hub_utils.GeneratorHubInterface, "sample")
    def sample(original, self, sentences, beam=1, verbose=False, **options):
        if isinstance(sentences, str):
            return self.sample([sentences], beam, verbose, **options)[0]
        found = self.generate([self.encode(sentence) for sentence in sentences], beam, verbose, **options)
        texts = [[self.decode(hypothesis["tokens"]) for hypothesis in hypotheses] for hypotheses in found]
        return texts if options.get("nbest", 1) > 1 else [best for best, *_ in texts]


def check_arguments(options: dict) -> None:
    """Raises UserError if an argument of a search has no effect from Python, or a number does not fit."""
    known = {field.name: field.default for field in fields(GenerationConfig)}
    wanted: object
    for name, value in options.items():
        if name in NUMBERS:
            fits, wanted = ranges.range_of(name).allows(value), ranges.range_of(name)
        elif name in SWITCHES:
            fits, wanted = isinstance(value, bool), "True or False"
        elif name == "print_alignment":
            fits, wanted = isinstance(value, str | bool | None) and value in ALIGNMENTS, '"hard" or "soft"'
        elif name in known:
            if value == known[name]:
                continue
            raise UserError(f"{name} has no effect from Python: {ELSEWHERE.get(name, 'leave it out')}.")
        else:
            near = get_close_matches(name, (*NUMBERS, *SWITCHES, "print_alignment"), 1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join((*NUMBERS, *SWITCHES))}."
            raise UserError(f"a search has no argument {name}: {advice}")
        if not fits:
            raise UserError(f"{name} {value} does not fit; give {wanted}.")
    settings = Namespace(**known | {"diversity_rate": -1.0} | options)
    settings.nbest = options.get("nbest", 1)
    with names_of_arguments():
        combinations.check_table(combinations.SEARCH, settings)


@contextmanager
def names_of_arguments():
    """Errors name arguments, not flags: beam, not --beam."""
    try:
        yield
    except UserError as error:
        words = re.sub(r"--([a-z-]+)", lambda match: match[1].replace("-", "_"), str(error))
        raise type(error)(words) from None


def align(models, kind, verbose: bool) -> str:
    """Tell the models to keep their attention. Returns the kind of alignment that fairseq finds; raises UserError for
    one that it cannot print."""
    kind = ALIGNMENTS[kind]
    if verbose and kind == "soft":
        raise UserError('verbose prints hard alignments only; leave it out, or print_alignment="soft".')
    for module in models.modules():
        if hasattr(module, "need_attn"):
            module.need_attn = True
    return kind
