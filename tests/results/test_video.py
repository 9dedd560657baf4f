"""Videos: frames that come back exactly, a file for each episode, and nothing left of unfinished ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlcore.env import DEFAULT_GROUP
from rlcore.errors import EnvError, UserError
from rlcore.sampling.collect import Episodes
from rlcore.testing.environments.count import Count
from rlcore.video import Film, FilmSource
from rlcore.video_files import H264, MPEG4, AnimatedPNG, VideoFile, best_format

Image = pytest.importorskip("PIL.Image")


def read(path: Path) -> list[np.ndarray]:
    with Image.open(path) as picture:
        frames = []
        for number in range(picture.n_frames):
            picture.seek(number)
            frames.append(np.asarray(picture.convert("RGB")))
    return frames


def test_frames_come_back_exactly(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frames = [rng.integers(0, 256, (7, 5, 3), np.uint8)]
    for number in range(4):
        frame = frames[-1].copy()
        if number != 2:  # one frame is equal to the one before
            frame[1:3, number] = rng.integers(0, 256, (2, 3), np.uint8)
        frames.append(frame)
    video = AnimatedPNG(tmp_path / "a.png", frames_per_second=25)
    for frame in frames:
        video.add(frame)
    assert [path.name for path in tmp_path.iterdir()] == [".a.png"]
    video.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    back = read(tmp_path / "a.png")
    assert len(back) == 5
    for expected, found in zip(frames, back, strict=True):
        np.testing.assert_array_equal(found, expected)
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.info["duration"] == 40.0  # milliseconds


def test_wrong_frames_are_refused(tmp_path: Path) -> None:
    video = AnimatedPNG(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"a frame is uint8 \[height, width, 3\], not float64 \[2, 2, 3\]"):
        video.add(np.zeros((2, 2, 3)))  # type: ignore[arg-type]
    video.add(np.zeros((2, 2, 3), np.uint8))
    with pytest.raises(ValueError, match=r"a frame of size \[2, 3, 3\] among those of \[2, 2, 3\]"):
        video.add(np.zeros((2, 3, 3), np.uint8))
    video.discard()
    assert list(tmp_path.iterdir()) == []


class Drawn(Count):
    """Count with a picture: one bright pixel at the step of the episode; dark until asked to draw."""

    def __init__(self, num_envs: int = 1, length: int = 3, render_mode: str | None = None) -> None:
        super().__init__(num_envs, length)
        self._drawn = render_mode == "rgb_array"

    def render(self, slot: int) -> np.ndarray | None:
        if not self._drawn:
            return None
        frame = np.zeros((1, 4, 3), np.uint8)
        frame[0, int(self._t[slot])] = 255
        return frame


def play(env: Film, polls: int) -> None:
    for _ in range(polls):
        step = env.poll(None)[DEFAULT_GROUP]
        env.send({DEFAULT_GROUP: (step.slot, np.zeros(len(step.slot), np.int64))})


def test_B159_a_file_for_each_episode_and_none_for_the_unfinished(tmp_path: Path) -> None:
    env = FilmSource(Drawn, tmp_path / "videos", Episodes(200), video_format=AnimatedPNG)(num_envs=1, length=3)
    assert isinstance(env, Film)
    env.reset(1)
    play(env, 302)  # 100 episodes of three steps, and two steps more
    env.close()
    names = sorted(path.name for path in (tmp_path / "videos").iterdir())
    assert names == [f"episode-{number:04d}.png" for number in range(1, 101)]
    for name in (names[0], names[-1]):
        frames = read(tmp_path / "videos" / name)
        assert [int(np.argmax(frame[0, :, 0])) for frame in frames] == [0, 1, 2]


def test_B159_no_file_is_written_again(tmp_path: Path) -> None:
    for expected in (["0001"], ["0001", "0002"]):
        env = FilmSource(Drawn, tmp_path, Episodes(1), video_format=AnimatedPNG)(num_envs=1, length=3)
        env.reset(1)
        play(env, 8)
        env.close()
        assert sorted(path.name for path in tmp_path.iterdir()) == [f"episode-{number}.png" for number in expected]


@pytest.mark.parametrize(("most", "files"), [(None, 5), (3, 3), (1, 1), (9, 5)])
def test_as_many_episodes_are_filmed_as_are_asked_for(tmp_path: Path, most: int | None, files: int) -> None:
    env = FilmSource(Drawn, tmp_path, Episodes(5), most, AnimatedPNG)(num_envs=3, length=2)
    env.reset(1)
    play(env, 20)
    env.close()
    assert len(list(tmp_path.iterdir())) == files


def test_an_episode_that_breaks_off_is_filmed_from_its_new_beginning(tmp_path: Path) -> None:
    class Lost(Drawn):
        steps = 0

        def _advance(self) -> None:
            super()._advance()
            self.steps += 1
            if self.steps == 2:
                self._t[:] = 0
                assert self._ready is not None
                self._ready.first = np.ones(1, np.bool_)
                self._ready.env_step = self._t.copy()

    env = FilmSource(Lost, tmp_path, Episodes(1), video_format=AnimatedPNG)(num_envs=1, length=3)
    env.reset(1)
    play(env, 9)
    env.close()
    (path,) = tmp_path.iterdir()
    assert [int(np.argmax(frame[0, :, 0])) for frame in read(path)] == [0, 1, 2]


@pytest.mark.parametrize("video_format", [H264, MPEG4])
def test_mp4(tmp_path: Path, video_format: type[VideoFile]) -> None:
    if video_format is H264:
        pytest.importorskip("imageio_ffmpeg")
    cv2 = pytest.importorskip("cv2")
    video = video_format(tmp_path / "a.mp4", 12.5)
    for number in range(7):
        frame = np.zeros((65, 101, 3), np.uint8)  # odd, which the encoders cannot do
        frame[:, :, number % 3] = 200
        video.add(frame)
    video.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]
    back = cv2.VideoCapture(str(tmp_path / "a.mp4"))
    assert back.get(cv2.CAP_PROP_FPS) == 12.5
    frames = []
    while (read_one := back.read())[0]:
        frames.append(read_one[1][:, :, ::-1])
    assert [frame.shape for frame in frames] == [(66, 102, 3)] * 7
    assert [int(frame.reshape(-1, 3).mean(axis=0).argmax()) for frame in frames] == [0, 1, 2, 0, 1, 2, 0]
    unfinished = video_format(tmp_path / "b.mp4", 12.5)
    unfinished.add(np.zeros((64, 64, 3), np.uint8))
    unfinished.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


def test_mp4_where_it_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    there: set[str] = set()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name in there else None)
    assert best_format() is AnimatedPNG
    there.add("cv2")
    assert best_format() is MPEG4
    there.add("imageio_ffmpeg")
    assert best_format() is H264


def test_an_environment_that_cannot_be_drawn(tmp_path: Path) -> None:
    class Dark(Drawn):
        def render(self, slot: int) -> None:
            return None

    with pytest.raises(EnvError, match="Dark' cannot be drawn: it renders no RGB frames"):
        FilmSource(Dark, tmp_path, Episodes(1))(num_envs=1)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (np.zeros((9, 8, 3), np.uint8), r"a frame of size \[9, 8, 3\] among those of \[8, 8, 3\]"),
        (np.zeros((8, 8, 3)), r"a frame is uint8 \[height, width, 3\], not float64 \[8, 8, 3\]"),
    ],
    ids=["another size", "another type"],
)
def test_frames_that_make_no_video_are_an_error_of_the_environment(
    second: np.ndarray, message: str, tmp_path: Path
) -> None:
    class Changing(Drawn):
        frames = iter([np.zeros((8, 8, 3), np.uint8)] * 2 + [second])

        def render(self, slot: int) -> np.ndarray:
            return next(self.frames)

    env = FilmSource(Changing, tmp_path, Episodes(1), video_format=AnimatedPNG)(num_envs=1)
    env.reset(1)
    step = env.poll(None)[DEFAULT_GROUP]
    env.send({DEFAULT_GROUP: (step.slot, np.zeros(1, np.int64))})
    with pytest.raises(EnvError, match=rf"'Changing', slot 0 cannot be filmed: {message}"):
        env.poll(None)
    env.close()
    assert list(tmp_path.iterdir()) == []


def test_an_environment_that_takes_no_render_mode(tmp_path: Path) -> None:
    closed: list[str] = []

    class Dark(Drawn):
        def __init__(self, num_envs: int) -> None:
            super().__init__(num_envs)

        def render(self, slot: int) -> None:
            return None

        def close(self) -> None:
            closed.append("closed")

    with pytest.raises(EnvError, match=r"renders no RGB frames, and takes no render_mode='rgb_array' among its"):
        FilmSource(Dark, tmp_path, Episodes(1))(num_envs=1)
    assert closed == ["closed"]


def test_an_environment_that_fails_to_draw_is_closed(tmp_path: Path) -> None:
    closed: list[str] = []

    class Failing(Drawn):
        def render(self, slot: int) -> None:
            raise EnvError("there is no display")

        def close(self) -> None:
            closed.append("closed")

    with pytest.raises(EnvError, match="there is no display"):
        FilmSource(Failing, tmp_path, Episodes(1))(num_envs=1)
    assert closed == ["closed"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write videos into"):
        FilmSource(Drawn, tmp_path / "file" / "videos", Episodes(1))(num_envs=1)
