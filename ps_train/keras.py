"""Keras models on parameter servers.

import ps_train.keras

history = ps_train.keras.fit(model, x, y, epochs=5, num_ps=2, num_workers=4)
"""

from ps_train.compat.distribute.strategy import ParameterServerStrategy
from ps_train.compat.keras.fit import fit
from ps_train.compat.keras.loading import load
from ps_train.modeling.keras.keras_model import KerasModel

__all__ = ["KerasModel", "ParameterServerStrategy", "fit", "load"]
