# SPDX-License-Identifier: GPL-2.0-only
"""QEMU's command line for one guest.

The guest's PCI bus, by device number: for each board that it is at, from its
`plain_slot_base` on, one `ivshmem-plain` for each *other* port, at base + port,
whose BAR is that guest's RAM; above them for each board the `ivshmem-doorbell`
with the shared registers. The drivers learn these numbers from the registers'
header. On request there are an `ENGINE` and an `INSTRUMENT`; the memory of a
peer's instrument is function 1 of the device that is that peer's RAM.
"""

from .clock import tsc_khz
from .settings import MIB, CHECKOUT

# Not "max" under emulation: with ERMS the kernel copies by `rep movsb`, which
# QEMU does byte by byte (a quarter of the TCP throughput), and SMAP costs more.
_CPU = {"tcg": "qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt,+rdrand", "kvm": "host"}
_DOORBELL_OFFSET = 12
# Device numbers below those of the boards, above those that QEMU gives.
_ENGINE_SLOT, _INSTRUMENT_SLOT = 0x0D, 0x0E
ENGINE, INSTRUMENT = f"0000:00:{_ENGINE_SLOT:02x}.0", f"0000:00:{_INSTRUMENT_SLOT:02x}.0"


def ram_file(directory, port):
    return directory / f"ram{port}"


def instrument_file(directory, port):
    return directory / f"instrument{port}"


def board_directory(directory, board):
    return directory / f"board{board.number}"


def agent_socket(directory, port):
    return directory / f"agent{port}.sock"


def kernel_command_line(settings, name):
    options = [
        "console=ttyS0",
        "loglevel=5",
        "panic=-1",
        "tsc=reliable",
        "no_timer_check",
        "random.trust_cpu=on",
        f"cma={settings.area_size // MIB}M@{settings.area_base // MIB}M",
        f"rig.host={name}",
    ]
    if settings.live:
        options.append(f"rig.checkout={CHECKOUT}")
    if settings.accel == "tcg":
        # QEMU translates a page of code again for each address at which it runs: with
        # programs at the same addresses, starting one costs half as much.
        options.append("norandmaps")
        if khz := tsc_khz():
            options.append(f"tsc_early_khz={khz}")
    if settings.modules_dir:
        options.append(f"rig.modules={settings.modules_dir}")
    if settings.iommu:
        # Nothing is translated but for devices that a test chooses: the windows of the
        # emulated bridge have to be where they are.
        options.append("intel_iommu=on iommu=pt")
    if settings.kernel_options:
        options.append(settings.kernel_options)
    return " ".join(options)


def _machine(settings):
    accel = "tcg,thread=multi" if settings.accel == "tcg" else settings.accel
    cpus = settings.guest_cpus
    return [
        "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
        "-machine", "q35,memory-backend=ram,hpet=off,vmport=off,smbus=off,sata=off,usb=off",
        "-accel", accel,
        "-cpu", _CPU[settings.accel],
        # One possible CPU would make QEMU and Linux drop barriers that other
        # guests depend on.
        "-smp", f"{cpus},maxcpus={max(cpus, 2)}",
        "-m", str(settings.ram // MIB),
    ]  # fmt: skip


def _file(name, path, size):
    return ["-object", f"memory-backend-file,id={name},size={size},share=on,mem-path={path}"]


def _memory(settings, directory, host):
    return _file("ram", ram_file(directory, host), settings.ram)


def _devices(settings, directory, host):
    """What the host has beside the bridge."""
    arguments = []
    if settings.iommu:
        # The emulated interrupts stay as they are.
        arguments += ["-device", "intel-iommu,intremap=off,aw-bits=48"]
    if settings.engine:
        arguments += ["-device", f"edu,dma_mask={(1 << 64) - 1:#x},addr={_ENGINE_SLOT:#x}"]
    if settings.instrument:
        path = instrument_file(directory, host)
        arguments += _file("instrument", path, settings.instrument)
        place = f"addr={_INSTRUMENT_SLOT:#x}"
        arguments += ["-device", f"ivshmem-plain,memdev=instrument,{place}"]
    return arguments


def _boards(settings, directory, host):
    """The devices of each NTB that the host is at."""
    arguments = []
    slot = settings.plain_slot_base + _DOORBELL_OFFSET
    for board in settings.boards:
        if host not in board.hosts:
            continue
        for port, other in enumerate(board.hosts):
            if other == host:
                continue
            name = f"peer{board.number}.{port}"
            place = f"{board.plain_slot_base + port:#x}"
            many = ",multifunction=on" if settings.instrument else ""
            arguments += _file(name, ram_file(directory, other), settings.ram)
            arguments += ["-device", f"ivshmem-plain,memdev={name},addr={place}{many}"]
            if settings.instrument:
                path, target = instrument_file(directory, other), f"target{board.number}.{port}"
                arguments += _file(target, path, settings.instrument)
                arguments += ["-device", f"ivshmem-plain,memdev={target},addr={place}.1"]
        name = f"ntb{board.number}"
        path = board_directory(directory, board) / f"port{board.port(host)}.sock"
        arguments += [
            "-chardev", f"socket,id={name},path={path}",
            "-device",
            f"ivshmem-doorbell,chardev={name},vectors={settings.vectors},addr={slot:#x}",
        ]  # fmt: skip
        slot += 1
    return arguments


def _files(settings):
    shares = {"rootfs": "/"}
    if settings.live:
        shares["checkout"] = CHECKOUT
    arguments = []
    for tag, path in shares.items():
        backend = f"local,id={tag},path={path},security_model=none,readonly=on,multidevs=remap"
        arguments += ["-fsdev", backend]
        arguments += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
    return arguments


def _consoles(directory, port, console):
    return [
        "-chardev", f"file,id=console,path={console},append=on",
        "-serial", "chardev:console",
        "-chardev", f"socket,id=agent,path={agent_socket(directory, port)},server=on,wait=off",
        "-device", "virtio-serial-pci",
        "-device", "virtserialport,chardev=agent,name=rig.agent",
        "-device", "virtio-rng-pci",
    ]  # fmt: skip


def command(settings, directory, port, name, console):
    """The whole command line of the guest with this port and name."""
    return [
        "qemu-system-x86_64",
        *_machine(settings),
        *_memory(settings, directory, port),
        *_devices(settings, directory, port),
        *_boards(settings, directory, port),
        *_files(settings),
        *_consoles(directory, port, console),
        "-kernel", settings.kernel_image,
        "-initrd", directory / "initramfs",
        "-append", kernel_command_line(settings, name),
    ]  # fmt: skip


def trial_command(settings):
    """Boot a kernel without anything to run: it ends by itself, in a panic."""
    return [
        "qemu-system-x86_64",
        "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
        "-machine", "q35", "-accel", settings.accel, "-cpu", _CPU[settings.accel], "-m", "256",
        "-kernel", settings.kernel_image,
        "-append", "panic=-1",
    ]  # fmt: skip
