// SPDX-License-Identifier: MIT OR Apache-2.0

//! Attributes of endpoints and nodes, without their sizes in C.

use crate::{Error, Result, MESSAGE_MAX, PRIORITIES};

/// Most sends of an endpoint that are not complete, by calls that do not wait.
pub const SEND_BUFFERS_MAX: u32 = 1024;

/// What an endpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum EndpointType {
    /// Messages; what every endpoint is at first (MC-EPCREATE-4).
    Message = 1,
    /// An end of a packet channel.
    PacketChannel = 2,
    /// An end of a scalar channel.
    ScalarChannel = 4,
}

impl EndpointType {
    /// The type that a value of [`Attribute::Type`] is.
    pub(crate) fn of(value: u64) -> Option<Self> {
        let kinds = [
            EndpointType::Message,
            EndpointType::PacketChannel,
            EndpointType::ScalarChannel,
        ];
        kinds.into_iter().find(|kind| *kind as u64 == value)
    }
}

/// What an endpoint has for the data of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum BufferType {
    /// A queue: what is sent is received, once and in order.
    #[default]
    Fifo = 0,
    /// The latest value: a send overwrites the one before and never waits, a receive gets the current
    /// one, again and again (MC-STATE-1).
    State = 1,
}

impl BufferType {
    /// The type that a value of [`Attribute::BufferType`] is.
    pub(crate) fn of(value: u32) -> Option<Self> {
        let kinds = [BufferType::Fifo, BufferType::State];
        kinds.into_iter().find(|kind| *kind as u32 == value)
    }
}

/// Where the data of a packet are, from the send on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum MemoryType {
    /// In the receiver's memory: that of the sender is free when the packet was sent.
    #[default]
    Local = 0,
    /// In memory of both ends: that of the sender is free when the receiver has released the packet
    /// (MC-PKTRELTEST-1).
    Shared = 1,
}

impl MemoryType {
    const FAIL_ON_MEM_LIMIT: u32 = 0x1_0000;

    /// The type that a value of [`Attribute::MemoryType`] is.
    ///
    /// # Errors
    /// [`Error::AttributeNotSupported`]: remote memory, and sends that fail where they would wait for
    /// memory; [`Error::AttributeValue`].
    fn of(value: u32) -> Result<Self> {
        match value {
            0 => Ok(MemoryType::Local),
            1 => Ok(MemoryType::Shared),
            _ if value & !Self::FAIL_ON_MEM_LIMIT <= 2 => Err(Error::AttributeNotSupported),
            _ => Err(Error::AttributeValue),
        }
    }
}

/// An attribute of an endpoint. The numbers are those of `mcapi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Attribute {
    /// An [`EndpointType`].
    Type = 0,
    /// How many gets of other nodes count.
    GetCount = 1,
    /// The node that got it last: domain in the upper 32 bits of the value, node in the lower ones;
    /// all ones while none has.
    GetSource = 2,
    /// Most bytes of a message.
    MaxPayloadSize = 3,
    /// A [`BufferType`], of channels.
    BufferType = 4,
    /// A [`MemoryType`], of packet channels.
    MemoryType = 5,
    /// How many priorities there are.
    NumPriorities = 6,
    /// Priority of a channel.
    Priority = 7,
    /// Most sends that are not complete, by calls that do not wait.
    NumSendBuffers = 8,
    /// Buffers that are free for the node that asks.
    NumRecvBuffers = 9,
    /// Flags: [`STATUS_CONNECTED`] to [`STATUS_GET_PENDING`].
    Status = 10,
    /// How long blocking sends and receives wait, in milliseconds; all ones for ever.
    Timeout = 11,
}

/// A flag of [`Attribute::Status`]: the endpoint is connected.
pub const STATUS_CONNECTED: u64 = 0x1;
/// A flag of [`Attribute::Status`]: its end of a channel is open.
pub const STATUS_OPEN: u64 = 0x2;
/// A flag of [`Attribute::Status`]: it is being opened.
pub const STATUS_OPEN_PENDING: u64 = 0x4;
/// A flag of [`Attribute::Status`]: it is being closed.
pub const STATUS_CLOSE_PENDING: u64 = 0x8;
/// A flag of [`Attribute::Status`]: it is connected by a packet channel.
pub const STATUS_PACKET_CHANNEL: u64 = 0x10;
/// A flag of [`Attribute::Status`]: it is connected by a scalar channel.
pub const STATUS_SCALAR_CHANNEL: u64 = 0x20;
/// A flag of [`Attribute::Status`]: it is the sending end.
pub const STATUS_SEND: u64 = 0x40;
/// A flag of [`Attribute::Status`]: it is the receiving end.
pub const STATUS_RECEIVE: u64 = 0x80;
/// A flag of [`Attribute::Status`]: a node has got the endpoint.
pub const STATUS_GET_PENDING: u64 = 0x100;

