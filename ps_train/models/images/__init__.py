"""Images for models: CIFAR-10's files, synthetic pictures of shapes, and random changes in training."""

from __future__ import annotations

from ps_train.models.images.augmented import AugmentedImages, crop_and_flip
from ps_train.models.images.cifar10_files import load_cifar10
from ps_train.models.images.shapes import synthetic_shapes

__all__ = ["AugmentedImages", "crop_and_flip", "load_cifar10", "synthetic_shapes"]
