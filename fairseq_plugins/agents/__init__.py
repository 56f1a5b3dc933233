"""Reinforcement learning with memory: the parts of the task ``reinforcement_learning``.

N environments on a rank, M steps in a block (--bptt). A block also has the observation after its last step, so
T = M + 1.
"""
