// SPDX-License-Identifier: MIT OR Apache-2.0

//! The conversation with the kernel: requests, lists and events of the fabric's family, and of that of
//! SMC; and what the kernel says of sockets.

use crate::{
    failure::Failure,
    uapi::{MP_GENL_GROUP_PEERS, MP_GENL_NAME, MP_GENL_VERSION},
};
use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, ErrorMessage, NetlinkDeserializable, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable, NlasIterator, ParseableParametrized,
    NLA_HEADER_SIZE, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_REQUEST,
};
use netlink_packet_generic::{
    ctrl::{
        nlas::{GenlCtrlAttrs, McastGrpAttrs},
        GenlCtrl, GenlCtrlCmd,
    },
    GenlFamily, GenlHeader, GenlMessage,
};
use netlink_sys::{
    protocols::{NETLINK_GENERIC, NETLINK_SOCK_DIAG},
    Socket, SocketAddr,
};
use std::{collections::VecDeque, fmt::Debug, io};

/// Bytes of the original request that an error repeats: its header.
const REQUEST_HEADER: usize = 16;
/// Attribute of an error: the kernel's explanation.
const NLMSGERR_ATTR_MSG: u16 = 1;
const ENOENT: i32 = 2;
/// The family of SMC, of its one version (`linux/smc.h`).
const SMC_GENL_NAME: &str = "SMC_GEN_NETLINK";
/// A dump of sockets of one family of addresses (`linux/sock_diag.h`).
const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// A message of the family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Number of the command or event.
    pub command: u8,
    /// Its attributes.
    pub attributes: Attributes,
}

impl GenlFamily for Message {
    fn family_name() -> &'static str {
        text(MP_GENL_NAME)
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        MP_GENL_VERSION as u8
    }
}

impl Emitable for Message {
    fn buffer_len(&self) -> usize {
        self.attributes.0.len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.attributes.0);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Message {
    fn parse_with_param(bytes: &[u8], header: GenlHeader) -> Result<Self, DecodeError> {
        Ok(Message {
            command: header.cmd,
            attributes: Attributes(bytes.into()),
        })
    }
}

/// A group of attributes, as they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// Attributes with numbers, for a request.
    pub fn of_numbers(numbers: &[(u32, u32)]) -> Self {
        let attributes: Vec<DefaultNla> = numbers
            .iter()
            .map(|(kind, value)| DefaultNla::new(*kind as u16, value.to_ne_bytes().into()))
            .collect();
        let mut bytes = vec![0; attributes.as_slice().buffer_len()];
        attributes.as_slice().emit(&mut bytes);
        Attributes(bytes)
    }

    /// An attribute with a text, for a request.
    pub fn of_text(kind: u32, text: &str) -> Self {
        let value = [text.as_bytes(), &[0]].concat();
        let attribute = DefaultNla::new(kind as u16, value);
        let mut bytes = vec![0; attribute.buffer_len()];
        attribute.emit(&mut bytes);
        Attributes(bytes)
    }

    /// Attributes as they were sent.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Attributes(bytes.into())
    }

    /// The values of all attributes of that kind, in their order. The list ends with an attribute
    /// that is cut off.
    fn values(&self, kind: u32) -> impl Iterator<Item = &[u8]> {
        NlasIterator::new(&self.0)
            .map_while(Result::ok)
            .filter(move |nla| u32::from(nla.kind()) == kind)
            .map(|nla| {
                let end = NLA_HEADER_SIZE + nla.value_length();
                let bytes = nla.into_inner();
                bytes.get(NLA_HEADER_SIZE..end).unwrap_or_default()
            })
    }

    /// The number in an attribute, if it is there and a number.
    pub fn number(&self, kind: u32) -> Option<u64> {
        let value = self.values(kind).next()?;
        match *value {
            [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d]).into()),
            _ => Some(u64::from_ne_bytes(value.try_into().ok()?)),
        }
    }

    /// The number of one or two bytes in an attribute, if it is there and such a one.
    pub fn small(&self, kind: u32) -> Option<u16> {
        match *self.values(kind).next()? {
            [a] => Some(a.into()),
            [a, b] => Some(u16::from_ne_bytes([a, b])),
            _ => None,
        }
    }

    /// The bytes of an attribute.
    pub fn bytes(&self, kind: u32) -> Option<&[u8]> {
        self.values(kind).next()
    }

    /// The number in an attribute that has to be there.
    ///
    /// # Errors
    /// [`Failure::Malformed`] if it is not, or does not fit the type.
    pub fn required<T: TryFrom<u64>>(&self, kind: u32) -> Result<T, Failure> {
        let number = self.number(kind).and_then(|n| n.try_into().ok());
        number.ok_or_else(|| Failure::Malformed(format!("no number in attribute {kind}")))
    }

    /// The text in an attribute, if it is there and a text.
    pub fn text(&self, kind: u32) -> Option<&str> {
        Some(text(self.values(kind).next()?))
    }

    /// All groups of that kind.
    pub fn nests(&self, kind: u32) -> impl Iterator<Item = Attributes> + '_ {
        self.values(kind).map(|value| Attributes(value.into()))
    }
}

