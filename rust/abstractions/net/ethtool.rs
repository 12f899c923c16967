// SPDX-License-Identifier: GPL-2.0-only

//! What an interface tells and lets change through ethtool.
//!
//! C header: [`include/linux/ethtool.h`](srctree/include/linux/ethtool.h)

use core::marker::PhantomData;

use kernel::{
    error::from_result,
    prelude::*, //
};

use crate::error::unsupported;

use super::{
    device::{
        callback_args,
        NetDevice, //
    },
    rtnl::Rtnl, //
};

/// How many queue pairs an interface works with (`ethtool -l`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Now.
    pub combined: u32,
    /// At most.
    pub max_combined: u32,
}

/// How many events an interface lets add up before it tells (`ethtool -c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesce {
    /// Packets that are sent before the other side is told, while more follow.
    pub tx_max_frames: u32,
}

/// The ethtool side of [`device::Operations`](super::device::Operations).
///
/// All of it is called under RTNL, except where it says otherwise.
pub trait Operations {
    /// Name of the driver (`ethtool -i`).
    const DRIVER: &'static CStr;

    /// Names of the driver's own counters (`ethtool -S`), of at most 31 bytes.
    const STATS: &'static [&'static CStr] = &[];

    /// Whether [`channels`](Self::channels) means something.
    const HAS_CHANNELS: bool = false;

    /// Whether [`coalesce`](Self::coalesce) means something.
    const HAS_COALESCE: bool = false;

    /// Speed of the link in Mbit/s, where there is such a thing.
    const SPEED: Option<u32> = None;

    /// Write the values of [`STATS`](Self::STATS), which `values` is as long as.
    fn stats(&self, _dev: &NetDevice, _values: &mut [u64]) {}

    /// The number of queue pairs.
    fn channels(&self, _dev: &NetDevice) -> Channels {
        Channels {
            combined: 1,
            max_combined: 1,
        }
    }

    /// Change the number of queue pairs to one that is within the limits.
    ///
    /// # Errors
    ///
    /// An error leaves it as it was.
    fn set_channels(&self, _dev: &NetDevice, _rtnl: &Rtnl, _combined: u32) -> Result {
        Err(unsupported())
    }

    /// The coalescing parameters.
    fn coalesce(&self, _dev: &NetDevice) -> Coalesce {
        Coalesce { tx_max_frames: 1 }
    }

    /// Change the coalescing parameters.
    ///
    /// # Errors
    ///
    /// An error leaves them as they were.
    fn set_coalesce(&self, _dev: &NetDevice, _rtnl: &Rtnl, _to: Coalesce) -> Result {
        Err(unsupported())
    }
}

/// The C side of [`Operations`].
///
/// ethtool calls these for devices that have them in their operations only,
/// which are those of [`device::Registration<T>`](super::device::Registration).
pub(super) struct Callbacks<T>(PhantomData<T>);

