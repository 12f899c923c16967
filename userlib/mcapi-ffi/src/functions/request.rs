// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests.

use crate::{
    answer::{Answer, Number},
    process::State,
    sys,
};
use mcapi::{Deadline, Device, Error, Request, Result, REQUESTS_MAX};
use mp_c_abi::{In, Input, Null, Out};

/// The request that a program names.
///
/// # Errors
/// [`Error::Parameter`]: NULL.
fn named(request: In<u32>) -> Result<Request> {
    let raw = request.read().map_err(|Null| Error::Parameter)?;
    Ok(Request::from_raw(raw))
}

/// Tell what a request has come to (MC-TEST-1 to MC-TEST-6).
pub fn test<D: Device>(state: &State<D>, request: In<u32>, size: Out<usize>) -> Result<Answer<u8>> {
    let Answer { status, value } = state.test(named(request)?, size)?;
    let value = value.map(|()| 1);
    Ok(Answer { status, value })
}

/// Wait until a request has ended, and release it (MC-WAIT-1 to MC-WAIT-7).
pub fn wait<D: Device>(
    state: &State<D>,
    request: In<u32>,
    size: Out<usize>,
    timeout: u32,
) -> Result<u8> {
    let deadline = Deadline::after_milliseconds(timeout);
    let (_, ended) = state.wait_any(&[named(request)?], size, deadline)?;
    ended.map(|()| 1)
}

/// Wait until one of several requests has ended, and release that one. Its index is told, however it
/// has ended (MC-WAITANY-1 to MC-WAITANY-8).
pub fn wait_any<D: Device>(
    state: &State<D>,
    requests: Input<u32>,
    size: Out<usize>,
    timeout: u32,
) -> Result<Answer<Number>> {
    // No more are there, so one would be named twice.
    if !(1..=REQUESTS_MAX).contains(&requests.len()) {
        return Err(Error::Parameter);
    }
    let requests = requests.copy().map_err(|Null| Error::Parameter)?;
    let requests: Vec<_> = requests.into_iter().map(Request::from_raw).collect();
    let deadline = Deadline::after_milliseconds(timeout);
    let (index, ended) = state.wait_any(&requests, size, deadline)?;
    Ok(Answer {
        status: ended.map_or_else(Error::code, |()| sys::MCAPI_SUCCESS),
        value: Some(Number(index as u32)),
    })
}

/// Withdraw what a request is for, and release it (MC-CANCEL-1 to MC-CANCEL-6).
pub fn cancel<D: Device>(state: &State<D>, request: In<u32>) -> Result<()> {
    state.cancel(named(request)?)
}
