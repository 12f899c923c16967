// SPDX-License-Identifier: MIT OR Apache-2.0

//! Endpoints and their attributes.

use super::*;

fn get(program: &Program, domain: u32, node: u32, port: u32, timeout: u32) -> Result<u64> {
    program.with(|state| functions::endpoint_get(state, domain, node, port, timeout))
}

/// MC-EPCREATE-1 to MC-EPCREATE-3, MC-EPCREATE-7, MC-EPGET-2, MC-EPGET-4, MC-EPDEL-1
#[test]
fn endpoints_have_one_handle_on_all_nodes() {
    let [a, b] = pair();
    let endpoint = create(&a, 17);
    assert_eq!(endpoint, 1 << 16 | 17);
    let again = a.with(|state| functions::endpoint_create(state, 17));
    assert_eq!(again, Err(Error::EndpointExists));
    let high = a.with(|state| functions::endpoint_create(state, 0xFFFF));
    assert_eq!(high, Err(Error::PortInvalid));
    assert!(create(&a, sys::MCAPI_PORT_ANY as u32) & 0xFFFF >= 0x8000);
    for program in [&a, &b] {
        assert_eq!(get(program, 0, 1, 17, SOON), Ok(endpoint));
    }
    assert_eq!(get(&b, 0, 1, 18, 0), Err(Error::Timeout));
    assert_eq!(get(&b, 0, 1, 18, 30), Err(Error::Timeout));
    assert_eq!(get(&b, 0, 0x8000, 17, 0), Err(Error::NodeInvalid));
    assert_eq!(get(&b, 0, 1, 0xFFFF, 0), Err(Error::PortInvalid));
    let delete =
        |program: &Program| program.with(|state| functions::endpoint_delete(state, endpoint));
    assert_eq!(delete(&b), Err(Error::EndpointNotOwner));
    assert_eq!(delete(&a), Ok(()));
    assert_eq!(delete(&a), Err(Error::EndpointInvalid));
}

/// MC-EPGETI-1, MC-GEN-5, MC-EPCREATE-5: a get is pending until the endpoint exists, and nothing is
/// written before.
#[test]
fn a_get_writes_the_handle_when_the_endpoint_exists() {
    let [a, b] = pair();
    let mut endpoint = u64::MAX;
    let to = out(&mut endpoint);
    let begun = begin(&b, |state| functions::endpoint_get_i(state, 0, 1, 17, to));
    let (request, is_done) = begun.unwrap();
    assert!(!is_done);
    assert_eq!(test(&b, request), Answer::PENDING);
    assert_eq!(endpoint, u64::MAX);
    let created = create(&a, 17);
    // MC-TEST-4: the size of a get is of no interest.
    let done = b.with(|state| functions::wait(state, given(&request), Out::NULL, SOON));
    assert_eq!((done, endpoint), (Ok(1), created));
}

/// MC-ATTR-1 to MC-ATTR-3, MC-EPATTRGET-1, MC-EPATTRGET-2: each attribute, with its size in C, of
/// endpoints of this node and of another one.
#[test]
fn attributes_have_sizes_and_values() {
    let [a, b] = pair();
    let endpoint = create(&a, 17);
    get(&b, 0, 1, 17, SOON).unwrap();
    let ask = |program: &Program, number, len: usize| {
        let mut told = [0x5A; 12];
        let place = room(&mut told[..len]);
        let got =
            program.with(|state| functions::endpoint_get_attribute(state, endpoint, number, place));
        let words = told
            .chunks(4)
            .map(|word| u32::from_ne_bytes(word.try_into().unwrap()));
        (got, words.collect::<Vec<_>>())
    };
    let expected = [1, 1, 0, 65536, 0, 0, 8, 0, 64, 32, 0x100, NEVER];
    for program in [&a, &b] {
        for (number, value) in (0..).zip(expected) {
            let (size, words) = match number {
                // Node <1,2> has got it.
                2 => (8, [1, 2, UNTOUCHED]),
                _ => (4, [value, UNTOUCHED, UNTOUCHED]),
            };
            assert_eq!(
                ask(program, number, size),
                (Ok(()), words.to_vec()),
                "{number}"
            );
            let wrong = (Err(Error::AttributeSize), vec![UNTOUCHED; 3]);
            for other in [0, 1, 3, 5, 7, 9, 12] {
                assert_eq!(ask(program, number, other), wrong, "{number}");
            }
        }
        for number in [12, 63, 64, u32::MAX] {
            let unknown = (Err(Error::AttributeNumber), vec![UNTOUCHED; 3]);
            assert_eq!(ask(program, number, 4), unknown);
        }
    }
}

/// MC-EPATTRSET-1, MC-EPATTRSET-4, MC-ATTR-2, MC-ATTR-3: and MC-GEN-4, whose it is comes before what
/// is wrong with the value.
#[test]
fn attributes_are_set_by_the_owner_only() {
    let [a, b] = pair();
    let endpoint = create(&a, 17);
    let set = |program: &Program, at, number, words: &[u32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        program.with(|state| functions::endpoint_set_attribute(state, at, number, input(&bytes)))
    };
    assert_eq!(set(&a, endpoint, 11, &[250]), Ok(()));
    assert_eq!(set(&a, endpoint, 0, &[2]), Ok(()));
    assert_eq!(set(&a, endpoint, 0, &[3]), Err(Error::AttributeValue));
    assert_eq!(
        set(&a, endpoint, 3, &[u32::MAX]),
        Err(Error::AttributeValue)
    );
    assert_eq!(set(&a, endpoint, 11, &[1, 2]), Err(Error::AttributeSize));
    assert_eq!(set(&a, endpoint, 12, &[1]), Err(Error::AttributeNumber));
    for (number, words) in [(1, 1), (2, 2), (9, 1), (10, 1)] {
        let words = &[0; 2][..words];
        assert_eq!(
            set(&a, endpoint, number, words),
            Err(Error::AttributeReadOnly)
        );
    }
    for (number, words) in [(11, &[1][..]), (11, &[1, 2]), (12, &[1])] {
        assert_eq!(set(&b, endpoint, number, words), Err(Error::EndpointRemote));
        let none = endpoint + 1;
        assert_eq!(set(&a, none, number, words), Err(Error::EndpointInvalid));
    }
    // MC-TMO-1, MC-TMO-4
    assert_eq!(set(&a, endpoint, 0, &[1]), Ok(()));
    assert_eq!(receive(&a, endpoint, 8), (Err(Error::Timeout), vec![]));
}
