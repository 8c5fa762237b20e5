"""Pull and push: how values reach a worker and gradients a ps."""
