// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a call did not do what it should: the status codes of the specification.

/// Result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

mp_fabric::status_codes! {
    /// A status other than `MCAPI_SUCCESS` (1) and `MCAPI_PENDING` (2); its name is MC-DISP-1.
    Timeout "MCAPI_TIMEOUT" 3 "nothing has happened in time: see that the other node runs, or wait for longer";
    Parameter "MCAPI_ERR_PARAMETER" 4 "a parameter is invalid: the page of the call lists what it takes";
    DomainInvalid "MCAPI_ERR_DOMAIN_INVALID" 5 "there is no such domain, or this host is none of it; see mcapi.conf(5)";
    NodeInvalid "MCAPI_ERR_NODE_INVALID" 6 "there is no such node: mcapi_ls lists those there are";
    NodeInitFailed "MCAPI_ERR_NODE_INITFAILED" 7 "the node is taken, or the fabric is missing; MP_LOG=error tells which";
    NodeInitialized "MCAPI_ERR_NODE_INITIALIZED" 8 "the node is initialized already: finalize it first";
    NodeNotInit "MCAPI_ERR_NODE_NOTINIT" 9 "the node is not initialized: call mcapi_initialize first";
    NodeFinalFailed "MCAPI_ERR_NODE_FINALFAILED" 10 "the node could not be finalized: MP_LOG=error tells why";
    PortInvalid "MCAPI_ERR_PORT_INVALID" 11 "there is no such port, or none left: ports are numbered from 0";
    EndpointInvalid "MCAPI_ERR_ENDP_INVALID" 12 "there is no such endpoint, or it is another node's: mcapi_ls lists those there are";
    EndpointExists "MCAPI_ERR_ENDP_EXISTS" 13 "the port has an endpoint: choose another port";
    EndpointGetLimit "MCAPI_ERR_ENDP_GET_LIMIT" 14 "the endpoint is of a channel type, and a node has got it: use that one's";
    EndpointDeleted "MCAPI_ERR_ENDP_DELETED" 15 "the endpoint was deleted: get it again";
    EndpointNotOwner "MCAPI_ERR_ENDP_NOTOWNER" 16 "the endpoint is another node's: its owner can do that";
    EndpointRemote "MCAPI_ERR_ENDP_REMOTE" 17 "that can be done to endpoints of this node only: let their owner do it";
    AttributeIncompatible "MCAPI_ERR_ATTR_INCOMPATIBLE" 18 "the two endpoints' attributes differ: set them alike before the channel is connected";
    AttributeSize "MCAPI_ERR_ATTR_SIZE" 19 "the attribute has another size: mcapi(3) lists the sizes";
    AttributeNumber "MCAPI_ERR_ATTR_NUM" 20 "there is no such attribute: mcapi(3) lists those there are";
    AttributeValue "MCAPI_ERR_ATTR_VALUE" 21 "the attribute cannot have that value: mcapi(3) lists those it takes";
    AttributeNotSupported "MCAPI_ERR_ATTR_NOTSUPPORTED" 22 "that value of the attribute is not supported: mcapi(3) lists those that are";
    AttributeReadOnly "MCAPI_ERR_ATTR_READONLY" 23 "the attribute cannot be set: it can be asked for only";
    MessageSize "MCAPI_ERR_MSG_SIZE" 24 "the message is too long: send at most MCAPI_MAX_MESSAGE_SIZE bytes";
    MessageTruncated "MCAPI_ERR_MSG_TRUNCATED" 25 "the message was longer than the room for it: receive with as much room";
    ChannelOpen "MCAPI_ERR_CHAN_OPEN" 26 "the channel is open: close it first";
    ChannelType "MCAPI_ERR_CHAN_TYPE" 27 "the channel is of the other kind: use the calls of its kind";
    ChannelDirection "MCAPI_ERR_CHAN_DIRECTION" 28 "it is the other end of the channel: send at one end, receive at the other";
    ChannelConnected "MCAPI_ERR_CHAN_CONNECTED" 29 "the endpoint is connected: close the channel first";
    ChannelOpenPending "MCAPI_ERR_CHAN_OPENPENDING" 30 "the channel is being opened: wait for that request";
    ChannelClosePending "MCAPI_ERR_CHAN_CLOSEPENDING" 31 "the channel is being closed: wait for that request";
    ChannelNotOpen "MCAPI_ERR_CHAN_NOTOPEN" 32 "the channel is not open: open both ends first";
    ChannelInvalid "MCAPI_ERR_CHAN_INVALID" 33 "there is no such channel: connect and open it first";
    PacketSize "MCAPI_ERR_PKT_SIZE" 34 "the packet is too long: send at most MCAPI_MAX_PACKET_SIZE bytes";
    Transmission "MCAPI_ERR_TRANSMISSION" 35 "no link leads to the node; ntbctl lists those of this host";
    Priority "MCAPI_ERR_PRIORITY" 36 "the endpoint has no such priority: 0 is the most urgent, and the attribute tells how many";
    BufferInvalid "MCAPI_ERR_BUF_INVALID" 37 "it is not a buffer of a channel: free those that were received, once";
    MemoryLimit "MCAPI_ERR_MEM_LIMIT" 38 "there is no memory for that: receive what is there, or send less at a time";
    RequestInvalid "MCAPI_ERR_REQUEST_INVALID" 39 "there is no such request: it was waited for, or cancelled";
    RequestLimit "MCAPI_ERR_REQUEST_LIMIT" 40 "there are too many requests: wait for some first";
    RequestCancelled "MCAPI_ERR_REQUEST_CANCELLED" 41 "the request was cancelled: begin it again";
    WaitPending "MCAPI_ERR_WAIT_PENDING" 42 "another thread waits for the request: let one wait";
    General "MCAPI_ERR_GENERAL" 43 "something else: Documentation/mcapi.md tells for each call what";
}

impl Error {
    /// The error of a number.
    pub fn of(code: u32) -> Option<Error> {
        let first = Error::Timeout.code();
        let index = usize::try_from(code.checked_sub(first)?).ok()?;
        Error::ALL.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_says_what_to_do() {
        Error::ALL.iter().for_each(mp_testing::assert_advises);
    }

    /// MC-DISP-1: each number from 3 to 43 once, and names that fit into 32 bytes.
    #[test]
    fn errors_are_numbered_without_a_gap() {
        let codes: Vec<u32> = Error::ALL.iter().map(|error| error.code()).collect();
        assert_eq!(codes, (3..=43).collect::<Vec<u32>>());
        for error in Error::ALL {
            assert!(error.name().starts_with("MCAPI_") && error.name().len() < 32);
            assert_eq!(Error::of(error.code()), Some(*error));
        }
        for none in [0, 1, 2, 44, u32::MAX] {
            assert_eq!(Error::of(none), None);
        }
    }
}
