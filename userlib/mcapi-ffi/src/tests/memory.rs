// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs that have no memory for more than they have.

use super::{
    channels::{read, Channel, PACKETS},
    *,
};
use mp_testing::LimitedMemory;

#[global_allocator]
static MEMORY: LimitedMemory = LimitedMemory::new();

/// Run something in this thread that gets no pieces of memory above a limit.
fn within<T>(limit: usize, act: impl FnOnce() -> T) -> T {
    MEMORY.limit_here(limit);
    let done = act();
    MEMORY.limit_here(usize::MAX);
    done
}

/// MC-MSGRECVI-2, MC-GEN-6: where there is no memory for what is known of one more request, an operation is
/// refused, though the node had room for it; it takes nothing, and the others go on.
#[test]
fn without_memory_for_its_request_nothing_is_begun() {
    let [a, b] = pair();
    let (from, to) = (create(&a, 1), create(&b, 2));
    let mut bytes = vec![[0_u8; 4]; 500];
    // The node keeps slots of requests that were released.
    for _ in 0..2000 {
        let request = post(&b, to, &mut bytes[0]);
        cancel(&b, request).unwrap();
    }
    let mut posted = Vec::with_capacity(bytes.len());
    within(16 << 10, || {
        let begun = bytes.iter_mut().map(|place| {
            let place = room(place);
            begin(&b, |node| functions::msg_recv_i(node, to, place))
        });
        for begun in begun {
            match begun {
                Ok((request, false)) => posted.push(request),
                other => assert_eq!(other, Err(sys::MCAPI_ERR_MEM_LIMIT)),
            }
        }
    });
    assert!(posted.len() > 64 && posted.len() < bytes.len());
    let count = b.with(|state| Ok(state.operations.count()));
    assert_eq!(count, Ok(posted.len()));
    for number in 0..=posted.len() as u32 {
        send(&a, from, to, &number.to_le_bytes()).unwrap();
    }
    for request in &posted {
        assert_eq!(wait(&b, *request), Ok(4));
    }
    let numbers = (0_u32..).map(u32::to_le_bytes).take(posted.len());
    assert!(bytes.iter().copied().take(posted.len()).eq(numbers));
    // What was refused has taken none.
    let left = (posted.len() as u32).to_le_bytes();
    assert_eq!(receive(&b, to, 4), (Ok(()), left.to_vec()));
    let request = post(&b, to, &mut bytes[0]);
    cancel(&b, request).unwrap();
}

/// MC-PKTRELTEST-3, A-16: packets are sent also where there is no memory to know their addresses; none is
/// told to be what an earlier one at the same place was.
#[test]
fn without_memory_for_its_address_a_packet_is_sent() {
    let channel = Channel::with(PACKETS, &[(sys::MCAPI_ENDP_ATTR_MAX_PAYLOAD_SIZE, 64)]);
    let data = vec![[7_u8; 64]; 3000];
    let (mut known, mut unknown) = (0, 0);
    for place in &data {
        within(4 << 10, || channel.send(place)).unwrap();
        let (buffer, len) = channel.receive().unwrap();
        assert_eq!(read(buffer, len), place);
        channel.release(buffer).unwrap();
        match channel.release_test(0, place.as_ptr().cast()) {
            free if free == Answer::success(1) => known += 1,
            none => {
                assert_eq!(none, Answer::from(Error::BufferInvalid));
                unknown += 1;
            }
        }
    }
    assert!(known > 16 && unknown > 0, "{known} {unknown}");
}
