// SPDX-License-Identifier: MIT OR Apache-2.0

//! The name service: which host has which name, from a file in the format of `vipl.conf(5)`.
//!
//! A [`NameService`] belongs to a NIC that a program has opened, and knows nothing until it is
//! initialized. Addresses are the fabric's numbers of hosts. Whether a host is reachable is not
//! known here.

use mp_config::FileError;
use std::{
    path::Path,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};
use tracing::{error, info};

/// Where the names are, unless the program or the environment says otherwise.
pub const NAMES_PATH: &str = "/etc/vipl.conf";

/// Names another file than [`NAMES_PATH`].
pub const NAMES_VARIABLE: &str = "VIPL_CONF";

/// Most bytes of a name.
pub const NAME_MAX: usize = 255;

/// Log why a file cannot be used.
fn logged<T>(read: Result<T, FileError>) -> Result<T, NamesError> {
    read.map_err(|failed| {
        error!("{failed}");
        NamesError::File(failed)
    })
}

/// A host and what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The fabric's number of it.
    pub address: u32,
    /// Its names; the first one is what it is called when its address is looked up.
    pub names: Vec<String>,
}

/// The hosts of a file, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Vec<Host>);

/// A line that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; vipl.conf(5) tells what lines are made of")]
pub struct Mistake {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

/// Why the name service does not answer.
#[derive(Debug, thiserror::Error)]
pub enum NamesError {
    /// It has been initialized before (VI-NS-3).
    #[error("the name service is initialized already: shut it down first (VipNSShutdown)")]
    Initialized,
    /// It has not been initialized, or was shut down (VI-NS-4).
    #[error("the name service is not initialized: initialize it before it is asked (VipNSInit)")]
    NotInitialized,
    /// Nobody has that name, or no name has that address.
    #[error("no line has that name or address: add one to the file that the service was initialized with; see vipl.conf(5)")]
    Unknown,
    /// The file cannot be read, or has a mistake in a line.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The name service of a NIC that was opened.
#[derive(Debug, Default)]
pub struct NameService(RwLock<Option<Arc<Names>>>);

impl NameService {
    // Each change is complete when others see it, also after a panic.
    fn read(&self) -> RwLockReadGuard<'_, Option<Arc<Names>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Option<Arc<Names>>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Read the file of that path, or the file of this host ([`Names::load`]) without one
    /// (VI-NS-1, VI-NS-2). The names stay as they are then until [`NameService::shutdown`].
    ///
    /// # Errors
    /// [`NamesError::Initialized`], [`NamesError::File`].
    pub fn init(&self, path: Option<&Path>) -> Result<(), NamesError> {
        let mut names = self.write();
        if names.is_some() {
            return Err(NamesError::Initialized);
        }
        *names = Some(Arc::new(path.map_or_else(Names::load, Names::read)?));
        Ok(())
    }

    /// Forget the names. The service may be initialized again (VI-NS-4).
    ///
    /// # Errors
    /// [`NamesError::NotInitialized`].
    pub fn shutdown(&self) -> Result<(), NamesError> {
        let names = self.write().take();
        names.map(|_| ()).ok_or(NamesError::NotInitialized)
    }

    /// The names.
    ///
    /// # Errors
    /// [`NamesError::NotInitialized`].
    pub fn names(&self) -> Result<Arc<Names>, NamesError> {
        self.read().clone().ok_or(NamesError::NotInitialized)
    }
}

impl Names {
    /// Read the file that the environment names in `VIPL_CONF`, or `/etc/vipl.conf`. Without
    /// either, there are no names.
    ///
    /// # Errors
    /// [`NamesError::File`].
    pub fn load() -> Result<Self, NamesError> {
        Names::load_of(NAMES_VARIABLE, Path::new(NAMES_PATH))
    }

    fn load_of(variable: &str, usual: &Path) -> Result<Self, NamesError> {
        let found = logged(mp_config::load(variable, usual, Names::parse))?;
        Ok(found.unwrap_or_else(|| {
            info!("no {}: hosts have no names", usual.display());
            Names::default()
        }))
    }

    /// Read a file.
    ///
    /// # Errors
    /// [`NamesError::File`].
    pub fn read(path: &Path) -> Result<Self, NamesError> {
        logged(mp_config::read(path, Names::parse))
    }

    /// Take the text of a file apart.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        let mut names = Names::default();
        for (index, line) in text.lines().enumerate() {
            let content = line.split('#').next().unwrap_or_default();
            let mut words = content.split_whitespace();
            let Some(address) = words.next() else {
                continue;
            };
            names.add(address, words).map_err(|what| Mistake {
                line: index + 1,
                what,
            })?;
        }
        Ok(names)
    }

