// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a call did not do what it should: the status codes of the specification.

/// Result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

mp_fabric::status_codes! {
    /// A status other than `MCAPI_SUCCESS` (1) and `MCAPI_PENDING` (2); its name is MC-DISP-1.
    Timeout "MCAPI_TIMEOUT" 3 "nothing has happened in time";
    Parameter "MCAPI_ERR_PARAMETER" 4 "a parameter is invalid";
    DomainInvalid "MCAPI_ERR_DOMAIN_INVALID" 5 "there is no such domain, or this host is none of it";
    NodeInvalid "MCAPI_ERR_NODE_INVALID" 6 "there is no such node";
    NodeInitFailed "MCAPI_ERR_NODE_INITFAILED" 7 "the node is taken, or the fabric is missing; MP_LOG=error tells which";
    NodeInitialized "MCAPI_ERR_NODE_INITIALIZED" 8 "the node is initialized already";
    NodeNotInit "MCAPI_ERR_NODE_NOTINIT" 9 "the node is not initialized";
    NodeFinalFailed "MCAPI_ERR_NODE_FINALFAILED" 10 "the node could not be finalized";
    PortInvalid "MCAPI_ERR_PORT_INVALID" 11 "there is no such port, or none left";
    EndpointInvalid "MCAPI_ERR_ENDP_INVALID" 12 "there is no such endpoint, or it is another node's";
    EndpointExists "MCAPI_ERR_ENDP_EXISTS" 13 "the port has an endpoint";
    EndpointGetLimit "MCAPI_ERR_ENDP_GET_LIMIT" 14 "the endpoint is of a channel type, and a node has got it";
    EndpointDeleted "MCAPI_ERR_ENDP_DELETED" 15 "the endpoint was deleted";
    EndpointNotOwner "MCAPI_ERR_ENDP_NOTOWNER" 16 "the endpoint is another node's";
    EndpointRemote "MCAPI_ERR_ENDP_REMOTE" 17 "that can be done to endpoints of this node only";
    AttributeIncompatible "MCAPI_ERR_ATTR_INCOMPATIBLE" 18 "the two endpoints' attributes differ";
    AttributeSize "MCAPI_ERR_ATTR_SIZE" 19 "the attribute has another size";
    AttributeNumber "MCAPI_ERR_ATTR_NUM" 20 "there is no such attribute";
    AttributeValue "MCAPI_ERR_ATTR_VALUE" 21 "the attribute cannot have that value";
    AttributeNotSupported "MCAPI_ERR_ATTR_NOTSUPPORTED" 22 "that value of the attribute is not supported";
    AttributeReadOnly "MCAPI_ERR_ATTR_READONLY" 23 "the attribute cannot be set";
    MessageSize "MCAPI_ERR_MSG_SIZE" 24 "the message is too long";
    MessageTruncated "MCAPI_ERR_MSG_TRUNCATED" 25 "the message was longer than the room for it";
    ChannelOpen "MCAPI_ERR_CHAN_OPEN" 26 "the channel is open";
    ChannelType "MCAPI_ERR_CHAN_TYPE" 27 "the channel is of the other kind";
    ChannelDirection "MCAPI_ERR_CHAN_DIRECTION" 28 "it is the other end of the channel";
    ChannelConnected "MCAPI_ERR_CHAN_CONNECTED" 29 "the endpoint is connected";
    ChannelOpenPending "MCAPI_ERR_CHAN_OPENPENDING" 30 "the channel is being opened";
    ChannelClosePending "MCAPI_ERR_CHAN_CLOSEPENDING" 31 "the channel is being closed";
    ChannelNotOpen "MCAPI_ERR_CHAN_NOTOPEN" 32 "the channel is not open";
    ChannelInvalid "MCAPI_ERR_CHAN_INVALID" 33 "there is no such channel";
    PacketSize "MCAPI_ERR_PKT_SIZE" 34 "the packet is too long";
    Transmission "MCAPI_ERR_TRANSMISSION" 35 "no link leads to the node; ntbctl lists those of this host";
    Priority "MCAPI_ERR_PRIORITY" 36 "the endpoint has no such priority";
    BufferInvalid "MCAPI_ERR_BUF_INVALID" 37 "it is not a buffer of a channel";
    MemoryLimit "MCAPI_ERR_MEM_LIMIT" 38 "there is no memory for that";
    RequestInvalid "MCAPI_ERR_REQUEST_INVALID" 39 "there is no such request";
    RequestLimit "MCAPI_ERR_REQUEST_LIMIT" 40 "there are too many requests";
    RequestCancelled "MCAPI_ERR_REQUEST_CANCELLED" 41 "the request was cancelled";
    WaitPending "MCAPI_ERR_WAIT_PENDING" 42 "another thread waits for the request";
    General "MCAPI_ERR_GENERAL" 43 "see Documentation/mcapi.md for each call";
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
