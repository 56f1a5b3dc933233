"""The width of a head.

H heads, C width of the model, D width of a head.
"""


def head_width(embed_dim: int, heads: int, head_dim: int | None) -> int:
    """D: the given one, or C / H if it is None.

    Raises:
        ValueError: C is not divisible by H
    """
    if head_dim is not None:
        return head_dim
    if embed_dim % heads:
        raise ValueError(f"width {embed_dim} is not divisible by {heads} heads")
    return embed_dim // heads
