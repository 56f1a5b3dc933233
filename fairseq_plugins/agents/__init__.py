"""Reinforcement learning with memory: what the task ``reinforcement_learning`` consists of.

N environments on a rank, M steps in a block (--bptt). A block also has the observation after its last step, so
T = M + 1.
"""
