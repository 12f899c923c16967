# SPDX-License-Identifier: GPL-2.0
"""QEMU's command line for one guest.

The guest's PCI bus, by device number: for each board that it is at, from its
`plain_slot_base` on, one `ivshmem-plain` for each *other* port, at base + port,
whose BAR is that guest's RAM; above them for each board the `ivshmem-doorbell`
with the shared registers. The drivers learn these numbers from the registers'
header.
"""

from .settings import MIB, CHECKOUT

# Not "max" under emulation: with ERMS the kernel copies by `rep movsb`, which
# QEMU does byte by byte (a quarter of the TCP throughput), and SMAP costs more.
_CPU = {"tcg": "qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt,+rdrand", "kvm": "host"}
_DOORBELL_OFFSET = 12


def ram_file(directory, port):
    return directory / f"ram{port}"


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
        f"rig.checkout={CHECKOUT}",
    ]
    if settings.modules_dir:
        options.append(f"rig.modules={settings.modules_dir}")
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


def _file(settings, directory, name, host):
    path = ram_file(directory, host)
    backend = f"memory-backend-file,id={name},size={settings.ram},share=on,mem-path={path}"
    return ["-object", backend]


def _memory(settings, directory, host):
    return _file(settings, directory, "ram", host)


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
            place = f"addr={board.plain_slot_base + port:#x}"
            arguments += _file(settings, directory, name, other)
            arguments += ["-device", f"ivshmem-plain,memdev={name},{place}"]
        name = f"ntb{board.number}"
        path = board_directory(directory, board) / f"port{board.port(host)}.sock"
        arguments += [
            "-chardev", f"socket,id={name},path={path}",
            "-device",
            f"ivshmem-doorbell,chardev={name},vectors={settings.vectors},addr={slot:#x}",
        ]  # fmt: skip
        slot += 1
    return arguments


def _files():
    shares = (("rootfs", "/"), ("checkout", CHECKOUT))
    arguments = []
    for tag, path in shares:
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
        *_boards(settings, directory, port),
        *_files(),
        *_consoles(directory, port, console),
        "-kernel", settings.kernel_image,
        "-initrd", directory / "initramfs",
        "-append", kernel_command_line(settings, name),
    ]  # fmt: skip


def trial_command(settings):
    """Boots a kernel without anything to run: it ends by itself, in a panic."""
    return [
        "qemu-system-x86_64",
        "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
        "-machine", "q35", "-accel", settings.accel, "-cpu", _CPU[settings.accel], "-m", "256",
        "-kernel", settings.kernel_image,
        "-append", "panic=-1",
    ]  # fmt: skip
