"""Build a wheel of fairseq from its unpacked source, in seconds instead of minutes.

    cd fairseq_fixed-0.12.3.1 && python build_fairseq.py FOLDER

Most of a build is three C++ extensions against torch: of BASE layers, of non-autoregressive models and of an alignment
loss. Nothing here needs them, so this calls fairseq's own setup.py with those left out.
"""

import runpy
import sys

import setuptools

LEFT_OUT = {"fairseq.libbase", "fairseq.libnat", "alignment_train_cpu_binding"}


def setup_core_only(ext_modules, cmdclass, **rest):
    core = [extension for extension in ext_modules if extension.name not in LEFT_OUT]
    original_setup(ext_modules=core, **rest)  # without torch's build command, which only the others need


original_setup, setuptools.setup = setuptools.setup, setup_core_only
sys.argv = ["setup.py", "-q", "bdist_wheel", "-d", sys.argv[1]]
runpy.run_path("setup.py", run_name="__main__")
