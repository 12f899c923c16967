// SPDX-License-Identifier: MIT OR Apache-2.0

//! The header means the same to every compiler: C and C++, for 64-bit and 32-bit programs, find
//! the sizes, offsets and numbers that the generated types have, and no padding.

use mp_fabric::sys::*;
use std::{
    fmt::Write,
    io::Write as _,
    mem::{offset_of, size_of},
    path::Path,
    process::{Command, Stdio},
};

/// Writes assertions about a structure; one that misses a field does not compile.
macro_rules! check {
    ($out:expr, $name:ident { $($field:ident),* $(,)? }) => {{
        #[allow(unused_variables)]
        fn complete(whole: $name) {
            let $name { $($field),* } = whole;
        }
        let _ = complete;
        let name = stringify!($name);
        let size = size_of::<$name>();
        writeln!($out, "CHECK(sizeof(struct {name}) == {size});").unwrap();
        $(
            let field = stringify!($field);
            let at = offset_of!($name, $field);
            writeln!($out, "CHECK(__builtin_offsetof(struct {name}, {field}) == {at});").unwrap();
        )*
    }};
}

macro_rules! check_numbers {
    ($out:expr, $($name:ident),* $(,)?) => {
        $( writeln!($out, "CHECK({} == {}ULL);", stringify!($name), $name).unwrap(); )*
    };
}

