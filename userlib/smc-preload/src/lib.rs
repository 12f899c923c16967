// SPDX-License-Identifier: MIT OR Apache-2.0

//! `libmpsmc.so`, for `LD_PRELOAD` (`mp_smc_run`): sockets of TCP that a program asks for become
//! sockets of SMC.
//!
//! Between hosts with `mp_dibs` and an identity in common (`ntbctl smc identify`) their data go through the
//! window; with all others, and where SMC has not what a program asks of its socket, SMC itself goes on
//! with TCP. Where the kernel has no `IPPROTO_SMC` the program gets the socket that it has asked for.
//! Programs that are linked statically, or that make system calls themselves, are not reached.

#![cfg(target_os = "linux")]

use libc::{c_int, c_long};

/// The protocol of a socket of SMC in the families of the internet (`linux/in.h`).
const IPPROTO_SMC: c_int = 256;

/// What of a socket's type is no flag.
const KIND: c_int = !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);

/// Whether that is a socket of TCP.
fn is_tcp(domain: c_int, kind: c_int, protocol: c_int) -> bool {
    matches!(domain, libc::AF_INET | libc::AF_INET6)
        && kind & KIND == libc::SOCK_STREAM
        && matches!(protocol, 0 | libc::IPPROTO_TCP)
}

/// The kernel's call, and not the C library's function, which this one stands for.
fn kernels_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let [domain, kind, protocol] = [domain, kind, protocol].map(c_long::from);
    // SAFETY: The call takes numbers, whatever they are.
    let made = unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) };
    // A descriptor, or -1.
    made as c_int
}

/// Make a socket: of SMC where one of TCP is asked for and the kernel has SMC.
#[no_mangle]
pub extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if is_tcp(domain, kind, protocol) {
        let made = kernels_socket(domain, kind, IPPROTO_SMC);
        if made >= 0 {
            return made;
        }
    }
    kernels_socket(domain, kind, protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_tcp_are_those_of_streams_of_the_internet() {
        let flags = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        for (domain, kind, protocol) in [
            (libc::AF_INET, libc::SOCK_STREAM, 0),
            (libc::AF_INET6, flags, libc::IPPROTO_TCP),
        ] {
            assert!(is_tcp(domain, kind, protocol));
        }
        for (domain, kind, protocol) in [
            (libc::AF_UNIX, libc::SOCK_STREAM, 0),
            (libc::AF_INET, libc::SOCK_DGRAM, 0),
            (libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_TCP),
            (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP),
            (libc::AF_INET, libc::SOCK_STREAM, IPPROTO_SMC),
        ] {
            assert!(!is_tcp(domain, kind, protocol));
        }
    }

    /// As a kernel does, with SMC or without: a descriptor, or the error of what was asked for.
    #[test]
    fn whoever_asks_gets_a_socket_or_the_kernels_error() {
        for domain in [libc::AF_INET, libc::AF_UNIX] {
            let made = socket(domain, libc::SOCK_STREAM, 0);
            assert!(made >= 0);
            // SAFETY: Nobody else has the descriptor.
            assert_eq!(unsafe { libc::close(made) }, 0);
        }
        assert_eq!(
            socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_UDP),
            -1
        );
        let error = std::io::Error::last_os_error();
        assert_eq!(error.raw_os_error(), Some(libc::EPROTONOSUPPORT));
    }
}
