// SPDX-License-Identifier: MIT OR Apache-2.0

//! Names of the bridges that the kernel's NTB drivers know, by their PCI ids. All text is
//! printable ASCII.

/// The emulated bridge is a device of QEMU.
const RED_HAT: u16 = 0x1af4;
const AMD: u16 = 0x1022;
const IDT: u16 = 0x111d;
const MICROSEMI: u16 = 0x11f8;
const HYGON: u16 = 0x1d94;
const INTEL: u16 = 0x8086;

/// Who has made the bridge.
pub fn manufacturer(vendor: u16) -> Option<&'static str> {
    Some(match vendor {
        RED_HAT => "Red Hat, Inc.",
        AMD => "Advanced Micro Devices, Inc.",
        IDT => "Integrated Device Technology, Inc.",
        MICROSEMI => "Microchip Technology Inc. (Microsemi)",
        HYGON => "Chengdu Haiguang IC Design Co., Ltd.",
        INTEL => "Intel Corporation",
        _ => return None,
    })
}

/// What the bridge is called, where the id stands for one part.
pub fn model(vendor: u16, device: u16) -> Option<&'static str> {
    Some(match (vendor, device) {
        (RED_HAT, 0x1110) => "Inter-VM shared memory",
        (IDT, 0x8088) => "89HPES32NT8BG2",
        (IDT, 0x808a) => "89HPES32NT24BG2",
        (IDT, 0x808c) => "89HPES32NT24AG2",
        (IDT, 0x808e) => "89HPES24NT24G2",
        (IDT, 0x808f) => "89HPES32NT8AG2",
        (IDT, 0x8090) => "89HPES16NT16G2",
        (IDT, 0x8091) => "89HPES24NT6AG2",
        (IDT, 0x8092) => "89HPES12NT12G2",
        _ => return None,
    })
}
