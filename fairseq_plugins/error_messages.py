"""Sentences for common errors of fairseq and torch. Each names the flag or file, and the way out."""

import re

from fairseq_plugins.errors import OF_BEFORE, UserError, causes
from fairseq_plugins.files import file_errors

# Patterns and the sentences for them. A pattern is searched in the lines "Type: text" of an error and its causes, the
# outermost first.
ERROR_MESSAGES = {
    # raised in one of the processes that fairseq-train starts, one for each GPU
    r"errors\.(?:UserError|OutOfMemory): ([^\n]*)":
        "{0}",
    # data and dictionaries
    r"Dataset not found: (\S+) \(([^)]*)\)":
        "{1} has no split {0}, or lacks its .bin or .idx file; choose another split with --train-subset, "
        "--valid-subset or --gen-subset, or make it again with fairseq-preprocess.",
    r"AssertionError: could not find dataset: (.+)":
        "there is no {0}; choose another split, or make the data again with fairseq-preprocess.",
    r"No such file or directory: '(\S*dict\.\S*txt)'":
        "the dictionary {0} is missing; give a data folder that fairseq-preprocess made for this task and these "
        "languages, or for fairseq-preprocess itself a --srcdict or --tgtdict that is there.",
    r"Could not infer language pair":
        "the data folder holds no files that fairseq-preprocess made for a language pair; give it the --destdir, "
        "and name the languages with --source-lang and --target-lang.",
    r"Valid paths .*? will be ignored":
        "the data folder has further validation sets, such as valid1: add --combine-val to join them, and no "
        "--valid-subset, or --ignore-unused-valid-subsets to leave them out.",
    r"Source and target must contain the same number of examples":
        "source and target of a split have different numbers of sentences; make both again from the same files "
        "with fairseq-preprocess.",
    r"The dataset is empty":
        "no sentence is short enough: raise --max-tokens, --max-source-positions or --max-target-positions, or check "
        "the files given to fairseq-preprocess.",
    r"Sentences lengths should not exceed max_tokens=(\d+)":
        "a sentence is longer than the {0} tokens of --max-tokens or --max-tokens-valid; raise it.",
    # checkpoints
    r"Model file not found: ([^\n]*)":
        "the checkpoint {0} does not exist; --path takes one that fairseq-train wrote, such as "
        "checkpoints/checkpoint_best.pt.",
    r"--finetune-from-model (\S+) does not exist":
        "--finetune-from-model {0} does not exist; give it a checkpoint.",
    r"size mismatch for (\S*embed_tokens\.weight): copying a param with shape torch\.Size\(\[(\d+), (\d+)\]\)"
    r" from checkpoint, the shape in current model is torch\.Size\(\[(?!\2)(\d+), \3\]\)":
        "the checkpoint is for a dictionary of {1} entries, but that of the data has {3}; use the data folder of its "
        "training, or binarise with its dictionary (fairseq-preprocess --srcdict and --tgtdict).",
    r"Cannot load model parameters from checkpoint ([^\n]*?); .*state_dict for (\w+):\s*([^\n]*)":
        "the checkpoint {0} has another architecture ({2}); give --arch and the model flags of its training, or "
        "start a new one in another --save-dir and without --restore-file.",
    r"Error\(s\) in loading state_dict for (\w+):\s*([^\n]*)":
        "the checkpoint does not fit its architecture, {0} ({1}); leave out --model-overrides, and use the version of "
        "fairseq_plugins that it was trained with.",
    r"(Criterion|Optimizer) does not match.* (\S+) vs (\S+)":
        "the checkpoint was trained with the {0} {1}, not {2}; use the same one, or pass --reset-optimizer.",
    r"loaded state dict (?:contains a parameter group that doesn't match|has a different number of parameter)":
        "the optimiser state of the checkpoint is for another model; give the flags of its training, or pass "
        "--reset-optimizer.",
    r"gloo/transport.*Connection (?:closed|reset) by peer":
        "another process of this training has ended: its own message, if any, says why; start all of them again when "
        "that is mended.",
    # flags
    r"Cannot use a fixed learning rate schedule with (\S+?)[. ]":
        "--lr-scheduler {0} takes one --lr; several, one for each epoch, are for --lr-scheduler fixed.",
    r"max_lr must be more than lr":
        "--max-lr is not above --lr, at which --lr-scheduler triangular starts; raise --max-lr or lower --lr.",
    r"Pass-through schedule can only be used":
        "--lr-scheduler pass_through is for optimizers with their own schedules; choose another scheduler.",
    r"AttributeError: 'list' object has no attribute 'split'":
        "--encoder-layers-to-keep and --decoder-layers-to-keep do not work as flags in this version of fairseq; prune "
        "a trained model with --model-overrides \"{{'encoder_layers_to_keep': '0,1', 'decoder_layers_to_keep': "
        "'0,1'}}\", which needs both.",
    r"cannot specify cutoff larger than vocab size":
        "--adaptive-softmax-cutoff has a cut-off above the size of the dictionary; leave out that one.",
    r"KeyError: '(steps|history)'":
        "--print-step and --retain-iter-history are for models that refine their output in steps; leave them out.",
    r"ImportError: ([^\n]*[Pp]lease install[^\n]*)":
        "an option needs a package that is missing ({0}); install it, or choose another --optimizer, --bpe, "
        "--tokenizer, --scoring or --ddp-backend.",
    r"Must specify batch size":
        "give the batch size, with --max-tokens or --batch-size.",
    r"--batch-size cannot be larger than --buffer-size":
        "--batch-size is larger than --buffer-size; raise --buffer-size.",
    r"embed_dim must be divisible by num_heads":
        "an embedding size is not divisible by its number of heads; make --encoder-embed-dim a multiple of "
        "--encoder-attention-heads, and the same for the decoder.",
    r"ValueError: --share-all-embeddings requires a join\w+ dictionary":
        "--share-all-embeddings, which some architectures set, needs one dictionary for both languages: make the data "
        "again with fairseq-preprocess --joined-dictionary, or choose another --arch without the flag.",
    r"ValueError: --share-all-embeddings requires (--\S+) to\s+match (--\S+)":
        "--share-all-embeddings needs equal widths: make {0} and {1} equal, or leave it out.",
    r"ValueError: --share-decoder-input-output-embed\w* requires (--\S+) to\s+match (--\S+)":
        "--share-decoder-input-output-embed needs equal widths: make {0} and {1} equal, or leave it out.",
    r"ValueError: --share-all-embeddings not compatible with --decoder-embed-path":
        "--share-all-embeddings takes its table from --encoder-embed-path; leave --decoder-embed-path out.",
    r"AdaptiveLoss is not compatible":
        "--criterion adaptive_loss needs --ddp-backend legacy_ddp.",
    r"Cannot combine --fp16 and --tpu":
        "--fp16 and --bf16 exclude each other; choose one.",
    r"Torch not compiled with CUDA enabled|Found no NVIDIA driver|No CUDA GPUs are available":
        "an option needs a GPU, but there is none: leave it out (--quant-noise-scalar is one such option).",
    r"does not support flat params":
        "this --optimizer needs each tensor on its own; with --fp16 or --bf16 add --fp16-no-flatten-grads.",
    r"gradients are inconsistent between workers":
        "the gradients of the ranks differ, though they should be equal; try --ddp-backend legacy_ddp.",
    r"FloatingPointError: gradients are Nan/Inf":
        f"training diverged: the gradients are no longer finite. {OF_BEFORE}; lower --lr, lengthen --warmup-updates or "
        "set --clip-norm.",
    r"Minimum loss scale reached":
        "training with --fp16 diverged (the loss scale reached --min-loss-scale); lower --lr, set --clip-norm, or "
        "use --bf16.",
    r"OutOfMemoryError: CUDA out of memory":
        "the GPU ran out of memory; over streams raise --split-streams, elsewhere lower --max-tokens or --batch-size "
        "and raise --update-freq.",
    r"ValidationError: ([^\n]*)\s*full_key: (\S+)":
        "{1} has a wrong value or none ({0}): give its flag (--source-lang for tokenizer.source_lang), or check "
        "--model-overrides.",
    r"InterpolationKeyError: Interpolation key 'task\.(\w+)' not found":
        "this --arch takes {0} from its --task, which does not have it; choose another --arch or --task.",
    r"Missing mandatory value: (\w+)":
        "{0} is missing; give it as a flag, with - for _.",
    # any other file; files/file_errors.py knows the other errors of the system
    r"FileExistsError: ([^\n]*dict\.[^\n]*txt)$":
        "{0} exists already; choose another --destdir, or use the dictionaries that are there with --srcdict and "
        "--tgtdict, without --joined-dictionary.",
    r"AssertionError: (--trainpref|cannot use both --srcdict and --tgtdict with --joined-dictionary)([^\n]*)":
        "{0}{1}; see fairseq-preprocess --help.",
    r"OSError: file (\S+) not found":
        "cannot use {0}: no such file; check the path.",
}  # fmt: skip


def sentence(error: BaseException) -> str | None:
    """The sentence for an error or one of its causes; None if there is none."""
    chain = list(causes(error))
    for cause in chain:
        if isinstance(cause, UserError):
            return str(cause)
    said = "\n".join(f"{type(cause).__name__}: {cause}" for cause in chain)
    for pattern, words in ERROR_MESSAGES.items():
        if match := re.search(pattern, said, re.DOTALL):
            return words.format(*match.groups(""))
    return next(filter(None, map(file_errors.of_file, chain)), None) or file_errors.in_text(said)
