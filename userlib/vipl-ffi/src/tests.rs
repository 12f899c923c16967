// SPDX-License-Identifier: MIT OR Apache-2.0

//! The functions on a stand-in for the device: two hosts in one process, each with a program that
//! passes structures of C, and a model of a bridge between them. Names of tests say the rule, doc comments its id.

mod connections;
mod misuse;
mod names;
mod nics;
mod queues;

use crate::{
    address::Address,
    functions,
    process::Process,
    sys::{self, VIP_DESCRIPTOR, VIP_NET_ADDRESS, VIP_VI_ATTRIBUTES},
};
use mp_c_abi::{Handle, Opaque, Out};
use mp_fabric::{Fabric, Map, ProcessMemory};
use mp_testing::{seeded_bridge, Bridge, BridgeDevice, Host, World};
use std::{ffi::c_void, mem::MaybeUninit, ptr, sync::Arc, thread, time::Duration};
use vipl::{Error, Library, QueueKind, Result};

const NONE: Handle = Handle::NULL;
/// Long enough for everything that comes, in milliseconds.
const SOON: u64 = 30_000;
const INVALID: Result<()> = Err(Error::InvalidParameter);

type Program = Process<BridgeDevice>;

thread_local! {
    /// Between all programs of a test.
    static BRIDGE: Bridge = seeded_bridge();
}

fn program(world: &World, host: Host) -> Arc<Program> {
    let world = world.clone();
    let bridge = BRIDGE.with(Bridge::clone);
    let load = move || {
        let (world, bridge) = (world.clone(), bridge.clone());
        Library::new(move || Ok(Fabric::with_device(bridge.device(world.open(host)))))
    };
    Arc::new(Process::new(Box::leak(Box::new(load))))
}

fn out<T: Copy>(value: &mut T) -> Out<T> {
    // SAFETY: The value outlives the call that it is for.
    unsafe { Out::new(value) }
}

fn opaque(context: usize) -> Opaque {
    // SAFETY: `Opaque` is a transparent pointer, and nothing follows it.
    unsafe { std::mem::transmute(ptr::without_provenance_mut::<c_void>(context)) }
}

/// Run what writes a handle; NULL if it fails.
fn made(make: impl FnOnce(Out<Handle>) -> Result<()>) -> Result<Handle> {
    let mut handle = NONE;
    let result = make(out(&mut handle));
    assert_eq!(result.is_ok(), handle != NONE);
    result.map(|()| handle)
}

