"""Planning with a :class:`rlcore.model.BatchedModel`, in numpy: candidate plans, the cross-entropy method, actors."""