impl Attribute {
    /// All of them, in the order of their numbers.
    pub const ALL: [Attribute; 12] = [
        Attribute::Type,
        Attribute::GetCount,
        Attribute::GetSource,
        Attribute::MaxPayloadSize,
        Attribute::BufferType,
        Attribute::MemoryType,
        Attribute::NumPriorities,
        Attribute::Priority,
        Attribute::NumSendBuffers,
        Attribute::NumRecvBuffers,
        Attribute::Status,
        Attribute::Timeout,
    ];

    /// The attribute of a number.
    ///
    /// # Errors
    /// [`Error::AttributeNumber`] (MC-ATTR-3).
    pub fn of(number: u32) -> Result<Self> {
        let index = usize::try_from(number).ok();
        let attribute = index.and_then(|index| Self::ALL.get(index).copied());
        attribute.ok_or(Error::AttributeNumber)
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Whether all endpoints have it as it is.
    fn is_read_only(self) -> bool {
        use Attribute::*;
        matches!(self, GetCount | GetSource | NumRecvBuffers | Status)
    }
}

/// The attributes that an endpoint's owner sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) kind: EndpointType,
    pub(crate) max_payload: u32,
    pub(crate) buffers: BufferType,
    pub(crate) memory: MemoryType,
    pub(crate) priorities: u32,
    pub(crate) priority: u32,
    pub(crate) send_buffers: u32,
    pub(crate) timeout: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            kind: EndpointType::Message,
            max_payload: MESSAGE_MAX as u32,
            buffers: BufferType::Fifo,
            memory: MemoryType::Local,
            priorities: PRIORITIES as u32,
            priority: 0,
            send_buffers: 64,
            timeout: u32::MAX,
        }
    }
}

impl Settings {
    /// The value of an attribute; nothing if it is not set but counted.
    pub(crate) fn get(&self, attribute: Attribute) -> Option<u64> {
        let value = match attribute {
            Attribute::Type => self.kind as u32,
            Attribute::MaxPayloadSize => self.max_payload,
            Attribute::BufferType => self.buffers as u32,
            Attribute::MemoryType => self.memory as u32,
            Attribute::NumPriorities => self.priorities,
            Attribute::Priority => self.priority,
            Attribute::NumSendBuffers => self.send_buffers,
            Attribute::Timeout => self.timeout,
            _ => return None,
        };
        Some(value.into())
    }

    /// Set an attribute; nothing has changed if it cannot be (MC-EPATTRSET-4, MC-EPATTRSET-5).
    ///
    /// # Errors
    /// [`Error::AttributeReadOnly`], [`Error::AttributeValue`],
    /// [`Error::AttributeNotSupported`].
    pub(crate) fn set(&mut self, attribute: Attribute, value: u64) -> Result<()> {
        if attribute.is_read_only() {
            return Err(Error::AttributeReadOnly);
        }
        let value = u32::try_from(value).map_err(|_| Error::AttributeValue)?;
        let within = |least: u32, most: u32| match (least..=most).contains(&value) {
            true => Ok(value),
            false => Err(Error::AttributeValue),
        };
        match attribute {
            Attribute::Type => self.kind = kind(value)?,
            Attribute::MaxPayloadSize => self.max_payload = within(0, MESSAGE_MAX as u32)?,
            Attribute::BufferType => self.buffers = buffers(value)?,
            Attribute::MemoryType => self.memory = MemoryType::of(value)?,
            Attribute::NumPriorities => {
                self.priorities = within(self.priority + 1, PRIORITIES as u32)?;
            }
            Attribute::Priority => self.priority = within(0, self.priorities - 1)?,
            Attribute::NumSendBuffers => self.send_buffers = within(1, SEND_BUFFERS_MAX)?,
            Attribute::Timeout => self.timeout = value,
            _ => return Err(Error::AttributeReadOnly),
        }
        Ok(())
    }
}

fn kind(value: u32) -> Result<EndpointType> {
    EndpointType::of(value.into()).ok_or(Error::AttributeValue)
}

fn buffers(value: u32) -> Result<BufferType> {
    BufferType::of(value).ok_or(Error::AttributeValue)
}

/// How far a node is, which is for its program and those of others to agree on: an extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum NodeState {
    /// Initialized, and not started yet (MC-INIT2-1).
    Initialized = 0,
    /// Started (MC-NSTART-1), which is what every other node is from the beginning.
    #[default]
    Running = 1,
    /// About to be finalized (MC-NRUNDOWN-1).
    RunningDown = 2,
}

/// Attributes of a node (MC-NATTRINIT-1). The specification has one, with one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeAttributes {
    /// What [`NodeAttributes::STATE`] tells.
    pub state: NodeState,
}

impl NodeAttributes {
    /// Number of the type of a node.
    pub const TYPE: u32 = 0;
    /// Its only value.
    pub const TYPE_REGULAR: u64 = 0;
    /// Number of the [`NodeState`], the first one that is not the specification's.
    pub const STATE: u32 = 64;

    /// Set an attribute of a node that is initialized later (MC-NATTRSET-1, MC-NATTRSET-3).
    ///
    /// # Errors
    /// [`Error::AttributeNumber`], [`Error::AttributeValue`], [`Error::AttributeReadOnly`].
    pub fn set(&mut self, number: u32, value: u64) -> Result<()> {
        match (number, value) {
            (Self::TYPE, Self::TYPE_REGULAR) => Ok(()),
            (Self::TYPE, _) => Err(Error::AttributeValue),
            (Self::STATE, _) => Err(Error::AttributeReadOnly),
            _ => Err(Error::AttributeNumber),
        }
    }

