# SPDX-License-Identifier: GPL-2.0-only
"""The packages of `make deb`: what they are made of, which is looked at in every run; and, in
`make test KERNEL=stock`, how they are built, installed, upgraded and removed in Debian 13, that programs are
built with them, and that DKMS builds the modules for Debian's own kernel."""

import re
import subprocess
from pathlib import Path

import pytest
from chroot import Root
from installed import run
from ntbrig.settings import CHECKOUT, built_kernel, flavour
from test_install import PRODUCT, built_modules

DEBIAN = CHECKOUT / "debian"
OUT = CHECKOUT / "build/deb"
# Where tests with guests find what DKMS has built.
MODULES = CHECKOUT / "build/modules/dkms"
LIBRARIES = ("mcapi", "pximc", "sisci", "vipl")
NTB = {
    "ntb", "ntb_hw_amd", "ntb_hw_epf", "ntb_hw_idt", "ntb_hw_intel", "ntb_hw_switchtec", "ntb_netdev",
    "ntb_transport", "switchtec",
}  # fmt: skip
LOWER = "1.0.0+older"
# Compiles the crates of a kernel.
LONG = 3600

built = pytest.mark.skipif(flavour() != "stock", reason="packages are built by: make test KERNEL=stock")


def names(field, text):
    return re.findall(rf"^{field}: (\S+)", text, re.M)


def version():
    return re.match(r"pximc-ntb \((.*)\)", (DEBIAN / "changelog").read_text())[1]


# --- what they are made of ------------------------------------------------------


def test_each_library_has_a_package_for_programs_and_one_for_their_makers():
    packages = set(names("Package", (DEBIAN / "control").read_text()))
    assert packages == {
        "pximc-ntb-common", "pximc-ntb-dev", "pximc-ntb-dkms", "pximc-ntb-doc", "pximc-ntb-tools",
        "libmcapi2", "libmcapi-dev", "libpximc64", "libpximc-dev", "libsisci1", "libsisci-dev",
        "libvipl1", "libvipl-dev",
    }  # fmt: skip
    for path in DEBIAN.iterdir():
        if path.suffix in (".install", ".links", ".symbols", ".dkms", ".lintian-overrides", ".docs"):
            assert path.stem in packages


def dkms_modules(tmp_path, *options):
    """The modules that DKMS builds for a kernel with these options."""
    config = tmp_path / "include/config/auto.conf"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("".join(f"CONFIG_{option}=y\n" for option in options))
    script = '. "$1"; printf "%s\\n" "${BUILT_MODULE_NAME[@]}"'
    told = run("bash", "-euc", script, "dkms", DEBIAN / "pximc-ntb-dkms.dkms",
        env={"kernel_source_dir": str(tmp_path), "PATH": "/usr/bin:/bin"})
    return told.stdout.split()


def test_dkms_builds_the_modules_of_the_product(tmp_path):
    """Those of Kbuild, and NTB core where the kernel has none."""
    assert PRODUCT == built_modules("MP_MODULES=product")
    assert set(dkms_modules(tmp_path, "NTB", "DIBS")) == PRODUCT
    assert set(dkms_modules(tmp_path, "NTB")) == PRODUCT - {"mp_dibs"}
    assert set(dkms_modules(tmp_path, "RUST")) == PRODUCT - {"mp_dibs"} | NTB


def test_dkms_has_the_sources_of_all_modules():
    """Each object that Kbuild builds for the product is below a place that is packaged."""
    lines = (DEBIAN / "pximc-ntb-dkms.install").read_text().splitlines()
    packaged = tuple(line.split()[0].rstrip("*") for line in lines)
    objects = re.findall(r"^(\w+)-y :=((?:.*\\\n)*.*)", (CHECKOUT / "Kbuild").read_text(), re.M)
    assert PRODUCT < {module for module, _ in objects}
    for module, parts in objects:
        parts = parts.replace("\\\n", "").split()
        assert module not in PRODUCT or all(part.startswith(packaged) for part in parts), module


# --- built and installed --------------------------------------------------------


@pytest.fixture(scope="module")
def packages():
    """Of the changelog's version, by their names."""
    return by_name(version())


def by_name(version):
    found = {path.name.split("_")[0]: path for path in OUT.glob(f"*_{version}_*.deb")}
    assert set(found) == set(names("Package", (DEBIAN / "control").read_text()))
    return found


