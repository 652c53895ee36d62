"""From pictures to answers: `session.py` one by one as they come, `adapt.py` a folder of them."""