/// The text in bytes that end with a zero; nothing if they are no text.
fn text(bytes: &[u8]) -> &str {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// The family as this kernel has it.
struct Family {
    id: u16,
    /// The number of the group that tells of peers.
    peers_group: Option<u32>,
}

/// A socket that talks to the family.
pub struct Connection {
    socket: Socket,
    family: Family,
    sequence: u32,
    /// What has been received and not looked at.
    waiting: VecDeque<NetlinkMessage<GenlMessage<Message>>>,
}

impl Connection {
    /// Find the family of the fabric.
    ///
    /// # Errors
    /// [`Failure::NoFabric`] if the kernel has none.
    pub fn open() -> Result<Self, Failure> {
        let connection = Self::to(Message::family_name(), Failure::NoFabric)?;
        match connection.family.peers_group {
            Some(_) => Ok(connection),
            None => Err(Failure::Malformed("a family without its group".into())),
        }
    }

    /// Find the family of SMC.
    ///
    /// # Errors
    /// [`Failure::NoSmc`] if the kernel has none.
    pub fn open_smc() -> Result<Self, Failure> {
        Self::to(SMC_GENL_NAME, Failure::NoSmc)
    }

    fn to(name: &str, missing: Failure) -> Result<Self, Failure> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_ext_ack(true)?;
        socket.set_cap_ack(true)?;
        let family = find_family(&socket, name, missing)?;
        Ok(Connection {
            socket,
            family,
            sequence: 1,
            waiting: VecDeque::new(),
        })
    }

    /// Send a command and return the answer.
    ///
    /// # Errors
    /// [`Failure::Kernel`] if the kernel refuses.
    pub fn ask(&mut self, command: u32, numbers: &[(u32, u32)]) -> Result<Attributes, Failure> {
        self.request(command, Attributes::of_numbers(numbers), 0)?;
        match self.next_answer()? {
            Some(message) => Ok(message.attributes),
            None => Err(Failure::Malformed("no answer".into())),
        }
    }

    /// Send a command that has no answer but whether it was carried out.
    ///
    /// # Errors
    /// [`Failure::Kernel`] if it refuses.
    pub fn have_done(&mut self, command: u32, attributes: Attributes) -> Result<(), Failure> {
        self.request(command, attributes, NLM_F_ACK)?;
        self.next_answer().map(|_| ())
    }

    /// The entries of the list that a command asks for.
    ///
    /// # Errors
    /// [`Failure::Kernel`] if the kernel refuses.
    pub fn list(&mut self, command: u32) -> Result<Vec<Attributes>, Failure> {
        self.request(command, Attributes::default(), NLM_F_DUMP)?;
        let mut entries = Vec::new();
        while let Some(message) = self.next_answer()? {
            entries.push(message.attributes);
        }
        Ok(entries)
    }

    /// Ask for events.
    ///
    /// # Errors
    /// [`Failure::System`].
    pub fn listen(&mut self) -> Result<(), Failure> {
        match self.family.peers_group {
            Some(group) => Ok(self.socket.add_membership(group)?),
            None => Err(Failure::Malformed("no group".into())),
        }
    }

    /// Wait for the next event; `None` if some were lost.
    ///
    /// # Errors
    /// [`Failure::System`], [`Failure::Malformed`].
    pub fn next_event(&mut self) -> Result<Option<Message>, Failure> {
        loop {
            match self.next_message() {
                Ok(message) => {
                    if let NetlinkPayload::InnerMessage(inner) = message.payload {
                        return Ok(Some(inner.payload));
                    }
                }
                Err(Failure::System(error)) if is_overrun(&error) => return Ok(None),
                Err(failure) => return Err(failure),
            }
        }
    }

    fn request(&mut self, command: u32, attributes: Attributes, flags: u16) -> Result<(), Failure> {
        self.sequence += 1;
        let payload = Message {
            command: command as u8,
            attributes,
        };
        let mut message = GenlMessage::from_payload(payload);
        message.set_resolved_family_id(self.family.id);
        send(&self.socket, self.sequence, flags, message)
    }

    /// The next message of the answer to the last request; `None` at its end. Events that come
    /// between are kept for [`next_event`](Self::next_event).
    fn next_answer(&mut self) -> Result<Option<Message>, Failure> {
        let mut events = VecDeque::new();
        let answer = loop {
            let message = self.next_message()?;
            if message.header.sequence_number != self.sequence {
                events.push_back(message);
                continue;
            }
            break match message.payload {
                NetlinkPayload::InnerMessage(inner) => Ok(Some(inner.payload)),
                NetlinkPayload::Done(done) if done.code != 0 => Err(Failure::Kernel(
                    io::Error::from_raw_os_error(done.code.abs()),
                    None,
                )),
                NetlinkPayload::Error(error) if error.code.is_some() => {
                    Err(refusal(&message.header, &error))
                }
                _ => Ok(None),
            };
        };
        events.append(&mut self.waiting);
        self.waiting = events;
        answer
    }

    fn next_message(&mut self) -> Result<NetlinkMessage<GenlMessage<Message>>, Failure> {
        while self.waiting.is_empty() {
            self.waiting = receive(&self.socket)?.into();
        }
        self.waiting
            .pop_front()
            .ok_or_else(|| Failure::Malformed("an empty packet".into()))
    }
}

