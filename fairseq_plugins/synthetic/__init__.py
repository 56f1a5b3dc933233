"""Inputs and answers of the papers' synthetic tasks."""
