// SPDX-License-Identifier: MIT OR Apache-2.0

//! The calls of the device, as `uapi/linux/mp_fabric.h` has them: all of them.

use libc::{
    EACCES, EADDRINUSE, EBADF, EBUSY, ECONNREFUSED, ECONNRESET, EDQUOT, EEXIST, EINPROGRESS, EIO,
    EMFILE, EMSGSIZE, ENETDOWN, ENFILE, ENODEV, ENOENT, ENOMEM, ENOSPC, ENOTCONN, ENXIO,
    EOPNOTSUPP, EPERM, ERANGE, ETIMEDOUT,
};
use mp_fabric::sys::*;
use std::mem::offset_of;

/// When a call writes to its structure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// Never.
    Never,
    /// When all is done that can fail otherwise.
    Late,
}

/// A call of the device.
pub struct Form {
    /// Its name, without prefix.
    pub name: &'static str,
    /// Its number.
    pub number: u32,
    /// Bytes of the structure's first version.
    pub first: usize,
    /// Bytes of the structure.
    pub size: usize,
    /// When it writes to the structure.
    pub answers: Answers,
    /// Errors with which it writes as well.
    pub short: &'static [i32],
    /// All errors that are its own, for those who do not know what they ask.
    pub errors: &'static [i32],
    /// Where the structure has a deadline.
    pub deadline: Option<usize>,
    /// Where it has the address of an array.
    pub array: Option<usize>,
}

macro_rules! place {
    ($structure:ident) => {
        None
    };
    ($structure:ident $field:ident) => {
        Some(offset_of!($structure, $field))
    };
}

macro_rules! forms {
    ($($form:ident $number:ident $structure:ident $first:literal $answers:ident $short:expr,
       $errors:expr, [$($deadline:ident)?] [$($array:ident)?];)*) => {
        $(pub const $form: Form = Form {
            name: stringify!($form),
            number: $number,
            first: $first,
            size: size_of::<$structure>(),
            answers: Answers::$answers,
            short: $short,
            errors: $errors,
            deadline: place!($structure $($deadline)?),
            array: place!($structure $($array)?),
        };)*

        /// All calls.
        pub const FORMS: &[Form] = &[$($form),*];
    };
}