/// Whether the kernel had to drop messages for this socket.
fn is_overrun(error: &io::Error) -> bool {
    const ENOBUFS: i32 = 105;
    error.raw_os_error() == Some(ENOBUFS)
}

/// Ask the controller of generic netlink for the family.
fn find_family(socket: &Socket, name: &str, missing: Failure) -> Result<Family, Failure> {
    let question = GenlCtrl {
        cmd: GenlCtrlCmd::GetFamily,
        nlas: vec![GenlCtrlAttrs::FamilyName(name.into())],
    };
    send(socket, 1, 0, GenlMessage::from_payload(question))?;
    let answer = receive::<GenlMessage<GenlCtrl>>(socket)?.into_iter().next();
    match answer.map(|message| (message.header, message.payload)) {
        Some((_, NetlinkPayload::InnerMessage(answer))) => read_family(&answer.payload),
        Some((header, NetlinkPayload::Error(error))) => match error.raw_code().abs() {
            ENOENT => Err(missing),
            _ => Err(refusal(&header, &error)),
        },
        _ => Err(Failure::Malformed("no family".into())),
    }
}

fn read_family(answer: &GenlCtrl) -> Result<Family, Failure> {
    let mut id = None;
    let mut group = None;
    for attribute in &answer.nlas {
        match attribute {
            GenlCtrlAttrs::FamilyId(number) => id = Some(*number),
            GenlCtrlAttrs::McastGroups(groups) => {
                let wanted = text(MP_GENL_GROUP_PEERS);
                group = groups.iter().find_map(|group| group_id(group, wanted));
            }
            _ => {}
        }
    }
    let id = id.ok_or_else(|| Failure::Malformed("a family without id".into()))?;
    Ok(Family {
        id,
        peers_group: group,
    })
}

/// The number of a multicast group, if it has that name.
fn group_id(group: &[McastGrpAttrs], wanted: &str) -> Option<u32> {
    let is_wanted = |a: &McastGrpAttrs| matches!(a, McastGrpAttrs::Name(name) if name == wanted);
    group.iter().any(is_wanted).then_some(())?;
    group.iter().find_map(|attribute| match attribute {
        McastGrpAttrs::Id(id) => Some(*id),
        _ => None,
    })
}

fn send<F>(
    socket: &Socket,
    sequence: u32,
    flags: u16,
    message: GenlMessage<F>,
) -> Result<(), Failure>
where
    F: GenlFamily + Emitable + Debug,
    GenlMessage<F>: NetlinkSerializable,
{
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    header.sequence_number = sequence;
    let mut message = NetlinkMessage::new(header, message.into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    Ok(())
}

/// Bytes of a message of which nothing is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Raw(Vec<u8>);

impl NetlinkSerializable for Raw {
    fn message_type(&self) -> u16 {
        SOCK_DIAG_BY_FAMILY
    }

    fn buffer_len(&self) -> usize {
        self.0.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.0);
    }
}

impl NetlinkDeserializable for Raw {
    type Error = DecodeError;

    fn deserialize(_: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        Ok(Raw(payload.into()))
    }
}

/// What the kernel says of all sockets that a request of `sock_diag` asks for.
///
/// # Errors
/// [`Failure::Kernel`] if it refuses, [`Failure::System`].
pub fn sockets(request: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut message =
        NetlinkMessage::new(header, NetlinkPayload::InnerMessage(Raw(request.into())));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut told = Vec::new();
    loop {
        for message in receive::<Raw>(&socket)? {
            match message.payload {
                NetlinkPayload::InnerMessage(Raw(bytes)) => told.push(bytes),
                NetlinkPayload::Error(error) if error.code.is_some() => {
                    return Err(refusal(&message.header, &error));
                }
                _ => return Ok(told),
            }
        }
    }
}

