// SPDX-License-Identifier: MIT OR Apache-2.0

//! The maps of the Dispatcher: which vendor has which interface and which session, and under what
//! number.
//!
//! Called by [`crate::exports`], from any number of threads; knows vendors only as far as
//! [`Vendor`] tells. It never calls a vendor or the registry while it holds the lock, and never
//! gives up a vendor or forgets an interface: an interface that was removed is its vendor's to
//! refuse, so that whoever waits for its events still learns of its end. Only [`cleanup`] empties
//! the maps, and what a number once meant it never changes.
//!
//! [`cleanup`]: Dispatcher::cleanup

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::debug;

use crate::numbers::Numbers;
use crate::status::{self, Status};

/// How many interfaces a vendor is first given room for.
const FIRST_CAPACITY: usize = 16;
/// No vendor is believed to have more interfaces.
const MOST_INTERFACES: usize = 1 << 16;
/// How often a vendor is asked again because it has more interfaces than before.
const MOST_ATTEMPTS: usize = 16;

/// What the Dispatcher itself asks of a vendor's library. All else is passed through.
/// Its name in the log is what [`fmt::Debug`] shows.
pub trait Vendor: fmt::Debug {
    /// List the interfaces into `ids`; the status, and how many there are.
    fn find_interfaces(&self, ids: &mut [u32]) -> (Status, u32);

    /// Close a session that could not be handed out.
    fn close_window(&self, session: u32) -> Status;

    /// Close all sessions of the process.
    fn cleanup(&self) -> Status;

    /// Whether this is the same library, loaded twice.
    fn is_same(&self, other: &Self) -> bool;
}

/// Where vendors come from.
pub trait Registry {
    /// A vendor's library.
    type Vendor: Vendor;

    /// Load the libraries of all vendors, in an order that does not change.
    fn load(&self) -> Vec<Self::Vendor>;
}

/// Where a call goes: a vendor, and its own number for the interface or session.
#[derive(Debug)]
pub struct Route<V> {
    vendor: Arc<V>,
    index: usize,
    number: u32,
}

impl<V> Route<V> {
    /// Whose function to call.
    pub fn vendor(&self) -> &V {
        &self.vendor
    }

    /// The vendor's own number.
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// All interfaces, as the vendors have listed them.
#[derive(Debug, PartialEq, Eq)]
pub enum Listing {
    /// There is no vendor.
    NoProvider,
    /// A vendor has failed, the first one that did with this status; so many interfaces are known
    /// to be there.
    Failed(Status, u32),
    /// The interfaces of all vendors, one vendor after the other.
    Complete(Vec<u32>),
}

/// An open session.
#[derive(Debug)]
struct Session {
    vendor: usize,
    number: u32,
    /// Tells it from an earlier session of the same number.
    serial: u64,
}

/// Everything that the lock is for. A call looks for one number among few: without hashing it.
#[derive(Debug)]
struct Tables<V> {
    /// Those that were loaded; none is ever removed, so that an index stays true.
    vendors: Vec<Arc<V>>,
    interface_numbers: Numbers,
    /// The number that was given to a vendor's interface, for ever.
    given: BTreeMap<(usize, u32), u32>,
    /// The interfaces that are known since the last cleanup.
    interfaces: BTreeMap<u32, (usize, u32)>,
    session_numbers: Numbers,
    sessions: BTreeMap<u32, Session>,
    serial: u64,
}

impl<V> Tables<V> {
    fn route(&self, index: usize, number: u32) -> Option<Route<V>> {
        let vendor = Arc::clone(self.vendors.get(index)?);
        Some(Route {
            vendor,
            index,
            number,
        })
    }

    /// Enter an interface that a vendor has listed; its number for the program.
    fn enter_interface(&mut self, vendor: usize, id: u32) -> Option<u32> {
        let number = match self.given.entry((vendor, id)) {
            Entry::Occupied(given) => *given.get(),
            Entry::Vacant(place) => {
                *place.insert(self.interface_numbers.assign(vendor, id, false)?)
            }
        };
        self.interfaces.insert(number, (vendor, id));
        Some(number)
    }

