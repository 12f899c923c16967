// SPDX-License-Identifier: MIT OR Apache-2.0

//! Configuration files of the libraries. Each library has a usual file, which need not be there, and
//! a variable of the environment that names another one, which must be.

use std::{
    env,
    error::Error,
    fs, io,
    path::{Path, PathBuf},
};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it. Of kind [`InvalidData`](io::ErrorKind::InvalidData): the mistake that
    /// `parse` has found.
    pub why: io::Error,
}

/// Read a file and take its text apart.
///
/// # Errors
/// The file cannot be read, or `parse` finds a mistake.
pub fn read<T, M>(path: &Path, parse: impl FnOnce(&str) -> Result<T, M>) -> Result<T, FileError>
where
    M: Error + Send + Sync + 'static,
{
    let parsed = fs::read_to_string(path).and_then(|text| {
        let invalid = |mistake| io::Error::new(io::ErrorKind::InvalidData, mistake);
        parse(&text).map_err(invalid)
    });
    parsed.map_err(|why| FileError {
        path: path.into(),
        why,
    })
}

/// Read the file that the variable names, or else the usual one. Nothing if there is neither.
///
/// # Errors
/// As [`read`].
pub fn load<T, M>(
    variable: &str,
    usual: &Path,
    parse: impl FnOnce(&str) -> Result<T, M>,
) -> Result<Option<T>, FileError>
where
    M: Error + Send + Sync + 'static,
{
    let named = env::var_os(variable);
    let path = named.as_ref().map_or(usual, Path::new);
    match read(path, parse) {
        Err(error) if error.why.kind() == io::ErrorKind::NotFound && named.is_none() => Ok(None),
        other => other.map(Some),
    }
}