fn assertions() -> String {
    let mut out = String::from(
        "#include <linux/ioctl.h>\n\
         #include <linux/types.h>\n\
         #pragma GCC diagnostic error \"-Wpadded\"\n\
         #include <linux/mp_fabric.h>\n\
         #ifdef __cplusplus\n\
         #define CHECK(what) static_assert(what, #what)\n\
         #else\n\
         #define CHECK(what) _Static_assert(what, #what)\n\
         #endif\n",
    );
    check!(
        out,
        mp_info {
            size,
            version,
            features,
            sessions_max,
            user_sessions_max,
            objects_max,
            user_objects_max,
            status_offset,
            status_length,
            user_contexts_max,
            user_segments_max,
            user_connections_max,
            user_memory_max,
            message_max,
            messages_max,
            queue_entries_max,
            park_entries_max,
            stores_max,
            stores_bytes_max
        }
    );
    check!(
        out,
        mp_interfaces {
            size,
            capacity,
            count,
            reserved,
            ids
        }
    );
    check!(
        out,
        mp_interface {
            size,
            id,
            flags,
            peer,
            epoch,
            local_total,
            local_free,
            remote_total,
            vendor,
            device,
            subsystem_vendor,
            subsystem_device,
            pci_domain,
            pci_bus,
            pci_devfn,
            remote_word_size,
            remote_big_endian,
            pci_domain_high,
            name,
        }
    );
    check!(
        out,
        mp_wait {
            size,
            flags,
            target,
            mask,
            deadline,
            events,
            reserved
        }
    );
    check!(
        out,
        mp_eventfd {
            size,
            flags,
            target,
            mask,
            eventfd,
            reserved
        }
    );
    check!(
        out,
        mp_segment_dmabuf {
            size,
            flags,
            handle,
            rights,
            fd,
            reserved
        }
    );
    check!(
        out,
        mp_export {
            size,
            flags,
            handle,
            rights,
            fd,
            reserved
        }
    );
    check!(
        out,
        mp_import {
            size,
            flags,
            fd,
            object,
            deadline,
            handle,
            rights
        }
    );
    check!(
        out,
        mp_windows {
            size,
            interface,
            capacity,
            count,
            ids
        }
    );
    check!(
        out,
        mp_window {
            size,
            interface,
            id,
            role,
            location,
            protocol,
            paired,
            data_size,
            data,
            local_min,
            local_max,
            remote_min,
            remote_max,
        }
    );
    check!(
        out,
        mp_session_open {
            size,
            interface,
            role,
            location,
            protocol,
            uid,
            data,
            data_size,
            handle,
            local_min,
            local_max,
            remote_min,
            remote_max,
            address,
            name,
            name_size,
            name_own,
            flags,
            reserved,
            pci_domain,
            pci_bus,
            pci_devfn,
            pci_domain_high,
            pci_bar,
        }
    );
    check!(
        out,
        mp_session {
            size,
            handle,
            events,
            interface,
            local_size,
            local_offset,
            remote_size,
            remote_offset,
            status,
            uid,
        }
    );
    check!(
        out,
        mp_session_partner {
            size,
            handle,
            state,
            request,
            peer,
            reason,
            data,
            data_size,
            reserved,
            local_min,
            local_max,
            remote_min,
            remote_max,
        }
    );
    check!(
        out,
        mp_session_answer {
            size,
            handle,
            request,
            flags,
            reason,
            data_size,
            data,
            deadline,
        }
    );
    check!(out, mp_handle { size, handle });
    check!(
        out,
        mp_session_address {
            size,
            handle,
            address
        }
    );
    check!(
        out,
        mp_session_access {
            size,
            handle,
            mode,
            pci_domain,
            pci_bus,
            pci_devfn,
            pci_domain_high,
            reserved
        }
    );
    check!(
        out,
        mp_session_store {
            size,
            handle,
            count,
            flags,
            stores,
            store_size,
            reserved
        }
    );
    check!(
        out,
        mp_park_entry {
            handle,
            reserved,
            word,
            value,
            arm,
            arm_value
        }
    );
    check!(
        out,
        mp_park {
            size,
            flags,
            count,
            entry_size,
            entries,
            deadline,
            index,
            events
        }
    );
    check!(
        out,
        mp_segment_create {
            size,
            flags,
            id,
            id_more,
            length,
            handle,
            reserved,
            name,
            name_size,
            interface
        }
    );
    check!(
        out,
        mp_segment_attach {
            size,
            id,
            handle,
            reserved,
            length
        }
    );
    check!(
        out,
        mp_segment_interface {
            size,
            handle,
            interface,
            flags
        }
    );
    check!(
        out,
        mp_segment {
            size,
            handle,
            interface,
            state,
            id,
            flags,
            connections,
            ending,
            length,
            offset
        }
    );
    check!(
        out,
        mp_segment_register {
            size,
            handle,
            flags,
            fd,
            address,
            length,
            pci_domain,
            pci_bus,
            pci_devfn,
            pci_domain_high,
            pci_bar
        }
    );
    check!(
        out,
        mp_segment_grant {
            size,
            segment,
            session,
            rights,
            handle,
            flags
        }
    );
    check!(
        out,
        mp_remove {
            size,
            handle,
            flags,
            reserved
        }
    );
    check!(
        out,
        mp_offer {
            size,
            flags,
            interface,
            object,
            number,
            handle,
            name,
            name_size,
            reserved
        }
    );
    check!(
        out,
        mp_connect {
            size,
            flags,
            interface,
            object,
            number,
            handle,
            deadline,
            session,
            reserved,
            name,
            name_size,
            reserved2
        }
    );
    check!(
        out,
        mp_connection {
            size,
            handle,
            interface,
            object,
            number,
            state,
            status,
            reserved,
            length,
            offset,
            rights,
            reserved2
        }
    );
    check!(
        out,
        mp_notice {
            size,
            handle,
            deadline,
            notice,
            interface,
            peer,
            reserved
        }
    );
    check!(
        out,
        mp_message {
            size,
            handle,
            data,
            length,
            peer,
            deadline
        }
    );
    check!(
        out,
        mp_barrier {
            size,
            flags,
            target,
            reserved,
            deadline
        }
    );
    check!(
        out,
        mp_exchange {
            size,
            connection,
            offset,
            expected,
            desired,
            deadline,
            exchanged,
            reserved
        }
    );
    check!(
        out,
        mp_address {
            size,
            handle,
            offset,
            length,
            address
        }
    );
    check!(
        out,
        mp_queue_create {
            size,
            interface,
            entries,
            handle
        }
    );
    check!(
        out,
        mp_copy {
            local,
            remote,
            length
        }
    );
    check!(
        out,
        mp_queue_start {
            size,
            handle,
            segment,
            connection,
            count,
            flags,
            copies,
            copy_size,
            reserved
        }
    );
    check!(
        out,
        mp_queue {
            size,
            handle,
            interface,
            state,
            status,
            entries
        }
    );
    check!(
        out,
        mp_event {
            cookie,
            target,
            events
        }
    );
    check!(
        out,
        mp_watch {
            size,
            flags,
            target,
            mask,
            cookie,
            record_size,
            reserved
        }
    );
    check_numbers!(
        out,
        MP_DEADLINE_PAST,
        MP_DEADLINE_NEVER,
        MP_SIZE_MAX,
        MP_PEER_NONE,
        MP_ACCESS_CLEAR,
        MP_IOC_INFO,
        MP_IOC_CLOSE,
        MP_IOC_WAIT,
        MP_IOC_EVENTFD,
        MP_IOC_WATCH,
        MP_IOC_SIGNAL,
        MP_IOC_EXPORT,
        MP_IOC_SEGMENT_DMABUF,
        MP_IOC_IMPORT,
        MP_IOC_INTERFACES,
        MP_IOC_INTERFACE,
        MP_IOC_WINDOWS,
        MP_IOC_WINDOW,
        MP_IOC_SESSION_OPEN,
        MP_IOC_SESSION,
        MP_IOC_SESSION_ADDRESS,
        MP_IOC_SESSION_ACCESS,
        MP_IOC_SESSION_PARTNER,
        MP_IOC_SESSION_ANSWER,
        MP_IOC_PARK,
        MP_IOC_SEGMENT_CREATE,
        MP_IOC_SEGMENT_SHARE,
        MP_IOC_SEGMENT_ATTACH,
        MP_IOC_SEGMENT_PREPARE,
        MP_IOC_SEGMENT_PUBLISH,
        MP_IOC_SEGMENT_WITHDRAW,
        MP_IOC_SEGMENT,
        MP_IOC_SEGMENT_REGISTER,
        MP_IOC_REMOVE,
        MP_IOC_OFFER,
        MP_IOC_CONNECT,
        MP_IOC_CONNECTION,
        MP_IOC_NOTICE,
        MP_IOC_SEND,
        MP_IOC_RECEIVE,
        MP_IOC_BARRIER,
        MP_IOC_ADDRESS,
        MP_IOC_EXCHANGE,
        MP_IOC_QUEUE_CREATE,
        MP_IOC_QUEUE_START,
        MP_IOC_QUEUE_ABORT,
        MP_IOC_QUEUE,
        MP_FEATURE_SESSIONS,
        MP_FEATURE_SEGMENTS,
        MP_FEATURE_EVENTS,
        MP_FEATURE_PORTS,
        MP_FEATURE_QUEUES,
        MP_FEATURE_REGISTER,
        MP_FEATURE_PINNED,
        MP_FEATURE_ACCEPT,
        MP_SESSION_DEFER,
        MP_SESSION_ONCE,
        MP_SESSION_NONBLOCK,
        MP_SESSION_NO_WINDOWS,
        MP_PARTNER_REQUEST,
        MP_PARTNER_PAIRED,
        MP_PARTNER_REJECTED,
        MP_PARTNER_GONE,
        MP_ANSWER_ACCEPT,
        MP_ANSWER_REJECT,
        MP_NAME_MAX,
        MP_FEATURE_PARK,
        MP_FEATURE_GRANTS,
        MP_FEATURE_NAMES,
        MP_FEATURE_HANDOVER,
        MP_FEATURE_DMABUF,
        MP_FEATURE_REGISTER_ANY,
        MP_FEATURE_REGISTER_BAR,
        MP_FEATURE_ONE_PEER,
        MP_FEATURE_EXCHANGE,
        MP_FEATURE_PRIVATE,
        MP_PARK_ARMED,
        MP_PARK_ENTRIES_MAX,
        MP_PARK_NONE,
        MP_PARK_CHANGED,
        MP_PARK_LATE,
        MP_SEGMENT_PRIVATE,
        MP_SEGMENT_EMPTY,
        MP_SEGMENT_ONE_PEER,
        MP_REGISTER_BAR,
        MP_REGISTER_DMABUF,
        MP_REGISTER_PHYSICAL,
        MP_REGISTER_READ_ONLY,
        MP_GRANT_READ,
        MP_GRANT_WRITE,
        MP_WITHDRAW_NOTIFY,
        MP_WITHDRAW_FORCE,
        MP_SEGMENT_SHARED,
        MP_REMOVE_FORCE,
        MP_OFFER_ANY,
        MP_OFFER_SHARED,
        MP_OFFER_COUNTED,
        MP_CONNECT_COUNTED,
        MP_CONNECT_GRANTED,
        MP_CONNECTION_OPERATIONAL,
        MP_CONNECTION_WITHDRAWN,
        MP_CONNECTION_LOST,
        MP_MESSAGE_MAX,
        MP_QUEUE_ENTRIES_MAX,
        MP_QUEUE_PINNED,
        MP_SEGMENT_UNPREPARED,
        MP_SEGMENT_PREPARED,
        MP_SEGMENT_PUBLISHED,
        MP_NOTICE_CONNECTED,
        MP_NOTICE_DISCONNECTED,
        MP_NOTICE_DOWN,
        MP_NOTICE_UP,
        MP_NOTICE_LOST,
        MP_NOTICE_FATAL,
        MP_QUEUE_IDLE,
        MP_QUEUE_POSTED,
        MP_QUEUE_DONE,
        MP_QUEUE_ERROR,
        MP_QUEUE_ABORTED,
        MP_EVENT_NOTICE,
        MP_EVENT_MESSAGE,
        MP_EVENT_DONE,
        MP_EVENT_REQUEST,
        MP_EVENT_REFUSED,
    );
    out
}

