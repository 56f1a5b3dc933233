"""The engine: the same function as `feedback.reference`, with fast code for CPUs and GPUs.

Read `recurrence`, then `loop` and `backward`. The loop is put together of `attention` over `caches` and `sliding_cache`
and of `memory_writer`; `state` holds the tensors that all steps read; `graphs` and `cuda_capture` are for GPUs.
"""
