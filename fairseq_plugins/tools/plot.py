"""Plot learning curves, learned parameters and results.

    python -m fairseq_plugins.tools.plot curves feedback=runs/a transformer=runs/b --metric bpc --out curves.png
    python -m fairseq_plugins.tools.plot spans runs/a --out spans.png
    python -m fairseq_plugins.tools.plot memory runs/a --out memory.png
    python -m fairseq_plugins.tools.plot attention runs/a/checkpoint_best.pt --data data/bin --heads 4 --out maps.png
    python -m fairseq_plugins.tools.plot lags linear --layers 15 --updates 64 --out lags.png
    python -m fairseq_plugins.tools.plot rewards lstm=runs/seed1 lstm=runs/seed2 --line best=best.json --out rewards.png
    python -m fairseq_plugins.tools.plot rewards_by_size lstm=8:runs/a lstm=16:runs/b --out sizes.png
    python -m fairseq_plugins.tools.plot rows runs/a/results.jsonl --metric BLEU=paper --out depth.png

A run is the log of a training, or a folder with a train.log. A recipe writes RUN/train.log; without one, name a
--log-file in training, or keep what fairseq-train prints, in any --log-format but none:

    mkdir -p runs/a; fairseq-train ... --save-dir runs/a --log-file runs/a/train.log

spans and memory can do without a log: they then read the checkpoints of the run, the folder of --save-dir.

curves: a metric over updates, on the validation set and, as a thin line, on the training set. By default it is the bits
of a token, by the name that all logs have for it. Of runs of one NAME, such as seeds, it draws the mean, and the band
from the lowest to the highest.

spans: the learned span of every head by layer, at the end; with --log-learned in training, over updates, too, from the
log.

memory: softmax(w) of equation 1 of the Feedback Transformer, the weight of each layer in the memory, over updates. With
--log-learned in training it is read from the log, else from the checkpoints of the run.

attention: attention maps of some heads of a language model, for context and persistent vectors (Figure 3 of the
all-attention paper). Prints LAYER.HEAD=SHARE, the fraction of a head's attention that goes to the context. Of a
Feedback model it draws what the heads attend to in the memory, and the weight of each layer in the memory. Of a model
without persistent vectors, as Feedback and Transformer-XL are, it prints LAYER.HEAD=DISTANCE: how many tokens back a
head looks on average. The file of --json has the same of each head drawn.

lags: the age in blocks of each layer's memory in Skip-Retain training, update by update (Figures 1 and 2 of the Skip
Cross-Head paper show it for two updates), with the random numbers of a training with this --seed.

rewards: the reward of agents over the steps of their environments, the mean of several trials and the band from the
lowest to the highest, with lines for the best agent and one that acts at random (Figures 4 and 6 of the Feedback
paper). `python -m fairseq_plugins.tools.watch --agent best --environment ID --episodes 1000 --json best.json` makes
the file for a line.

rewards_by_size: the reward in the last validation over a size, as that of the memory (Figure 3 of the Feedback paper).

rows: columns of a recipe's table, a panel each. If all names of rows end in a number, as feedback-2, there are lines
over it, else a bar for each row (Figures 4, 5 and 7 to 9 of the Feedback paper). --metric BLEU=paper draws the numbers
of the column paper, too, where it has any.
"""

from pathlib import Path

from fairseq_plugins.errors import UserError
from fairseq_plugins.files.reading import checkpoint
from fairseq_plugins.files.whole import write_json
from fairseq_plugins.options.ranges import whole
from fairseq_plugins.tools import skip_schedule
from fairseq_plugins.tools.lib import reward_pictures, row_pictures, training_log
from fairseq_plugins.tools.lib.command import Command, tell
from fairseq_plugins.tools.lib.pictures import BESIDE, add_out, by_name, finish, legend_name, new_figure, save, shades
from fairseq_plugins.tools.lib.several_runs import check_common, common_places, draw_band, draw_mean, logs_of

MOST_UPDATES = 500  # --updates: each has a column of a sixth of an inch, with numbers that can be read


def main():
    args = command().parse()
    save(args.draw(args), args.out)
    tell(f"wrote {args.out}")


