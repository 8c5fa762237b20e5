"""What is done to gradients between backward and the variables: transforms, guard, residuals, and the optimizers."""
