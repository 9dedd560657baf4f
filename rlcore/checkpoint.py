"""Checkpoints on disk: a folder of ``manifest.json``, ``state.json`` and ``arrays.safetensors``.

A folder is written beside its final place, flushed to the disk and renamed, so that under its final name it is whole.
The manifest carries the size and the SHA-256 of the other two files. Reading one parses JSON and raw arrays and
executes nothing; what the strings in it may name is for the caller to decide.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rlcore.errors import CheckpointError
from rlcore.tree import flatten, names_of_arrays, unflatten

#: Increased whenever an older rlcore could no longer read what is written.
FORMAT_VERSION = 1
FORMAT = "rlcore-checkpoint"
MANIFEST, STATE, ARRAYS = "manifest.json", "state.json", "arrays.safetensors"
#: Keys of the manifest that belong to the format.
RESERVED = ("format", "format_version", "files")
BEST = "best"

# Prefixes of folders that only exist while something is written, replaced or removed.
_WRITING, _REPLACED, _REMOVING = ".writing-", ".replaced-", ".removing-"


def save_tree(folder: str | os.PathLike[str], tree: Any, manifest: Mapping[str, Any]) -> None:
    """Writes ``tree`` (see :mod:`rlcore.tree`) and ``manifest`` (plain JSON) as a checkpoint at ``folder``.

    A checkpoint that stands there is replaced; anything else that stands there is left alone. Raises
    ``CheckpointError`` for a value that cannot be stored, a folder that is none, and a disk that refuses.
    """
    folder = Path(folder)
    taken = sorted(set(manifest) & set(RESERVED))
    if taken:
        raise CheckpointError(f"the manifest's keys {', '.join(taken)} belong to the format")
    document, arrays = flatten(tree)
    text = _json(document, "state")
    _json(dict(manifest), "manifest")
    _refuse_foreign(folder)
    with _disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = _beside(folder, _WRITING)
        beside.mkdir()
        try:
            _write(beside / STATE, text)
            _write_arrays(beside / ARRAYS, arrays)
            files = {name: _fingerprint(beside / name) for name in (STATE, ARRAYS)}
            head = {"format": FORMAT, "format_version": FORMAT_VERSION, **manifest, "files": files}
            _write(beside / MANIFEST, json.dumps(head, indent=2).encode())
            _sync_folder(beside)
            _move_into_place(beside, folder)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise


def load_tree(folder: str | os.PathLike[str], leave_out: Collection[str] = ()) -> tuple[Any, dict[str, Any]]:
    """The tree and the manifest of the checkpoint at ``folder``; arrays are writable copies.

    Of a tree that is a dictionary the parts ``leave_out`` are not read into memory.

    Raises ``CheckpointError`` where there is none, where it is cut short or damaged, where a newer rlcore wrote it,
    and where it contains files that do not belong in one, such as pickles or code.
    """
    folder = Path(folder)
    manifest = load_manifest(folder)
    with _disk_errors(folder):
        for path in (folder / STATE, folder / ARRAYS):
            _refuse_pickle(path)
            if _fingerprint(path) != manifest["files"][path.name]:
                raise CheckpointError(f"checkpoint {folder} is damaged: {path.name} is not what was written")
        document = _parse_json(folder / STATE)
        if leave_out and isinstance(document, dict):
            document = {key: part for key, part in document.items() if key not in leave_out}
        arrays = _read_arrays(folder / ARRAYS, set(names_of_arrays(document)) if leave_out else None)
    try:
        tree = unflatten(document, arrays)
    except (CheckpointError, RecursionError) as error:
        raise CheckpointError(f"checkpoint {folder} cannot be read: {error}") from error
    return tree, manifest


def load_manifest(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest alone, once the folder has been found whole by the names and sizes of its files.

    Raises ``CheckpointError`` as :func:`load_tree` does, except that contents are not compared with their digests.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CheckpointError(f"there is no checkpoint at {folder}")
    if not (folder / MANIFEST).is_file():
        raise CheckpointError(f"{folder} is no checkpoint: it has no {MANIFEST}")
    with _disk_errors(folder):
        _refuse_pickle(folder / MANIFEST)
        manifest = _parse_json(folder / MANIFEST)
        _check_format(folder, manifest)
        _check_files(folder, manifest["files"])
    return manifest  # type: ignore[no-any-return]


class Checkpoints:
    """The folder ``checkpoints/`` of a run: ``<iteration>/`` for the newest ``keep``, and ``best/``.

    ``keep`` None keeps all. Where ``best`` is true, ``best/`` holds the checkpoint with the highest score so far (the
    earliest of equals), also after it has left the newest. One process writes; any number may read meanwhile.
    """

    def __init__(self, folder: str | os.PathLike[str], keep: int | None = None, best: bool = True) -> None:
        if keep is not None and keep < 1:
            raise CheckpointError(f"at least one checkpoint is kept, not {keep}")
        self.folder = Path(folder)
        self.keep = keep
        self.keeps_best = best

    def path(self, iteration: int) -> Path:
        """Where the checkpoint of ``iteration`` is or would be."""
        return self.folder / str(iteration)

    def iterations(self) -> list[int]:
        """The iterations that have a checkpoint, ascending."""
        if not self.folder.is_dir():
            return []
        names = [entry.name for entry in self.folder.iterdir() if (entry / MANIFEST).is_file()]
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def latest(self) -> Path | None:
        """The newest checkpoint that was written to its end, or None.

        An interrupted write never stands under the name of an iteration. A checkpoint that was damaged afterwards is
        not skipped: loading it says what is wrong, instead of an older one passing for it.
        """
        iterations = self.iterations()
        return self.path(iterations[-1]) if iterations else None

    def best(self) -> Path | None:
        """The best checkpoint, or None where no score was given yet."""
        return self.folder / BEST if (self.folder / BEST / MANIFEST).is_file() else None

    def best_score(self) -> float | None:
        """The score of the best checkpoint."""
        best = self.best()
        score = load_manifest(best).get("score") if best else None
        return float(score) if isinstance(score, int | float) else None

    def save(self, iteration: int, tree: Any, manifest: Mapping[str, Any], score: float | None = None) -> Path:
        """Writes the checkpoint of ``iteration``, updates ``best/``, removes what is no longer kept.

        ``score`` (higher is better; None and NaN never count as best) goes into the manifest beside ``iteration``.
        """
        self.clean()
        path = self.path(iteration)
        scored = None if score is None or score != score else float(score)
        save_tree(path, tree, {**manifest, "iteration": iteration, "score": scored})
        if self.keeps_best and scored is not None:
            highest = self.best_score()
            if highest is None or scored > highest:
                _link_tree(path, self.folder / BEST)
        if self.keep is not None:
            for old in self.iterations()[: -self.keep]:
                _remove(self.path(old))
        return path

    def discard_after(self, iteration: int) -> None:
        """Removes the checkpoints of later iterations: those of a future that a run resumed from here gives up."""
        for later in [i for i in self.iterations() if i > iteration]:
            _remove(self.path(later))

    def clean(self) -> None:
        """Removes what interrupted writes have left; for the writing process alone."""
        if not self.folder.is_dir():
            return
        for entry in sorted(self.folder.iterdir()):
            name = entry.name
            if name.startswith(_REPLACED):
                # The replacement was interrupted between its two renames: the old one is the only one.
                original = self.folder / name.removeprefix(_REPLACED).rsplit("-", 1)[0]
                if not original.exists():
                    os.rename(entry, original)
                    continue
            if name.startswith((_WRITING, _REPLACED, _REMOVING)):
                shutil.rmtree(entry)


# -- writing


def _json(value: Any, what: str) -> bytes:
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"the {what} cannot be written as JSON: {error}") from error


def _write(path: Path, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _write_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    from safetensors.numpy import save_file

    save_file(arrays, path)
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _fingerprint(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _beside(folder: Path, prefix: str) -> Path:
    return folder.with_name(f"{prefix}{folder.name}-{uuid.uuid4().hex[:8]}")


def _move_into_place(beside: Path, folder: Path) -> None:
    """Renames; a folder can only be replaced by moving it out of the way first."""
    replaced = None
    if folder.exists() and any(folder.iterdir()):
        replaced = _beside(folder, _REPLACED)
        os.rename(folder, replaced)
    os.rename(beside, folder)
    _sync_folder(folder.parent)
    if replaced is not None:
        shutil.rmtree(replaced)


def _link_tree(source: Path, target: Path) -> None:
    """``target`` becomes a second name of the files of ``source``, or a copy where the disk has no hard links."""
    beside = _beside(target, _WRITING)
    with _disk_errors(target):
        try:
            shutil.copytree(source, beside, copy_function=_link_or_copy)
            _sync_folder(beside)
            _move_into_place(beside, target)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _remove(folder: Path) -> None:
    removing = _beside(folder, _REMOVING)
    with _disk_errors(folder):
        os.rename(folder, removing)
        shutil.rmtree(removing)


def _refuse_foreign(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise CheckpointError(f"{folder} is not empty and no checkpoint, so none is written there")
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file, so no checkpoint can be written there")


# -- reading


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"checkpoint {folder}: {error.strerror or error} ({error.filename})") from error


def _parse_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"checkpoint {path.parent} is damaged: {path.name} is no JSON ({error})") from error


def _check_format(folder: Path, manifest: Any) -> None:
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CheckpointError(f"{folder} is no checkpoint of rlcore: its {MANIFEST} does not say '{FORMAT}'")
    version, files = manifest.get("format_version"), manifest.get("files")
    if type(version) is not int or version < 1:
        raise CheckpointError(f"checkpoint {folder} is damaged: its format_version is {version!r}")
    if version > FORMAT_VERSION:
        writer = manifest.get("rlcore_version")
        raise CheckpointError(
            f"checkpoint {folder} has format version {version}"
            + (f", written by rlcore {writer}" if isinstance(writer, str) else "")
            + f"; this rlcore reads up to version {FORMAT_VERSION}: install a newer rlcore to read it"
        )
    if not isinstance(files, dict) or set(files) != {STATE, ARRAYS} or not all(map(_is_fingerprint, files.values())):
        raise CheckpointError(f"checkpoint {folder} is damaged: its {MANIFEST} does not list {STATE} and {ARRAYS}")


def _is_fingerprint(entry: Any) -> bool:
    return isinstance(entry, dict) and type(entry.get("bytes")) is int and isinstance(entry.get("sha256"), str)


def _check_files(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    for entry in sorted(folder.iterdir()):
        # Hidden files are those that file managers and network drives leave; nothing reads them.
        if entry.name in (MANIFEST, STATE, ARRAYS) or entry.name.startswith("."):
            continue
        raise CheckpointError(
            f"checkpoint {folder} contains {_kind(entry)} '{entry.name}', which does not belong in one; "
            "nothing was loaded"
        )
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            raise CheckpointError(f"checkpoint {folder} is cut short: {name} is missing")
        found = path.stat().st_size
        if found != expected["bytes"]:
            fault = "cut short" if found < expected["bytes"] else "damaged"
            raise CheckpointError(f"checkpoint {folder} is {fault}: {name} has {found} of {expected['bytes']} bytes")


def _kind(entry: Path) -> str:
    if entry.is_dir():
        return "a folder"
    if entry.suffix in (".pkl", ".pickle", ".pt", ".pth", ".joblib", ".npy", ".npz") or _looks_pickled(entry):
        return "a pickle"
    return "a file"


def _looks_pickled(path: Path) -> bool:
    with open(path, "rb") as file:
        start = file.read(2)
    return len(start) == 2 and start[0] == 0x80 and 2 <= start[1] <= 5


def _refuse_pickle(path: Path) -> None:
    if _looks_pickled(path):
        raise CheckpointError(
            f"checkpoint {path.parent} contains a pickle as '{path.name}'; pickles run code and are never loaded"
        )


def _read_arrays(path: Path, wanted: Collection[str] | None) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            names = [name for name in file.keys() if wanted is None or name in wanted]  # noqa: SIM118  (no mapping)
            return {name: file.get_tensor(name) for name in names}
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise CheckpointError(f"checkpoint {path.parent} is damaged: {path.name} cannot be read ({error})") from error
