"""Helpers of all patches."""

import contextlib
import functools
import inspect
import sys

from fairseq import options


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


def training_module():
    """The module of fairseq-train, in a training."""
    if hasattr(sys.modules["__main__"], "should_stop_early"):  # python -m fairseq_cli.train
        return sys.modules["__main__"]
    import fairseq_cli.train  # imported here, since the import configures logging

    return fairseq_cli.train


def replace_in_training(name: str):
    """Decorator: as ``replace``, for a function of fairseq-train. It is replaced when a training begins, since its
    module may not be imported before."""

    def install(wrapper):
        from fairseq import checkpoint_utils

        done = []

        @replace(checkpoint_utils, "load_checkpoint")
        def load_checkpoint(original, *args, **kwargs):
            if (train := training_module()) not in done:
                replace(train, name)(wrapper)
                done.append(train)
            return original(*args, **kwargs)

    return install


def settings_of(parsed):
    """The settings that fairseq's parser returns. On request it returns a pair of these and the unknown arguments."""
    return parsed[0] if isinstance(parsed, tuple) else parsed


def after_parsing(act):
    """Decorator: call the function with the settings of each command line that fairseq has parsed."""

    @replace(options, "parse_args_and_arch")
    def parse_args_and_arch(original, *args, **kwargs):
        parsed = original(*args, **kwargs)
        act(settings_of(parsed))
        return parsed


@contextlib.contextmanager
def temporarily(holder, **values):
    """In this context, attributes of an object have other values."""
    before = {name: vars(holder)[name] for name in values if name in vars(holder)}
    vars(holder).update(values)
    try:
        yield
    finally:
        for name in values:
            del vars(holder)[name]
        vars(holder).update(before)
