import contextlib
import errno
import os
import pathlib
import re
import socket
import stat
import subprocess
import sys

import pytest

import keras_bert.program.atomic_output
from keras_bert.program.atomic_output import (
    atomic_file,
    atomic_folder,
    check_output_file,
    check_output_folder,
    explain_write_errors,
    replacement_folder,
)
from keras_bert.program.errors import InputError


def _write_and_raise(file, error):
    file.write(b"half")
    raise error


def test_file_appears_whole_under_its_name(tmp_path):
    with atomic_file(tmp_path / "new" / "out.txt") as file:
        file.write(b"all of it")
        assert not (tmp_path / "new" / "out.txt").exists()
    assert (tmp_path / "new" / "out.txt").read_bytes() == b"all of it"
    assert os.listdir(tmp_path / "new") == ["out.txt"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, RuntimeError])
def test_an_error_leaves_the_old_file_and_neither_a_folder_nor_temporary_files(tmp_path, error):
    (tmp_path / "out.txt").write_bytes(b"old")
    with pytest.raises(error), atomic_file(tmp_path / "out.txt") as file:
        _write_and_raise(file, error)
    with pytest.raises(error), atomic_folder(tmp_path / "model") as folder, open(f"{folder}/a", "wb") as file:
        _write_and_raise(file, error)
    assert (tmp_path / "out.txt").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_ctrl_c_during_the_check_leaves_nothing(tmp_path, monkeypatch):
    mkdir = os.mkdir

    def stopped(path, *args):
        mkdir(path, *args)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "mkdir", stopped)
    with pytest.raises(KeyboardInterrupt):
        check_output_file(tmp_path / "out.txt")
    assert os.listdir(tmp_path) == []


def test_an_output_that_is_also_an_input_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "text.txt").write_text("text")
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "name").symlink_to("folder/text.txt")
    for output in ("folder/text.txt", "./folder/../folder/text.txt", tmp_path / "link" / "text.txt", "name"):
        with pytest.raises(InputError, match="text.txt is read by this command|name is read by this command"):
            check_output_file(output, ["other", "folder/text.txt"])
    check_output_file("folder/new.txt", ["folder/text.txt"])


def test_folder_appears_whole_under_its_name(tmp_path):
    with atomic_folder(tmp_path / "model") as folder:
        with open(os.path.join(folder, "a"), "w") as file:
            file.write("a")
        assert not (tmp_path / "model").exists()
        assert not os.path.basename(folder).isdigit()
    assert os.listdir(tmp_path / "model") == ["a"]
    assert os.listdir(tmp_path) == ["model"]


def test_a_folder_with_files_is_not_overwritten(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").write_text("mine")
    with pytest.raises(InputError, match="model is not empty. Remove it or give another name"):
        check_output_folder(tmp_path / "model")
    with pytest.raises(InputError, match="is a file. Give the name of a folder"):
        check_output_folder(tmp_path / "model" / "mine")
    with pytest.raises(InputError, match="a part of the path is a file"):
        check_output_folder(tmp_path / "model" / "mine" / "below")


def test_a_folder_takes_the_place_of_another_whole(tmp_path):
    (tmp_path / "model").mkdir(mode=0o700)
    (tmp_path / "model" / "old").write_text("old")
    (tmp_path / "link").symlink_to("model")
    with pytest.raises(ZeroDivisionError), replacement_folder(tmp_path / "model") as folder:
        pathlib.Path(folder, "new").write_text(str(1 / 0))
    assert os.listdir(tmp_path / "model") == ["old"]
    with replacement_folder(tmp_path / "link") as folder:
        pathlib.Path(folder, "new").write_text("new")
        assert os.listdir(tmp_path / "model") == ["old"]
    assert os.listdir(tmp_path / "model") == ["new"]
    assert (sorted(os.listdir(tmp_path)), mode_of(tmp_path / "model")) == (["link", "model"], 0o700)


def test_a_folder_that_cannot_be_renamed_is_left_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").write_text("old")
    rename = os.rename

    def fail_to_publish(source, target):
        if os.path.exists(os.path.join(source, "new")):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), target)
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail_to_publish)
    with pytest.raises(InputError, match="it is in use"), replacement_folder(tmp_path / "model") as folder:
        pathlib.Path(folder, "new").write_text("new")
    assert (os.listdir(tmp_path), os.listdir(tmp_path / "model")) == (["model"], ["old"])


