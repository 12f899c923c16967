// SPDX-License-Identifier: MIT OR Apache-2.0

//! The attributes of interfaces and of windows. Two tables: equal numbers mean different things
//! in them.

use crate::{functions::fill, status::Outcome, sys::*};
use mp_c_abi::{Out, Room};
use pximc::{Information, Location, Role, Window};

/// Instead of a vendor id: the interface is no PCI device. Nobody has that id.
const NO_VENDOR: u32 = 0xffff;
/// How the specification tells the order of the other system's bytes.
const LITTLE_ENDIAN: u32 = 0x7856_3412;
const BIG_ENDIAN: u32 = 0x1234_5678;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Printable text.
    Text(String),
    /// Bytes as they are.
    Bytes(Vec<u8>),
    /// A number of 32 bits.
    U32(u32),
    /// A number of 64 bits.
    U64(u64),
}

impl Value {
    /// Write the value, if it fits.
    ///
    /// # Errors
    /// In this order: too small, not aligned.
    pub fn write(&self, room: Room<u8>, actual: Out<u32>) -> Outcome {
        match self {
            Value::Text(text) => fill(room, &printable(text), 1, actual),
            Value::Bytes(bytes) => fill(room, bytes, 1, actual),
            Value::U32(number) => fill(room, &number.to_ne_bytes(), 4, actual),
            // Also where the compiler would be content with 4.
            Value::U64(number) => fill(room, &number.to_ne_bytes(), 8, actual),
        }
    }
}

/// The text with its final zero; what is not printable becomes a question mark.
fn printable(text: &str) -> Vec<u8> {
    let printable = |c: char| match c {
        ' '..='~' => c as u8,
        _ => b'?',
    };
    text.chars().map(printable).chain([0]).collect()
}

/// An attribute of an interface; nothing if it is not known, or not known here.
pub fn interface(information: &Information, id: u32) -> Option<Value> {
    let interface = &information.interface;
    let text = |text: &str| (!text.is_empty()).then(|| Value::Text(text.into()));
    let ids = interface.pci.map(|(ids, _)| ids);
    let place = interface.pci.map(|(_, place)| place);
    let number = match id {
        PXIMC_STR_MANF_NAME => return text(information.manufacturer?),
        PXIMC_STR_MODEL_NAME => return text(information.model?),
        PXIMC_STR_INTERFACE_NAME => return text(&interface.name),
        PXIMC_U32_PROTOCOL_VERSION => PXIMC_SPEC_VERSION,
        PXIMC_U32_MANF_ID => ids.map_or(NO_VENDOR, |ids| ids.vendor.into()),
        PXIMC_U32_INTERFACE_STATE if interface.up => PXIMC_STATE_UP,
        PXIMC_U32_INTERFACE_STATE => PXIMC_STATE_DOWN,
        PXIMC_U32_INTERFACE_DEVICE_ID => ids?.device.into(),
        PXIMC_U32_INTERFACE_VENDOR_ID => ids?.vendor.into(),
        PXIMC_U32_INTERFACE_SS_ID => ids?.subsystem_device.into(),
        PXIMC_U32_INTERFACE_SS_VENDOR_ID => ids?.subsystem_vendor.into(),
        PXIMC_U32_INTERFACE_BUS => place?.bus.into(),
        PXIMC_U32_INTERFACE_DEV => place?.device.into(),
        PXIMC_U32_INTERFACE_FUNC => place?.function.into(),
        PXIMC_U32_REMOTE_ENDIANNESS if interface.remote?.big_endian => BIG_ENDIAN,
        PXIMC_U32_REMOTE_ENDIANNESS => LITTLE_ENDIAN,
        PXIMC_U32_REMOTE_WORD_SIZE => interface.remote?.word_size.into(),
        _ => return None,
    };
    Some(Value::U32(number))
}

/// An attribute of a window of the other system; nothing if there is no such attribute.
pub fn window(window: &Window, id: u32) -> Option<Value> {
    Some(match id {
        PXIMC_U8_WINDOW_DATA => Value::Bytes(window.data.clone()),
        PXIMC_U32_WINDOW_CONNECTION_TYPE => Value::U32(match window.role {
            Role::Server => PXIMC_CONNECTION_SERVER,
            Role::Client => PXIMC_CONNECTION_CLIENT,
            Role::Peer => PXIMC_CONNECTION_PEER,
        }),
        PXIMC_U32_WINDOW_LOCATION_TYPE => Value::U32(match window.location {
            Location::Logical => PXIMC_LOCATION_LOGICAL,
            Location::Physical => PXIMC_LOCATION_PHYSICAL,
        }),
        PXIMC_U32_WINDOW_PROTOCOL_NUMBER => Value::U32(window.protocol),
        PXIMC_U32_WINDOW_PAIRING_STATE => Value::U32(match window.paired {
            true => PXIMC_WINDOW_PAIRED,
            false => PXIMC_WINDOW_UNPAIRED,
        }),
        PXIMC_U64_WINDOW_MIN_REMOTE_SIZE => Value::U64(*window.remote.start()),
        PXIMC_U64_WINDOW_MAX_REMOTE_SIZE => Value::U64(*window.remote.end()),
        PXIMC_U64_WINDOW_MIN_LOCAL_SIZE => Value::U64(*window.local.start()),
        PXIMC_U64_WINDOW_MAX_LOCAL_SIZE => Value::U64(*window.local.end()),
        // The other system's half of the event status is not known here, and half of it would
        // mislead: PXIMC_U32_SESSION_EVENT_STATUS is not supported.
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PXI-QI-13, PXI-QI-14, PXI-QI-15
    #[test]
    fn text_is_printable_and_ends_with_a_zero_that_counts() {
        assert_eq!(printable("ntb 0~"), b"ntb 0~\0");
        assert_eq!(printable("n\u{e4}\t\u{7f}"), b"n???\0");
    }
}
