"""The relative shift of Transformer-XL (Dai et al., 2019, appendix B).

H heads, B batch, M block length, P distances.
"""

from torch import Tensor


def relative_shift(products: Tensor) -> Tensor:
    """Shift row i of M rows to the left by M - i places (Dai et al., 2019, appendix B).

    The distances of a query are one larger than those of the query before it. So in a table of queries and distances,
    sorted from the largest distance, the products with one token lie on a diagonal. If the first M elements are dropped
    and the rest is read in rows that are shorter by one, they lie in a column.

    Args:
        products: [H, B, M, P + 1]; its first column is not used

    Returns:
        [H, B, M, P]; where a row would end before its last column, the next row's elements follow
    """
    tokens = products.size(2)
    return products.flatten(2)[..., tokens:].unflatten(2, (tokens, -1))
