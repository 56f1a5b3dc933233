"""benchmarks/bounds.py counts the products of a job, also where torch's counter does not know the operation."""

import bounds
import torch
from torch.nn import functional as F


def products(job):
    return bounds.products(bounds.Bounded("job", job))


def test_products_of_matrices_are_counted_forward_and_backward():
    a, b = torch.randn(2, 3, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    assert products(lambda: (a @ b).sum().backward()) == 3 * 2 * (2 * 3 * 4)


def test_products_with_an_activation_are_counted():
    a, b = torch.randn(2, 3), torch.randn(3, 4)
    assert products(lambda: torch.ops.aten._addmm_activation(torch.zeros(4), a, b)) == 2 * (2 * 3 * 4)


def test_products_that_are_added_in_place_are_counted():
    a, b, base = torch.randn(5, 2, 3), torch.randn(5, 3, 4), torch.zeros(5, 2, 4)
    assert products(lambda: base.baddbmm_(a, b)) == 5 * 2 * (2 * 3 * 4)
    assert products(lambda: torch.mv(a[0], b[0, :, 0])) == 2 * (2 * 3)


def test_causal_attention_has_half_the_products():
    query = torch.randn(1, 2, 16, 8)
    whole = 2 * (2 * 2 * 16 * 16 * 8)  # scores, and sums of values
    assert products(lambda: F.scaled_dot_product_attention(query, query, query)) == whole
    assert products(lambda: F.scaled_dot_product_attention(query, query, query, is_causal=True)) == whole / 2