/// The messages of the next packet.
fn receive<T: NetlinkDeserializable>(socket: &Socket) -> Result<Vec<NetlinkMessage<T>>, Failure> {
    let (packet, _) = socket.recv_from_full()?;
    let mut messages = Vec::new();
    let mut rest = packet.as_slice();
    while !rest.is_empty() {
        let message = NetlinkMessage::<T>::deserialize(rest)
            .map_err(|error| Failure::Malformed(error.to_string()))?;
        let len = (message.header.length as usize).next_multiple_of(4);
        rest = rest.get(len.max(4)..).unwrap_or_default();
        messages.push(message);
    }
    Ok(messages)
}

/// An error with the kernel's explanation, if it gives one.
fn refusal(header: &NetlinkHeader, error: &ErrorMessage) -> Failure {
    let explained = header.flags & NLM_F_ACK_TLVS != 0;
    let details = error.header.get(REQUEST_HEADER..).filter(|_| explained);
    let details = Attributes(details.unwrap_or_default().into());
    let why = details.text(NLMSGERR_ATTR_MSG.into()).map(String::from);
    Failure::Kernel(error.to_io(), why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::{ErrorBuffer, Parseable};

    /// An attribute as it stands in a message.
    pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((value.len() as u16 + 4).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn numbers_have_four_bytes_or_eight() {
        let bytes = [
            attribute(1, &7u32.to_ne_bytes()),
            attribute(2, &(1u64 << 40).to_ne_bytes()),
            attribute(3, &[1, 2]),
        ];
        let attributes = Attributes(bytes.concat());
        assert_eq!(attributes.number(1), Some(7));
        assert_eq!(attributes.number(2), Some(1 << 40));
        assert_eq!(attributes.number(3), None);
        assert_eq!(attributes.number(4), None);
        assert!(attributes.required::<u32>(2).is_err());
    }

    #[test]
    fn small_numbers_have_one_byte_or_two() {
        let bytes = [
            attribute(1, &[7]),
            attribute(2, &300u16.to_ne_bytes()),
            attribute(3, &[0; 4]),
        ];
        let attributes = Attributes(bytes.concat());
        assert_eq!(attributes.small(1), Some(7));
        assert_eq!(attributes.small(2), Some(300));
        assert_eq!(attributes.small(3), None);
    }

    #[test]
    fn a_text_reads_as_it_was_written() {
        let attributes = Attributes::of_text(1, "MPFAB");
        assert_eq!(attributes.bytes(1), Some(&b"MPFAB\0"[..]));
        assert_eq!(attributes.text(1), Some("MPFAB"));
    }

    #[test]
    fn texts_end_with_a_zero_and_groups_repeat() {
        let name = attribute(1, b"ring_full\0");
        let bytes = [attribute(9, &name), attribute(8, b"x"), attribute(9, &name)];
        let groups: Vec<_> = Attributes(bytes.concat()).nests(9).collect();
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0].text(1), Some("ring_full"));
    }

    #[test]
    fn what_is_cut_off_is_not_there() {
        let mut bytes = [attribute(1, &[0; 4]), attribute(2, &[0; 8])].concat();
        bytes.truncate(14);
        let attributes = Attributes(bytes);
        assert_eq!(attributes.number(1), Some(0));
        assert_eq!(attributes.number(2), None);
    }

    #[test]
    fn a_request_reads_as_it_was_written() {
        let attributes = Attributes::of_numbers(&[(1, 0x100), (12, 5)]);
        assert_eq!(attributes.number(1), Some(0x100));
        assert_eq!(attributes.number(12), Some(5));
    }

    #[test]
    fn the_kernel_explains_a_refusal() {
        let mut header = NetlinkHeader::default();
        let bytes = [
            (-107i32).to_ne_bytes().into(),
            vec![0; REQUEST_HEADER],
            attribute(1, b"why\0"),
        ]
        .concat();
        let error = ErrorMessage::parse(&ErrorBuffer::new(&bytes)).expect("an error");
        assert!(matches!(refusal(&header, &error), Failure::Kernel(_, None)));
        header.flags = NLM_F_ACK_TLVS;
        let Failure::Kernel(error, Some(why)) = refusal(&header, &error) else {
            panic!("no explanation");
        };
        assert_eq!((error.raw_os_error(), why.as_str()), (Some(107), "why"));
    }
}
