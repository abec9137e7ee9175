"""Cache folder of a container: private to its user."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

NOBODY = 65534
SHOW = '. "$0"; echo "$ACCELBENCH_CACHE"; stat --format "%u %a" "$ACCELBENCH_CACHE"; echo "$KERAS_HOME"'


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """Folder writable by all users, like /tmp, and reachable by the user `nobody`."""
    closed = [folder for folder in tmp_path.parents if not folder.stat().st_mode & 1 and os.geteuid() == 0]
    modes = [folder.stat().st_mode for folder in closed]
    for folder in (*closed, tmp_path):
        folder.chmod(folder.stat().st_mode | 0o011)
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(0o1777)
    yield path
    for folder, mode in zip(closed, modes, strict=True):
        folder.chmod(mode)


def start(shared: Path, user: int | None = None, **variables: str) -> tuple[list[str], str]:
    """Source environment.sh like a container; return its output lines and stderr."""
    script = shared.parent / "environment.sh"
    script.write_bytes((ROOT / "containers" / "environment.sh").read_bytes())
    script.chmod(0o755)
    done = subprocess.run(
        ["sh", "-euc", SHOW, str(script)],
        env={"PATH": os.environ["PATH"], "TMPDIR": str(shared), **variables},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines(), done.stderr


def own(shared: Path, user: int) -> Path:
    return shared / f"accelbench-cache-{user}"


def test_caches_are_in_a_private_folder_and_reused(shared: Path) -> None:
    mine = own(shared, os.geteuid())
    for _ in range(2):
        (cache, facts, keras), stderr = start(shared)
        assert (cache, facts, keras) == (str(mine), f"{os.geteuid()} 700", f"{mine}/keras")
        assert stderr == ""


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o750, 0o701])
def test_a_folder_accessible_to_others_is_not_used(shared: Path, mode: int) -> None:
    mine = own(shared, os.geteuid())
    mine.mkdir()
    mine.chmod(mode)
    (cache, facts, keras), stderr = start(shared)
    assert cache != str(mine)
    assert facts == f"{os.geteuid()} 700"
    assert keras.startswith(cache)
    assert stderr.count("\n") == 1
    assert str(mine) in stderr
    assert cache in stderr
    assert list(mine.iterdir()) == []


@pytest.mark.parametrize("leads", ["to a folder", "nowhere"])
def test_a_symbolic_link_is_not_followed(shared: Path, leads: str) -> None:
    elsewhere = shared / "elsewhere"
    if leads == "to a folder":
        elsewhere.mkdir(mode=0o700)
    own(shared, os.geteuid()).symlink_to(elsewhere)
    (cache, _, _), stderr = start(shared)
    assert cache != str(own(shared, os.geteuid()))
    assert stderr.count("\n") == 1
    assert not elsewhere.exists() or list(elsewhere.iterdir()) == []


@pytest.mark.needs("root")
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o777])
def test_a_folder_created_by_another_user_is_not_used(shared: Path, mode: int) -> None:
    planted = own(shared, NOBODY)
    (planted / "keras").mkdir(parents=True)
    (planted / "keras" / "keras.json").write_text('{"floatx": "float16"}')
    planted.chmod(mode)
    (cache, facts, keras), stderr = start(shared, user=NOBODY)
    assert facts == f"{NOBODY} 700"
    assert not Path(keras, "keras.json").exists()
    assert Path(cache).parent == shared
    assert stderr.count("\n") == 1
    assert str(planted) in stderr
    assert cache in stderr


def test_a_folder_given_by_the_user_is_used(shared: Path) -> None:
    named = shared / "named"
    (cache, _, keras), stderr = start(shared, ACCELBENCH_CACHE=str(named))
    assert (cache, keras, stderr) == (str(named), f"{named}/keras", "")
