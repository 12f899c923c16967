// SPDX-License-Identifier: MIT OR Apache-2.0

//! Maps, sequences, and transfers by the processor.

use super::{caught, handle_out, plain, run, tell, Error};
use crate::{
    buffer::Bytes,
    functions::{self, Part},
    process::Process,
    sys,
    table::Handle,
};
use mp_fabric::CharDevice;
use sisci::Result;
use std::{
    ffi::{c_uint, c_void},
    ptr,
};

/// Runs a function that returns a status beside the error.
pub(super) fn checked(
    error: Error,
    function: impl FnOnce(&Process<CharDevice>) -> (u32, Result<()>),
) -> u32 {
    let ran = caught(|process| Ok(function(process)));
    let (status, result) = ran.unwrap_or_else(|error| (sys::SCI_SEQ_PENDING, Err(error)));
    tell(error, result);
    status
}

export! {
    /// Maps a part of a local segment.
    fn SCIMapLocalSegment(
        segment: sys::sci_local_segment_t,
        map: *mut sys::sci_map_t,
        offset: usize,
        size: usize,
        addr: *mut c_void,
        flags: c_uint,
        error: Error,
    ) -> *mut c_void {
        // SAFETY: The caller's promise.
        let out = unsafe { handle_out(map) };
        let part = Part {
            offset,
            size,
            address: addr.addr(),
        };
        let address = run(error, |process| {
            functions::map_local_segment(process, Handle::from_pointer(segment), out, part, flags)
        });
        ptr::with_exposed_provenance_mut(address)
    }

    /// Maps a part of a remote segment.
    fn SCIMapRemoteSegment(
        segment: sys::sci_remote_segment_t,
        map: *mut sys::sci_map_t,
        offset: usize,
        size: usize,
        addr: *mut c_void,
        flags: c_uint,
        error: Error,
    ) -> *mut c_void {
        // SAFETY: The caller's promise.
        let out = unsafe { handle_out(map) };
        let part = Part {
            offset,
            size,
            address: addr.addr(),
        };
        let address = run(error, |process| {
            functions::map_remote_segment(process, Handle::from_pointer(segment), out, part, flags)
        });
        ptr::with_exposed_provenance_mut(address)
    }

    /// Unmaps a map.
    fn SCIUnmapSegment(map: sys::sci_map_t, flags: c_uint, error: Error) {
        run(error, |process| {
            functions::unmap_segment(process, Handle::from_pointer(map), flags)
        });
    }

    /// Tells the address of a map; NULL of none.
    fn SCIGetMapPointer(map: sys::sci_map_t) -> *mut c_void {
        let address = plain(|process| functions::map_pointer(process, Handle::from_pointer(map)));
        ptr::with_exposed_provenance_mut(address)
    }

    /// Tells the physical address of a map; 0 if it is not in one run, of none, and for
    /// programs without privilege.
    fn SCIGetMapPhysAddr(map: sys::sci_map_t) -> sys::sci_ioaddr_t {
        plain(|process| functions::map_physical_address(process, Handle::from_pointer(map)))
    }

    /// Makes a sequence for a map.
    fn SCICreateMapSequence(
        map: sys::sci_map_t,
        sequence: *mut sys::sci_sequence_t,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let out = unsafe { handle_out(sequence) };
        run(error, |process| {
            functions::create_map_sequence(process, Handle::from_pointer(map), out, flags)
        });
    }

    /// Removes a sequence.
    fn SCIRemoveSequence(sequence: sys::sci_sequence_t, flags: c_uint, error: Error) {
        run(error, |process| {
            functions::remove_sequence(process, Handle::from_pointer(sequence), flags)
        });
    }

    /// Looks whether transfers can begin.
    fn SCIStartSequence(
        sequence: sys::sci_sequence_t,
        flags: c_uint,
        error: Error,
    ) -> sys::sci_sequence_status_t {
        checked(error, |process| {
            functions::start_sequence(process, Handle::from_pointer(sequence), flags)
        })
    }

    /// Looks whether transfers have arrived.
    fn SCICheckSequence(
        sequence: sys::sci_sequence_t,
        flags: c_uint,
        error: Error,
    ) -> sys::sci_sequence_status_t {
        checked(error, |process| {
            functions::check_sequence(process, Handle::from_pointer(sequence), flags)
        })
    }

    /// Waits until stores have arrived.
    fn SCIStoreBarrier(sequence: sys::sci_sequence_t, flags: c_uint) {
        plain(|process| functions::store_barrier(process, Handle::from_pointer(sequence), flags));
    }

    /// Has stores leave the processor.
    fn SCIFlush(sequence: sys::sci_sequence_t, flags: c_uint) {
        let _ = (sequence, flags);
        mp_fabric::flush_stores();
    }

    /// Copies into a map.
    fn SCIMemWrite(
        mem_addr: *mut c_void,
        remote_addr: *mut c_void,
        size: usize,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let (from, to) = unsafe { (Bytes::new(mem_addr, size), Bytes::new(remote_addr, size)) };
        run(error, |process| {
            functions::mem_write(process, from, to, flags)
        });
    }

    /// Copies into a map or out of it, checked or not.
    fn SCIMemCpy(
        sequence: sys::sci_sequence_t,
        mem_addr: *mut c_void,
        remote_map: sys::sci_map_t,
        remote_offset: usize,
        size: usize,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let memory = unsafe { Bytes::new(mem_addr, size) };
        let sequence = (!sequence.is_null()).then(|| Handle::from_pointer(sequence));
        run(error, |process| {
            functions::mem_cpy(
                process,
                sequence,
                memory,
                Handle::from_pointer(remote_map),
                remote_offset,
                flags,
            )
        });
    }

    /// Does nothing: caches are coherent.
    fn SCICacheSync(
        map: sys::sci_map_t,
        addr: *mut c_void,
        length: usize,
        flags: c_uint,
        error: Error,
    ) {
        let _ = (map, addr, length);
        run(error, |process| functions::cache_sync(process, flags));
    }
}