@pytest.fixture(scope="module")
def unpacked(packages, tmp_path_factory):
    place = tmp_path_factory.mktemp("unpacked")
    for path in packages.values():
        run("dpkg", "-x", path, place)
    return place


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Debian 13 with compilers."""
    root = Root(built_kernel("stock") / "root", tmp_path_factory.mktemp("root"), CHECKOUT / "build")
    root.apt("update")
    root.apt("install", "systemd-standalone-sysusers", "gcc", "libc6-dev", "pkgconf", "cmake", "dkms")
    return root


@pytest.fixture(scope="module")
def installed(root, packages):
    root.apt("install", *in_root(packages))
    return root


def in_root(packages):
    return [f"/shared/deb/{path.name}" for path in packages.values()]


@built
def test_lintian_has_nothing_to_say():
    changes = OUT / f"pximc-ntb_{version()}_amd64.changes"
    told = subprocess.run(
        ["lintian", "--allow-root", "--tag-display-limit", "0", "--fail-on", "error,warning", changes],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert (told.returncode, told.stdout) == (0, "")


@built
def test_no_path_of_the_machine_is_in_what_is_built(unpacked):
    for place in (CHECKOUT, Path.home()):
        if str(place) != "/":
            found = subprocess.run(
                ["grep", "-rlF", f"{place}/", unpacked], capture_output=True, text=True, timeout=120
            )
            assert found.stdout == ""


@built
@pytest.mark.timeout(LONG)
def test_packages_are_installed_upgraded_removed_and_purged(root, packages):
    """The group and the modules' sources come and go with them; nothing of them is left."""
    run_long(CHECKOUT / "scripts/deb.sh", LOWER)
    older = by_name(LOWER)
    every_file = "find / -xdev -path /tmp -prune -o -print"
    before = root.shell(every_file)
    root.apt("install", *in_root(older))
    assert "mp:" in root.shell("getent group mp")
    assert root.shell("ls /usr/src | grep pximc") == f"pximc-ntb-{LOWER}\n"
    root.apt("install", *in_root(packages))
    assert root.shell("ls /usr/src | grep pximc") == f"pximc-ntb-{version()}\n"
    assert root.shell("dkms status") == f"pximc-ntb/{version()}: added\n"
    root.apt("remove", *packages)
    root.run("dpkg", "--purge", *packages)
    left = set(root.shell(every_file).splitlines()) - set(before.splitlines())
    ours = re.compile(r"/(lib)?(mcapi|mp-fabric|ntbctl|_ntbctl|pximc|sci|vipl|vi_)[^/]*$")
    assert not [path for path in left if ours.search(path)]
    assert root.shell("dkms status") == ""


def run_long(*command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
    assert result.returncode == 0, result.stderr
    return result


# A call of each library, and what it says without the fabric.
PROGRAMS = {
    "mcapi": (
        "#include <mcapi.h>\nint main(void) { mcapi_info_t info; mcapi_status_t status;"
        " mcapi_initialize(1, 1, 0, 0, &info, &status); return status == MCAPI_SUCCESS; }"
    ),
    "pximc": "#include <pximc.h>\nint main(void) { PXIMC_cleanup(); return 0; }",
    "sisci": (
        "#include <sisci_api.h>\nint main(void) { sci_error_t error; SCIInitialize(0, &error);"
        " return error != SCI_ERR_OK; }"
    ),
    "vipl": (
        "#include <vipl.h>\nint main(void) { VIP_NIC_HANDLE nic;"
        ' return VipOpenNic("nonesuch", &nic) == VIP_SUCCESS; }'
    ),
}


@built
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_program_is_built_by_what_pkg_config_tells(installed, library):
    """And runs, as far as it can without the fabric."""
    source(installed, library)
    installed.shell(f"cd /tmp/{library} && cc -Wall -Werror -o by-hand program.c "
                    f"$(pkg-config --cflags --libs {library}) && ./by-hand")


@built
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_program_is_built_by_cmake(installed, library):
    place = source(installed, library)
    (place / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.18)\nproject(program C)\nfind_package({library} REQUIRED)\n"
        f"add_executable(program program.c)\ntarget_link_libraries(program {library}::{library})\n"
    )
    installed.shell(f"cd /tmp/{library} && cmake -B out . && cmake --build out && out/program")


@built
@pytest.mark.parametrize("library", ["mcapi", "sisci", "vipl"])
def test_a_program_is_linked_to_the_static_library(installed, library):
    source(installed, library)
    installed.shell(
        f"cd /tmp/{library} && cc -o static program.c $(pkg-config --cflags {library}) "
        f"-Wl,-Bstatic -l{library} -Wl,-Bdynamic "
        "-lgcc_s -lutil -lrt -lpthread -lm -ldl && ./static && ! ldd ./static | grep lib" + library
    )


def source(root, library):
    place = root.changed / "tmp" / library
    place.mkdir(parents=True, exist_ok=True)
    (place / "program.c").write_text(PROGRAMS[library] + "\n")
    return place


@built
def test_commands_say_what_is_missing(installed):
    told = installed.run("ntbctl", "peers", check=False)
    assert told.returncode == 2
    assert "modprobe pximc_ntb" in told.stdout
    assert "sci_rpc" in installed.shell("/usr/lib/sisci/bin/rpc --help")


@built
@pytest.mark.timeout(LONG)
def test_dkms_builds_the_modules_for_debians_kernel(installed):
    """Against the packaged headers, with the packaged source; test_stock boots with them."""
    (release,) = (path.name for path in (built_kernel("stock") / "modroot/lib/modules").iterdir())
    series = ".".join(release.split(".")[:2])
    installed.apt("install", f"linux-headers-{release}", f"linux-source-{series}", timeout=LONG)
    installed.run("dkms", "install", f"pximc-ntb/{version()}", "-k", release, timeout=LONG)
    assert "installed" in installed.shell(f"dkms status pximc-ntb/{version()} -k {release}")
    place = f"lib/modules/{release}/updates/dkms"
    installed.shell(f"rm -rf /shared/modules/dkms && cp -r /{place} /shared/modules/dkms "
                    "&& cd /shared/modules/dkms && if ls *.xz; then unxz *.xz; fi")
    modules = {path.stem.replace("-", "_") for path in MODULES.iterdir()}
    assert modules == PRODUCT - {"mp_dibs"} | NTB
