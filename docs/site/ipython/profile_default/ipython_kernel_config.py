c.Application.log_level = "ERROR"  # noqa: F821  (IPython has it; kernels here talk to nobody but the build)
