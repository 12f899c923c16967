# SPDX-License-Identifier: GPL-2.0-only
"""The library of SISCI where it is installed."""

import os
import re
import subprocess

import pytest
from installed import install, run, shown


TOOLS = (
    "sci_dmabench", "sci_intr_bench", "sci_probe", "sci_query", "sci_rpc", "sci_shmem", "scibench", "scipp"
)  # fmt: skip


@pytest.fixture
def prefix(tmp_path):
    """Where it has been installed."""
    return install("sisci.sh", tmp_path, "/opt/sisci")


def functions(prefix):
    return set(re.findall(r"\b(SCI[A-Z]\w+)\(", (prefix / "include/sisci_api.h").read_text()))


def test_library_headers_tools_and_manual_are_installed(prefix):
    """SI-ABI-1"""
    files = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()}
    # Links, which test_install.py looks at.
    files = {path for path in files if not path.startswith("lib/sisci/bin/")}
    assert files == {
        "include/sisci_api.h",
        "include/sisci_error.h",
        "include/sisci_types.h",
        "lib/cmake/sisci/sisci-config.cmake",
        "lib/libsisci.a",
        "lib/libsisci.so",
        "lib/pkgconfig/sisci.pc",
        "share/man/man3/sisci.3",
        *(f"share/man/man3/{function}.3" for function in functions(prefix)),
        "share/man/man5/sisci.conf.5",
        *(f"bin/{tool}" for tool in TOOLS),
        *(f"share/man/man1/{tool}.1" for tool in TOOLS),
    }


def test_the_manual_has_all_functions(prefix):
    """SI-ABI-2: and it renders without a complaint."""
    page = shown(prefix / "share/man/man3/sisci.3")
    assert len(functions(prefix)) == 84
    assert functions(prefix) <= set(re.findall(r"\bSCI\w+", page))
    assert shown(prefix / "share/man/man3/SCIOpen.3") == page
    assert "node" in shown(prefix / "share/man/man5/sisci.conf.5")


def test_the_manual_says_what_counting_costs(prefix):
    """SI-CRINT-7"""
    page = " ".join(shown(prefix / "share/man/man3/sisci.3").split())
    assert "stores in a segment beside a plain interrupt counts at less cost" in page


@pytest.mark.parametrize("tool", TOOLS)
def test_the_manual_of_a_tool_has_all_that_its_help_has(prefix, tool):
    page = shown(prefix / f"share/man/man1/{tool}.1")
    told = run(prefix / "bin" / tool, "--help").stdout
    options = set(re.findall(r"(?<!\S)--?[a-zA-Z][a-z]*", told))
    assert {"--json", "--adapter", "--help"} <= options
    # Hyphens at the ends of lines are the formatter's.
    assert options <= set(re.findall(r"--?[a-zA-Z][a-z]*", page))


def test_a_tool_without_the_fabric_says_what_is_missing(prefix):
    env = os.environ | {"SISCI_CONF": "/dev/null"}
    command = [prefix / "bin/sci_probe", "4"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    assert result.returncode == 1
    assert result.stderr.startswith("FAILED: SCIOpen: ")


def test_the_example_in_the_manual_compiles_and_runs(prefix, tmp_path):
    """SI-ABI-1: without the fabric it says what is missing."""
    page = (prefix / "share/man/man3/sisci.3").read_text()
    example = re.search(r'\.\\" BEGIN hello\.c\n(.*?)\.\\" END hello\.c\n', page, re.DOTALL)[1]
    source, program = tmp_path / "hello.c", tmp_path / "hello"
    source.write_text(example.replace("\\e", "\\"))
    run("cc", "-Wall", "-Wextra", "-Werror", f"-I{prefix}/include", "-o", program, source,
        f"-L{prefix}/lib", "-lsisci", f"-Wl,-rpath,{prefix}/lib")
    env = os.environ | {"SISCI_CONF": "/dev/null"}
    result = subprocess.run([program], capture_output=True, text=True, timeout=60, env=env)
    assert (result.returncode, result.stderr) == (1, "SCIOpen: system error, see errno\n")