    /// Enter a session that a vendor has opened; its number for the program.
    fn enter_session(&mut self, vendor: usize, number: u32) -> Option<u32> {
        let taken = self.sessions.contains_key(&number);
        let given = self.session_numbers.assign(vendor, number, taken)?;
        self.serial += 1;
        let session = Session {
            vendor,
            number,
            serial: self.serial,
        };
        self.sessions.insert(given, session);
        Some(given)
    }
}

/// Routes calls to vendors.
#[derive(Debug)]
pub struct Dispatcher<R: Registry> {
    registry: R,
    tables: Mutex<Tables<R::Vendor>>,
}

impl<R: Registry> Dispatcher<R> {
    /// A dispatcher that has loaded nothing yet.
    pub fn new(registry: R) -> Dispatcher<R> {
        let tables = Tables {
            vendors: Vec::new(),
            interface_numbers: Numbers::default(),
            given: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            session_numbers: Numbers::default(),
            sessions: BTreeMap::new(),
            serial: 0,
        };
        Dispatcher {
            registry,
            tables: Mutex::new(tables),
        }
    }

    /// The maps; each change to them is complete when it can be seen, also after a panic.
    fn tables(&self) -> MutexGuard<'_, Tables<R::Vendor>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All vendors; as long as there is none, they are looked for (PXI-REG-8).
    fn vendors(&self) -> Vec<Arc<R::Vendor>> {
        let known = self.tables().vendors.clone();
        if !known.is_empty() {
            return known;
        }
        let loaded = self.registry.load();
        let mut again = Vec::new();
        let mut tables = self.tables();
        for vendor in loaded {
            // Another thread may have been as fast, and names in a directory may be links.
            match tables.vendors.iter().any(|known| known.is_same(&vendor)) {
                true => again.push(vendor),
                false => tables.vendors.push(Arc::new(vendor)),
            }
        }
        let vendors = tables.vendors.clone();
        drop(tables);
        for vendor in again {
            debug!(?vendor, "skipped: the same library as one that is loaded");
        }
        vendors
    }

    /// Ask all vendors, one after the other, for their interfaces, and enter them in the map.
    pub fn find_interfaces(&self) -> Listing {
        let vendors = self.vendors();
        if vendors.is_empty() {
            return Listing::NoProvider;
        }
        let answers: Vec<_> = vendors.iter().map(|vendor| ask(&**vendor)).collect();
        let mut failure = None;
        let mut numbers = Vec::new();
        let mut hidden = 0u32;
        let mut tables = self.tables();
        for (vendor, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(ids) => {
                    let given = ids.into_iter().map(|id| tables.enter_interface(vendor, id));
                    numbers.extend(given.flatten());
                }
                Err((status, count)) => {
                    failure = failure.or(Some(status));
                    hidden = hidden.saturating_add(count);
                }
            }
        }
        match failure {
            None => Listing::Complete(numbers),
            Some(status) => Listing::Failed(status, hidden.saturating_add(count(&numbers))),
        }
    }

    /// Who has the interface. One that is not in the map is looked for.
    ///
    /// # Errors
    ///
    /// `INVALID_INTERFACE` if no vendor has it.
    pub fn interface(&self, interface: u32) -> Result<Route<R::Vendor>, Status> {
        if let Some(route) = self.known_interface(interface) {
            return Ok(route);
        }
        // Whoever fails now does so with its own interfaces only.
        self.find_interfaces();
        self.known_interface(interface)
            .ok_or(status::INVALID_INTERFACE)
    }

    fn known_interface(&self, interface: u32) -> Option<Route<R::Vendor>> {
        let tables = self.tables();
        let &(vendor, id) = tables.interfaces.get(&interface)?;
        tables.route(vendor, id)
    }

