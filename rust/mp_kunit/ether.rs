// SPDX-License-Identifier: GPL-2.0-only

//! The virtual Ethernet, where `mp_func_ether` is loaded: it has peers of this transport then.

use crate::fixture::Listener;
use kernel::prelude::*;
use mp_proto::ether;
use mp_transport::{
    frame::FuncId,
    function, //
};

/// Whether the virtual Ethernet is there.
fn is_loaded() -> Result<bool> {
    let listener = Listener::new()?;
    let taken = function::Registration::new(FuncId(ether::FUNC_ID), listener).err();
    Ok(taken == Some(EEXIST))
}

#[kunit_tests(mp_ether)]
mod tests {
    use super::*;
    use crate::fixture::Fabric;
    use mp_proto::wire::PeerId;

    #[test]
    fn a_peer_of_any_index_is_told_the_address_of_the_interface() -> Result {
        let told = usize::from(is_loaded()?);
        let mut fabric = Fabric::new(0)?;
        for index in [1, 15, 16, 17, 63] {
            fabric.enter(PeerId::from_bdf(index, 0, 0), index)?;
        }
        for number in 1..=5 {
            let frames = fabric.link(number)?.take_frames();
            let of_ether = frames.iter().filter(|h| h.msg.func == ether::FUNC_ID);
            assert_eq!(of_ether.count(), told);
        }
        Ok(())
    }
}

/// Somebody sends packets to all hosts meanwhile.
#[kunit_tests(mp_ether_to_all)]
mod to_all {
    use super::*;
    use crate::fixture::Fabric;
    use kernel::time::{
        delay::fsleep,
        Delta, //
    };

    /// More than leave at once, and wait behind them.
    const PACKETS: usize = 20;

    #[test]
    fn packets_reach_the_others_when_a_peer_never_has_room() -> Result {
        if !is_loaded()? {
            return Ok(());
        }
        let fabric = Fabric::new(2)?;
        fabric.link(2)?.refuse(true);
        // The announcement, and what was sent to all meanwhile.
        assert!(!fabric.link(1)?.take_frames().is_empty());
        let mut got = 0;
        for _ in 0..500 {
            got += fabric.link(1)?.take_frames().len();
            if got >= PACKETS {
                break;
            }
            fsleep(Delta::from_millis(10));
        }
        assert!(got >= PACKETS);
        Ok(())
    }
}