impl<T: super::device::Operations> Callbacks<T> {
    pub(super) const OPS: mp_bindings::ethtool_ops = mp_bindings::ethtool_ops {
        supported_coalesce_params: if T::HAS_COALESCE {
            mp_bindings::ETHTOOL_COALESCE_TX_MAX_FRAMES
        } else {
            0
        },
        get_drvinfo: Some(Self::get_drvinfo),
        get_link: Some(mp_bindings::ethtool_op_get_link),
        get_strings: Some(Self::get_strings),
        get_sset_count: Some(Self::get_sset_count),
        get_ethtool_stats: Some(Self::get_ethtool_stats),
        get_ts_info: Some(mp_bindings::ethtool_op_get_ts_info),
        get_link_ksettings: Some(Self::get_link_ksettings),
        get_channels: if T::HAS_CHANNELS {
            Some(Self::get_channels)
        } else {
            None
        },
        set_channels: if T::HAS_CHANNELS {
            Some(Self::set_channels)
        } else {
            None
        },
        get_coalesce: if T::HAS_COALESCE {
            Some(Self::get_coalesce)
        } else {
            None
        },
        set_coalesce: if T::HAS_COALESCE {
            Some(Self::set_coalesce)
        } else {
            None
        },
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// To be called by ethtool, with a structure to fill in.
    unsafe extern "C" fn get_drvinfo(
        _dev: *mut mp_bindings::net_device,
        info: *mut mp_bindings::ethtool_drvinfo,
    ) {
        // SAFETY: By the safety requirements.
        copy_string(unsafe { &mut (*info).driver }, T::DRIVER);
    }

    /// # Safety
    ///
    /// To be called by ethtool.
    unsafe extern "C" fn get_sset_count(_dev: *mut mp_bindings::net_device, set: c_int) -> c_int {
        if set as u32 == mp_bindings::ethtool_stringset_ETH_SS_STATS {
            T::STATS.len() as c_int
        } else {
            unsupported().to_errno()
        }
    }

    /// # Safety
    ///
    /// To be called by ethtool, with room for as many names as
    /// [`get_sset_count`](Self::get_sset_count) says.
    unsafe extern "C" fn get_strings(_dev: *mut mp_bindings::net_device, set: u32, data: *mut u8) {
        if set != mp_bindings::ethtool_stringset_ETH_SS_STATS {
            return;
        }
        let names: *mut Name = data.cast();
        for (i, name) in T::STATS.iter().enumerate() {
            // SAFETY: By the safety requirements; the number of names is a constant.
            copy_string(unsafe { &mut *names.add(i) }, name);
        }
    }

    /// # Safety
    ///
    /// To be called by ethtool, with room for as many values as
    /// [`get_sset_count`](Self::get_sset_count) says.
    unsafe extern "C" fn get_ethtool_stats(
        dev: *mut mp_bindings::net_device,
        _stats: *mut mp_bindings::ethtool_stats,
        data: *mut u64,
    ) {
        // SAFETY: By the safety requirements; the number of values is a constant.
        let ((dev, this), values) = unsafe {
            (
                callback_args::<T>(dev),
                core::slice::from_raw_parts_mut(data, T::STATS.len()),
            )
        };
        this.stats(dev, values);
    }

    /// # Safety
    ///
    /// To be called by ethtool, with a structure to fill in.
    unsafe extern "C" fn get_link_ksettings(
        dev: *mut mp_bindings::net_device,
        settings: *mut mp_bindings::ethtool_link_ksettings,
    ) -> c_int {
        // SAFETY: By the safety requirements.
        let ((dev, _), base) = unsafe { (callback_args::<T>(dev), &mut (*settings).base) };
        let speed = T::SPEED.filter(|_| dev.carrier());
        base.speed = speed.unwrap_or(mp_bindings::SPEED_UNKNOWN as u32);
        base.duplex = if dev.carrier() {
            mp_bindings::DUPLEX_FULL
        } else {
            mp_bindings::DUPLEX_UNKNOWN
        } as u8;
        base.port = mp_bindings::PORT_OTHER as u8;
        0
    }

    /// # Safety
    ///
    /// To be called by ethtool, with a structure to fill in.
    unsafe extern "C" fn get_channels(
        dev: *mut mp_bindings::net_device,
        channels: *mut mp_bindings::ethtool_channels,
    ) {
        // SAFETY: By the safety requirements.
        let ((dev, this), channels) = unsafe { (callback_args::<T>(dev), &mut *channels) };
        let ours = this.channels(dev);
        channels.max_combined = ours.max_combined;
        channels.combined_count = ours.combined;
    }

    /// # Safety
    ///
    /// To be called by ethtool, with a structure that it has compared with what
    /// [`get_channels`](Self::get_channels) says.
    unsafe extern "C" fn set_channels(
        dev: *mut mp_bindings::net_device,
        channels: *mut mp_bindings::ethtool_channels,
    ) -> c_int {
        // SAFETY: By the safety requirements.
        let ((dev, this), rtnl, combined) = unsafe {
            (
                callback_args::<T>(dev),
                Rtnl::assume_held(),
                (*channels).combined_count,
            )
        };
        from_result(|| {
            if !(1..=this.channels(dev).max_combined).contains(&combined) {
                return Err(EINVAL);
            }
            this.set_channels(dev, rtnl, combined).map(|()| 0)
        })
    }

    /// # Safety
    ///
    /// To be called by ethtool, with a structure to fill in.
    unsafe extern "C" fn get_coalesce(
        dev: *mut mp_bindings::net_device,
        coalesce: *mut mp_bindings::ethtool_coalesce,
        _kernel: *mut mp_bindings::kernel_ethtool_coalesce,
        _extack: *mut mp_bindings::netlink_ext_ack,
    ) -> c_int {
        // SAFETY: By the safety requirements.
        let ((dev, this), coalesce) = unsafe { (callback_args::<T>(dev), &mut *coalesce) };
        coalesce.tx_max_coalesced_frames = this.coalesce(dev).tx_max_frames;
        0
    }

    /// # Safety
    ///
    /// To be called by ethtool, with only such parameters set as are declared
    /// to be supported.
    unsafe extern "C" fn set_coalesce(
        dev: *mut mp_bindings::net_device,
        coalesce: *mut mp_bindings::ethtool_coalesce,
        _kernel: *mut mp_bindings::kernel_ethtool_coalesce,
        _extack: *mut mp_bindings::netlink_ext_ack,
    ) -> c_int {
        // SAFETY: By the safety requirements.
        let ((dev, this), rtnl, coalesce) =
            unsafe { (callback_args::<T>(dev), Rtnl::assume_held(), &*coalesce) };
        let to = Coalesce {
            tx_max_frames: coalesce.tx_max_coalesced_frames,
        };
        from_result(|| this.set_coalesce(dev, rtnl, to).map(|()| 0))
    }
}

/// A name as ethtool stores it.
type Name = [u8; mp_bindings::ETH_GSTRING_LEN as usize];

/// Fill `to` with the start of `from` and zeros, at least one.
fn copy_string(to: &mut [u8], from: &CStr) {
    to.fill(0);
    let Some(room) = to.len().checked_sub(1) else {
        return;
    };
    for (to, from) in to.iter_mut().zip(from.to_bytes()).take(room) {
        *to = *from;
    }
}
