// SPDX-License-Identifier: GPL-2.0-only

//! The virtual Ethernet, where `mp_func_ether` is loaded: it has peers of this transport then.

use kernel::prelude::*;

#[kunit_tests(mp_ether)]
mod tests {
    use super::*;
    use crate::fixture::{
        Fabric,
        Listener, //
    };
    use mp_proto::{
        ether,
        wire::PeerId, //
    };
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
