# SPDX-License-Identifier: GPL-2.0-only
"""The PXImc Dispatcher where it is installed: below /opt/pximc."""

import gzip
import os
import re
import shutil
import subprocess

import pytest
from installed import built, run
from ntbrig.settings import CHECKOUT

SOURCES = CHECKOUT / "userlib/pximc-dispatcher"
HOUR = 3600


@pytest.fixture
def installer(tmp_path):
    """Install below a directory; return that and what was said."""

    def install(**settings):
        root = tmp_path / "root"
        env = os.environ | {"DESTDIR": str(root), "PREFIX": "/usr/local", "PXIMC_VENDORS": ""}
        env |= {"RIG_PROGRAMS": str(built())} | settings
        return root, run(CHECKOUT / "scripts/pximc.sh", "install", env=env).stderr

    return install


@pytest.fixture
def with_vendor(tmp_path, installer):
    """Install the Dispatcher with a vendor's library."""
    programs = tmp_path / "programs"
    programs.mkdir()
    shutil.copy2(f"{built()}/libpximc64.so", programs)
    run("cc", "-shared", "-fPIC", "-pthread", '-DVENDOR="A"', "-I", CHECKOUT / "userlib/include",
        "-o", programs / "libsome_vendor.so", SOURCES / "tests/c/vendor.c")
    return installer(RIG_PROGRAMS=str(programs), PXIMC_VENDORS="some-vendor")[0]


def functions(root):
    header = (root / "opt/pximc/include/pximc.h").read_text()
    return set(re.findall(r"_PXIMC_FUNC (PXIMC_\w+)\(", header))


def compiled(root, tmp_path, source):
    """A program, built as the manual says."""
    program = tmp_path / "program"
    lib = root / "opt/pximc/lib64"
    run("cc", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{root}/opt/pximc/include",
        "-o", program, source, f"-L{lib}", "-lpximc64", f"-Wl,-rpath,{lib}")
    return program


def listed(root, program):
    """What the program says of interfaces; the Dispatcher looks for vendors where it is."""
    env = os.environ | {"PXIMC_LIBRARY_PATH": f"{root}/opt/pximc/lib64", "A_INTERFACES": "7 8"}
    return run(program, input="find 10\n", env=env).stdout


def test_everything_is_below_one_directory(installer):
    """PXI-INSL-1, PXI-INSL-3, PXI-INSL-8, PXI-INSL-9, PXI-INSL-12."""
    root, said = installer()
    top = root / "opt/pximc"
    files = {str(path.relative_to(top)) for path in top.rglob("*") if not path.is_dir()}
    has_32 = "lib32/libpximc32.so" in files
    assert has_32 != ("no Dispatcher for 32-bit processes" in said)
    assert files - {"lib32/libpximc32.so"} == {
        "include/pximc.h",
        "lib64/cmake/pximc/pximc-config.cmake",
        "lib64/libpximc64.so",
        "lib64/pkgconfig/pximc.pc",
        "lib64/pximc64.so",
        "share/man/man3/pximc.3.gz",
        *(f"share/man/man3/{function}.3.gz" for function in functions(root)),
    }
    assert os.readlink(top / "lib") == "lib64"
    assert (top / "lib32").is_dir()
    assert (top / "lib64/pximc64.so").samefile(top / "lib/libpximc64.so")
    assert [path.name for path in root.iterdir()] == ["opt"]
    assert [path.name for path in (root / "opt").iterdir()] == ["pximc"]


def test_a_program_against_what_is_installed_finds_no_provider(installer, tmp_path):
    """PXI-INSL-1, PXI-INSL-8, PXI-DSP-3: the directory has the Dispatcher alone, twice."""
    root, _ = installer()
    shutil.copy(SOURCES / "tests/c/statuses.h", root / "opt/pximc/include")
    program = compiled(root, tmp_path, SOURCES / "tests/c/program.c")
    assert listed(root, program) == "find NO_PROVIDER 0:\n"


