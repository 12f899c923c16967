// SPDX-License-Identifier: GPL-2.0-only

//! Calls about interfaces, and about the windows of their peers.

use super::{
    expect_zero,
    put_ids,
    user,
    Told, //
};
use crate::{
    context::Context,
    link::Link,
    uapi::*, //
};
use kernel::prelude::*;
use mp_proto::pairing::{
    terms::{
        Connection as Role,
        Location, //
    },
    RemoteWindow, //
};
use mp_transport::interface::Kind;

pub(super) fn list_interfaces(context: &Context, list: &mut mp_interfaces) -> Result<Told> {
    expect_zero(list.reserved)?;
    let ids = context.shared().links.ids()?;
    list.count = ids.len() as u32;
    put_ids(&ids, list.ids, list.capacity)
}

pub(super) fn describe_interface(context: &Context, info: &mut mp_interface) -> Result<Told> {
    let link = context.shared().links.get(info.id)?;
    let (size, id) = (info.size, info.id);
    *info = mp_interface {
        size,
        id,
        peer: MP_PEER_NONE,
        ..Default::default()
    };
    describe_hardware(&link, info);
    if let Some(memory) = link.memory() {
        let limits = memory.limits();
        info.flags |= MP_INTERFACE_UP;
        info.peer = link.interface().peer().map_or(MP_PEER_NONE, |p| p.id().0);
        info.epoch = memory.epoch();
        info.local_total = limits.local_total;
        info.local_free = limits.local_largest_free;
        info.remote_total = limits.remote_total;
    }
    Ok(Told::Done)
}

fn describe_hardware(link: &Link, info: &mut mp_interface) {
    let about = link.interface().info();
    info.flags |= match about.kind {
        Kind::Bridge => 0,
        Kind::Loopback => MP_INTERFACE_LOOPBACK,
        Kind::Routed => MP_INTERFACE_ROUTED,
    };
    if let Some(at) = &about.location {
        info.flags |= MP_INTERFACE_PCI;
        info.vendor = at.vendor_id;
        info.device = at.device_id;
        info.subsystem_vendor = at.subsystem_vendor_id;
        info.subsystem_device = at.subsystem_id;
        (info.pci_domain, info.pci_domain_high) = (at.domain as u16, (at.domain >> 16) as u16);
        info.pci_bus = at.bus;
        info.pci_devfn = at.device << 3 | at.function;
    }
    // The last byte stays zero.
    let room = info.name.len() - 1;
    let name = about.name.to_bytes().iter().take(room);
    for (to, from) in info.name.iter_mut().zip(name) {
        *to = *from;
    }
}

pub(super) fn list_windows(context: &Context, list: &mut mp_windows) -> Result<Told> {
    let link = context.shared().links.get(list.interface)?;
    // Not charged, here and below: the whole link waits for the lock.
    let ids = link.with_windows(|windows| {
        let mut ids = KVec::new();
        for window in windows.iter() {
            ids.push(window.uid, GFP_KERNEL)?;
        }
        Ok::<_, Error>(ids)
    })??;
    list.count = ids.len() as u32;
    put_ids(&ids, list.ids, list.capacity)
}

pub(super) fn describe_window(context: &Context, info: &mut mp_window) -> Result<Told> {
    let link = context.shared().links.get(info.interface)?;
    let mut data = KVec::new();
    let window = link.with_windows(|windows| {
        let window = windows.iter().find(|w| w.uid == info.id).ok_or(ENOENT)?;
        let mut copied = Ok(());
        windows.data(&window, |posted| {
            copied = data.extend_from_slice(posted, GFP_KERNEL);
        });
        copied?;
        Ok::<_, Error>(window)
    })??;
    let room = info.data_size as usize;
    describe_posted(&window, info);
    info.data_size = data.len() as u32;
    if data.len() > room {
        return Ok(Told::Short(ENOSPC));
    }
    user(info.data, data.len())?.writer().write_slice(&data)?;
    Ok(Told::Done)
}

fn describe_posted(window: &RemoteWindow, info: &mut mp_window) {
    info.role = match window.connection {
        Role::Server => MP_ROLE_SERVER,
        Role::Client => MP_ROLE_CLIENT,
        Role::Peer => MP_ROLE_PEER,
    };
    info.location = match window.location {
        Location::Logical => MP_LOCATION_LOGICAL,
        Location::Physical => MP_LOCATION_PHYSICAL,
    };
    info.protocol = window.protocol;
    info.paired = window.paired.into();
    (info.local_min, info.local_max) = (window.local.min, window.local.max);
    (info.remote_min, info.remote_max) = (window.remote.min, window.remote.max);
}
