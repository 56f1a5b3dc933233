"""What the synthetic tasks of the papers draw: inputs and the answers that belong to them."""
