# SPDX-License-Identifier: GPL-2.0-only
"""The library of MCAPI where it is installed."""

import os
import re
import subprocess

import pytest
from installed import exports, install, run, shown
from ntbrig.settings import CHECKOUT

PLACE = "/opt/mcapi"


@pytest.fixture
def prefix(tmp_path):
    """Where it has been installed."""
    return install("mcapi.sh", tmp_path, PLACE)


def config(prefix, name, *options):
    """What pkg-config tells of a package, where it stands for this test."""
    env = os.environ | {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    define = f"--define-variable=prefix={prefix}"
    return run("pkg-config", define, *options, name, env=env).stdout.split()


def functions(prefix):
    headers = [(prefix / f"include/{name}.h").read_text() for name in ("mcapi", "mcapi_abb")]
    return set(re.findall(r"^extern .*\b(mcapi_\w+)\(", "".join(headers), re.M))


def example(prefix, name):
    """A program that the manual shows."""
    page = (prefix / "share/man/man3/mcapi.3").read_text()
    text = re.search(rf'\.\\" BEGIN {name}\n(.*?)\.\\" END {name}\n', page, re.DOTALL)[1]
    return text.replace("\\e", "\\")


def test_libraries_headers_and_manual_are_installed(prefix):
    files = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}
    assert files == {
        "include/mca.h",
        "include/mca_impl_spec.h",
        "include/mcapi.h",
        "include/mcapi-1.0/mcapi.h",
        "include/mcapi_abb.h",
        "include/mcapi_impl_spec.h",
        "include/mcapi_v1000_to_v2000.h",
        "lib/cmake/mcapi/mcapi-config.cmake",
        "lib/libmcapi.a",
        "lib/libmcapi.so",
        "lib/libmcapi.so.2",
        "lib/pkgconfig/mcapi-1.0.pc",
        "lib/pkgconfig/mcapi.pc",
        "bin/mcapi_bench",
        "bin/mcapi_ls",
        "share/man/man1/mcapi_bench.1",
        "share/man/man1/mcapi_ls.1",
        "share/man/man3/mcapi.3",
        *(f"share/man/man3/{function}.3" for function in functions(prefix)),
        "share/man/man5/mcapi.conf.5",
    }
    assert (prefix / "lib/libmcapi.so").readlink().name == "libmcapi.so.2"
    assert f"prefix={PLACE}\n" in (prefix / "lib/pkgconfig/mcapi.pc").read_text()


def test_the_library_has_the_functions_and_no_other_symbol(prefix):
    names = exports(prefix / "lib/libmcapi.so", "MCAPI_2.0")
    assert len(names) == 52
    assert set(names) == functions(prefix)


def test_the_manual_has_all_functions(prefix):
    """And it renders without a complaint."""
    page = shown(prefix / "share/man/man3/mcapi.3")
    assert functions(prefix) <= set(re.findall(r"\bmcapi_\w+", page))
    assert "MCAPI_CONFIG" in shown(prefix / "share/man/man5/mcapi.conf.5")


@pytest.mark.parametrize("static", (False, True))
def test_the_example_in_the_manual_compiles_and_runs(prefix, tmp_path, static):
    """By what pkg-config tells, shared and static; without the fabric it says what is missing."""
    source, program = tmp_path / "hello.c", tmp_path / "hello"
    source.write_text(example(prefix, "hello.c"))
    options = ["--cflags", "--libs", *(["--static"] if static else [])]
    flags = config(prefix, "mcapi", *options)
    flags = ["-l:libmcapi.a" if static and flag == "-lmcapi" else flag for flag in flags]
    run("cc", "-Wall", "-Wextra", "-Werror", "-o", program, source, *flags)
    assert ("libmcapi.so.2" in run("readelf", "-d", program).stdout) != static
    env = os.environ | {"LD_LIBRARY_PATH": str(prefix / "lib"), "MCAPI_CONFIG": "/dev/null"}
    result = subprocess.run([program], capture_output=True, text=True, timeout=60, env=env)
    said = "mcapi_initialize: MCAPI_ERR_NODE_INITFAILED\n"
    assert (result.returncode, result.stderr) == (1, said)


def test_a_program_of_1_0_is_compiled_by_what_pkg_config_tells(prefix, tmp_path):
    """MC-COMPAT-1"""
    program = tmp_path / "program"
    source = CHECKOUT / "userlib/mcapi-ffi/tests/c/version1.c"
    flags = config(prefix, "mcapi-1.0", "--cflags", "--libs")
    run("cc", "-Wall", "-Wextra", "-Werror", "-o", program, source, *flags)
    env = os.environ | {"LD_LIBRARY_PATH": str(prefix / "lib"), "MCAPI_CONFIG": "/dev/null"}
    assert run(program, env=env).stdout == ""
