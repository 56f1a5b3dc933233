"""The engine: the same function as `feedback.reference`, with fast code for CPUs and GPUs.

Read `recurrence`, then `loop` and `backward`. The loop consists of `attention` to `caches` and `sliding_cache`, and of
`memory_writer`. `state` holds the tensors that all steps read. The CUDA graphs of a GPU are in `graphs`, `block_graph`,
`decoding_graphs` and `cuda_capture`; decoding in C on a CPU is in `compiled_loop` and `step.c`. Training in chunks, an
approximation, is in `chunks` and `places`.
"""
