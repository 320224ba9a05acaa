"""What `pip install send-once` gives: the built wheel, alone in an empty environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]
SOURCE = PACKAGE / "src"
SECONDS_MAX = 300
DRIVERS = ("psycopg", "psycopg_pool")

pytestmark = pytest.mark.xdist_group("wheel")  # built once, in one worker


@dataclass(frozen=True)
class Environment:
    """A virtual environment in which nothing was installed but the wheel."""

    folder: Path

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            [self.folder / "bin" / program, *arguments],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )

    def answer(self, code: str) -> str:
        """What the code prints."""
        done = self.run("python", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def _run(*command: str | Path) -> None:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, PACKAGE)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("empty")
    _run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    # Without --no-deps and without an index: a dependency would make this fail.
    _run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--quiet", wheel)
    return Environment(folder)


def test_one_distribution_is_installed_and_nothing_else(installed: Environment) -> None:
    names = installed.answer(
        "import json, importlib.metadata as m; print(json.dumps([d.name for d in m.distributions()]))"
    )
    assert json.loads(names) == ["send-once"]


def test_the_library_is_imported_from_where_it_was_installed(installed: Environment) -> None:
    assert Path(installed.answer("import send_once; print(send_once.__file__)")).is_relative_to(installed.folder)


def test_importing_it_loads_no_driver_no_database_and_no_event_loop(installed: Environment) -> None:
    loaded = installed.answer("import sys, send_once; print(*sorted(sys.modules))").split()
    assert set(loaded) & {*DRIVERS, "asyncio", "sqlite3", "smtplib", "ssl", "argparse"} == set()


def test_a_send_is_guarded_and_audited_with_nothing_else_installed(installed: Environment) -> None:
    code = (
        "from send_once import FileStore, Ledger\n"
        "ledger = Ledger(FileStore('sends.jsonl'))\n"
        "print(*[ledger.once('k', lambda: 'm').outcome for _ in range(2)])\n"
    )
    assert installed.answer(code) == "sent duplicate"
    audited = installed.run("send-once", "audit", "sends.jsonl")
    assert audited.returncode == 0, audited.stderr


def test_the_command_line_tells_its_version(installed: Environment, wheel: Path) -> None:
    told = installed.run("send-once", "--version")
    assert (told.returncode, told.stdout) == (0, f"{wheel.name.split('-')[1]}\n")
    assert installed.run("python", "-m", "send_once", "--version").stdout == told.stdout


def test_type_checkers_are_told_that_it_is_typed(wheel: Path) -> None:
    assert "send_once/py.typed" in zipfile.ZipFile(wheel).namelist()


def test_the_wheel_holds_the_sources_and_nothing_else(wheel: Path) -> None:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    sources = [path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sorted(names) == sorted(path.relative_to(SOURCE).as_posix() for path in sources)


def test_the_metadata_ask_for_python_and_for_drivers_only_as_extras(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = HeaderParser().parsestr(archive.read(path).decode())
    assert (metadata["Requires-Python"], metadata["License-Expression"]) == (">=3.11", "MIT")
    assert [need for need in metadata.get_all("Requires-Dist", []) if "extra ==" not in need] == []


def test_the_source_archive_holds_what_the_wheel_needs_and_no_leftovers(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {Path(*Path(name).parts[1:]).as_posix() for name in opened.getnames()}
    tops = {name.split("/")[0] for name in names}
    assert tops <= {"src", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "PKG-INFO", ".gitignore"}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "src/send_once/py.typed"} <= names


def test_every_public_name_can_be_imported_and_a_missing_driver_is_named_with_its_remedy(
    installed: Environment,
) -> None:
    code = (
        "import send_once\n"
        "for name in send_once.__all__:\n"
        "    getattr(send_once, name)\n"
        "try:\n"
        "    send_once.PostgresStore('postgresql://localhost/x')\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    assert "send-once[postgres]" in installed.answer(code)
