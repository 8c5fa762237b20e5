"""The values of the Estimator API: configurations, specifications, exporters.

Files:

    best_exporter.py   Exporter of the best model
    calls.py           Calls of the user's functions: each gets the arguments that it names
    cluster_config.py  Cluster of a RunConfig, and this process's place in it, from the environment variable
                         `TF_CONFIG`
    estimator_spec.py  The result of a model_fn
    eval_listener.py   A listener of the evaluations of a training, which may end them early
    eval_spec.py       Settings of the evaluation in `train_and_evaluate`
    export_outputs.py  Outputs of a model that can be served: each becomes a signature of the exported SavedModel
    exporter.py        Exporters: they write the model as a SavedModel after evaluations
    run_config.py      Settings of an Estimator's runs
    stock_package.py   Modules of tensorflow-estimator 2.15.0 and tf-keras: the canned models and their heads
    train_spec.py      Settings of the training in `train_and_evaluate`
    warm_start.py      Settings of a warm start: initial values of a new model that are read from a checkpoint of
                         another
"""
