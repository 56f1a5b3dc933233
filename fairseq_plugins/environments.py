"""The environments of the Feedback paper; importing this module registers them with gymnasium."""

import fairseq_plugins.agents.environments  # noqa: F401
