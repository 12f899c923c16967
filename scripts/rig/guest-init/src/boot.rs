// SPDX-License-Identifier: GPL-2.0-only
//! From the initial RAM disk to a root file system that looks like the host's.
//!
//! The host's `/` comes over 9p, read-only; a tmpfs above it takes every write,
//! so guests can do as they like. Files are taken for unchanged while the guest
//! runs. Two more trees may lie over it: the checkout (9p without cache, where a
//! developer rebuilds while guests run) and the kernel's installed modules. Both
//! are named on the kernel's command line.

use std::fs;
use std::io;
use std::path::Path;

use rustix::mount::{mount, mount_bind, mount_move, MountFlags};
use rustix::system::init_module;

use crate::network;

const MODULES: &str = "/modules";
const LOWER: &str = "/host";
const SCRATCH: &str = "/scratch";
const ROOT: &str = "/root.new";
const NINE_P: &str = "trans=virtio,version=9p2000.L,msize=512000";

/// An error that names what was being done.
pub fn while_doing(what: impl std::fmt::Display) -> impl FnOnce(io::Error) -> io::Error {
    move |e| io::Error::new(e.kind(), format!("{what}: {e}"))
}

/// The value of `key=value` on the kernel's command line.
pub fn parameter(key: &str) -> Option<String> {
    let line = fs::read_to_string("/proc/cmdline").ok()?;
    let mut words = line.split_whitespace();
    words.find_map(|word| Some(word.strip_prefix(key)?.strip_prefix('=')?.to_owned()))
}

fn attach(source: &str, target: &str, kind: &str, flags: MountFlags, data: &str) -> io::Result<()> {
    fs::create_dir_all(target).map_err(while_doing(format_args!("create {target}")))?;
    let data = std::ffi::CString::new(data)?;
    mount(source, target, kind, flags, data.as_c_str())
        .map_err(|e| while_doing(format_args!("mount {kind} on {target}"))(e.into()))
}

/// Load the modules that the RAM disk has, in the order of their names.
fn load_modules() -> io::Result<()> {
    let mut paths = fs::read_dir(MODULES)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        let module = fs::read(&path)?;
        init_module(&module, c"")
            .map_err(|e| while_doing(format_args!("load {}", path.display()))(e.into()))?;
    }
    Ok(())
}

/// Load modules, mount everything, move the process to the new root, name the host and
/// bring up the loopback interface.
///
/// # Errors
/// The first step without which the guest is of no use.
pub fn assemble_root() -> io::Result<()> {
    let none = MountFlags::empty();
    load_modules()?;
    let host_options = format!("{NINE_P},cache=loose");
    attach("rootfs", LOWER, "9p", MountFlags::RDONLY, &host_options)?;
    attach("scratch", SCRATCH, "tmpfs", none, "mode=755")?;
    for directory in ["upper", "work"] {
        fs::create_dir(Path::new(SCRATCH).join(directory))?;
    }
    let layers = format!("lowerdir={LOWER},upperdir={SCRATCH}/upper,workdir={SCRATCH}/work");
    attach("overlay", ROOT, "overlay", none, &layers)?;
    switch_root()?;
    mount_system_trees()?;
    overlay_named_trees();
    if let Some(name) = parameter("rig.host") {
        rustix::system::sethostname(name.as_bytes())?;
    }
    network::loopback_up().map_err(while_doing("bring up lo"))
}

fn switch_root() -> io::Result<()> {
    std::env::set_current_dir(ROOT)?;
    mount_move(".", "/").map_err(|e| while_doing("move the root")(e.into()))?;
    std::os::unix::fs::chroot(".")?;
    std::env::set_current_dir("/")
}

fn mount_system_trees() -> io::Result<()> {
    let none = MountFlags::empty();
    for (kind, target, data) in [
        ("proc", "/proc", ""),
        ("sysfs", "/sys", ""),
        ("devtmpfs", "/dev", "mode=755"),
        ("tmpfs", "/tmp", "mode=1777"),
        ("tmpfs", "/run", "mode=755"),
    ] {
        attach(kind, target, kind, none, data)?;
    }
    for (kind, target, data) in [
        ("devpts", "/dev/pts", "mode=620,ptmxmode=666"),
        ("tmpfs", "/dev/shm", "mode=1777"),
        ("mqueue", "/dev/mqueue", ""),
        ("debugfs", "/sys/kernel/debug", ""),
        ("tracefs", "/sys/kernel/tracing", ""),
        ("configfs", "/sys/kernel/config", ""),
        ("cgroup2", "/sys/fs/cgroup", ""),
    ] {
        if let Err(error) = attach(kind, target, kind, none, data) {
            eprintln!("guest-init: {error}; going on without it");
        }
    }
    Ok(())
}

/// Lay the checkout and the kernel's modules over the host's root. A guest
/// without them still boots, so a failure is only reported.
fn overlay_named_trees() {
    if let Some(path) = parameter("rig.checkout") {
        let options = format!("{NINE_P},cache=none");
        if let Err(error) = attach("checkout", &path, "9p", MountFlags::RDONLY, &options) {
            eprintln!("guest-init: {error}");
        }
    }
    if let Some(path) = parameter("rig.modules") {
        let bound = fs::create_dir_all("/lib/modules")
            .and_then(|()| Ok(mount_bind(path.as_str(), "/lib/modules")?));
        if let Err(error) = bound {
            eprintln!("guest-init: bind {path} on /lib/modules: {error}");
        }
    }
}
