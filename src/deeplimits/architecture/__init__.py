"""What a network is: frozen descriptions that never import torch."""
