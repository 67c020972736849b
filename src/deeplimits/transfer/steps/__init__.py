"""What a plan does to training steps: optimizers, clipping, perturbations, a watch on their sizes."""
