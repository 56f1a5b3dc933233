"""The options that a task is set up with, as a command without flags would give them."""

from omegaconf import DictConfig, OmegaConf

SWITCHES = ("disable_validation", "no_save", "sentence_avg", "skip_remainder_batch")


def options_of(config: type, **given) -> DictConfig:
    """
    Args:
        config: the dataclass of a task; options that it takes from other parts of fairseq have values, too
        given: options that differ
    """
    of_others = {"seed": 1, "batch_size": None, "update_freq": [1], **dict.fromkeys(SWITCHES, False)}
    return OmegaConf.create({**OmegaConf.to_container(OmegaConf.structured(config())), **of_others, **given})
