// SPDX-License-Identifier: GPL-2.0-only
//! The active side.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::{CONNECTIONS, DATAGRAMS, PATIENCE, REQUEST_RESPONSE};

/// Datagrams between two looks at the clock.
const STRIDE: u64 = 64;

fn connect(server: SocketAddr, wish: u8) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&[wish])?;
    Ok(stream)
}

/// Send a byte, wait for it to come back, and so on for `time`.
///
/// # Errors
/// What the socket reports.
pub fn request_response(server: SocketAddr, time: Duration) -> io::Result<String> {
    let mut stream = connect(server, REQUEST_RESPONSE)?;
    let mut byte = [0x55];
    let start = Instant::now();
    let mut transactions = 0u64;
    while start.elapsed() < time {
        stream.write_all(&byte)?;
        stream.read_exact(&mut byte)?;
        transactions += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(format!(
        r#"{{"transactions": {transactions}, "seconds": {seconds:.6}}}"#
    ))
}

/// Open a connection, wait until the server has closed it, close it, and so on
/// for `time`.
///
/// # Errors
/// What the sockets report.
pub fn connections(server: SocketAddr, time: Duration) -> io::Result<String> {
    let mut control = connect(server, CONNECTIONS)?;
    control.read_exact(&mut [0])?;
    let start = Instant::now();
    let mut connections = 0u64;
    while start.elapsed() < time {
        let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        if stream.read(&mut [0])? != 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        connections += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(format!(
        r#"{{"connections": {connections}, "seconds": {seconds:.6}}}"#
    ))
}

/// Send datagrams of `size` bytes without any pace for `time`, then ask the
/// server how many have come.
///
/// # Errors
/// What the sockets report.
pub fn datagrams(server: SocketAddr, time: Duration, size: usize) -> io::Result<String> {
    let mut control = connect(server, DATAGRAMS)?;
    let mut go = [0; 2];
    control.read_exact(&mut go)?;
    let any = SocketAddr::new(control.local_addr()?.ip(), 0);
    let socket = UdpSocket::bind(any)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.connect(server)?;
    let payload = vec![0x55; size];
    let start = Instant::now();
    let mut sent = 0u64;
    let mut refused = 0u64;
    while start.elapsed() < time {
        for _ in 0..STRIDE {
            match socket.send(&payload) {
                Ok(_) => sent += 1,
                Err(error) if error.raw_os_error() == Some(ENOBUFS) => refused += 1,
                Err(error) => return Err(error),
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    control.write_all(b"e")?;
    let mut received = [0; 8];
    control.read_exact(&mut received)?;
    let received = u64::from_le_bytes(received);
    Ok(format!(
        r#"{{"sent": {sent}, "received": {received}, "refused": {refused}, "seconds": {seconds:.6}}}"#
    ))
}

/// The interface's queue is full.
const ENOBUFS: i32 = 105;