forms! {
    INFO MP_IOC_INFO mp_info 24 Late &[], &[], [] [];
    CLOSE MP_IOC_CLOSE mp_handle 8 Never &[], &[ENOENT, EINPROGRESS], [] [];
    WAIT MP_IOC_WAIT mp_wait 32 Late &[], &[ENOENT, ENODEV, ETIMEDOUT, ENOTCONN], [deadline] [];
    EVENTFD MP_IOC_EVENTFD mp_eventfd 24 Never &[], &[ENOENT, ENODEV, EBADF], [] [];
    WATCH MP_IOC_WATCH mp_watch 24 Never &[], &[ENOENT, ENODEV], [] [];
    SIGNAL MP_IOC_SIGNAL mp_handle 8 Never &[],
        &[ENOENT, ECONNRESET, ENETDOWN, ENOTCONN], [] [];
    EXPORT MP_IOC_EXPORT mp_export 24 Late &[],
        &[
            ENOENT, EACCES, ECONNRESET, ENETDOWN, ENOTCONN, EDQUOT, EMFILE, ENFILE, ENOMEM,
        ],
        [] [];
    IMPORT MP_IOC_IMPORT mp_import 32 Late &[],
        &[
            EBADF, EDQUOT, ECONNRESET, ENETDOWN, ENOTCONN, EOPNOTSUPP, ENOENT, ECONNREFUSED, ENOSPC,
            ETIMEDOUT, ENOMEM,
        ],
        [deadline] [];
    INTERFACES MP_IOC_INTERFACES mp_interfaces 24 Late &[ENOSPC], &[ENOSPC], [] [ids];
    INTERFACE MP_IOC_INTERFACE mp_interface 96 Late &[], &[ENODEV], [] [];
    WINDOWS MP_IOC_WINDOWS mp_windows 24 Late &[ENOSPC], &[ENODEV, ENETDOWN, ENOSPC], [] [ids];
    WINDOW MP_IOC_WINDOW mp_window 72 Late &[ENOSPC],
        &[ENODEV, ENETDOWN, ENOENT, ENOSPC], [] [data];
    SESSION_OPEN MP_IOC_SESSION_OPEN mp_session_open 80 Late &[],
        &[ENODEV, ENETDOWN, ENOSPC, EPERM, EOPNOTSUPP, EADDRINUSE, ECONNREFUSED, EDQUOT, ENOMEM],
        [] [data];
    SESSION MP_IOC_SESSION mp_session 48 Late &[], &[ENOENT], [] [];
    SESSION_ADDRESS MP_IOC_SESSION_ADDRESS mp_session_address 16 Late &[],
        &[ENOENT, EPERM, ENETDOWN, ENOTCONN, ECONNRESET, ENXIO, EOPNOTSUPP], [] [];
    SESSION_ACCESS MP_IOC_SESSION_ACCESS mp_session_access 16 Never &[],
        &[ENOENT, EPERM, ENETDOWN, ENOTCONN, ECONNRESET, ENXIO, EOPNOTSUPP], [] [];
    SESSION_PARTNER MP_IOC_SESSION_PARTNER mp_session_partner 72 Late &[ENOSPC],
        &[ENOENT, ENOTCONN, ENOSPC], [] [data];
    SESSION_ANSWER MP_IOC_SESSION_ANSWER mp_session_answer 40 Never &[],
        &[ENOENT, ENETDOWN, ECONNRESET, EBUSY, ENOSPC, ETIMEDOUT, ENOMEM], [deadline] [data];
    PARK MP_IOC_PARK mp_park 40 Late &[],
        &[ENOENT, ERANGE, EOPNOTSUPP, ENOTCONN, ETIMEDOUT, ENOMEM], [deadline] [entries];
    SESSION_STORE MP_IOC_SESSION_STORE mp_session_store 32 Never &[],
        &[ENOENT, ENOTCONN, ECONNRESET, ENETDOWN, ENXIO, EOPNOTSUPP, ERANGE, ENOMEM, ETIMEDOUT],
        [] [stores];
    SEGMENT_CREATE MP_IOC_SEGMENT_CREATE mp_segment_create 32 Late &[],
        &[ENODEV, EDQUOT, EADDRINUSE, ENETDOWN, ENOSPC, ENOMEM], [] [name];
    SEGMENT_SHARE MP_IOC_SEGMENT_SHARE mp_handle 8 Never &[], &[ENOENT, EOPNOTSUPP], [] [];
    SEGMENT_ATTACH MP_IOC_SEGMENT_ATTACH mp_segment_attach 24 Late &[],
        &[ENOENT, EPERM, EDQUOT, ENOMEM], [] [];
    SEGMENT_PREPARE MP_IOC_SEGMENT_PREPARE mp_segment_interface 16 Never &[],
        &[ENOENT, ENODEV, ENXIO, ENOSPC, ENETDOWN, EOPNOTSUPP, ENOMEM], [] [];
    SEGMENT_PUBLISH MP_IOC_SEGMENT_PUBLISH mp_segment_interface 16 Never &[],
        &[ENOENT, ENODEV, EOPNOTSUPP, ENXIO, ENOSPC], [] [];
    SEGMENT_WITHDRAW MP_IOC_SEGMENT_WITHDRAW mp_segment_interface 16 Never &[],
        &[ENOENT, ENODEV, ENXIO, EINPROGRESS], [] [];
    SEGMENT MP_IOC_SEGMENT mp_segment 48 Late &[], &[ENOENT, ENODEV], [] [];
    SEGMENT_REGISTER MP_IOC_SEGMENT_REGISTER mp_segment_register 32 Never &[],
        &[
            ENOENT, ERANGE, EEXIST, EDQUOT, EPERM, EOPNOTSUPP, ENODEV, EBADF, EACCES, ENOMEM,
        ],
        [] [];
    SEGMENT_GRANT MP_IOC_SEGMENT_GRANT mp_segment_grant 24 Late &[],
        &[ENOENT, EOPNOTSUPP, EDQUOT, ENXIO, ENOTCONN, ECONNRESET, ENETDOWN, ENOSPC, ENOMEM],
        [] [];
    SEGMENT_DMABUF MP_IOC_SEGMENT_DMABUF mp_segment_dmabuf 24 Late &[],
        &[ENOENT, EACCES, ENXIO, EOPNOTSUPP, EDQUOT, EMFILE, ENFILE, ENOMEM], [] [];
    REMOVE MP_IOC_REMOVE mp_remove 16 Never &[], &[ENOENT, EBUSY, EINPROGRESS], [] [];
    OFFER MP_IOC_OFFER mp_offer 24 Late &[], &[ENODEV, EDQUOT, EADDRINUSE, ENOMEM], [] [name];
    CONNECT MP_IOC_CONNECT mp_connect 32 Late &[],
        &[
            ENODEV, EDQUOT, ENETDOWN, ENOENT, ECONNREFUSED, ENOSPC, ETIMEDOUT, ENOMEM,
            ENOTCONN, ECONNRESET, EOPNOTSUPP,
        ],
        [deadline] [name];
    CONNECTION MP_IOC_CONNECTION mp_connection 48 Late &[], &[ENOENT], [] [];
    NOTICE MP_IOC_NOTICE mp_notice 32 Late &[], &[ENOENT, ETIMEDOUT], [deadline] [];
    SEND MP_IOC_SEND mp_message 32 Never &[],
        &[ENOENT, EMSGSIZE, ETIMEDOUT, ECONNRESET, ENETDOWN, ENOMEM], [deadline] [data];
    RECEIVE MP_IOC_RECEIVE mp_message 32 Late &[EMSGSIZE],
        &[ENOENT, EMSGSIZE, ETIMEDOUT], [deadline] [data];
    BARRIER MP_IOC_BARRIER mp_barrier 24 Never &[],
        &[ENOENT, ENODEV, ECONNRESET, ENETDOWN, ETIMEDOUT], [deadline] [];
    ADDRESS MP_IOC_ADDRESS mp_address 32 Late &[],
        &[ENOENT, EPERM, ERANGE, ENXIO, EOPNOTSUPP, ECONNRESET, ENETDOWN, ENOTCONN], [] [];
    EXCHANGE MP_IOC_EXCHANGE mp_exchange 48 Late &[],
        &[
            ENOENT, ERANGE, ECONNRESET, ENETDOWN, EOPNOTSUPP, EACCES, EIO, ETIMEDOUT, ENOMEM,
        ],
        [deadline] [];
    QUEUE_CREATE MP_IOC_QUEUE_CREATE mp_queue_create 16 Late &[], &[ENODEV, EDQUOT, ENOMEM], [] [];
    QUEUE_START MP_IOC_QUEUE_START mp_queue_start 32 Never &[],
        &[
            ENOENT, EBUSY, ERANGE, ENXIO, EOPNOTSUPP, ECONNRESET, ENETDOWN, EACCES, EDQUOT, ENOMEM,
        ],
        [] [copies];
    QUEUE_ABORT MP_IOC_QUEUE_ABORT mp_handle 8 Never &[], &[ENOENT, ENXIO], [] [];
    QUEUE MP_IOC_QUEUE mp_queue 24 Late &[], &[ENOENT], [] [];
}