    fn add<'a>(
        &mut self,
        address: &str,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<(), &'static str> {
        let address = number(address).ok_or("it does not begin with the number of a host")?;
        if self.0.iter().any(|host| host.address == address) {
            return Err("another line has that host");
        }
        let mut host = Host {
            address,
            names: Vec::new(),
        };
        for name in words {
            if name.len() > NAME_MAX {
                return Err("a name is longer than 255 bytes");
            }
            if !name.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err("a name has other characters than those of ASCII");
            }
            if number(name).is_some() {
                return Err("a name is a number");
            }
            if host.has(name) {
                return Err("a name is there twice");
            }
            host.names.push(name.into());
        }
        if host.names.is_empty() {
            return Err("the host has no name");
        }
        self.0.push(host);
        Ok(())
    }

    /// The hosts, in the order of the file.
    pub fn hosts(&self) -> &[Host] {
        &self.0
    }

    /// The address of a name, whatever its case (VI-NS-5): of the host that is called so in the
    /// first line, the second one, and so on, counted from 0 (VI-NS-8). A number stands for the
    /// host of that number, as its only address.
    ///
    /// # Errors
    /// [`NamesError::Unknown`].
    pub fn address(&self, name: &str, index: usize) -> Result<u32, NamesError> {
        let address = match number(name) {
            Some(address) => (index == 0).then_some(address),
            None => {
                let mut called = self.0.iter().filter(|host| host.has(name));
                called.nth(index).map(|host| host.address)
            }
        };
        address.ok_or(NamesError::Unknown)
    }

    /// The first name of a host (VI-NS-10).
    ///
    /// # Errors
    /// [`NamesError::Unknown`].
    pub fn name(&self, address: u32) -> Result<&str, NamesError> {
        let host = self.0.iter().find(|host| host.address == address);
        let name = host.and_then(|host| host.names.first());
        name.map(String::as_str).ok_or(NamesError::Unknown)
    }
}

