"""Conditional risk minimisation (ECRM): what `structopt.ConditionalRiskMinimizer` is made of.

`weights` and `averages` turn inputs into weights on the training examples, `programs` turns averaged targets into
programs over the label space, `path` chooses the regularisation, `stability` bounds what is to come.
"""
