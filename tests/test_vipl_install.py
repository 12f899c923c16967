# SPDX-License-Identifier: GPL-2.0-only
"""The VI Provider Library where it is installed."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from installed import exports, install, run, shown

PLACE = "/opt/vipl"
CUSTOMARY = Path(__file__).parent / "programs/vipl_customary.c"
TOOLS = ("vi_copy", "vi_perf")


@pytest.fixture
def prefix(tmp_path):
    """Where it has been installed."""
    return install("vipl.sh", tmp_path, PLACE)


def config(prefix, *options):
    """What pkg-config tells of it, where it stands for this test."""
    env = os.environ | {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    define = f"--define-variable=prefix={prefix}"
    return run("pkg-config", define, *options, "vipl", env=env).stdout.split()


def functions(prefix):
    return set(re.findall(r"^VIP_RETURN (Vip\w+)\(", (prefix / "include/vipl.h").read_text(), re.M))


def enumerators(header, kind):
    """The names of an enumeration's values."""
    values = re.search(r"enum \w* ?\{([^}]*)\} " + kind + ";", header)[1]
    return re.findall(r"VIP_\w+", values)


def test_libraries_header_tools_and_manual_are_installed(prefix):
    files = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}
    assert files == {
        "include/vipl.h",
        "lib/cmake/vipl/vipl-config.cmake",
        "lib/libvipl.a",
        "lib/libvipl.so",
        "lib/libvipl.so.1",
        "lib/pkgconfig/vipl.pc",
        "share/man/man3/vipl.3",
        *(f"share/man/man3/{function}.3" for function in functions(prefix)),
        "share/man/man5/vipl.conf.5",
        *(f"bin/{tool}" for tool in TOOLS),
        *(f"share/man/man1/{tool}.1" for tool in TOOLS),
    }
    assert (prefix / "lib/libvipl.so").readlink().name == "libvipl.so.1"
    assert f"prefix={PLACE}\n" in (prefix / "lib/pkgconfig/vipl.pc").read_text()


def test_the_library_has_the_functions_and_no_other_symbol(prefix):
    """VI-CONF-6, VI-CONF-3"""
    names = exports(prefix / "lib/libvipl.so", "VIPL_1.0")
    assert len(names) == 41
    assert set(names) == functions(prefix)


def test_the_manual_has_all_functions(prefix):
    """VI-CONF-3: and it renders without a complaint."""
    page = shown(prefix / "share/man/man3/vipl.3")
    assert len(functions(prefix)) == 41
    assert functions(prefix) <= set(re.findall(r"\bVip\w+", page))
    assert "VIPL_CONF" in shown(prefix / "share/man/man5/vipl.conf.5")


def fields(header):
    """The fields of each structure or union."""
    kinds = re.findall(r"(?:struct|union)\w* ?\w* ?\{([^}]*)\} (VIP_\w+);", header)
    field = r"(\w+)(?:\[\d+\])?;"
    return {name: re.findall(field, body) for body, name in kinds}


def test_the_manual_explains_all_names_of_the_header(prefix):
    """Constants, return values, states, errors, structures and their fields."""
    header = (prefix / "include/vipl.h").read_text()
    kinds = ("VIP_RETURN", "VIP_ERROR_CODE", "VIP_VI_STATE", "VIP_RESOURCE_CODE")
    values = {name for kind in kinds for name in enumerators(header, kind)}
    constants = set(re.findall(r"#define (VI\w+)", header))
    structures = fields(header)
    members = {field for of_one in structures.values() for field in of_one}
    assert (len(values), len(constants), len(structures)) == (16 + 11 + 4 + 4, 35, 12)
    assert {"HostAddress", "LocalNicAddress", "Remote", "DS", "EnableRdmaRead"} <= members
    page = set(re.findall(r"\w+", shown(prefix / "share/man/man3/vipl.3")))
    assert sorted((values | constants | set(structures) | members) - page) == []


