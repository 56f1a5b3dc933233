"""Kernels of one step's attention, in Triton (see `fused`). This file alone needs Triton.

A program reads the keys and values of one row once. Sums are of float32. No weights are kept: the backward pass
computes them again from the log-sum-exp, as FlashAttention does (Dao et al., 2022).

B batch, H heads, R = B * H rows, D width of a head, T steps of a block, S positions before the block, P places of the
buffers, W positions that a layer sees. Step t sees the places up to S + t - 1, at most W of them. A place's slot is its
number among the W positions, so that the newest has slot W - 1 in every step.

Arguments that all kernels have:
    POSITION: relative positions [W, D]; SPAN: soft spans [H, W]; PADDING: what is added to scores [R, P]. They are read
        where their flags say so: POSITIONS, SPANS, PADDED.
    SEED: where the seed of dropout is; rate: of dropout, where DROPS says that there is some
    STATS: of each step and row the log-sum-exp, the sum of weights within the span, the sum's divisor, and the sum of
        the output times its gradient [T, R, 4]
    STEPS, WIDTH, BEFORE, PLACES: T, W, S, P
    HEADS, D: H and D; LANES: the least power of 2 that is at least D; BLOCK: so many places or steps at once
"""

import triton
import triton.language as tl

# of these arguments no value, such as 1, makes a kernel of its own
VARIES = ["step", "first", "STEPS", "WIDTH", "BEFORE", "PLACES"]


@triton.jit
def kept(SEED, row, slot, step, rate, WIDTH):
    """1 where dropout keeps the weight, else 0. The same numbers whenever they are asked for."""
    counter = (row * WIDTH + slot).to(tl.uint32)
    zero = counter * 0
    bits, _, _, _ = tl.philox(tl.load(SEED), counter, zero + step.to(tl.uint32), zero, zero)
    return (tl.uint_to_uniform_float(bits) >= rate).to(tl.float32)


