// SPDX-License-Identifier: GPL-2.0-only
//! The passive side: echoes bytes, counts datagrams, closes connections.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::{CONNECTIONS, DATAGRAMS, PATIENCE, REQUEST_RESPONSE};

/// No datagram for so long: no more are under way.
const QUIET: Duration = Duration::from_millis(200);

/// Serve one client and return.
///
/// # Errors
/// What the sockets report; `TimedOut` or `WouldBlock` when the client is silent.
pub fn serve(address: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let datagrams = UdpSocket::bind(address)?;
    println!("ready");
    io::stdout().flush()?;
    let (mut client, _) = listener.accept()?;
    client.set_nodelay(true)?;
    client.set_read_timeout(Some(PATIENCE))?;
    let mut wish = [0];
    client.read_exact(&mut wish)?;
    match wish[0] {
        REQUEST_RESPONSE => echo(client),
        DATAGRAMS => count(client, datagrams),
        CONNECTIONS => turn_away(client, listener),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Return each byte, until the client closes.
fn echo(mut client: TcpStream) -> io::Result<()> {
    let mut byte = [0];
    while client.read(&mut byte)? != 0 {
        client.write_all(&byte)?;
    }
    Ok(())
}

/// Close each connection that comes, until the first one's client closes that.
fn turn_away(mut client: TcpStream, listener: TcpListener) -> io::Result<()> {
    // Ends with the process.
    thread::spawn(move || while listener.accept().is_ok() {});
    client.write_all(b"g")?;
    client.read(&mut [0]).map(|_| ())
}

/// Count datagrams until the client asks how many have come.
fn count(mut client: TcpStream, datagrams: UdpSocket) -> io::Result<()> {
    let counter = Arc::new(AtomicU64::new(0));
    let counted = counter.clone();
    // Ends with the process.
    thread::spawn(move || {
        let mut buffer = [0; 65536];
        while datagrams.recv(&mut buffer).is_ok() {
            counted.fetch_add(1, Relaxed);
        }
    });
    client.write_all(b"go")?;
    let mut end = [0];
    client.read_exact(&mut end)?;
    let total = settled(&counter);
    client.write_all(&total.to_le_bytes())
}

/// The counter's value once it rests.
fn settled(counter: &AtomicU64) -> u64 {
    let deadline = Instant::now() + PATIENCE / 2;
    let mut last = counter.load(Relaxed);
    while Instant::now() < deadline {
        thread::sleep(QUIET);
        let now = counter.load(Relaxed);
        if now == last {
            break;
        }
        last = now;
    }
    last
}
