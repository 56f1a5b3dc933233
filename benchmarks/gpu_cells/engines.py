"""The graphs of a model's engine."""

from torch import nn

from fairseq_plugins.modules.feedback.stack import FeedbackStack


def graphs(model: nn.Module) -> str | int:
    """How many graphs the model has, or why it has none any more."""
    stacks = [part.graphs for part in model.modules() if isinstance(part, FeedbackStack)]
    refusals = [made.refusal for made in stacks if made.refusal]
    return refusals[0] if refusals else sum(len(made.kept) for made in stacks)
