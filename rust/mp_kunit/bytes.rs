// SPDX-License-Identifier: GPL-2.0-only

//! Memory that is only copied from, or only written: what has not been written never
//! gets to anybody.

use kernel::prelude::*;

#[kunit_tests(mp_bytes)]
mod tests {
    use super::*;
    use kernel::sync::Arc;
    use mp_kernel::{
        bytes::{
            append,
            SharedBytes,
            Writer, //
        },
        net::{
            device::{
                Config,
                Device,
                Features, //
            },
            skb::{
                ReceiveError,
                SkBuff,
                LINEAR_MAX, //
            }, //
        }, //
    };
    use mp_transport::{
        frame::RxData,
        kept::Kept, //
    };

    /// Bytes of the largest packet.
    const LONG: usize = 100_000;

    /// What room is filled with beforehand, and no source has.
    const BLANK: u8 = 0xff;

    fn shared(bytes: &[u8]) -> SharedBytes<'_> {
        bytes.into()
    }

    #[test]
    fn bytes_are_cut_anywhere() {
        for (at, head, tail) in [(0, 0, 3), (2, 2, 1), (3, 3, 0), (4, 3, 0)] {
            let (a, b) = shared(b"abc").split_at(at);
            assert_eq!((a.len(), b.len()), (head, tail));
            assert_eq!(b.as_ptr() as usize, a.as_ptr() as usize + head);
        }
    }

    #[test]
    fn a_writer_takes_what_fits() -> Result {
        let mut room = *b"......";
        let mut writer = Writer::from(room.as_mut_slice());
        writer.write(shared(b"ab"))?;
        assert_eq!(writer.write(shared(b"cdefg")), Err(EINVAL));
        assert_eq!(writer.remaining(), 4);
        assert!(writer.take(5).is_err());
        writer.take(2)?.write(shared(b"c"))?;
        writer.write(shared(b"ef"))?;
        assert_eq!(writer.remaining(), 0);
        assert_eq!(&room, b"abc.ef");
        Ok(())
    }

    #[test]
    fn a_copy_of_any_length_and_alignment_is_complete() -> Result {
        let mut source = KVec::new();
        for byte in 0..BLANK {
            source.push(byte, GFP_KERNEL)?;
        }
        for from in 0..9 {
            for (to, len) in [(0, 0), (1, 7), (3, 8), (2, 63), (5, 64), (7, 200)] {
                let bytes = source.get(from..from + len).ok_or(EINVAL)?;
                let mut room = [BLANK; 256];
                let mut writer = Writer::from(room.as_mut_slice());
                writer.take(to)?;
                writer.write(bytes.into())?;
                let is_old = |byte: &u8| *byte == BLANK;
                assert!(room.iter().take(to).all(is_old));
                assert!(room.iter().skip(to + len).all(is_old));
                assert_eq!(room.get(to..to + len), Some(bytes));
            }
        }
        Ok(())
    }

    #[test]
    fn a_vector_gets_all_that_is_written() -> Result {
        let mut vec = KVec::new();
        vec.push(b'a', GFP_KERNEL)?;
        append(&mut vec, 3, GFP_KERNEL, |mut room| {
            room.take(1)?.write(shared(b"b"))?;
            room.write(shared(b"cd"))
        })?;
        assert_eq!(vec.as_slice(), b"abcd");
        Ok(())
    }

    #[test]
    fn a_vector_gets_nothing_that_is_not_written() -> Result {
        let mut vec = KVec::new();
        vec.push(b'a', GFP_KERNEL)?;
        let short = append(&mut vec, 3, GFP_KERNEL, |mut room| {
            room.write(shared(b"bc"))
        });
        assert_eq!(short, Err(EINVAL));
        let hole = append(&mut vec, 3, GFP_KERNEL, |mut room| {
            room.take(1)?;
            room.write(shared(b"cd"))
        });
        assert_eq!(hole, Err(EINVAL));
        let elsewhere = append(&mut vec, 3, GFP_KERNEL, |_| {
            Writer::from([0; 3].as_mut_slice()).write(shared(b"bcd"))
        });
        assert_eq!(elsewhere, Err(EINVAL));
        let failed = append(&mut vec, 3, GFP_KERNEL, |mut room| {
            room.write(shared(b"bcd"))?;
            Err(EIO)
        });
        assert_eq!(failed, Err(EIO));
        assert_eq!(vec.as_slice(), b"a");
        Ok(())
    }

    /// Data of which the last byte is missing when it is copied.
    struct Short(usize);

    impl RxData for Short {
        fn len(&self) -> usize {
            self.0
        }

        fn copy_to(&self, offset: usize, mut dst: Writer<'_>) -> Result {
            let left = self.0.saturating_sub(offset + 1);
            let n = dst.remaining().min(left);
            (0..n).try_for_each(|_| dst.write(shared(&[7])))
        }
    }

    #[test]
    fn data_that_comes_short_is_not_kept() {
        for len in [1, 10, 4097] {
            assert_eq!(Kept::copy(&Short(len)).err(), Some(EINVAL));
        }
    }

    #[test]
    fn kept_data_is_copied_from_inside_of_it() -> Result {
        let mut bytes = KVec::new();
        for n in 0..10_000u32 {
            bytes.push((n % 251) as u8, GFP_KERNEL)?;
        }
        let kept = Kept::copy(&crate::fixture::Bytes(&bytes))?;
        let mut room = [0; 100];
        kept.copy_to(4050, room.as_mut_slice().into())?;
        assert_eq!(bytes.get(4050..4150), Some(&room[..]));
        for offset in [9_901, 10_000, 10_001] {
            let copied = kept.copy_to(offset, room.as_mut_slice().into());
            assert_eq!(copied, Err(EINVAL));
        }
        Ok(())
    }

    fn device() -> Result<Arc<Device>> {
        Device::new(&Config {
            name: c"kunit%d",
            tx_queues: 1,
            rx_queues: 1,
            features: Features::default(),
            switchable: Features::default(),
            vlan_features: Features::default(),
            mtu: (1500, 68, 1500),
            address: None,
        })
    }

    /// A packet of `len` bytes of which `write` writes those that it gets.
    fn receive(
        device: &Device,
        len: usize,
        write: &mut dyn FnMut(usize, Writer<'_>) -> Result,
    ) -> Result<SkBuff, ReceiveError> {
        SkBuff::receive(device, None, len, LINEAR_MAX, write)
    }

    #[test]
    fn a_packet_holds_what_was_written() -> Result {
        let device = device()?;
        let mut bytes = KVVec::new();
        for n in 0..LONG {
            bytes.push((n % 251) as u8, GFP_KERNEL)?;
        }
        for len in [1, 60, 1514, 5000, LONG] {
            let bytes = bytes.get(..len).ok_or(EINVAL)?;
            let skb = receive(&device, len, &mut |at, mut room| {
                let end = at + room.remaining();
                room.write(bytes.get(at..end).ok_or(EINVAL)?.into())
            })?;
            assert_eq!(skb.len(), len);
            let mut got = KVVec::new();
            got.resize(len, BLANK, GFP_KERNEL)?;
            let mut room = Writer::from(got.as_mut_slice());
            skb.for_each_fragment(&mut |fragment| room.write(fragment))?;
            assert_eq!(room.remaining(), 0);
            assert!(got.as_slice() == bytes);
        }
        Ok(())
    }

    #[test]
    fn a_packet_that_comes_short_is_none() -> Result {
        let device = device()?;
        // In the linear part, and in the first and the last pages.
        for (len, end) in [(60, 59), (5000, 100), (5000, 4999), (LONG, LONG - 1)] {
            let short = receive(&device, len, &mut |at, mut room| {
                let n = room.remaining().min(end - at);
                (0..n).try_for_each(|_| room.write(shared(&[7])))
            });
            assert_eq!(short.err(), Some(ReceiveError::Copy(EINVAL)));
        }
        let failed = receive(&device, 60, &mut |_, _| Err(EIO));
        assert_eq!(failed.err(), Some(ReceiveError::Copy(EIO)));
        Ok(())
    }

    #[test]
    fn a_packet_has_an_end() -> Result {
        let device = device()?;
        let bytes = [7; 4096];
        let long = receive(&device, 4 << 20, &mut |_, mut room| {
            while room.remaining() != 0 {
                let (piece, _) = shared(&bytes).split_at(room.remaining());
                room.write(piece)?;
            }
            Ok(())
        });
        assert_eq!(long.err(), Some(ReceiveError::TooLong));
        Ok(())
    }

    /// 2 GB in all, which is more than the memory of a guest.
    #[test]
    fn pages_that_are_not_written_are_given_back() -> Result {
        let device = device()?;
        for _ in 0..20_000 {
            let failed = receive(&device, LONG, &mut |at, mut room| match at {
                0 => room.write(shared(&[7; LINEAR_MAX])),
                _ => Err(EIO),
            });
            assert_eq!(failed.err(), Some(ReceiveError::Copy(EIO)));
        }
        Ok(())
    }
}