def command() -> Command:
    parser = Command(__doc__)
    kinds = parser.add_subparsers(required=True, metavar="KIND")

    def add(name, draw, words):
        kind = kinds.add_parser(name, help=words)
        kind.set_defaults(draw=draw)
        add_out(kind)
        return kind

    curves = add("curves", draw_curves, "a metric over updates")
    curves.add_argument("runs", nargs="+", metavar="NAME=RUN", help="runs of one NAME are drawn as a band")
    curves.option("--metric", str, None, "METRIC", f"as in the logs (the first that all have of {', '.join(METRICS)})")
    add("spans", draw_spans, "the span of every head").add_argument("run", type=Path)
    add("memory", draw_memory, "the weight of each layer in the feedback memory").add_argument("run", type=Path)
    attention = add("attention", draw_attention, "attention maps of heads")
    attention.add_argument("checkpoint", type=checkpoint)
    attention.option("--data", Path, None, "DIR", "binarised data (default: as in training)")
    attention.option("--split", str, "test", "SPLIT", "split to read")
    attention.option("--tokens", whole(1), 64, "M", "number of tokens, the rows of a map")
    attention.option("--heads", whole(1), 4, "N", "number of heads")
    attention.add_json("write the numbers of heads there, too")
    lags = add("lags", draw_lags, "the age of each layer's memory")
    skip_schedule.add_schedule(lags)
    lags.option("--updates", whole(1, MOST_UPDATES), 64, "U", "number of updates")
    reward_pictures.add_curves(add("rewards", reward_pictures.draw_curves, "rewards of agents over steps"))
    reward_pictures.add_sizes(add("rewards_by_size", reward_pictures.draw_sizes, "rewards of agents over a size"))
    row_pictures.add_rows(add("rows", row_pictures.draw_rows, "columns of a recipe's table"))
    return parser


# Learning curves

# The bits of a token are called by what a token is; those of a byte of the raw text compare models of different tokens
METRICS = ("bpc", "bits_per_piece", "bits_per_word", "bpb", "accuracy", "ppl", "loss")
FEW = 10  # as many lines have colours of their own, and room for a legend among them
STYLES = ("-", "--", ":", "-.")  # of further lines


def draw_curves(args):
    trainings = {name: logs_of(name, runs) for name, runs in by_name(args.runs).items()}
    logs = {path: training_log.read(path) for paths in trainings.values() for path in paths}
    metric = args.metric or shared_metric(list(logs.values()))
    figure, ((axes,),) = new_figure(height=max(4.5, len(trainings) / 4))
    for number, (name, paths) in enumerate(trainings.items()):
        for path in paths:
            if not logs[path].has(metric):
                raise UserError(f"the log of {path} has no {metric}; choose another --metric.")
        look = {"color": f"C{number}", "linestyle": STYLES[number // FEW % len(STYLES)]}
        series = ([logs[path].series(split, metric) for path in paths] for split in ("train", "valid"))
        training, validation = map(common_places, series)
        draw_mean(axes, training, alpha=0.35, linewidth=0.8, **look)
        label = legend_name(name if len(paths) == 1 else f"{name}, {len(paths)} runs")
        draw_mean(axes, validation, marker=".", markersize=4, label=label, **look)
        if len(paths) > 1:
            check_common(name, "validation", validation)
            draw_band(axes, validation, look["color"])
    if metric == "ppl":  # the values of an untrained model are very large
        axes.set_yscale("log", subs=[])
        axes.yaxis.get_major_locator().set_params(subs=(1, 2, 3, 5))
        axes.yaxis.set_major_formatter("{x:g}")
    band = "band: lowest to highest; " if any(len(paths) > 1 for paths in trainings.values()) else ""
    beside = BESIDE if len(trainings) > FEW else {}
    finish(axes, "updates", f"{metric}, validation ({band}thin: training)", **beside)
    return figure


def shared_metric(logs: list[training_log.TrainingLog]) -> str:
    """The first of METRICS that all logs have. Raises UserError if there is none."""
    if found := next((metric for metric in METRICS if all(log.has(metric) for log in logs)), None):
        return found
    raise UserError(f"the logs do not share any of {', '.join(METRICS)}; choose a --metric that all of them have.")


# What a training learns, from its log or its checkpoints

SPAN, MEMORY = r"span_\d{1,4}_\d{1,4}", r"memory_\d{1,4}"  # names in a log: of a layer and a head, of a layer
Learned = tuple[list[float], dict[str, list[float]]]  # updates, and for each name the value at each of them


def from_log(run: Path, pattern: str) -> Learned | None:
    """The values that --log-learned wrote; None if there is no log, or it has none."""
    log = training_log.read_if_there(run)
    names = log.names(pattern)
    entries = log.whole(names) if names else []
    found = {name: [entry[name] for entry in entries] for name in names}
    return ([entry["num_updates"] for entry in entries], found) if entries else None


def draw_spans(args):
    """The spans at the end, and beside them, if there are several updates, over updates."""
    updates, spans = from_log(args.run, SPAN) or spans_from_checkpoint(newest_checkpoint(args.run))
    figure, ((end, *courses),) = new_figure(columns=2, width=12, sharey=True) if updates else new_figure()
    places = [tuple(int(number) + 1 for number in name.split("_")[1:]) for name in spans]
    layers = dict.fromkeys(layer for layer, _ in places)
    colours = dict(zip(layers, shades(len(layers))))
    for (layer, head), values in zip(places, spans.values()):
        end.scatter(layer, values[-1], color=colours[layer], s=18)
        for axes in courses:
            axes.plot(updates, values, color=colours[layer], linewidth=0.8, label=f"layer {layer}, head {head}")
    end.set(xlabel="layer", ylabel="span of a head, tokens", title="at the end", xlim=(0.5, max(layers) + 0.5))
    end.xaxis.get_major_locator().set_params(integer=True)
    for axes in courses:
        axes.set(xlabel="updates", title="over updates (dark: first layer)")
    for axes in (end, *courses):
        axes.set_axisbelow(True)
        axes.grid(alpha=0.3)
    return figure


def spans_from_checkpoint(checkpoint: Path) -> Learned:
    """The spans in tokens, without the ramp, and no updates."""
    from fairseq import checkpoint_utils

    state = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))
    ratios = [value.float() for name, value in state["model"].items() if name.endswith("span_ratio")]
    if not ratios:
        raise UserError(f"{checkpoint} has no adaptive spans; train with --adaptive-span.")
    spans = [(ratio * state["cfg"]["model"].attention_span).tolist() for ratio in ratios]
    return [], {f"span_{layer}_{head}": [span] for layer, heads in enumerate(spans) for head, span in enumerate(heads)}


