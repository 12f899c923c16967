// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connections, as structures of C tell them.

use super::*;

/// VI-ADDR-1, VI-CONN-2, VI-CONN-7, VI-CONN-13, VI-CONN-18, VI-CONN-22: both sides learn of each
/// other, and no byte is written behind the longest address.
#[test]
fn both_sides_are_told_of_each_other() {
    let (a, b) = pair();
    let mut attributes = a.attributes();
    attributes.EnableRdmaWrite = 0;
    let client = a.create(attributes, [NONE; 2]).unwrap();
    let server = b.vi();
    let (asked, answer, remote) = connect((&b, server), (&a, client));
    assert_eq!(
        (remote.host(), remote.discriminator()),
        (&a.host[..], &b"client"[..])
    );
    assert_eq!(remote.guard, GUARD);
    for (told, write) in [(asked, 0), (answer, 1)] {
        assert_eq!(
            told.ReliabilityLevel,
            sys::VIP_SERVICE_RELIABLE_DELIVERY as u16
        );
        assert_eq!(
            (told.MaxTransferSize, told.EnableRdmaWrite),
            (0x1_0000, write)
        );
        assert!(told.Ptag.is_null() && told.QoS.is_null());
    }
    assert_eq!(a.state(client), sys::VIP_STATE_CONNECTED);
    assert_eq!(b.state(server), sys::VIP_STATE_CONNECTED);
    functions::disconnect(&a.process, client).unwrap();
    assert_eq!(a.state(client), sys::VIP_STATE_IDLE);
}

/// VI-GEN-3, VI-ADDR-2, VI-ADDR-3, VI-CONN-26, VI-PEER-9: what no address can be is refused by all
/// calls that take one, and the VI stays idle.
#[test]
fn bad_addresses_and_timeouts_are_refused() {
    let (a, b) = pair();
    let vi = a.vi();
    let (p, nic) = (&a.process, a.nic);
    let long = [7; 17];
    let good = Place::new(&a.host, b"x");
    let there = Place::new(&b.host, b"x");
    let mut attributes = zeroed();
    for (local, remote, timeout) in [
        (Place::new(&b.host, b"x"), there, SOON),
        (Place::new(&a.host[..3], b"x"), there, SOON),
        (Place::new(&[&a.host[..], b"x"].concat(), b"x"), there, SOON),
        (Place::new(&a.host, &long), there, SOON),
        (good, Place::new(&b.host, &long), SOON),
        (good, Place::new(&b.host[..2], b"x"), SOON),
        (good, there, 0),
    ] {
        let (mut local, mut remote) = (local, remote);
        let (one, other) = (local.address(), remote.address());
        let to = out(&mut attributes);
        assert_eq!(
            functions::connect_request(p, vi, one, other, timeout, to),
            INVALID
        );
        assert_eq!(
            functions::connect_peer_request(p, vi, one, other, timeout),
            INVALID
        );
        assert_eq!(a.state(vi), sys::VIP_STATE_IDLE);
        if timeout > 0 && local.bytes != good.bytes {
            let mut conn = NONE;
            let mut from = Place::new(&[], &[]);
            let (from, to_conn) = (from.address(), out(&mut conn));
            let one = local.address();
            let waited = connect_wait(p, nic, one, 0, from, to, to_conn);
            assert_eq!(waited, INVALID);
        }
    }
    let to = out(&mut attributes);
    let none = Err(Error::InvalidState);
    assert_eq!(functions::connect_peer_done(p, vi, to), none);
    assert_eq!(functions::connect_peer_wait(p, vi, to), none);
}

/// VI-PEER-5, VI-PEER-10: peers meet by structures of C as well.
#[test]
fn peers_meet() {
    let (a, b) = pair();
    let (one, other) = (a.vi(), b.vi());
    for (side, vi, there) in [(&a, one, &b), (&b, other, &a)] {
        let mut local = Place::new(&side.host, b"");
        let mut remote = Place::new(&there.host, b"meet");
        let (local, remote) = (local.address(), remote.address());
        functions::connect_peer_request(&side.process, vi, local, remote, SOON).unwrap();
    }
    for (side, vi) in [(&a, one), (&b, other)] {
        let mut told = zeroed::<VIP_VI_ATTRIBUTES>();
        functions::connect_peer_wait(&side.process, vi, out(&mut told)).unwrap();
        assert_eq!((told.MaxTransferSize, told.EnableRdmaWrite), (0x1_0000, 1));
        assert_eq!(side.state(vi), sys::VIP_STATE_CONNECTED);
    }
}
