"""What the mends share: how they take the place of fairseq's own functions."""

import functools
import inspect


def replace(owner, name: str):
    """Decorator: put a function in place of ``owner.name``, called with the original first."""

    def install(wrapper):
        original = getattr(owner, name)

        @functools.wraps(original)
        def replacement(*args, **kwargs):
            return wrapper(original, *args, **kwargs)

        static = isinstance(inspect.getattr_static(owner, name), staticmethod)
        setattr(owner, name, staticmethod(replacement) if static else replacement)

    return install


def settings_of(parsed):
    """What fairseq's parser returns, without the arguments that it did not know, which stand beside it on request."""
    return parsed[0] if isinstance(parsed, tuple) else parsed
