"""The classic names of `tf.train` for clusters, made right; `ps_train.train` shows them to users."""
