"""Sampling from a language model."""

from argparse import Namespace

import torch

from fairseq_plugins.errors import OutOfMemory, UserError
from fairseq_plugins.options.ranges import LENGTH, RANGES, TOP_K, TOP_P

LIMITS = {"length": LENGTH, "temperature": RANGES["temperature"], "top_k": TOP_K, "top_p": TOP_P}


def sample(
    task, models: list, prompt: list[int], length: int, temperature: float = 1.0, top_k: int = -1, top_p: float = -1.0,
    samples: int = 1,
) -> list[list[int]]:  # fmt: skip
    """The tokens of ``samples`` texts: the prompt, then ``length`` tokens sampled by fairseq's SequenceGenerator.

    For a model over streams the end symbol is the dictionary's beginning-of-sentence symbol, which never occurs. So
    end-of-line is an ordinary token, and all texts have the same length. A model of single lines stops at end-of-line.

    Args:
        prompt: tokens without an end of line at the end
        temperature, top_k, top_p: as in tools/sample
    """
    for name, value in {"length": length, "temperature": temperature, "top_k": top_k, "top_p": top_p}.items():
        if not LIMITS[name].allows(value):
            raise UserError(f"{name} {value} does not fit; give {LIMITS[name]}.")
    if top_k > 0 and top_p > 0:
        raise UserError("top_k and top_p exclude each other; choose one.")
    dictionary, stream = task.dictionary, getattr(task, "keeps_memory", False)
    if not stream and dictionary.eos() in prompt:
        raise UserError("the prompt has several lines, but the model is for single lines; give one line.")
    settings = Namespace(
        beam=1, sampling=True, sampling_topk=min(top_k, len(dictionary)), sampling_topp=top_p, temperature=temperature,
        max_len_a=0, max_len_b=length, min_len=len(prompt) + length if stream else 1,
    )  # fmt: skip
    end = {"eos": dictionary.bos()} if stream else {}
    generator = task.build_generator(models, settings, extra_gen_cls_kwargs=end)
    device = next(models[0].parameters()).device
    start = torch.tensor([[dictionary.eos(), *prompt]] * samples, device=device)
    batch = {"net_input": {"src_tokens": start, "src_lengths": torch.full((samples,), start.size(1), device=device)}}
    try:
        texts = task.inference_step(generator, models, batch)
    except OutOfMemory as error:
        raise UserError(
            f"length {length} needs more memory than there is; lower it (in a command, --length)."
        ) from error
    return [hypotheses[0]["tokens"].tolist()[:-1] for hypotheses in texts]
