"""Random views of images: batched, on tensors, on any device."""
