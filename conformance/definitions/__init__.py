"""Every metric by its definition. `DEFINITIONS[name](input, **parameters)`; modules fill it when they are imported."""

DEFINITIONS = {}


def defines(name):
    """Register a definition under the name of its metric."""

    def register(function):
        DEFINITIONS[name] = function
        return function

    return register