def test_a_folder_is_refused_as_an_output_file(tmp_path):
    with pytest.raises(InputError, match="it is a folder. Give the name of a file"), atomic_file(tmp_path):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(InputError, match="permission denied"):
        check_output_folder(tmp_path / "locked" / "model")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT])
def test_errors_of_the_system_become_one_clear_line(tmp_path, number):
    with pytest.raises(InputError, match=r"Cannot write .*out.txt: .*[a-z]"), atomic_file(tmp_path / "out.txt"):
        raise OSError(number, os.strerror(number))
    assert os.listdir(tmp_path) == []


def test_tensorflow_full_disk_error_is_recognised():
    # TensorFlow raises ResourceExhaustedError with the system's text in it.
    with pytest.raises(InputError, match="Cannot write out: no space is left"), explain_write_errors("out"):
        raise RuntimeError("/out/variables; No space left on device")


def write(path, content=b"new"):
    with atomic_file(path) as file:
        file.write(content)


def write_folder(path, *names):
    with atomic_folder(path) as folder:
        for name in names:
            pathlib.Path(folder, name).write_text(name)


def mode_of(path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("exists", [True, False])
def test_a_file_is_written_through_a_link(tmp_path, exists):
    (tmp_path / "disk").mkdir()
    if exists:
        (tmp_path / "disk" / "a").write_bytes(b"old")
    (tmp_path / "link").symlink_to("disk/a")
    write(tmp_path / "link")
    assert os.readlink(tmp_path / "link") == "disk/a"
    assert (tmp_path / "disk" / "a").read_bytes() == b"new"
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(InputError, match="circle: its symbolic links form a circle"):
        write(tmp_path / "circle")


def test_the_parent_of_a_link_is_the_parent_of_its_target(tmp_path):
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/deep")
    write(f"{tmp_path}/link/../name")
    assert (tmp_path / "real" / "name").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_is_written_through_a_link(tmp_path, exists):
    if exists:
        (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    check_output_folder(tmp_path / "link")
    write_folder(tmp_path / "link", "a")
    assert (tmp_path / "link").is_symlink()
    assert os.listdir(tmp_path / "disk") == ["a"]
    with pytest.raises(InputError, match="link is not empty"):
        check_output_folder(tmp_path / "link")
    (tmp_path / "file").write_text("")
    (tmp_path / "other").symlink_to("file")
    with pytest.raises(InputError, match="other is a file. Give the name of a folder"):
        check_output_folder(tmp_path / "other")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444])
def test_a_file_and_a_folder_keep_their_modes(tmp_path, mode):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(mode)
    with atomic_file(tmp_path / "a") as file:
        assert mode_of(os.path.dirname(file.name)) == 0o700, "nobody else may read it meanwhile"
        file.write(b"new")
    assert (mode_of(tmp_path / "a"), (tmp_path / "a").read_bytes()) == (mode, b"new")
    (tmp_path / "folder").mkdir(mode=0o700)
    write_folder(tmp_path / "folder", "a")
    assert mode_of(tmp_path / "folder") == 0o700


def test_a_file_is_on_the_disk_before_it_is_renamed(tmp_path, monkeypatch):
    events = []

    def name_of(number):
        path = os.readlink(f"/proc/self/fd/{number}")
        return re.sub(r"\.partial-\w+(/sub)?", "", os.path.relpath(path, tmp_path))

    def note(kind, function, name):
        def noting(*arguments):
            events.append((kind, name(*arguments)))
            return function(*arguments)

        monkeypatch.setattr(os, kind, noting)

    note("fsync", os.fsync, name_of)
    note("rename", os.rename, lambda old, new: os.path.relpath(new, tmp_path))
    note("replace", os.replace, lambda old, new: os.path.relpath(new, tmp_path))
    write(tmp_path / "a")
    assert events == [("fsync", ".a/a"), ("fsync", ".a"), ("replace", "a"), ("fsync", ".")]
    events.clear()
    with atomic_folder(tmp_path / "b") as folder:
        os.mkdir(os.path.join(folder, "sub"))
        pathlib.Path(folder, "sub", "c").write_text("c")
    assert events == [("fsync", ".b/c"), ("fsync", ".b"), ("fsync", ".b"), ("rename", "b"), ("fsync", ".")]


