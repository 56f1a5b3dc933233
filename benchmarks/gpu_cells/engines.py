"""The ways to compute the recurrence that this tree offers, as --feedback-engine does."""

from fairseq_plugins.modules.feedback.stack import ENGINES

PLAIN = "reference"  # the plain loop, which the others are held against; too slow to be timed
FAST = [name for name in ENGINES if name != PLAIN]
