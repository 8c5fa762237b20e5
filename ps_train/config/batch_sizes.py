"""Values of --batch_size: one number of examples, or two bounds between which it follows the network.

BatchSizes.parse("64..512").sizes      # (64, 128, 256, 512)
BatchSizes.parse(32).sizes             # (32,)
"""

from __future__ import annotations

from ps_train.base.bounds import Bounds
from ps_train.config.validators import MOST_EXAMPLES, Check, is_parsed_by


class BatchSizes(Bounds):
    """The bounds of the number of examples in one batch of one worker."""

    @classmethod
    def parse(cls, value: int | str) -> BatchSizes:
        """Returns the bounds of a value of the flag.

        Raises:
          ValueError: the value is not valid.
        """
        sizes = super().parse(value)
        # Between bounds that are closer the size could never change.
        if not 1 <= sizes.lower <= sizes.upper <= MOST_EXAMPLES or (
            sizes.lower != sizes.upper and sizes.upper < 2 * sizes.lower
        ):
            raise ValueError(value)
        return sizes

    @property
    def sizes(self) -> tuple[int, ...]:
        """The possible sizes: the lower bound, doubled as long as the upper bound allows."""
        return tuple(self.lower << times for times in range((self.upper // self.lower).bit_length()))


batch_size = Check(
    "a whole number of at least 1, or two as in 64..512, where the second is the largest size and at least twice the "
    f"first; at most {MOST_EXAMPLES}",
    is_parsed_by(BatchSizes.parse),
)