def test_a_vendors_library_is_linked_to_and_found(with_vendor, tmp_path):
    """PXI-INSL-10, PXI-INSL-11, PXI-REG-6: and the Dispatcher is there before it."""
    link = with_vendor / "opt/pximc/lib64/libsome_vendor.so"
    assert link.is_symlink()
    assert link.resolve() == with_vendor / "usr/local/lib/pximc/libsome_vendor.so"
    shutil.copy(SOURCES / "tests/c/statuses.h", with_vendor / "opt/pximc/include")
    program = compiled(with_vendor, tmp_path, SOURCES / "tests/c/program.c")
    assert listed(with_vendor, program) == "find SUCCESS 2: 7 8\n"


def test_libraries_for_32_bits_have_a_directory_of_their_own(installer, tmp_path):
    """PXI-INSL-8, PXI-INSL-10: by the names that processes of 32 bits look for."""
    files = {}
    for bits in (32, 64):
        directory = tmp_path / f"programs{bits}"
        directory.mkdir()
        for library in (f"libpximc{bits}.so", "libsome_vendor.so"):
            (directory / library).write_text(f"{library} for {bits} bits")
        files[bits] = str(directory)
    root, said = installer(
        RIG_PROGRAMS=files[64], PROGRAMS32=files[32], PXIMC_VENDORS="some-vendor"
    )
    assert said == ""
    for bits in (32, 64):
        directory = root / f"opt/pximc/lib{bits}"
        dispatcher, link = directory / f"libpximc{bits}.so", directory / "libsome_vendor.so"
        assert dispatcher.read_text() == f"libpximc{bits}.so for {bits} bits"
        assert link.is_symlink()
        assert link.read_text() == f"libsome_vendor.so for {bits} bits"


def test_a_newer_dispatcher_is_left_alone(installer):
    """PXI-REG-6: another vendor may have brought it; an older one is replaced."""
    root, _ = installer()
    library = root / "opt/pximc/lib64/libpximc64.so"
    ours = library.read_bytes()
    time = library.stat().st_mtime
    library.write_bytes(b"another")
    os.utime(library, (time + HOUR, time + HOUR))
    assert f"left alone, for it is newer: {library}" in installer()[1]
    assert library.read_bytes() == b"another"
    os.utime(library, (time - HOUR, time - HOUR))
    assert str(library) not in installer()[1]
    assert library.read_bytes() == ours


def test_a_directory_in_the_place_of_the_link_is_named(installer):
    """PXI-INSL-9: what is in it is nobody's to remove."""
    root, _ = installer()
    (root / "opt/pximc/lib").unlink()
    (root / "opt/pximc/lib").mkdir()
    with pytest.raises(AssertionError, match="has to be a link to lib64"):
        installer()


def test_the_manual_page_renders_and_has_all_functions(installer):
    """PXI-INSL-3."""
    root, _ = installer()
    page = root / "opt/pximc/share/man/man3/pximc.3.gz"
    shown = run("man", "--warnings", "-l", page, env=os.environ | {"MANWIDTH": "100"})
    assert shown.stderr == ""
    assert len(functions(root)) == 17
    assert functions(root) <= set(re.findall(r"\bPXIMC_\w+", shown.stdout))


def test_the_example_in_the_manual_compiles_and_runs(installer, tmp_path):
    """PXI-INSL-3: without a provider, it says so."""
    root, _ = installer()
    page = gzip.decompress((root / "opt/pximc/share/man/man3/pximc.3.gz").read_bytes()).decode()
    example = re.search(r'\.\\" BEGIN hello\.c\n(.*?)\.\\" END hello\.c\n', page, re.DOTALL)[1]
    source = tmp_path / "hello.c"
    source.write_text(example.replace("\\e", "\\"))
    program = compiled(root, tmp_path, source)
    env = os.environ | {"PXIMC_LIBRARY_PATH": f"{root}/opt/pximc/lib64"}
    result = subprocess.run([program], capture_output=True, text=True, timeout=60, env=env)
    assert (result.returncode, result.stderr) == (1, "interfaces: status 0x10001000\n")