fn zeroed<T: Copy>() -> T {
    // SAFETY: Structures of C, of numbers and pointers.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Room for the longest address, and bytes behind it that nothing may touch.
#[derive(Clone, Copy)]
#[repr(C)]
struct Place {
    host_len: u16,
    discriminator_len: u16,
    bytes: [u8; 20],
    guard: [u8; 8],
}

const GUARD: [u8; 8] = [0xEE; 8];

impl Place {
    fn new(host: &[u8], discriminator: &[u8]) -> Self {
        let mut place = Place {
            host_len: host.len() as u16,
            discriminator_len: discriminator.len() as u16,
            bytes: [0xEE; 20],
            guard: GUARD,
        };
        for (to, from) in place.bytes.iter_mut().zip(host.iter().chain(discriminator)) {
            *to = *from;
        }
        place
    }

    fn address(&mut self) -> Address {
        // SAFETY: There is room for the longest address, as long as the call takes.
        unsafe { Address::new(ptr::from_mut(self).cast::<VIP_NET_ADDRESS>()) }
    }

    fn host(&self) -> &[u8] {
        &self.bytes[..usize::from(self.host_len)]
    }

    fn discriminator(&self) -> &[u8] {
        &self.bytes[usize::from(self.host_len)..][..usize::from(self.discriminator_len)]
    }
}

fn null() -> Address {
    // SAFETY: NULL.
    unsafe { Address::new(ptr::null_mut()) }
}

/// A program with a NIC, a tag, and registered memory: descriptors and data.
struct Side {
    process: Arc<Program>,
    nic: Handle,
    host: [u8; 4],
    ptag: *mut c_void,
    map: Map,
    memory: u32,
}

// The tag is a number.
// SAFETY: Nothing follows it.
unsafe impl Send for Side {}
// SAFETY: As above.
unsafe impl Sync for Side {}

/// Where data begins in the memory of a side.
const DATA: usize = 0x1_0000;

impl Side {
    fn new(world: &World, host: Host) -> Self {
        let process = program(world, host);
        let nic = open(&process, c"VINIC").unwrap();
        let mut told = zeroed::<sys::VIP_NIC_ATTRIBUTES>();
        functions::query_nic(&process, nic, out(&mut told)).unwrap();
        assert_eq!(told.NicAddressLen, 4);
        // SAFETY: There are four bytes as long as the NIC is open.
        let host = unsafe { told.LocalNicAddress.cast::<[u8; 4]>().read() };
        let mut ptag = ptr::null_mut();
        functions::create_ptag(&process, nic, out(&mut ptag)).unwrap();
        let map = Map::allocate(1 << 20).unwrap();
        let mut attributes = mem(ptag);
        let mut memory = 0;
        let (to, given) = (out(&mut memory), out(&mut attributes));
        functions::register_mem(&process, nic, map.memory(), given, to).unwrap();
        assert_ne!(memory, 0);
        Side {
            process,
            nic,
            host,
            ptag,
            map,
            memory,
        }
    }

    fn start(&self) -> usize {
        self.map.memory().start()
    }

    fn attributes(&self) -> VIP_VI_ATTRIBUTES {
        VIP_VI_ATTRIBUTES {
            ReliabilityLevel: sys::VIP_SERVICE_RELIABLE_DELIVERY as u16,
            MaxTransferSize: 0x1_0000,
            QoS: ptr::null_mut(),
            Ptag: self.ptag,
            EnableRdmaWrite: 1,
            EnableRdmaRead: 0,
        }
    }

    fn create(&self, attributes: VIP_VI_ATTRIBUTES, cqs: [Handle; 2]) -> Result<Handle> {
        let mut attributes = attributes;
        let [send, recv] = cqs;
        made(|to| {
            let given = out(&mut attributes);
            functions::create_vi(&self.process, self.nic, given, send, recv, to)
        })
    }

    fn vi(&self) -> Handle {
        self.create(self.attributes(), [NONE; 2]).unwrap()
    }

    fn cq(&self) -> Handle {
        made(|to| functions::create_cq(&self.process, self.nic, 64, to)).unwrap()
    }

    fn state(&self, vi: Handle) -> u32 {
        let (mut state, mut attributes) = (7, zeroed());
        let (mut send, mut recv) = (7, 7);
        let (to_state, to_attributes) = (out(&mut state), out(&mut attributes));
        let (to_send, to_recv) = (out(&mut send), out(&mut recv));
        let p = &self.process;
        functions::query_vi(p, vi, to_state, to_attributes, to_send, to_recv).unwrap();
        state
    }

    /// A descriptor in a slot of the memory, with one piece of data.
    fn descriptor(&self, slot: usize, len: usize) -> *mut VIP_DESCRIPTOR {
        let at: *mut VIP_DESCRIPTOR = ptr::with_exposed_provenance_mut(self.start() + slot * 64);
        let mut descriptor = zeroed::<VIP_DESCRIPTOR>();
        descriptor.CS.SegCount = 1;
        descriptor.CS.Length = len as u32;
        let data = sys::VIP_DATA_SEGMENT {
            Data: sys::VIP_PVOID64 {
                AddressBits: (self.start() + DATA + slot * 0x1000) as u64,
            },
            Handle: self.memory,
            Length: len as u32,
        };
        descriptor.DS[0].Local = data;
        // SAFETY: It lies in the memory, which only this test uses.
        unsafe { at.write(descriptor) };
        at
    }

    fn post(&self, queue: QueueKind, vi: Handle, at: *mut VIP_DESCRIPTOR) {
        functions::post(&self.process, queue, vi, at, self.memory).unwrap();
    }

    /// Wait for a descriptor; what the function returns, and where it is.
    fn wait(&self, queue: QueueKind, vi: Handle) -> (Result<()>, *mut VIP_DESCRIPTOR) {
        let mut at = ptr::dangling_mut();
        let result = functions::wait(&self.process, queue, vi, SOON, out(&mut at));
        (result, at)
    }

    fn done(&self, queue: QueueKind, vi: Handle) -> (Result<()>, *mut VIP_DESCRIPTOR) {
        let mut at = ptr::dangling_mut();
        let result = functions::done(&self.process, queue, vi, out(&mut at));
        (result, at)
    }

    /// Put bytes where the data of a slot is.
    fn fill(&self, slot: usize, bytes: &[u8]) {
        let at: *mut u8 = ptr::with_exposed_provenance_mut(self.start() + DATA + slot * 0x1000);
        // SAFETY: It lies in the memory, which only this test uses.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) }
    }

    fn data(&self, slot: usize, len: usize) -> Vec<u8> {
        let at: *const u8 = ptr::with_exposed_provenance(self.start() + DATA + slot * 0x1000);
        // SAFETY: As above.
        unsafe { std::slice::from_raw_parts(at, len) }.to_vec()
    }
}

fn status(at: *mut VIP_DESCRIPTOR) -> u32 {
    // SAFETY: A descriptor that the library has handed back.
    unsafe { (*at).CS.Status }
}

fn mem(ptag: *mut c_void) -> sys::VIP_MEM_ATTRIBUTES {
    sys::VIP_MEM_ATTRIBUTES {
        Ptag: ptag,
        EnableRdmaWrite: 1,
        EnableRdmaRead: 1,
    }
}

fn open(process: &Program, name: &std::ffi::CStr) -> Result<Handle> {
    made(|to| functions::open_nic(process, text(name), to))
}

fn text(text: &std::ffi::CStr) -> mp_c_abi::Text {
    // SAFETY: It ends with NUL and outlives the call that it is for.
    unsafe { mp_c_abi::Text::new(text.as_ptr()) }
}

/// Two hosts with one link, and a program on each.
fn pair() -> (Side, Side) {
    let world = World::new(1, 1 << 24);
    (Side::new(&world, Host::A), Side::new(&world, Host::B))
}

/// Wait for a client until it comes, or the time is over.
fn connect_wait(
    process: &Program,
    nic: Handle,
    local: Address,
    timeout: u64,
    remote: Address,
    attributes: Out<VIP_VI_ATTRIBUTES>,
    out: Out<Handle>,
) -> Result<()> {
    let waiting = functions::connect_wait(process, nic, local, timeout, remote, attributes, out);
    let mut waiting = waiting?;
    loop {
        if let Some(result) = waiting.look(process) {
            return result;
        }
        let most = Duration::from_millis(timeout);
        assert!(waiting.nap().time.is_none_or(|time| time <= most));
        thread::sleep(Duration::from_millis(1));
    }
}

/// What a thread was told of a VI.
struct Told(VIP_VI_ATTRIBUTES);

// SAFETY: The tag is a number, which nothing follows.
unsafe impl Send for Told {}

/// Connect two VIs; what each side is told of the other one.
fn connect(
    server: (&Side, Handle),
    client: (&Side, Handle),
) -> (VIP_VI_ATTRIBUTES, VIP_VI_ATTRIBUTES, Place) {
    let ((s, server), (c, client)) = (server, client);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut local = Place::new(&s.host, b"server");
            // What is there does not matter.
            let mut remote = Place::new(&[], &[]);
            (remote.host_len, remote.discriminator_len) = (0xFFFF, 0xFFFF);
            let mut attributes = zeroed();
            let conn = made(|to| {
                let (local, remote) = (local.address(), remote.address());
                let given = out(&mut attributes);
                connect_wait(&s.process, s.nic, local, SOON, remote, given, to)
            });
            let conn = conn.unwrap();
            functions::connect_accept(&s.process, conn, server).unwrap();
            // It is used up.
            let again = functions::connect_accept(&s.process, conn, server);
            assert_eq!(again, INVALID);
            assert_eq!(functions::connect_reject(&s.process, conn), INVALID);
            (Told(attributes), remote)
        });
        let answer = loop {
            let mut local = Place::new(&c.host, b"client");
            let mut remote = Place::new(&s.host, b"server");
            let mut attributes = zeroed();
            let (local, remote) = (local.address(), remote.address());
            let to = out(&mut attributes);
            let p = &c.process;
            match functions::connect_request(p, client, local, remote, SOON, to) {
                Err(Error::NoMatch) => thread::yield_now(),
                other => {
                    other.unwrap();
                    break attributes;
                }
            }
        };
        let (Told(asked), remote) = waiting.join().unwrap();
        (asked, answer, remote)
    })
}

/// All of them with other chances of the bridge.
#[test]
fn with_other_seeds() {
    mp_testing::with_other_seeds("tests::with_other_seeds", &[]);
}