def draw_memory(args):
    updates, weights = from_log(args.run, MEMORY) or memory_from_checkpoints(args.run)
    figure, ((axes,),) = new_figure()
    for (name, values), colour in zip(weights.items(), shades(len(weights))):
        axes.plot(updates, values, color=colour, marker=".", label=part(int(name.split("_")[1])))
    axes.set_ylim(bottom=0)
    finish(axes, "updates", "weight in the memory, softmax(w)", **BESIDE)
    return figure


def part(layer: int) -> str:
    """The name of a part that a memory is a weighted sum of."""
    return f"layer {layer}" if layer else "embedding"


def memory_from_checkpoints(run: Path) -> Learned:
    """The L + 1 weights from the checkpoints in a folder. At update 0 they are those of a new model."""
    from fairseq import checkpoint_utils

    from fairseq_plugins.modules.feedback.memory import WeightedMemory

    found: dict[float, list[float]] = {}
    for path in checkpoints(run):
        state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
        learned = [value for name, value in state["model"].items() if name.endswith("memory.layer_logits")]
        if not learned:
            raise UserError(f"{path} has no learned memory; train feedback_lm with --feedback-memory weighted.")
        memory = WeightedMemory(len(learned[0]) - 1)
        found.setdefault(0, memory.layer_weights()[0])
        memory.load_state_dict({"layer_logits": learned[0]})
        found[state["optimizer_history"][-1]["num_updates"]] = memory.layer_weights()[0]
    updates = sorted(found)
    by_layer = zip(*(found[update] for update in updates))
    return updates, {f"memory_{layer}": [*values] for layer, values in enumerate(by_layer)}


def checkpoints(run: Path) -> list[Path]:
    paths = sorted((run if run.is_dir() else run.parent).glob("checkpoint*.pt"))
    if not paths:
        raise UserError(
            f"{run} holds no checkpoints (checkpoint*.pt), and no log with the values to draw; give the --save-dir of a"
            " training."
        )
    return paths


def newest_checkpoint(run: Path) -> Path:
    return max(checkpoints(run), key=lambda path: path.stat().st_mtime)


# Attention


