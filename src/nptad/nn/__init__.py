"""The paper: the model, its attention, its loss and its masks.

Annotations such as ``Float[Tensor, "K N D"]`` give the shapes of tensors and arrays in this package, in
:mod:`nptad.training` and in :mod:`nptad.scoring`. ``tests/test_shapes.py`` checks them; otherwise they are never
evaluated. A letter means the same everywhere:

- K members
- N rows of the table or batch at hand
- C rows of a member's context
- D features, the cells of a row
- E embedding of a cell; a row is H = D * E numbers
- M masks
- T cells wanted in each row
- R reconstructions, pairs of a row and a mask

Other sizes are words, such as ``heads``. ``_`` is any size, ``*name`` any number of axes.
A space comes before a single name, as in ``" K"``, so that linters do not take it for Python.
"""
