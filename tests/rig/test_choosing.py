# SPDX-License-Identifier: GPL-2.0-only
"""The programs of `Documentation/choosing.md`, one for each interface: they are compiled as they stand
there, and do what the page says. The program of the README is one of them."""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from frames import wait_for_everyone
from ntbrig import mcapi, sisci, stack, vipl
from ntbrig.settings import CHECKOUT, stage_dir
from pximc import MODULES

PAGE = CHECKOUT / "Documentation/choosing.md"
README = CHECKOUT / "README.md"
PROGRAM = re.compile(r"^### (\w+)\n.*?^```c\n(.*?)^```", re.M | re.S)


class Interface(NamedTuple):
    """Where it is installed, its library, and what its programs need."""

    place: str
    library: str
    env: dict
    # What the program that speaks is told of the host of the one that listens.
    where: callable = lambda guest: []


INTERFACES = {
    "PXImc": Interface(
        "pximc", "pximc64", {"PXIMC_LIBRARY_PATH": str(stage_dir() / "opt/pximc/lib64")}
    ),
    "SISCI": Interface("sisci", "sisci", {"SISCI_CONF": sisci.CONFIG}, lambda guest: [4]),
    "VIPL": Interface("vipl", "vipl", vipl.ENV, lambda guest: [guest.name]),
    "MCAPI": Interface("mcapi", "mcapi", mcapi.ENV),
}


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    wait_for_everyone(*fabric.hosts)
    sisci.configure(dict(zip((4, 8), fabric.hosts)))
    for library in (vipl, mcapi):
        library.configure(fabric.hosts)
    return fabric


@pytest.fixture(scope="module")
def folder():
    """A place that guests see."""
    with tempfile.TemporaryDirectory(dir=CHECKOUT / "build") as directory:
        yield Path(directory)


def compiled(name, folder):
    """The program of an interface, linked to what is installed."""
    place = stage_dir() / "opt" / INTERFACES[name].place
    program = folder / name
    source = program.with_suffix(".c")
    source.write_text(dict(PROGRAM.findall(PAGE.read_text()))[name])
    flags = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror")
    paths = (f"-I{place}/include", f"-L{place}/lib", f"-Wl,-rpath,{place}/lib")
    library = f"-l{INTERFACES[name].library}"
    command = ["cc", *flags, *paths, "-o", program, source, library]
    subprocess.run(command, check=True, timeout=120)
    return program


def test_there_is_a_program_for_each_interface():
    assert [name for name, _ in PROGRAM.findall(PAGE.read_text())] == list(INTERFACES)


def test_the_program_of_the_readme_is_that_of_mcapi():
    programs = re.findall(r"^```c\n(.*?)^```", README.read_text(), re.M | re.S)
    assert programs == [dict(PROGRAM.findall(PAGE.read_text()))["MCAPI"]]


@pytest.mark.parametrize("name", INTERFACES)
def test_what_one_says_the_other_prints(fabric, folder, name):
    listens, speaks = fabric.hosts
    program, env = compiled(name, folder), INTERFACES[name].env
    listener = listens.spawn([program], timeout=120, env=env)
    try:
        sentence = "it is the same fabric"
        speaks.run([program, sentence, *INTERFACES[name].where(listens)], timeout=60, env=env)
        assert listener.wait(60).check().out == sentence + "\n"
    finally:
        listener.kill()
