"""A training ends where its validation perplexity has stopped falling."""

import pytest

from fairseq_plugins.errors import UserError
from fairseq_plugins.streams.stopping import Convergence


def first_reached(convergence, perplexities, every=4000):
    """The update of the validation with which the training converges."""
    for number, perplexity in enumerate(perplexities, 1):
        convergence.add(every * number, perplexity)
        if convergence.reached():
            return every * number


def test_less_than_so_much_over_so_many_updates():
    falling = [30 - number for number in range(5)]  # 26 at update 20000
    assert first_reached(Convergence(0.2, 64000), [*falling, *[26.0] * 20]) == 84000
    assert first_reached(Convergence(0.2, 64000), [*falling, *[26 - number / 100 for number in range(20)]]) == 84000
    assert first_reached(Convergence(0.2, 64000), [40 - number / 50 for number in range(100)]) is None


def test_a_rate_that_rises_again_and_spoils_the_perplexity_for_a_while_is_no_fall():
    wave = [26 + (number % 8) for number in range(40)]
    assert first_reached(Convergence(0.2, 64000), wave) == 68000


def test_zero_never_ends_it():
    assert first_reached(Convergence(0, 10), [5.0] * 10) is None


def test_only_the_first_validation_at_an_update_counts():
    convergence = Convergence(0.2, 10)
    for perplexity in (5.0, 1.0):
        convergence.add(10, perplexity)
    assert convergence.lowest == [(10, 5.0)]


def test_it_goes_on_as_if_never_stopped():
    one, other = Convergence(0.2, 8000), Convergence(0.2, 8000)
    one.add(4000, 5.0)
    other.load_state_dict(one.state_dict())
    assert first_reached(other, [5.0, 4.9, 4.9]) == 12000


@pytest.mark.parametrize("by, over, ended", [(0.2, 8000, 12000), (0.1, 8000, None), (0.2, 9000, None)])
def test_by_other_numbers_a_training_has_not_ended(by, over, ended):
    one, other = Convergence(0.2, 8000), Convergence(by, over)
    one.ended = 12000
    other.load_state_dict(one.state_dict())
    assert other.ended == ended


@pytest.fixture(scope="module")
def training(user_dir, letters) -> list:
    """A training that learns nothing, and validates every second update."""
    return (
        f"fairseq-train {letters} --user-dir {user_dir} --task streaming_language_modeling --arch"
        " transformer_xl_lm_tiny --criterion streaming_lm --optimizer adam --lr 1e-9 --batch-size 2 --cpu"
        " --tokens-per-sample 8 --save-interval-updates 2 --no-epoch-checkpoints --num-workers 0 --log-format json"
    ).split()


CONVERGED = ["--converged-by", 0.2, "--converged-over", 4]
LAST = "fell by less than 0.2 over 4 updates; the next update is the last"


@pytest.fixture(scope="module")
def ended(run, training, tmp_path_factory):
    """The folder of a training that converged at update 6, stopped and resumed before, and its output."""
    folder = tmp_path_factory.mktemp("ended")
    run(*training, *CONVERGED, "--max-update", 4, "--save-dir", folder)
    done = run(*training, *CONVERGED, "--max-update", 90, "--save-dir", folder)
    return folder, done.stdout + done.stderr


def test_fairseq_train_stops_there_and_a_resumed_one_remembers(ended):
    assert LAST in ended[1] and "num_updates: 7 >= max_update: 7" in ended[1]


def test_resumed_after_it_converged_it_ends_at_the_same_update(run, training, ended, tmp_path):
    (converged,) = ended[0].glob("checkpoint_*_6.pt")
    done = run(*training, *CONVERGED, "--max-update", 90, "--save-dir", tmp_path, "--restore-file", converged)
    said = done.stdout + done.stderr
    assert LAST in said and "num_updates: 7 >= max_update: 7" in said


def test_the_same_command_again_trains_nothing(run, training, ended):
    before = (ended[0] / "checkpoint_last.pt").read_bytes()
    done = run(*training, *CONVERGED, "--max-update", 90, "--save-dir", ended[0])
    said = done.stdout + done.stderr
    assert "there is nothing left to train" in said and "num_updates" not in said.partition("nothing left to train")[2]
    assert (ended[0] / "checkpoint_last.pt").read_bytes() == before


def test_a_second_phase_counts_anew(run, training, ended, tmp_path):
    start = ["--restore-file", ended[0] / "checkpoint_last.pt", "--reset-meters", "--save-dir", tmp_path]
    done = run(*training, *CONVERGED, "--max-update", 9, *start)
    assert "num_updates: 9 >= max_update: 9" in done.stdout + done.stderr


@pytest.mark.parametrize("options, sentence", [
    (dict(converged_by=-1.0), "--converged-by -1.0 does not fit"),
    (dict(converged_by=1.0, converged_over=0), "--converged-over 0 does not fit"),
    (dict(converged_by=1.0, memory_in_checkpoint="replay"), "--converged-by needs --memory-in-checkpoint full"),
    (dict(converged_by=1.0, disable_validation=True), "never end the training.* leave --disable-validation out"),
    (dict(converged_by=1.0, no_save=True), "never end the training.* leave --no-save out"),
])  # fmt: skip
def test_wrong_flags(options, sentence, make_task):
    with pytest.raises(UserError, match=sentence):
        make_task(**options)