/// Calls of the C library that are counted as well.
pub const PLAIN: &[&str] = &["mmap", "munmap", "read", "poll", "open", "receive"];

/// How many kinds of calls are counted.
pub const KINDS: usize = FORMS.len() + PLAIN.len();

/// The name of a kind.
pub fn name(kind: usize) -> &'static str {
    match FORMS.get(kind) {
        Some(form) => form.name,
        None => PLAIN[kind - FORMS.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../../uapi/linux/mp_fabric.h");

    #[test]
    fn all_calls_of_the_header_are_made() {
        let calls = HEADER.lines().filter_map(|line| {
            let (name, rest) = line.trim().strip_prefix("MP_IOC_")?.split_once(" = _IO(")?;
            let number = rest.split_once("0x")?.1.split_once(')')?.0;
            let number = u32::from_str_radix(number, 16).ok()?;
            Some((name, MP_IOC_MAGIC << 8 | number))
        });
        let calls: Vec<_> = calls.collect();
        let known: Vec<_> = FORMS.iter().map(|form| (form.name, form.number)).collect();
        assert!(!calls.is_empty());
        assert_eq!(known, calls);
    }

    #[test]
    fn calls_that_wait_have_a_deadline() {
        let waits = |name: &str| {
            let structures = HEADER.split("\nstruct mp_");
            structures
                .filter(|text| text.starts_with(&format!("{name} {{")))
                .any(|text| {
                    text.split("};")
                        .next()
                        .is_some_and(|t| t.contains(" deadline;"))
                })
        };
        for form in FORMS {
            let line = HEADER
                .lines()
                .find(|line| line.contains(&format!("MP_IOC_{} =", form.name)));
            let name = line.and_then(|line| line.split("struct mp_").nth(1));
            let name = name
                .and_then(|name| name.split(' ').next())
                .expect("a structure");
            assert_eq!(form.deadline.is_some(), waits(name), "{}", form.name);
        }
    }
}
