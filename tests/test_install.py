# SPDX-License-Identifier: GPL-2.0-only
"""What `make install` puts into a system: the product, and nothing of tests, benchmarks and samples."""

import re
import subprocess

from installed import install, run
from ntbrig.settings import CHECKOUT

PRODUCT = {
    "mp_dibs",
    "mp_func_ether",
    "mp_func_user",
    "mp_kernel",
    "mp_transport",
    "ntb_hw_ivshmem",
    "pximc_ntb",
}
# Programs that other packages of distributions have by these names, in the directories of commands.
TAKEN = {"copy", "dmabench", "intr_bench", "perf", "rpc", "shmem"}
SCRIPTS = ("sisci.sh", "vipl.sh", "mcapi.sh", "smc.sh")


def built_modules(*settings):
    """The modules that Kbuild names on a kernel that has everything."""
    options = ("DIBS", "DMA_ENGINE", "KRETPROBES", "DMA_SHARED_BUFFER", "KUNIT")
    makefile = f"include {CHECKOUT}/Kbuild\nnames: ; @echo $(obj-m)\n"
    command = ("make", "-s", "-f", "-", "names", *(f"CONFIG_{name}=y" for name in options))
    made = subprocess.run(
        (*command, *settings), input=makefile, capture_output=True, text=True, timeout=60, check=True
    )
    return {name.removesuffix(".o") for name in made.stdout.split()}


def test_only_modules_of_the_product_are_installed():
    """Those of tests are built as well, but the modules' list for an installation lacks them."""
    assert built_modules("MP_MODULES=product") == PRODUCT
    assert {"mp_func_test", "mp_sample_c", "ntb_bench", "dma_test"} < built_modules() - PRODUCT
    recipe = re.search(r"^install:.*\n((?:\t.*\n)+)", (CHECKOUT / "Makefile").read_text(), re.M)[1]
    kbuild = [line for line in recipe.replace("\\\n", "").splitlines() if "kbuild.sh" in line]
    assert len(kbuild) == 2 and all("MP_MODULES=product" in line for line in kbuild)


def test_commands_have_names_that_are_not_taken(tmp_path):
    for script in SCRIPTS:
        prefix = install(script, tmp_path, "/usr")
    names = {path.name for path in (prefix / "bin").iterdir()}
    assert {"sci_rpc", "sci_shmem", "scipp", "vi_perf", "mcapi_ls", "mp_smc_run"} <= names
    assert not names & TAKEN


def test_customary_names_of_sisci_are_in_a_directory_of_their_own(tmp_path):
    """Each leads to the command, also where the whole tree has been moved."""
    prefix = install("sisci.sh", tmp_path, "/usr")
    links = {path.name: path for path in (prefix / "lib/sisci/bin").iterdir()}
    assert set(links) == {
        "dmabench", "intr_bench", "rpc", "sci_probe", "sci_query", "scibench", "scipp", "shmem"
    }  # fmt: skip
    for name, link in links.items():
        assert not link.readlink().is_absolute()
        assert link.resolve().parent == prefix / "bin"
        assert name in link.resolve().name
        assert run(link, "--help").stdout


def test_a_program_is_run_with_the_library_that_was_installed(tmp_path):
    """Beside what is preloaded already; the program's status is the command's."""
    prefix = install("smc.sh", tmp_path, "/usr")
    command = prefix / "bin/mp_smc_run"
    library = "/usr/lib/pximc-ntb/libmpsmc.so"
    assert (tmp_path / library[1:]).exists()

    def ended(*words):
        # It is not where it was installed for: the loader says so, and goes on.
        env = {"LD_PRELOAD": "libm.so.6", "PATH": "/usr/bin:/bin"}
        return subprocess.run(words, capture_output=True, text=True, timeout=60, env=env)

    shown = ended(command, "sh", "-c", "echo $LD_PRELOAD; exit 7")
    assert (shown.stdout, shown.returncode) == (f"{library}:libm.so.6\n", 7)
    assert ended(command).returncode == 2
    assert ended(command, "/nowhere").returncode == 127