impl Host {
    fn has(&self, name: &str) -> bool {
        let mut names = self.names.iter();
        names.any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// A number, decimal or hexadecimal after `0x`.
fn number(word: &str) -> Option<u32> {
    let digits = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_hexdigit());
    let hexadecimal = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    match hexadecimal {
        Some(rest) => digits(rest).then(|| u32::from_str_radix(rest, 16).ok())?,
        None => digits(word).then(|| word.parse().ok())?,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mp_testing::built::Scratch;
    use proptest::prelude::*;
    use std::{fs, path::PathBuf};

    const FILE: &str = "\
        # the rack\n\
        \n\
        0     rp  Root\n\
        0x108 ep1 # the first\n\
        0x110 ep2 pair\n\
        0x118 ep3 PAIR\n";

    fn file() -> Names {
        Names::parse(FILE).unwrap()
    }

    /// A file of that text, which goes with the directory.
    fn written(place: &Scratch, name: &str, text: &[u8]) -> PathBuf {
        let path = place.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// VI-NS-5
    #[test]
    fn names_are_found_in_any_case() {
        for name in ["root", "ROOT", "RooT"] {
            assert_eq!(file().address(name, 0).unwrap(), 0);
        }
        for name in ["roo", "roott", "", "the", "#", "rp Root"] {
            let error = file().address(name, 0).unwrap_err();
            assert!(matches!(error, NamesError::Unknown), "{name}");
        }
    }

    /// VI-NS-8: a name of two lines has two addresses, in the order of the file.
    #[test]
    fn addresses_of_a_name_are_counted() {
        assert_eq!(file().address("pair", 0).unwrap(), 0x110);
        assert_eq!(file().address("Pair", 1).unwrap(), 0x118);
        for index in [2, usize::MAX] {
            assert!(matches!(
                file().address("pair", index),
                Err(NamesError::Unknown)
            ));
        }
    }

    /// VI-NS-1: without a file, hosts have numbers.
    #[test]
    fn a_number_is_a_host() {
        for names in [Names::default(), file()] {
            assert_eq!(names.address("264", 0).unwrap(), 0x108);
            assert_eq!(names.address("0X108", 0).unwrap(), 0x108);
            assert!(names.address("264", 1).is_err());
            assert!(names.address("0x1_08", 0).is_err());
            assert!(names.address("+264", 0).is_err());
            assert!(names.address("4294967296", 0).is_err());
        }
    }

    /// VI-NS-10: the way back leads to the first name.
    #[test]
    fn an_address_has_the_first_name_of_its_line() {
        for host in file().hosts() {
            assert_eq!(file().name(host.address).unwrap(), host.names[0]);
        }
        assert_eq!(file().name(0).unwrap(), "rp");
        assert!(matches!(file().name(1), Err(NamesError::Unknown)));
    }

    #[test]
    fn a_mistake_has_a_line() {
        let long = format!("1 {}", "x".repeat(NAME_MAX + 1));
        for (text, line, what) in [
            ("rp 0", 1, "it does not begin with the number of a host"),
            ("0x rp", 1, "it does not begin with the number of a host"),
            (
                "4294967296 rp",
                1,
                "it does not begin with the number of a host",
            ),
            ("\n# 5\n7", 3, "the host has no name"),
            ("7 # rp", 1, "the host has no name"),
            ("0 rp\n0x0 root", 2, "another line has that host"),
            ("0 rp RP", 1, "a name is there twice"),
            ("0 rp 12", 1, "a name is a number"),
            (
                "0 r\u{fc}p",
                1,
                "a name has other characters than those of ASCII",
            ),
            (&long, 1, "a name is longer than 255 bytes"),
        ] {
            assert_eq!(Names::parse(text), Err(Mistake { line, what }));
        }
    }

    /// VI-NS-2: what is wrong with a file is told with its name.
    #[test]
    fn a_file_is_read_as_a_whole_or_not_at_all() {
        let place = Scratch::new();
        let good = written(&place, "good", FILE.as_bytes());
        assert_eq!(Names::read(&good).unwrap(), file());
        let bad = written(&place, "bad", b"0 rp\n\nnode ep1\n");
        let error = Names::read(&bad).unwrap_err().to_string();
        let what = "line 3: it does not begin with the number of a host; vipl.conf(5) tells what \
                    lines are made of";
        assert_eq!(error, format!("{}: {what}", bad.display()));
        assert!(Names::read(&written(&place, "bytes", b"0 r\xff")).is_err());
        assert!(Names::read(Path::new("/nonexistent/vipl.conf")).is_err());
        assert!(Names::read(Path::new("/")).is_err());
        let none = Names::load_of("VIPL_CONF_OF_NOBODY", Path::new("/nonexistent/vipl.conf"));
        assert_eq!(none.unwrap(), Names::default());
    }

    /// VI-NS-2, VI-NS-3, VI-NS-4, VI-NS-11
    #[test]
    fn a_service_answers_between_its_beginning_and_its_end() {
        let place = Scratch::new();
        let file = written(&place, "names", FILE.as_bytes());
        let service = NameService::default();
        for _ in 0..100 {
            let none = NamesError::NotInitialized.to_string();
            assert_eq!(service.names().unwrap_err().to_string(), none);
            assert_eq!(service.shutdown().unwrap_err().to_string(), none);
            assert!(service.init(Some(Path::new("/nonexistent/file"))).is_err());
            assert_eq!(service.names().unwrap_err().to_string(), none);
            service.init(Some(&file)).unwrap();
            let twice = service.init(Some(&file)).unwrap_err();
            assert!(matches!(twice, NamesError::Initialized));
            let names = service.names().unwrap();
            assert_eq!(names.address("ep1", 0).unwrap(), 0x108);
            service.shutdown().unwrap();
        }
    }

    proptest! {
        /// No text makes it panic, and what it takes has no address and no empty list twice.
        #[test]
        fn any_text_is_taken_apart(text: String) {
            if let Ok(names) = Names::parse(&text) {
                for host in names.hosts() {
                    let first = names.hosts().iter().find(|other| other.has(&host.names[0]));
                    prop_assert_eq!(names.address(&host.names[0], 0).unwrap(), first.unwrap().address);
                    prop_assert_eq!(names.name(host.address).unwrap(), &host.names[0]);
                }
            }
        }

        /// The same for lines that look right.
        #[test]
        fn hosts_keep_their_names(addresses: Vec<u32>, name in "[a-z][a-z0-9.-]{0,20}") {
            let lines: Vec<_> = addresses.iter().map(|a| format!("{a:#x} {name}{a} {name}\n")).collect();
            let distinct = addresses.iter().collect::<std::collections::BTreeSet<_>>().len();
            match Names::parse(&lines.concat()) {
                Ok(names) => {
                    for (index, address) in addresses.iter().enumerate() {
                        prop_assert_eq!(names.address(&name.to_uppercase(), index).unwrap(), *address);
                        prop_assert_eq!(names.name(*address).unwrap(), format!("{name}{address}"));
                    }
                }
                Err(_) => prop_assert!(distinct < addresses.len()),
            }
        }
    }
}