def draw_attention(args):
    from fairseq_plugins.tools.lib.attention_maps import attention_maps, choose

    maps, memory_weights = attention_maps(args.checkpoint, args.data, args.split, args.tokens)
    chosen = choose(maps, args.heads)
    span, persistent = chosen[0].context.size(-1), chosen[0].persistent.size(-1)
    parts = [span, max(persistent, span / 6)] if persistent else [span]
    rows = len(chosen) + bool(memory_weights)
    figure, grid = new_figure(rows, len(parts), width=10, height=1 + 1.9 * rows, width_ratios=parts)
    for axes, head in zip(grid, chosen):
        draw_map(figure, axes, head, "memories" if memory_weights else "tokens")
    if memory_weights:
        draw_memory_weights(grid[-1][0], memory_weights)
    share = "LAYER.HEAD=SHARE, the fraction of a head's attention that goes to the context, not to persistent vectors:"
    tell(share if persistent else "LAYER.HEAD=DISTANCE, how many tokens back a head looks on average:")
    values = [f"{head.context_share:.3f}" if persistent else f"{head.distance:.1f}" for head in chosen]
    print(" ".join(f"{head.layer}.{head.head}={value}" for head, value in zip(chosen, values)))
    if args.json:
        kind = "share" if persistent else "distance"
        names = [f"layer {head.layer}, head {head.head}" for head in chosen]
        heads = [{"head": name, kind: float(value)} for name, value in zip(names, values)]
        write_json(args.json, dict(enumerate(heads, 1)))
    return figure


def draw_map(figure, axes, head, what: str) -> None:
    """One head's map: on the left the context by distance, on the right, if there are any, the persistent vectors."""
    from matplotlib.colors import PowerNorm

    tokens, span = head.context.shape
    norm = PowerNorm(0.4, 0, max(float(part.max()) for part in (head.context, head.persistent) if part.numel()))
    look = {"aspect": "auto", "interpolation": "nearest", "cmap": "magma_r", "norm": norm}
    last = 0.5 - head.nearest
    picture = axes[0].imshow(head.context, extent=(last - span, last, tokens + 0.5, 0.5), **look)
    share = f"{head.context_share:.0%} of its attention to the context, there " if len(axes) > 1 else ""
    title = f"layer {head.layer}, head {head.head}: {share}{head.distance:.1f} {what} back on average"
    axes[0].set_title(title, fontsize=9, loc="left")  # it may be wider than its panel
    nearest = "-1: the nearest" if head.nearest else "0: the token itself"
    axes[0].set(xlabel=f"{what} before ({nearest})", ylabel="token")
    if len(axes) > 1:
        vectors = head.persistent.size(-1)
        axes[1].imshow(head.persistent, extent=(0.5, vectors + 0.5, tokens + 0.5, 0.5), **look)
        axes[1].set(xlabel="persistent vectors", yticks=[])
    figure.colorbar(picture, ax=axes[-1], pad=0.01, label="weight")


def draw_memory_weights(axes, weights: list[list[float]]) -> None:
    """Equation 1: bars for the weight of each layer in the memory, or in each layer's memory if there are several."""
    width = 0.8 / len(weights)
    for number, row in enumerate(weights):
        places = [layer + (number - (len(weights) - 1) / 2) * width for layer in range(len(row))]
        axes.bar(places, row, width, color=shades(len(weights))[number], label=f"memory of layer {number + 1}")
    axes.set_xticks(range(len(weights[0])), [*map(part, range(len(weights[0])))])
    axes.set_ylabel("weight")
    axes.set_title("what the memory is made of: softmax(w) of equation 1", fontsize=9)
    if len(weights) > 1:
        axes.legend(fontsize=7)


# Skip-Retain


def draw_lags(args):
    import torch

    lags = torch.tensor(skip_schedule.lags(skip_schedule.skip_retain(args), args.updates))  # updates, layers
    figure, ((axes,),) = new_figure(width=max(6, args.updates / 6), height=1.5 + args.layers / 4)
    extent = (-0.5, args.updates - 0.5, 0.5, args.layers + 0.5)
    look = {"origin": "lower", "aspect": "auto", "interpolation": "nearest", "cmap": "magma_r"}
    picture = axes.imshow(lags.t(), extent=extent, **look)
    for update, layer in (lags > 1).nonzero().tolist():
        lag = lags[update, layer].item()
        axes.text(update, layer + 1, lag, ha="center", va="center", fontsize=6, color="black" if lag == 2 else "white")
    axes.set(xlabel="update", ylabel="layer", title=f"lag of each layer's memory, in blocks ({args.schedule})")
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_major_locator().set_params(integer=True)
    figure.colorbar(picture, ax=axes, pad=0.01, ticks=range(1, int(lags.max()) + 1))
    return figure


if __name__ == "__main__":
    main()