@triton.jit
def scored(
    query, keys, POSITION, PADDING, row, place, slot, lane, seen, inside, PLACES,
    D: tl.constexpr, POSITIONS: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Keys of a row's places with their relative positions [places, LANES], and the query's scores of them: minus
    infinity for places that are not seen."""
    key = tl.load(keys, mask=inside, other=0.0).to(tl.float32)
    if POSITIONS:
        key += tl.load(POSITION + slot[:, None] * D + lane[None, :], mask=inside, other=0.0).to(tl.float32)
    score = tl.sum(key * query[None, :], 1)
    if PADDED:
        score += tl.load(PADDING + row * PLACES + place, mask=seen, other=0.0).to(tl.float32)
    return key, tl.where(seen, score, -float("inf"))


@triton.jit(do_not_specialize=VARIES)
def forward(
    QUERY, KEYS, VALUES, POSITION, SPAN, PADDING, SEED, STATS, OUT, step, rate, STEPS, WIDTH, BEFORE, PLACES,
    HEADS: tl.constexpr, D: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
    POSITIONS: tl.constexpr, SPANS: tl.constexpr, PADDED: tl.constexpr, DROPS: tl.constexpr, EPSILON: tl.constexpr,
):  # fmt: skip
    """The output of the step, OUT [T, R, D], for QUERY [T, R, D], KEYS and VALUES [R, P, D]. A program is a row."""
    rows = tl.num_programs(0).to(tl.int64)
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    own = (step * rows + row) * D + lane
    query = tl.load(QUERY + own, mask=lane < D, other=0.0).to(tl.float32)
    end = BEFORE + step
    first = tl.maximum(end - WIDTH, 0)
    largest, total, within = -float("inf"), 0.0, 0.0
    mixed = tl.zeros([LANES], tl.float32)
    for start in range(first, end, BLOCK):
        place = start + tl.arange(0, BLOCK)
        seen = place < end
        slot = place - end + WIDTH
        inside = seen[:, None] & (lane < D)[None, :]
        at = (row * PLACES + place)[:, None] * D + lane[None, :]
        key, score = scored(
            query, KEYS + at, POSITION, PADDING, row, place, slot, lane, seen, inside, PLACES, D, POSITIONS, PADDED
        )
        larger = tl.maximum(largest, tl.max(score, 0))
        shrink, weight = tl.exp(largest - larger), tl.exp(score - larger)
        total = total * shrink + tl.sum(weight, 0)
        if SPANS:
            weight *= tl.load(SPAN + row % HEADS * WIDTH + slot, mask=seen, other=0.0).to(tl.float32)
        within = within * shrink + tl.sum(weight, 0)
        if DROPS:
            weight *= kept(SEED, row, slot, step, rate, WIDTH)
        value = tl.load(VALUES + at, mask=inside, other=0.0).to(tl.float32)
        mixed = mixed * shrink + tl.sum(weight[:, None] * value, 0)
        largest = larger
    within = within / total
    divisor = 1.0
    if SPANS:
        divisor = within + EPSILON
    stats = STATS + (step * rows + row) * 4
    tl.store(stats, largest + tl.log(total))
    tl.store(stats + 1, within)
    tl.store(stats + 2, divisor)
    tl.store(OUT + own, mixed / total / divisor, mask=lane < D)


@triton.jit(do_not_specialize=VARIES)
def query_grad(
    QUERY, KEYS, VALUES, POSITION, SPAN, PADDING, SEED, STATS, OUT, OUT_GRAD, QUERY_GRAD, SCORE_GRAD, SPAN_GRAD,
    step, rate, STEPS, WIDTH, BEFORE, PLACES,
    HEADS: tl.constexpr, D: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
    POSITIONS: tl.constexpr, SPANS: tl.constexpr, PADDED: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """QUERY_GRAD [R, D] of the step for OUT_GRAD [T, R, D]. With positions also the gradients of the scores, SCORE_GRAD
    [R, W], and with spans those of each row's span, SPAN_GRAD [R, W]. A program is a row."""
    rows = tl.num_programs(0).to(tl.int64)
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    own = (step * rows + row) * D + lane
    query = tl.load(QUERY + own, mask=lane < D, other=0.0).to(tl.float32)
    out_grad = tl.load(OUT_GRAD + own, mask=lane < D, other=0.0).to(tl.float32)
    agreement = tl.sum(out_grad * tl.load(OUT + own, mask=lane < D, other=0.0).to(tl.float32), 0)
    stats = STATS + (step * rows + row) * 4
    tl.store(stats + 3, agreement)
    log_sum, within, divisor = tl.load(stats), tl.load(stats + 1), tl.load(stats + 2)
    end = BEFORE + step
    first = tl.maximum(end - WIDTH, 0)
    gradient = tl.zeros([LANES], tl.float32)
    for start in range(first, end, BLOCK):
        place = start + tl.arange(0, BLOCK)
        seen = place < end
        slot = place - end + WIDTH
        inside = seen[:, None] & (lane < D)[None, :]
        at = (row * PLACES + place)[:, None] * D + lane[None, :]
        key, score = scored(
            query, KEYS + at, POSITION, PADDING, row, place, slot, lane, seen, inside, PLACES, D, POSITIONS, PADDED
        )
        weight = tl.exp(score - log_sum)
        value = tl.load(VALUES + at, mask=inside, other=0.0).to(tl.float32)
        change = tl.sum(value * out_grad[None, :], 1)
        if DROPS:
            change *= kept(SEED, row, slot, step, rate, WIDTH)
        change -= agreement
        if SPANS:
            change /= divisor
            tl.store(SPAN_GRAD + row * WIDTH + slot, change * weight, mask=seen)
            change *= tl.load(SPAN + row % HEADS * WIDTH + slot, mask=seen, other=0.0).to(tl.float32)
            change -= agreement * (1 - within / divisor)
        change *= weight
        if POSITIONS:
            tl.store(SCORE_GRAD + row * WIDTH + slot, change, mask=seen)
        gradient += tl.sum(change[:, None] * key, 0)
    tl.store(QUERY_GRAD + row * D + lane, gradient, mask=lane < D)


@triton.jit(do_not_specialize=VARIES)
def pull(
    QUERY, KEYS, VALUES, POSITION, SPAN, PADDING, SEED, STATS, OUT_GRAD, KEY_GRAD, VALUE_GRAD,
    first, rate, STEPS, WIDTH, BEFORE, PLACES,
    HEADS: tl.constexpr, D: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
    POSITIONS: tl.constexpr, SPANS: tl.constexpr, PADDED: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Add what all steps give to the gradients of the keys and values from place `first` on: KEY_GRAD and VALUE_GRAD
    [R, places, D]. A program is a row and a place."""
    rows = tl.num_programs(0).to(tl.int64)
    row = tl.program_id(0).to(tl.int64)
    place = first + tl.program_id(1)
    lane = tl.arange(0, LANES)
    at = (row * PLACES + place) * D + lane
    key = tl.load(KEYS + at, mask=lane < D, other=0.0).to(tl.float32)
    value = tl.load(VALUES + at, mask=lane < D, other=0.0).to(tl.float32)
    key_grad, value_grad = tl.zeros([LANES], tl.float32), tl.zeros([LANES], tl.float32)
    end = tl.minimum(STEPS, place - BEFORE + WIDTH + 1)
    for start in range(tl.maximum(place - BEFORE + 1, 0), end, BLOCK):
        step = start + tl.arange(0, BLOCK)
        sees = step < end
        slot = place - BEFORE - step + WIDTH
        inside = sees[:, None] & (lane < D)[None, :]
        use = step * rows + row
        query = tl.load(QUERY + use[:, None] * D + lane[None, :], mask=inside, other=0.0).to(tl.float32)
        out_grad = tl.load(OUT_GRAD + use[:, None] * D + lane[None, :], mask=inside, other=0.0).to(tl.float32)
        if POSITIONS:
            near = tl.load(POSITION + slot[:, None] * D + lane[None, :], mask=inside, other=0.0).to(tl.float32)
            score = tl.sum(query * (key[None, :] + near), 1)
        else:
            score = tl.sum(query * key[None, :], 1)
        if PADDED:
            score += tl.load(PADDING + row * PLACES + place).to(tl.float32)
        log_sum = tl.load(STATS + use * 4, mask=sees, other=0.0)
        agreement = tl.load(STATS + use * 4 + 3, mask=sees, other=0.0)
        weight = tl.exp(tl.where(sees, score, -float("inf")) - log_sum)
        change = tl.sum(out_grad * value[None, :], 1)
        mixed = weight
        if DROPS:
            keep = kept(SEED, row, slot, step, rate, WIDTH)
            change *= keep
            mixed *= keep
        change -= agreement
        if SPANS:
            within = tl.load(STATS + use * 4 + 1, mask=sees, other=1.0)
            divisor = tl.load(STATS + use * 4 + 2, mask=sees, other=1.0)
            span = tl.load(SPAN + row % HEADS * WIDTH + slot, mask=sees, other=0.0).to(tl.float32) / divisor
            mixed *= span
            change = change * span - agreement * (1 - within / divisor)
        key_grad += tl.sum((change * weight)[:, None] * query, 0)
        value_grad += tl.sum(mixed[:, None] * out_grad, 0)
    to = (row * tl.num_programs(1) + tl.program_id(1)) * D + lane
    tl.store(KEY_GRAD + to, tl.load(KEY_GRAD + to, mask=lane < D, other=0.0) + key_grad, mask=lane < D)
    tl.store(VALUE_GRAD + to, tl.load(VALUE_GRAD + to, mask=lane < D, other=0.0) + value_grad, mask=lane < D)
