"""How the small encoders of the lab were trained, from pictures to shipped files.

`python -m training.train` renders the training pictures, trains every encoder of `catalogue.py`
and writes weights and a record; `python -m training.export` turns the weights into the ONNX files
that the lab ships. Nothing in `marc` imports this folder: it needs PyTorch, the lab does not.

Read `catalogue.py` first: it lists the encoders. A recipe is one file (`pairs.py`, `captions.py`,
...), a module whose `loss` trains and whose `encoder` is kept. `loop.py` trains any of them.
"""
