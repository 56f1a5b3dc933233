"""The width of a head."""


def head_width(embed_dim: int, heads: int, head_dim: int | None) -> int:
    """D, or C / H where it is None.

    Raises:
        ValueError: the heads cannot share the width
    """
    if head_dim is not None:
        return head_dim
    if embed_dim % heads:
        raise ValueError(f"width {embed_dim} is not divisible by {heads} heads")
    return embed_dim // heads