    /// The value of an attribute.
    ///
    /// # Errors
    /// [`Error::AttributeNumber`].
    pub fn get(&self, number: u32) -> Result<u64> {
        match number {
            Self::TYPE => Ok(Self::TYPE_REGULAR),
            Self::STATE => Ok(self.state as u64),
            _ => Err(Error::AttributeNumber),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// MC-ATTR-3, MC-EPATTRSET-4, MC-EPATTRSET-5, MC-STATE-2
    #[test]
    fn attributes_take_what_they_can_have() {
        use Attribute::*;
        let mut settings = Settings::default();
        for (attribute, value, expected) in [
            (Type, 2, Ok(())),
            (Type, 1, Ok(())),
            (Type, 3, Err(Error::AttributeValue)),
            (GetCount, 0, Err(Error::AttributeReadOnly)),
            (GetSource, 0, Err(Error::AttributeReadOnly)),
            (NumRecvBuffers, 1, Err(Error::AttributeReadOnly)),
            (Status, 0, Err(Error::AttributeReadOnly)),
            (MaxPayloadSize, MESSAGE_MAX as u64, Ok(())),
            (
                MaxPayloadSize,
                MESSAGE_MAX as u64 + 1,
                Err(Error::AttributeValue),
            ),
            (BufferType, 1, Ok(())),
            (BufferType, 2, Err(Error::AttributeValue)),
            (BufferType, 0, Ok(())),
            (MemoryType, 1, Ok(())),
            (MemoryType, 0, Ok(())),
            (MemoryType, 2, Err(Error::AttributeNotSupported)),
            (MemoryType, 0x1_0000, Err(Error::AttributeNotSupported)),
            (MemoryType, 0x1_0001, Err(Error::AttributeNotSupported)),
            (MemoryType, 0x1_0003, Err(Error::AttributeValue)),
            (MemoryType, 3, Err(Error::AttributeValue)),
            (NumPriorities, 9, Err(Error::AttributeValue)),
            (NumPriorities, 0, Err(Error::AttributeValue)),
            (Priority, 7, Ok(())),
            (Priority, 8, Err(Error::AttributeValue)),
            (NumPriorities, 7, Err(Error::AttributeValue)),
            (Priority, 1, Ok(())),
            (NumPriorities, 2, Ok(())),
            (Priority, 2, Err(Error::AttributeValue)),
            (NumSendBuffers, 0, Err(Error::AttributeValue)),
            (NumSendBuffers, SEND_BUFFERS_MAX.into(), Ok(())),
            (Timeout, u32::MAX.into(), Ok(())),
            (Timeout, 1 << 32, Err(Error::AttributeValue)),
        ] {
            let before = settings;
            let set = settings.set(attribute, value);
            assert_eq!(set, expected, "{attribute:?} {value}");
            match set {
                Ok(()) => assert_eq!(settings.get(attribute), Some(value)),
                Err(_) => assert_eq!(settings, before),
            }
        }
    }

    /// MC-ATTR-3: numbers that are no attribute's.
    #[test]
    fn attributes_are_their_numbers() {
        for (number, attribute) in Attribute::ALL.into_iter().enumerate() {
            assert_eq!(Attribute::of(number as u32), Ok(attribute));
            assert_eq!(attribute.number(), number as u32);
        }
        for number in [12, 63, 64, u32::MAX] {
            assert_eq!(Attribute::of(number), Err(Error::AttributeNumber));
        }
    }

    /// MC-NATTRSET-3
    #[test]
    fn a_node_has_one_attribute_and_tells_how_far_it_is() {
        let mut node = NodeAttributes::default();
        assert_eq!(node.set(0, 0), Ok(()));
        assert_eq!(node.set(0, 1), Err(Error::AttributeValue));
        for number in [1, 63, 65] {
            assert_eq!(node.set(number, 0), Err(Error::AttributeNumber));
            assert_eq!(node.get(number), Err(Error::AttributeNumber));
        }
        assert_eq!(node.set(64, 1), Err(Error::AttributeReadOnly));
        assert_eq!((node.get(0), node.get(64)), (Ok(0), Ok(1)));
        node.state = NodeState::RunningDown;
        assert_eq!((node.get(0), node.get(64)), (Ok(0), Ok(2)));
    }

    proptest! {
        /// No order of settings leads to a priority that there is not.
        #[test]
        fn a_priority_is_always_one_of_those(steps: Vec<(bool, u8)>) {
            let mut settings = Settings::default();
            for (which, value) in steps {
                let attribute = if which { Attribute::Priority } else { Attribute::NumPriorities };
                let _ = settings.set(attribute, (value % 12).into());
                prop_assert!(settings.priority < settings.priorities);
                prop_assert!(settings.priorities <= PRIORITIES as u32);
            }
        }
    }
}
