// SPDX-License-Identifier: GPL-2.0-only

//! The local ends of links.

use kernel::prelude::*;

#[kunit_tests(mp_interface)]
mod tests {
    use super::*;
    use crate::fixture::Fabric;
    use kernel::{
        new_mutex,
        str::CString,
        sync::{
            Arc,
            Mutex, //
        }, //
    };
    use mp_kernel::pci::Function;
    use mp_proto::wire::PeerId;
    use mp_transport::{
        interface::{
            self,
            Info,
            Interface,
            Kind,
            Registration,
            Watch,
            Watcher, //
        },
        peer::Peer, //
    };

    /// Id of the first interface here, which no other has.
    const ID: u32 = 0x7e57_0001;

    /// What a bridge on some bus is.
    const PLACE: Function = Function {
        domain: 0,
        bus: 3,
        device: 4,
        function: 5,
        vendor_id: 0x8086,
        device_id: 0x1234,
        subsystem_vendor_id: 1,
        subsystem_id: 2,
    };

    fn register(id: u32) -> Result<Registration> {
        Registration::new(Info {
            id,
            name: CString::try_from(c"test")?,
            kind: Kind::Bridge,
            location: None,
            bridge: None,
            port: 0,
        })
    }

    /// What a watcher was told of an interface.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Told {
        Added,
        Up(u32),
        Down(u32),
        Removed,
    }

    /// Notes what it is told of the interfaces that are made here, which lead over bridges.
    #[pin_data]
    struct Notes {
        #[pin]
        told: Mutex<KVec<(u32, Told)>>,
    }

    impl Notes {
        fn new() -> Result<Arc<Self>> {
            Arc::pin_init(
                pin_init!(Self { told <- new_mutex!(KVec::new()) }),
                GFP_KERNEL,
            )
        }

        fn note(&self, interface: &Interface, told: Told) {
            if interface.info().kind == Kind::Bridge {
                let id = interface.id();
                // A note that is not kept is missed by the test that looks for it.
                let _ = self.told.lock().push((id, told), GFP_KERNEL);
            }
        }

        fn take(&self) -> KVec<(u32, Told)> {
            core::mem::take(&mut *self.told.lock())
        }
    }

    impl Watcher for Notes {
        fn added(&self, interface: &Arc<Interface>) {
            assert!(interface::get(interface.id()).is_some());
            self.note(interface, Told::Added);
        }

        fn removed(&self, interface: &Arc<Interface>) {
            self.note(interface, Told::Removed);
        }

        fn peer_up(&self, interface: &Arc<Interface>, peer: &Arc<Peer>) {
            self.note(interface, Told::Up(peer.id().0));
        }

        fn peer_down(&self, interface: &Arc<Interface>, peer: &Arc<Peer>) {
            self.note(interface, Told::Down(peer.id().0));
        }
    }

    #[test]
    fn the_own_host_has_an_interface_that_is_up() -> Result {
        let first = interface::next(None).ok_or(ENOENT)?;
        assert!(first.info().kind == Kind::Loopback && first.is_up());
        let peer = first.peer().ok_or(ENOENT)?;
        assert!(peer.id() == PeerId::SELF);
        assert!(peer.memory().is_some());
        assert!(interface::get(first.id()).is_some());
        Ok(())
    }

    #[test]
    fn an_interface_is_listed_without_a_peer_until_it_goes() -> Result {
        let registration = register(ID)?;
        let interface = interface::get(ID).ok_or(ENOENT)?;
        assert!(!interface.is_up() && interface.peer().is_none());
        drop(registration);
        assert!(interface::get(ID).is_none());
        Ok(())
    }

    #[test]
    fn ids_are_unique_and_never_zero() -> Result {
        assert_eq!(register(0).err(), Some(EINVAL));
        let (first, second, third) = (register(ID)?, register(ID)?, register(ID)?);
        let ids = [&first, &second, &third].map(|r| r.interface().id());
        assert_eq!(ids, [ID, ID + 1, ID + 2]);
        // In order, between the loopback and nothing.
        assert_eq!(interface::next(Some(ID - 1)).map(|i| i.id()), Some(ID));
        assert_eq!(interface::next(Some(ID)).map(|i| i.id()), Some(ID + 1));
        assert!(interface::next(Some(ID + 2)).is_none());
        assert!(interface::next(Some(u32::MAX)).is_none());
        let last = (register(u32::MAX)?, register(u32::MAX)?);
        assert!(last.1.interface().id() != 0);
        Ok(())
    }

    #[test]
    fn an_id_depends_on_the_place_of_the_bridge_and_the_port() -> Result {
        let id = interface::id_at(&PLACE, 0);
        let far = Function {
            domain: 0x1_0000,
            ..PLACE
        };
        let others = [
            interface::id_at(&PLACE, 1),
            interface::id_at(&Function { bus: 4, ..PLACE }, 0),
            interface::id_at(&Function { device: 5, ..PLACE }, 0),
            interface::id_at(
                &Function {
                    function: 4,
                    ..PLACE
                },
                0,
            ),
            interface::id_at(&Function { domain: 1, ..PLACE }, 0),
            interface::id_at(&far, 0),
            interface::id_of(0, 0),
            interface::id_of(1, 0),
            interface::id_of(0, 1),
            interface::id_behind(PeerId::from_bdf(1, 0, 0)),
            interface::id_behind(PeerId::from_bdf(2, 0, 0)),
        ];
        assert!(id != 0 && others.iter().all(|other| *other != id && *other != 0));
        for (at, other) in others.iter().enumerate() {
            assert!(others.iter().skip(at + 1).all(|o| o != other));
        }
        // The ids of the function do not count, nor does anything of this boot.
        let same = Function {
            device_id: 1,
            ..PLACE
        };
        assert_eq!(interface::id_at(&same, 0), id);
        Ok(())
    }

    #[test]
    fn a_watcher_is_told_of_interfaces_and_peers_in_order() -> Result {
        let fabric = Fabric::new(1)?;
        let peer = fabric.peer(1)?;
        let number = peer.id().0;
        let notes = Notes::new()?;
        let _watch = Watch::new(notes.clone())?;
        let registration = register(ID)?;
        registration.set_peer(Some(peer.clone()));
        assert!(registration.interface().is_up());
        registration.set_peer(None);
        registration.set_peer(None);
        registration.set_peer(Some(peer));
        drop(registration);
        let told = [
            Told::Added,
            Told::Up(number),
            Told::Down(number),
            Told::Up(number),
            Told::Down(number),
            Told::Removed,
        ];
        let got = notes.take();
        assert!(got.iter().all(|(id, _)| *id == ID));
        assert!(got.iter().map(|(_, told)| *told).eq(told));
        Ok(())
    }

    #[test]
    fn a_watcher_is_told_of_what_was_there_before_and_stays() -> Result {
        let fabric = Fabric::new(1)?;
        let peer = fabric.peer(1)?;
        let number = peer.id().0;
        let registration = register(ID)?;
        registration.set_peer(Some(peer));
        let notes = Notes::new()?;
        let watch = Watch::new(notes.clone())?;
        let got = notes.take();
        assert_eq!(got.as_slice(), [(ID, Told::Added), (ID, Told::Up(number))]);
        drop(watch);
        let got = notes.take();
        assert_eq!(
            got.as_slice(),
            [(ID, Told::Down(number)), (ID, Told::Removed)]
        );
        drop(registration);
        assert!(notes.take().is_empty());
        Ok(())
    }

    #[test]
    fn too_many_interfaces_are_refused() -> Result {
        let mut all = KVec::new();
        let refused = loop {
            match register(ID) {
                Ok(registration) => all.push(registration, GFP_KERNEL)?,
                Err(e) => break e,
            }
        };
        assert_eq!(refused, ENOSPC);
        drop(all.pop());
        all.push(register(ID)?, GFP_KERNEL)?;
        Ok(())
    }
}
