"""The Python call `ps_train.fit`: it trains in processes of their own and returns the result as a value."""
