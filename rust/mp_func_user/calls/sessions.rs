// SPDX-License-Identifier: GPL-2.0-only

//! Calls about sessions.

use super::{
    answer,
    expect_zero,
    need_physical_addresses,
    range_of_bar,
    user,
    Told, //
};
use crate::{
    access::Requester,
    answer as partner,
    context::Context,
    session::Session,
    uapi::*, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    uaccess::UserPtr, //
};
use mp_kernel::{
    iomem::{
        Bar,
        DeviceRange, //
    },
    iommu::Rights,
    process::{
        self,
        PhysicalUse, //
    },
    uaccess::read_sized, //
};
use mp_proto::pairing::terms::{
    Connection as Role,
    Limits,
    Location,
    Params,
    DATA_MAX, //
};

/// Bits of an address in the calling process.
fn address_bits() -> u8 {
    match process::is_compat() || cfg!(not(CONFIG_64BIT)) {
        true => 32,
        false => 64,
    }
}

/// What is asked for; the sizes that make no sense together are found later.
fn parameters(open: &mp_session_open) -> Result<Params> {
    let connection = match open.role {
        MP_ROLE_SERVER => Role::Server,
        MP_ROLE_CLIENT => Role::Client,
        MP_ROLE_PEER => Role::Peer,
        _ => return Err(EINVAL),
    };
    let location = match open.location {
        MP_LOCATION_LOGICAL => Location::Logical,
        MP_LOCATION_PHYSICAL | MP_LOCATION_BAR => Location::Physical,
        _ => return Err(EINVAL),
    };
    Ok(Params {
        connection,
        location,
        protocol: open.protocol,
        uid: open.uid,
        local: Limits {
            min: open.local_min,
            max: open.local_max,
        },
        remote: Limits {
            min: open.remote_min,
            max: open.remote_max,
        },
        address: open.address,
        address_bits: address_bits(),
        name: partner::name(open)?,
        hold: open.flags & MP_SESSION_DEFER != 0,
        once: open.flags & MP_SESSION_ONCE != 0,
        bare: open.flags & MP_SESSION_NO_WINDOWS != 0,
    })
}

/// The BAR that a server names, if it names one.
///
/// # Errors
///
/// `EINVAL` if it must not.
fn bar_of(open: &mp_session_open) -> Result<Option<Bar>> {
    let bar = bar_of!(open);
    match open.location {
        MP_LOCATION_BAR if open.role == MP_ROLE_SERVER => Ok(Some(bar)),
        MP_LOCATION_BAR => Err(EINVAL),
        _ if bar != Bar::default() => Err(EINVAL),
        _ => Ok(None),
    }
}

/// What a server shows of a BAR: the whole pages.
///
/// # Errors
///
/// Those of [`range_of_bar`].
fn range_of_session(bar: Bar, open: &mp_session_open) -> Result<DeviceRange> {
    let len = open.local_max.checked_next_multiple_of(PAGE_SIZE as u64);
    range_of_bar(bar, open.address, len.ok_or(EINVAL)?)
}

pub(super) fn open_session(context: &Context, arg: UserPtr) -> Result {
    let (mut open, size) = read_sized::<mp_session_open>(arg)?;
    let link = context.shared().links.get(open.interface)?;
    expect_zero(open.reserved)?;
    let bar = bar_of(&open)?;
    // Claimed until the session has claimed it.
    let range = bar.map(|bar| range_of_session(bar, &open)).transpose()?;
    let mut params = parameters(&open)?;
    if let Some(range) = &range {
        params.address = range.phys();
    }
    let is_pending = partner::is_pending(&open)?;
    let len = open.data_size as usize;
    params.check(len).map_err(|_| EINVAL)?;
    if params.location == Location::Physical {
        need_physical_addresses(PhysicalUse::Memory)?;
    }
    let mut data = KVec::from_elem(0, len.min(DATA_MAX), GFP_KERNEL_ACCOUNT)?;
    user(open.data, data.len())?
        .reader()
        .read_slice(&mut data)?;
    let session = context.open_session(&link, params, |params, shares| {
        let number = context.shared().next_handle();
        let word = context.status().word()?;
        let session = Session::new(number, link.clone(), params, data, is_pending, word, shares)?;
        link.request(&session)?;
        Ok(session)
    })?;
    open.uid = session.uid();
    open.handle = session.number();
    answer(context, arg, size, &open, open.handle)
}

pub(super) fn describe_session(context: &Context, info: &mut mp_session) -> Result<Told> {
    let session = context.session(info.handle)?;
    let (local, remote) = session.places(context.mapper())?;
    info.events = session.ready().events();
    info.interface = session.link().interface().id();
    info.status = session.status();
    info.uid = session.uid();
    (info.local_size, info.local_offset) = (local.len, local.offset);
    (info.remote_size, info.remote_offset) = (remote.len, remote.offset);
    Ok(Told::Done)
}

pub(super) fn address_of(context: &Context, info: &mut mp_session_address) -> Result<Told> {
    let session = context.session(info.handle)?;
    need_physical_addresses(PhysicalUse::Memory)?;
    session.check_paired()?;
    info.address = session.bus_address()?;
    Ok(Told::Done)
}

pub(super) fn grant_access(context: &Context, access: &mp_session_access) -> Result {
    expect_zero(access.reserved.into())?;
    let session = context.session(access.handle)?;
    let is_clear = access.mode == MP_ACCESS_CLEAR;
    let known = MP_ACCESS_READ | MP_ACCESS_WRITE;
    if !is_clear && (access.mode == 0 || access.mode & !known != 0) {
        return Err(EINVAL);
    }
    need_physical_addresses(PhysicalUse::Device)?;
    session.check_paired()?;
    let device = Requester {
        domain: u32::from(access.pci_domain_high) << 16 | u32::from(access.pci_domain),
        bus: access.pci_bus,
        devfn: access.pci_devfn,
    };
    let rights = (!is_clear).then_some(Rights {
        read: access.mode & MP_ACCESS_READ != 0,
        write: access.mode & MP_ACCESS_WRITE != 0,
    });
    session.allow(device, rights)
}
