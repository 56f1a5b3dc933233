"""The packages of peers.py behind one interface, which reads tokens after a memory; B streams, M tokens, V words.

    logits, memory = peer.read(tokens, memory)    # [B, M] to [B, M, V]; the memory is None at first

Attributes of a peer: its model; its name; differs, where its work is not ours; grows, whether its memory has no limit.
"""

import copy
import tempfile
from argparse import Namespace

import lm_speed
import torch
import translation_speed
from torch import nn

SENTENCE = 30  # target tokens; decoders take one step more, for the end of the sentence


class FeedbackPytorch:
    """It writes a memory at each token. With its default, at every second one, it is another model."""

    name, grows = "feedback-transformer-pytorch", False
    differs = "gated feed-forward layers; no positions in the memory"

    def __init__(self, size: Namespace):
        from feedback_transformer_pytorch import FeedbackTransformer

        self.model = FeedbackTransformer(
            num_tokens=size.vocabulary,
            dim=size.width,
            depth=size.layers,
            heads=size.heads,
            dim_head=size.width // size.heads,
            mem_len=size.span,
            seq_len=1,
            attn_dropout=size.dropout,
            ff_dropout=size.dropout,
        )

    def read(self, tokens, memory):
        logits, memory = self.model(tokens, memory, return_memory=True)
        return logits, [x.detach() for x in memory]


class Labml:
    """Its fast version, with shared keys and values. Its gradients are wrong if a second forward pass comes before the
    backward pass; here none does."""

    name = "labml-nn, FeedbackTransformerKV"
    differs = "no memory before the block; 4,096 vectors of positions in each layer"

    def __init__(self, size: Namespace):
        from labml_nn.transformers.feed_forward import FeedForward
        from labml_nn.transformers.feedback import FeedbackAttention, FeedbackTransformerKV, FeedbackTransformerLayer

        layer = FeedbackTransformerLayer(
            d_model=size.width,
            attn=FeedbackAttention(size.heads, size.width, size.dropout, is_kv_precomputed=True),
            feed_forward=FeedForward(size.width, 4 * size.width, size.dropout),
            dropout_prob=0.0,
        )
        body = FeedbackTransformerKV(layer, size.layers, size.width, size.heads)
        embed, output = nn.Embedding(size.vocabulary, size.width), nn.Linear(size.width, size.vocabulary)
        self.model = nn.Sequential(embed, body, output)

    def read(self, tokens, memory):
        return self.model(tokens.t()).transpose(0, 1), None


class XTransformers:
    """A Transformer with a memory of hidden states, and attention by torch's `scaled_dot_product_attention`."""

    name = "x-transformers"
    differs = "no parameters for positions; a token sees the whole memory and its block so far"

    def __init__(self, size: Namespace, **options):
        from x_transformers import Decoder, TransformerWrapper

        layers = Decoder(
            dim=size.width,
            depth=size.layers,
            heads=size.heads,
            attn_dim_head=size.width // size.heads,
            attn_dropout=size.dropout,
            ff_dropout=size.dropout,
            attn_flash=True,
            **options,
        )
        self.model = TransformerWrapper(
            num_tokens=size.vocabulary, max_seq_len=2 * size.span, max_mem_len=size.span, attn_layers=layers
        )

    def read(self, tokens, memory):
        return self.model(tokens, mems=memory, return_mems=True)


class CachedXTransformers(XTransformers):
    """A Transformer that caches keys and values, with its default positions, which take the fewest operations."""

    name, grows = "x-transformers, cached", True
    differs = "no feedback; positions are added to embeddings"

    def read(self, tokens, memory):
        return self.model(tokens, cache=memory, input_not_include_cache=True, return_intermediates=True)


class Fairseq:
    """Its language model, with keys and values in the incremental state."""

    name, grows = "fairseq, transformer_lm", True
    differs = "no feedback; positions are added to embeddings"

    def __init__(self, size: Namespace):
        self.model = lm_speed.FairseqTraining(size, 2 * size.span).model

    def read(self, tokens, memory):
        """One token for each stream."""
        seen, state = memory or (tokens[:, :0], {})
        seen = torch.cat([seen, tokens], dim=1)
        state = {layer: dict(kept) for layer, kept in state.items()}  # the decoder writes to it
        logits, _ = self.model.decoder(seen, incremental_state=state)
        return logits, (seen, state)


class BeamSearch(translation_speed.Generation):
    """A Transformer of fairseq, or of this suite, in fairseq's search; a call returns the number of tokens."""

    name, sentence = "fairseq, transformer", SENTENCE

    def differs(self) -> str:
        return "no feedback"


class CTranslate2:
    """fairseq's Transformer, converted, in a search of its own; a call returns the number of tokens."""

    def __init__(self, search: BeamSearch, kind: str, threads: int):
        import ctranslate2

        # a copy, since the converter needs a frozen model, and fairseq decodes three times as slowly with one
        self.search, self.model = search, copy.deepcopy(search.model).requires_grad_(False)
        self.kind, self.name = kind, f"CTranslate2, {kind}"
        dictionary = search.dictionary
        self.words = ["<s>", "<blank>", "</s>", "<unk>", *map(str, range(dictionary.nspecial, len(dictionary)))]
        with tempfile.TemporaryDirectory() as folder:
            self.converted().save(folder)
            self.translator = ctranslate2.Translator(folder, compute_type=kind, intra_threads=threads)
        self.sources = [self.text(source["src_tokens"]) for source in search.batches]

    def converted(self):
        from ctranslate2.converters import fairseq
        from ctranslate2.specs import TransformerSpec

        sides = self.model.encoder, self.model.decoder
        heads = sides[0].layers[0].self_attn.num_heads
        spec = TransformerSpec.from_config(tuple(len(side.layers) for side in sides), heads, pre_norm=False)
        fairseq.set_transformer_encoder(spec.encoder, sides[0])
        fairseq.set_transformer_decoder(spec.decoder, sides[1])
        spec.register_source_vocabulary(self.words)
        spec.register_target_vocabulary(self.words)
        spec.config.decoder_start_token, spec.config.add_source_eos = spec.config.eos_token, True
        spec.validate()
        spec.optimize()
        return spec

    def text(self, sentences) -> list[list[str]]:
        """Words of sentences without their ends."""
        return [[self.words[token] for token in sentence[:-1]] for sentence in sentences]

    def __call__(self) -> int:
        limits = dict(min_decoding_length=SENTENCE + 1, max_decoding_length=SENTENCE + 1)  # as many steps as fairseq
        for source in self.sources:
            self.found = self.translator.translate_batch(source, beam_size=5, **limits)
        return sum(map(len, self.sources)) * SENTENCE

    @torch.no_grad()
    def differs(self) -> str:
        """After a check that what fairseq finds has fairseq's probabilities. Those of int8 are others."""
        found = self.search.generator.generate([self.model], {"net_input": self.search.batches[0]})
        best = [hypotheses[0] for hypotheses in found]
        scored = self.translator.score_batch(self.sources[0], self.text(one["tokens"] for one in best))
        probabilities = torch.tensor([one.log_probs for one in scored])
        if self.kind == "float32":
            expected = torch.stack([one["positional_scores"] for one in best])
            torch.testing.assert_close(probabilities, expected, atol=1e-3, rtol=1e-3)
        assert probabilities.isfinite().all() and all(len(one.hypotheses[0]) > SENTENCE for one in self.found)
        return "no feedback"