    /// Open a session on the interface by `request`, which returns the vendor's number for it;
    /// the number for the program.
    ///
    /// # Errors
    ///
    /// `INVALID_INTERFACE` if no vendor has the interface; `SPACE_NOT_AVAILABLE` if there is no
    /// number left; those of `request`.
    pub fn open(
        &self,
        interface: u32,
        request: impl FnOnce(&Route<R::Vendor>) -> Result<u32, Status>,
    ) -> Result<u32, Status> {
        let route = self.interface(interface)?;
        let number = request(&route)?;
        let entered = self.tables().enter_session(route.index, number);
        entered.ok_or_else(|| {
            // The program would have nothing to close it by.
            route.vendor.close_window(number);
            status::SPACE_NOT_AVAILABLE
        })
    }

    /// Whose session it is.
    ///
    /// # Errors
    ///
    /// `INVALID_SESSION` if this process has not opened it through the Dispatcher.
    pub fn session(&self, session: u32) -> Result<Route<R::Vendor>, Status> {
        self.numbered_session(session).map(|(route, _)| route)
    }

    fn numbered_session(&self, session: u32) -> Result<(Route<R::Vendor>, u64), Status> {
        let tables = self.tables();
        let known = tables.sessions.get(&session);
        known
            .and_then(|known| Some((tables.route(known.vendor, known.number)?, known.serial)))
            .ok_or(status::INVALID_SESSION)
    }

    /// Close the session by `close`, and forget it unless its vendor still has it.
    ///
    /// # Errors
    ///
    /// `INVALID_SESSION` as for [`Dispatcher::session`]; otherwise what `close` returns is the
    /// status.
    pub fn close(
        &self,
        session: u32,
        close: impl FnOnce(&Route<R::Vendor>) -> Status,
    ) -> Result<Status, Status> {
        let (route, serial) = self.numbered_session(session)?;
        let status = close(&route);
        if matches!(status, status::SUCCESS | status::INVALID_SESSION) {
            // Meanwhile the vendor may have used its number again.
            if let Entry::Occupied(entry) = self.tables().sessions.entry(session) {
                if entry.get().serial == serial {
                    entry.remove();
                }
            }
        }
        Ok(status)
    }

    /// Empty the maps and let all vendors clean up, one after the other; the first error of
    /// one, or success.
    pub fn cleanup(&self) -> Status {
        let vendors = {
            let mut tables = self.tables();
            tables.interfaces.clear();
            tables.sessions.clear();
            tables.vendors.clone()
        };
        let statuses: Vec<_> = vendors.iter().map(|vendor| vendor.cleanup()).collect();
        let failure = statuses
            .into_iter()
            .find(|status| status::is_error(*status));
        failure.unwrap_or(status::SUCCESS)
    }
}

fn count(numbers: &[u32]) -> u32 {
    u32::try_from(numbers.len()).unwrap_or(u32::MAX)
}

/// All interfaces of a vendor, each of them once, or why there are none and how many there are
/// said to be. A vendor that has no room is given more, within reason.
fn ask<V: Vendor>(vendor: &V) -> Result<Vec<u32>, (Status, u32)> {
    let mut capacity = FIRST_CAPACITY;
    let mut said = 0;
    for _ in 0..MOST_ATTEMPTS {
        let mut ids = vec![0; capacity];
        let (status, actual) = vendor.find_interfaces(&mut ids);
        if status::is_error(status) && status != status::INSUFFICIENT_SPACE {
            return Err((status, 0));
        }
        let wanted = usize::try_from(actual).unwrap_or(usize::MAX);
        // Whoever tells of more than there was room for was short of room, whatever it says.
        if status != status::INSUFFICIENT_SPACE && wanted <= capacity {
            ids.truncate(wanted);
            let mut seen = HashSet::new();
            ids.retain(|id| seen.insert(*id));
            return Ok(ids);
        }
        said = actual;
        if capacity == MOST_INTERFACES {
            break;
        }
        capacity = wanted.max(capacity * 2).min(MOST_INTERFACES);
    }
    Err((status::INSUFFICIENT_SPACE, said))
}

#[cfg(test)]
mod tests;
