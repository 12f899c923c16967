// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which files of a directory may be libraries of vendors.
//!
//! Looks at names and at what they lead to; whether a file is a library, and complete, shows when
//! [`crate::library`] loads it.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tracing::{debug, info, warn};

/// Names, up to `.so`, that are the Dispatcher's (PXI-REG-7).
const RESERVED: [&[u8]; 3] = [b"libpximc32", b"libpximc64", b"pximc64"];

/// A file, whatever its names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file that the path leads to.
    pub fn of(path: &Path) -> Option<FileId> {
        fs::metadata(path).ok().as_ref().map(FileId::from)
    }
}

impl From<&Metadata> for FileId {
    fn from(metadata: &Metadata) -> FileId {
        FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// The files in a directory that may be libraries of vendors, by name; not the one that is `own`.
/// None if there is no such directory.
pub fn candidates(directory: &Path, own: Option<FileId>) -> Vec<PathBuf> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            warn!("{}: cannot be searched: {error}", directory.display());
            return Vec::new();
        }
    };
    info!("{}: searched", directory.display());
    let all = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = all.filter(|path| is_candidate(path, own)).collect();
    paths.sort();
    paths
}

/// Whether the file may be a vendor's library; tells why if not.
fn is_candidate(path: &Path, own: Option<FileId>) -> bool {
    let reason = if !path.file_name().is_some_and(is_vendors_name) {
        "not the name of a vendor's library"
    } else {
        match fs::metadata(path) {
            Err(error) => {
                warn!("{}: skipped: {error}", path.display());
                return false;
            }
            Ok(metadata) if !metadata.is_file() => "not a file",
            Ok(metadata) if own == Some(FileId::from(&metadata)) => "the Dispatcher itself",
            Ok(_) => return true,
        }
    };
    debug!("{}: skipped: {reason}", path.display());
    false
}

/// Whether it is `NAME.so` or `NAME.so.VERSION`, and not reserved.
fn is_vendors_name(name: &OsStr) -> bool {
    const SUFFIX: &[u8] = b".so";
    let name = name.as_bytes();
    let mut ends = name.windows(SUFFIX.len() + 1);
    let stem = match name.strip_suffix(SUFFIX) {
        Some(stem) => Some(stem),
        None => ends
            .position(|part| part == b".so.")
            .and_then(|at| name.get(..at)),
    };
    stem.is_some_and(|stem| !stem.is_empty() && !RESERVED.contains(&stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::env;
    use std::os::unix::fs::symlink;
    use std::process;

    /// A directory that goes when the test ends.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            let path = env::temp_dir().join(format!("pximc-scan-{name}-{}", process::id()));
            fs::create_dir(&path).expect("there is room for a directory");
            Directory(path)
        }

        fn add(&self, name: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, name).expect("there is room for a file");
            path
        }

        fn names(&self, own: Option<FileId>) -> Vec<String> {
            let paths = candidates(&self.0, own);
            let names = paths.iter().filter_map(|path| path.file_name());
            names.map(|name| name.to_string_lossy().into()).collect()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    /// PXI-REG-7: what bears a name of the Dispatcher is no vendor's.
    #[test]
    fn libraries_are_found_by_name_and_in_order() {
        let directory = Directory::new("names");
        for name in ["libz.so", "liba.so.1.2", "libpximc.so", "b.so"] {
            directory.add(name);
        }
        for name in [
            "libpximc32.so",
            "libpximc64.so",
            "libpximc64.so.1",
            "pximc64.so",
        ] {
            directory.add(name);
        }
        for name in [".so", "README", "liba.so~", "libb.soup", "so"] {
            directory.add(name);
        }
        fs::create_dir(directory.0.join("dir.so")).expect("there is room for a directory");
        let expected = ["b.so", "liba.so.1.2", "libpximc.so", "libz.so"];
        assert_eq!(directory.names(None), expected);
    }

    #[test]
    fn the_dispatcher_is_known_under_any_name() {
        let directory = Directory::new("own");
        let own = directory.add("own.so");
        directory.add("vendor.so");
        symlink(&own, directory.0.join("link.so")).expect("links can be made");
        assert_eq!(directory.names(FileId::of(&own)), ["vendor.so"]);
    }

    #[test]
    fn links_are_followed_unless_they_lead_nowhere() {
        let directory = Directory::new("links");
        let library = directory.add("file");
        symlink(library, directory.0.join("good.so")).expect("links can be made");
        symlink("nowhere", directory.0.join("bad.so")).expect("links can be made");
        assert_eq!(directory.names(None), ["good.so"]);
    }

    #[test]
    fn without_a_directory_there_are_no_libraries() {
        assert!(candidates(Path::new("/nowhere/at/all"), None).is_empty());
    }
}
