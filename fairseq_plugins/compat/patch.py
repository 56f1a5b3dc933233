"""What all patches use to replace functions of fairseq."""

import functools
import inspect


def replace(owner, name: str):
    """Decorator: replace ``owner.name`` by the function, which gets the original as its first argument."""

    def install(wrapper):
        original = getattr(owner, name)

        @functools.wraps(original)
        def replacement(*args, **kwargs):
            return wrapper(original, *args, **kwargs)

        static = isinstance(inspect.getattr_static(owner, name), staticmethod)
        setattr(owner, name, staticmethod(replacement) if static else replacement)

    return install


def settings_of(parsed):
    """The settings that fairseq's parser returns. On request it returns a pair of these and the unknown arguments."""
    return parsed[0] if isinstance(parsed, tuple) else parsed