@pytest.fixture
def mounted(monkeypatch):
    """Returns a function that makes a path look like a mount point: it cannot be renamed, removed or replaced."""
    points = set()
    monkeypatch.setattr(keras_bert.program.atomic_output, "_is_mount_point", lambda path: os.fspath(path) in points)

    def busy_at(function):
        def checked(*paths, **options):
            if points & set(map(os.fspath, paths)):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), paths[0])
            return function(*paths, **options)

        return checked

    for name in ("rename", "replace", "rmdir"):
        monkeypatch.setattr(os, name, busy_at(getattr(os, name)))
    return lambda path: points.add(os.fspath(path))


def test_a_mount_point_is_filled_in_place(tmp_path, mounted):
    mounted(tmp_path / "disk")
    (tmp_path / "disk" / "lost+found").mkdir(parents=True)
    write_folder(tmp_path / "disk", "a", "b")
    assert sorted(os.listdir(tmp_path / "disk")) == ["a", "b", "lost+found"]
    assert os.listdir(tmp_path) == ["disk"]
    with pytest.raises(InputError, match="disk is not empty"):
        check_output_folder(tmp_path / "disk")


def test_files_that_appear_in_a_mount_point_meanwhile_are_kept(tmp_path, mounted):
    mounted(tmp_path / "disk")
    (tmp_path / "disk").mkdir()
    writing = contextlib.ExitStack()
    folder = writing.enter_context(atomic_folder(tmp_path / "disk"))
    pathlib.Path(folder, "a").write_text("mine")
    (tmp_path / "disk" / "a").write_text("theirs")
    with pytest.raises(InputError, match="another process has written there in the meantime"):
        writing.close()
    assert [path.read_text() for path in (tmp_path / "disk").iterdir()] == ["theirs"]
    (tmp_path / "disk" / "a").unlink()
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "disk"):
        raise ZeroDivisionError
    assert list((tmp_path / "disk").iterdir()) == []


def test_a_mount_point_is_not_replaced(tmp_path, mounted):
    mounted(tmp_path / "disk")
    (tmp_path / "disk").mkdir()
    with (
        pytest.raises(InputError, match="disk: it is a mount point, so no new folder"),
        replacement_folder(tmp_path / "disk"),
    ):
        pass


def test_a_file_that_cannot_be_replaced_is_refused_before_the_work(tmp_path, mounted):
    (tmp_path / "a").write_bytes(b"old")
    mounted(tmp_path / "a")
    with pytest.raises(InputError, match="a: it is a mount point, so no new file can take its place"):
        check_output_file(tmp_path / "a")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket"))
        for path in ("/dev/null", tmp_path / "pipe", tmp_path / "socket"):
            with pytest.raises(InputError, match="it is a device, not a file"):
                check_output_file(path)
    with pytest.raises(InputError, match="the name is too long"):
        check_output_file(tmp_path / ("x" * 300))
    check_output_file(tmp_path / "new" / "b")
    assert sorted(os.listdir(tmp_path)) == ["a", "new", "pipe", "socket"]
    assert os.listdir(tmp_path / "new") == []


def test_real_mounts_are_recognised(tmp_path):
    program = """
import os, sys
from keras_bert.program.atomic_output import atomic_folder, check_output_file
from keras_bert.program.errors import InputError
for name in ("disk", "same disk"):
    with atomic_folder(os.path.join(sys.argv[1], name)) as folder:
        open(os.path.join(folder, "a"), "w").close()
    print(os.listdir(os.path.join(sys.argv[1], name)))
try:
    check_output_file(os.path.join(sys.argv[1], "file"))
except InputError as error:
    print(error)
"""
    for name in ("disk", "same disk", "other"):
        (tmp_path / name).mkdir()
    for name in ("file", "other file"):
        (tmp_path / name).write_text("")
    # In a separate namespace: other processes do not see these mounts, and they end with it.
    script = (
        'cd "$1" && mount -t tmpfs none disk && mount --bind other "same disk" && mount --bind "other file" file '
        '&& shift && exec "$@"'
    )
    line = ["unshare", "-m", "sh", "-c", script, "sh", tmp_path, sys.executable, "-c", program, tmp_path]
    try:
        result = subprocess.run(line, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if result.returncode and ("unshare" in result.stderr or "mount:" in result.stderr):
        pytest.skip("mounts need a privilege")
    assert result.stdout.splitlines()[:2] == ["['a']", "['a']"], result.stderr
    assert "file: it is a mount point" in result.stdout
