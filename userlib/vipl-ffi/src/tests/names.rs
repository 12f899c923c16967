// SPDX-License-Identifier: MIT OR Apache-2.0

//! The name service.

use super::*;
use mp_c_abi::Room;
use mp_testing::built::Scratch;
use std::{ffi::CString, fs};

fn room(name: Out<std::ffi::c_char>, len: usize) -> Room<u8> {
    let start = mp_c_abi::Abi::<*mut std::ffi::c_char>::to_c(name);
    // SAFETY: There is room for as many as the length says.
    unsafe { Room::new(start.cast(), len) }
}

fn by_name(side: &Side, name: &std::ffi::CStr, place: &mut Place, index: u64) -> Result<()> {
    let to = place.address();
    functions::ns_get_host_by_name(&side.process, side.nic, text(name), to, index)
}

/// VI-NS-1, VI-NS-2, VI-NS-3, VI-NS-4, VI-NS-5, VI-NS-7, VI-NS-8
#[test]
fn names_lead_to_addresses_between_init_and_shutdown() {
    let (side, _) = pair();
    let (p, nic) = (&side.process, side.nic);
    let files = Scratch::new();
    fs::write(files.path("names"), "0x01020304 One\n7 pair one\n").unwrap();
    fs::write(files.path("bad"), "One 1\n").unwrap();
    let path = |name| CString::new(files.path(name).to_str().unwrap()).unwrap();
    let unknown = Err(Error::NameService);
    let mut place = Place::new(&[0; 4], b"abc");
    assert_eq!(by_name(&side, c"one", &mut place, 0), unknown);
    assert_eq!(functions::ns_shutdown(p, nic), unknown);
    for name in ["bad", "gone"] {
        assert_eq!(functions::ns_init(p, nic, text(&path(name))), INVALID);
    }
    functions::ns_init(p, nic, text(&path("names"))).unwrap();
    assert_eq!(functions::ns_init(p, nic, text(&path("names"))), unknown);
    by_name(&side, c"ONE", &mut place, 0).unwrap();
    assert_eq!(place.host(), [1, 2, 3, 4]);
    assert_eq!((place.discriminator(), place.guard), (&b"abc"[..], GUARD));
    by_name(&side, c"one", &mut place, 1).unwrap();
    assert_eq!(place.host(), [0, 0, 0, 7]);
    assert_eq!(by_name(&side, c"one", &mut place, 2), unknown);
    assert_eq!(by_name(&side, c"one", &mut place, u64::MAX), unknown);
    assert_eq!(by_name(&side, c"two", &mut place, 0), unknown);
    // Room for three bytes is too little, more than four is enough.
    place.host_len = 3;
    assert_eq!(by_name(&side, c"pair", &mut place, 0), INVALID);
    place.host_len = 20;
    by_name(&side, c"pair", &mut place, 0).unwrap();
    assert_eq!(place.host_len, 4);
    functions::ns_shutdown(p, nic).unwrap();
    assert_eq!(functions::ns_shutdown(p, nic), unknown);
    assert_eq!(by_name(&side, c"pair", &mut place, 0), unknown);
    functions::ns_init(p, nic, text(&path("names"))).unwrap();
    let other = open(p, c"VINIC").unwrap();
    let to = place.address();
    let others = functions::ns_get_host_by_name(p, other, text(c"pair"), to, 0);
    assert_eq!(others, unknown);
}

/// VI-NS-9, VI-NS-10: the name fits with its end, or the room that it needs is told.
#[test]
fn addresses_lead_to_names_that_fit() {
    let (side, _) = pair();
    let (p, nic) = (&side.process, side.nic);
    let files = Scratch::new();
    fs::write(files.path("names"), "7 pair one\n").unwrap();
    let path = CString::new(files.path("names").to_str().unwrap()).unwrap();
    functions::ns_init(p, nic, text(&path)).unwrap();
    let ask = |host: &[u8], len: &mut u64, name: &mut [std::ffi::c_char; 8]| {
        // The discriminator is not looked at, however long it says to be.
        let mut place = Place::new(host, b"");
        place.discriminator_len = 0xFFFF;
        // SAFETY: There is room for as many as the length says.
        let name = unsafe { Out::new(name.as_mut_ptr()) };
        functions::ns_get_host_by_addr(p, nic, place.address(), name, out(len), room)
    };
    let (mut name, mut len) = ([0x11; 8], 4);
    assert_eq!(ask(&[0, 0, 0, 7], &mut len, &mut name), INVALID);
    assert_eq!((len, name), (5, [0x11; 8]));
    assert_eq!(ask(&[0, 0, 0, 7], &mut len, &mut name), Ok(()));
    assert_eq!(len, 4);
    let bytes = name.map(|byte| byte as u8);
    assert_eq!(&bytes, b"pair\0\x11\x11\x11");
    let unknown = Err(Error::NameService);
    assert_eq!(ask(&[0, 0, 0, 8], &mut len, &mut name), unknown);
    assert_eq!(ask(&[0, 0, 7], &mut len, &mut name), INVALID);
}
