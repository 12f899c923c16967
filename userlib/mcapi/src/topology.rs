// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which hosts a domain is on: a configuration file, or else the host of the domain's number
//!
//!
//! A line is `domain NUMBER HOST...`, with hosts by their numbers in the fabric, decimal or
//! hexadecimal after `0x`. `#` begins a comment.

use crate::DOMAIN_MAX;
use std::{collections::BTreeMap, path::Path};

/// Why a file cannot be used.
pub use mp_config::FileError as TopologyError;

/// Where the file is.
pub const CONFIG_PATH: &str = "/etc/mcapi.conf";
/// The environment variable that names another file.
pub const CONFIG_VARIABLE: &str = "MCAPI_CONFIG";

/// Which hosts domains are on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology(Option<BTreeMap<u32, Vec<u32>>>);

/// A line that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; mcapi.conf(5) tells what lines are made of")]
pub struct Mistake {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

impl Topology {
    /// The file that the environment names, or the usual one if it is there.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn load() -> Result<Self, TopologyError> {
        let found = mp_config::load(CONFIG_VARIABLE, Path::new(CONFIG_PATH), Self::parse);
        found.map(Option::unwrap_or_default)
    }

    /// A file.
    ///
    /// # Errors
    /// It cannot be read, or a line makes no sense.
    pub fn read(path: &Path) -> Result<Self, TopologyError> {
        mp_config::read(path, Self::parse)
    }

    /// The text of a file.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        let mut domains = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let read = read_line(line).and_then(|read| match read {
                Some((domain, hosts)) => match domains.insert(domain, hosts) {
                    None => Ok(()),
                    Some(_) => Err("another line has that domain"),
                },
                None => Ok(()),
            });
            read.map_err(|what| Mistake {
                line: index + 1,
                what,
            })?;
        }
        Ok(Topology(Some(domains)))
    }

    /// Hosts that nodes of a domain may be on; none if there is no such domain.
    pub fn hosts(&self, domain: u32) -> Vec<u32> {
        match &self.0 {
            None => vec![domain],
            Some(domains) => domains.get(&domain).cloned().unwrap_or_default(),
        }
    }

    /// The first domain that a host has nodes of.
    pub fn domain_of(&self, host: u32) -> Option<u32> {
        match &self.0 {
            None => Some(host),
            Some(domains) => {
                let mut all = domains.iter();
                let found = all.find(|(_, hosts)| hosts.contains(&host));
                found.map(|(domain, _)| *domain)
            }
        }
    }

    /// How many domains there are; nothing if that is not known.
    pub fn domains(&self) -> Option<usize> {
        self.0.as_ref().map(BTreeMap::len)
    }
}

/// What a line says, if anything.
fn read_line(line: &str) -> Result<Option<(u32, Vec<u32>)>, &'static str> {
    let mut words = line.split_ascii_whitespace();
    match words.next() {
        None => return Ok(None),
        Some("domain") => {}
        Some(_) => return Err("it does not begin with `domain`"),
    }
    let domain = words.next().and_then(number);
    let domain = domain.filter(|domain| *domain <= DOMAIN_MAX);
    let domain = domain.ok_or("no number of a domain, 0 to 65535, follows")?;
    let hosts: Option<Vec<u32>> = words.map(number).collect();
    let hosts = hosts.ok_or("a host is not a number")?;
    match hosts.is_empty() {
        false => Ok(Some((domain, hosts))),
        true => Err("the domain has no host"),
    }
}

/// A number, decimal or hexadecimal after `0x`.
fn number(word: &str) -> Option<u32> {
    let (digits, radix) = match word.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (word, 10),
    };
    let first = digits.bytes().next()?;
    // The system's function takes a sign.
    let number = u32::from_str_radix(digits, radix);
    number.ok().filter(|_| first.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mp_testing::built::Scratch;
    use proptest::prelude::*;
    use std::fs;

    /// MC-GEN-17: without a file a domain is the host of that number.
    #[test]
    fn a_domain_is_a_host_unless_a_file_says_otherwise() {
        let none = Topology::default();
        assert_eq!((none.hosts(0x108), none.domains()), (vec![0x108], None));
        let file = "# the rack\ndomain 0 0 0x108 # both\n\n domain 0xffff 16\n";
        let file = Topology::parse(file).unwrap();
        assert_eq!(file.hosts(0), [0, 0x108]);
        assert_eq!(file.hosts(0xffff), [16]);
        assert!(file.hosts(0x108).is_empty());
        assert_eq!(file.domains(), Some(2));
    }

    #[test]
    fn a_mistake_has_a_line() {
        for (text, line, what) in [
            ("0 1", 1, "it does not begin with `domain`"),
            ("\ndomain", 2, "no number of a domain, 0 to 65535, follows"),
            (
                "domain 65536 1",
                1,
                "no number of a domain, 0 to 65535, follows",
            ),
            (
                "domain +1 1",
                1,
                "no number of a domain, 0 to 65535, follows",
            ),
            ("domain 1", 1, "the domain has no host"),
            ("domain 1 rp", 1, "a host is not a number"),
            (
                "domain 1 2\ndomain 0x1 3",
                2,
                "another line has that domain",
            ),
        ] {
            let mistake = Topology::parse(text).unwrap_err();
            assert_eq!(mistake, Mistake { line, what }, "{text}");
        }
    }

    #[test]
    fn a_file_is_read_as_a_whole_or_not_at_all() {
        let place = Scratch::new();
        let path = place.path("mcapi.conf");
        fs::write(&path, "domain 3 4\n").unwrap();
        assert_eq!(Topology::read(&path).unwrap().hosts(3), [4]);
        fs::write(&path, "domain 3 4\ndomain\n").unwrap();
        for (path, what) in [
            (path, "line 2: no number"),
            (place.path("none"), "No such file"),
        ] {
            let error = Topology::read(&path).unwrap_err().to_string();
            let expected = format!("{}: {what}", path.display());
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken_apart(text: String) {
            let _ = Topology::parse(&text);
        }
    }
}
