"""Pull and push: transfer of values to a worker and of gradients to a ps."""