/// Compile the assertions, without an output.
fn compile(language: &str, standard: &str, bits: &str) -> bool {
    let uapi = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../uapi");
    // Where Debian has the parts of the kernel's headers that differ between architectures: for
    // both kinds of programs in one place.
    let multiarch = "/usr/include/x86_64-linux-gnu";
    let mut compiler = Command::new("gcc")
        .args([
            "-x",
            language,
            standard,
            bits,
            "-Wall",
            "-Werror",
            "-fsyntax-only",
        ])
        .arg("-I")
        .arg(uapi)
        .args(["-idirafter", multiarch, "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the compiler is installed by scripts/setup.sh");
    let mut input = compiler.stdin.take().unwrap();
    input.write_all(assertions().as_bytes()).unwrap();
    drop(input);
    compiler.wait().unwrap().success()
}

#[test]
fn c_for_64_bit_agrees() {
    assert!(compile("c", "-std=gnu11", "-m64"));
}

#[test]
fn c_for_32_bit_agrees() {
    assert!(compile("c", "-std=gnu11", "-m32"));
}

#[test]
fn cxx_for_64_bit_agrees() {
    assert!(compile("c++", "-std=gnu++17", "-m64"));
}

#[test]
fn cxx_for_32_bit_agrees() {
    assert!(compile("c++", "-std=gnu++17", "-m32"));
}
