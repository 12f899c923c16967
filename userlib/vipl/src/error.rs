// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a call did not do what it should: the return values of the specification.

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

mp_fabric::status_codes! {
    /// Why a call did not do what it should (VI-GEN-1).
    NotDone "VIP_NOT_DONE" 1 "nothing is complete yet: ask again, or wait";
    InvalidParameter "VIP_INVALID_PARAMETER" 2 "a handle or an argument is invalid: the page of the call lists what it takes";
    Resource "VIP_ERROR_RESOURCE" 3 "resources are missing, or in use; MP_LOG=error tells which";
    Timeout "VIP_TIMEOUT" 4 "nothing has happened in time: see that the other side runs, or wait for longer";
    Reject "VIP_REJECT" 5 "the remote side has rejected the connection: ask it why";
    InvalidReliabilityLevel "VIP_INVALID_RELIABILITY_LEVEL" 6 "the reliability level is not supported, or not that of the remote side: VipQueryNic tells those there are";
    InvalidMtu "VIP_INVALID_MTU" 7 "the largest transfer is not supported, or not that of the remote side: VipQueryNic tells the most";
    InvalidQos "VIP_INVALID_QOS" 8 "the quality of service is not supported: leave it 0";
    InvalidPtag "VIP_INVALID_PTAG" 9 "there is no such protection tag: create one first";
    InvalidRdmaRead "VIP_INVALID_RDMAREAD" 10 "the reliability level has no RDMA read: connect on another one";
    Descriptor "VIP_DESCRIPTOR_ERROR" 11 "the queue is empty: post a descriptor first";
    InvalidState "VIP_INVALID_STATE" 12 "the VI is not in a state that allows that: VipQueryVi tells its state";
    NameService "VIP_ERROR_NAMESERVICE" 13 "the name service does not know it, or is not initialized; see vipl.conf(5)";
    NoMatch "VIP_NO_MATCH" 14 "nobody waits for that discriminator at the remote host: start the server first";
    NotReachable "VIP_NOT_REACHABLE" 15 "the remote host is not reachable; ntbctl lists the links of this one";
}

impl From<mp_fabric::Error> for Error {
    /// For calls that have no meaning of their own for it.
    fn from(error: mp_fabric::Error) -> Self {
        use mp_fabric::Error as F;
        match error {
            F::TimedOut => Error::Timeout,
            F::InterfaceDown(_) | F::NoInterface(_) => Error::NotReachable,
            // A forked child has no access (VI-GEN-9).
            F::Foreign => Error::InvalidParameter,
            _ => Error::Resource,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_says_what_to_do() {
        Error::ALL.iter().for_each(mp_testing::assert_advises);
    }

    /// VI-GEN-1: the values 1 to 15, each once and in order.
    #[test]
    fn errors_are_numbered_without_a_gap() {
        let codes: Vec<u32> = Error::ALL.iter().map(|error| error.code()).collect();
        assert_eq!(codes, (1..=15).collect::<Vec<u32>>());
        assert!(Error::ALL
            .iter()
            .all(|error| error.name().starts_with("VIP_")));
    }
}
