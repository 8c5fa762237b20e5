"""The least that a TensorFlow process can do: import it and run a session once.  What start-up is measured against."""

from __future__ import annotations

import tensorflow.compat.v1 as v1


def main() -> None:
    v1.disable_eager_execution()
    with v1.Session() as session:
        session.run(v1.constant(1.0) + 1.0)
    print("first step", flush=True)


if __name__ == "__main__":
    main()