def test_the_manual_says_what_programs_should_do(prefix):
    """VI-THR-12, VI-CQ-15"""
    page = " ".join(shown(prefix / "share/man/man3/vipl.3").split())
    assert "Use either the Done or the Wait functions on a queue, not both at once" in page
    assert "With a completion queue, take its entry first, and then the descriptor" in page


@pytest.mark.parametrize("static", (False, True))
def test_the_example_in_the_manual_compiles_and_runs(prefix, tmp_path, static):
    """VI-CONF-6: by what pkg-config tells, and with the archive in the place of the library; without
    the fabric it says what is missing."""
    page = (prefix / "share/man/man3/vipl.3").read_text()
    example = re.search(r'\.\\" BEGIN hello\.c\n(.*?)\.\\" END hello\.c\n', page, re.DOTALL)[1]
    source, program = tmp_path / "hello.c", tmp_path / "hello"
    source.write_text(example.replace("\\e", "\\"))
    flags = config(prefix, "--cflags", "--libs", *(["--static"] if static else []))
    flags = ["-l:libvipl.a" if static and flag == "-lvipl" else flag for flag in flags]
    run("cc", "-Wall", "-Wextra", "-Werror", "-o", program, source, *flags)
    needed = run("readelf", "-d", program).stdout
    assert ("libvipl.so.1" in needed) != static
    env = os.environ | {"LD_LIBRARY_PATH": str(prefix / "lib")}
    result = subprocess.run([program], capture_output=True, text=True, timeout=60, env=env)
    assert (result.returncode, result.stderr) == (1, "VipOpenNic: 3\n")


@pytest.mark.parametrize("dialect", (("-std=c89",), ("-ansi", "-m32"), ("-std=c99",)))
def test_a_program_of_the_1990s_is_compiled_without_a_warning(prefix, dialect):
    """Its source is strictly of its dialect, and needs the header alone."""
    flags = (*dialect, "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only")
    run("cc", *flags, f"-I{prefix}/include", CUSTOMARY)


def test_the_library_can_be_loaded_by_name(prefix, tmp_path):
    """VI-CONF-6: all functions are found in a library that is loaded while a program runs."""
    calls = "\n".join(f'\tif (!dlsym(library, "{name}")) return 2;' for name in functions(prefix))
    source, program = tmp_path / "load.c", tmp_path / "load"
    source.write_text(
        "#include <dlfcn.h>\nint main(void)\n{\n"
        '\tvoid *library = dlopen("libvipl.so.1", RTLD_NOW);\n\tif (!library) return 1;\n'
        f"{calls}\n\treturn dlclose(library);\n}}\n"
    )
    run("cc", "-Wall", "-Wextra", "-Werror", "-o", program, source, "-ldl")
    run(program, env=os.environ | {"LD_LIBRARY_PATH": str(prefix / "lib")})


@pytest.mark.parametrize(
    ("tool", "commands"),
    (("vi_perf", ("server", "client")), ("vi_copy", ("receive", "send"))),
)
def test_the_manual_of_a_tool_has_all_that_its_help_has(prefix, tool, commands):
    page = shown(prefix / f"share/man/man1/{tool}.1")
    for command in commands:
        told = run(prefix / "bin" / tool, command, "--help").stdout
        options = set(re.findall(r"(?<!\S)--?[a-zA-Z][a-z]*", told))
        assert {"--patience", "--help"} <= options
        # Hyphens at the ends of lines are the formatter's.
        assert options <= set(re.findall(r"--?[a-zA-Z][a-z]*", page))
        assert command in page


def test_a_tool_without_the_fabric_says_what_is_missing(prefix):
    env = os.environ | {"VIPL_CONF": "/dev/null"}
    command = [prefix / "bin/vi_perf", "client", "4"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    assert result.returncode == 1
    assert result.stderr.startswith("FAILED: VipOpenNic: ")
